"""What a linkage keeps for every node of a tree, and its upkeep."""

from __future__ import annotations

from grinch.linkage.base import Linkage, VectorLinkage
from grinch.summaries.records import RecordSummaries
from grinch.summaries.sparse import SparseSummaries
from grinch.summaries.vectors import VectorSummaries

__all__ = ["RecordSummaries", "SparseSummaries", "Summaries", "VectorSummaries", "make_summaries"]

Summaries = VectorSummaries | SparseSummaries | RecordSummaries


def make_summaries(
    linkage: VectorLinkage | Linkage, n_features: int, check: bool = False, is_sparse: bool = False
) -> Summaries:
    """The summaries under a linkage; ``n_features`` is the length of vectors."""
    if isinstance(linkage, VectorLinkage):
        # A search by products of dense vectors would not find the neighbours by Tanimoto's coefficient.
        if is_sparse or linkage.leaf_metric == "tanimoto":
            return SparseSummaries(linkage, n_features)
        return VectorSummaries(linkage, n_features)
    return RecordSummaries(linkage, check)
