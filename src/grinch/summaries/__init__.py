"""What a linkage keeps for every node of a tree, and its upkeep."""

from __future__ import annotations

from grinch.linkage.base import Linkage, VectorLinkage
from grinch.summaries.records import RecordSummaries
from grinch.summaries.vectors import VectorSummaries

__all__ = ["RecordSummaries", "Summaries", "VectorSummaries", "make_summaries"]

Summaries = VectorSummaries | RecordSummaries


def make_summaries(linkage: VectorLinkage | Linkage, n_features: int, check: bool = False) -> Summaries:
    """The summaries under a linkage; ``n_features`` is the length of vectors."""
    if isinstance(linkage, VectorLinkage):
        return VectorSummaries(linkage, n_features)
    return RecordSummaries(linkage, check)
