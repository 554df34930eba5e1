"""Summaries of the nodes of a tree under a linkage, and their upkeep."""

from __future__ import annotations

from typing import Any

from grinch.errors import SavedModelError
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.saving.state import item
from grinch.summaries.records import RecordSummaries
from grinch.summaries.sparse import PART, SparseSummaries
from grinch.summaries.vectors import VectorSummaries
from grinch.tree.links import NO_LIMIT, Links

__all__ = [
    "RecordSummaries",
    "SparseSummaries",
    "Summaries",
    "VectorSummaries",
    "make_summaries",
    "summaries_from_state",
]

Summaries = VectorSummaries | SparseSummaries | RecordSummaries


def make_summaries(
    linkage: VectorLinkage | Linkage, n_features: int, check: bool = False, is_sparse: bool = False
) -> Summaries:
    """Return the summaries under a linkage; ``n_features`` is the length of vectors."""
    if isinstance(linkage, VectorLinkage):
        # A search by products of dense vectors would not find the neighbours by Tanimoto's coefficient.
        if is_sparse or linkage.leaf_metric == "tanimoto":
            return SparseSummaries(linkage, n_features)
        return VectorSummaries(linkage, n_features)
    return RecordSummaries(linkage, check)


def summaries_from_state(
    state: Any, linkage: VectorLinkage | Linkage, links: Links | None = None, most_entries: int = NO_LIMIT
) -> Summaries:
    """Return the summaries of a state under the linkage that they were made for; ``links`` is their tree, if any."""
    if not isinstance(linkage, VectorLinkage):
        return RecordSummaries.from_state(state, linkage)
    if item(state, "part") == PART:
        if links is None:
            raise SavedModelError("sparse vectors have no tree")
        return SparseSummaries.from_state(state, linkage, links, most_entries)
    return VectorSummaries.from_state(state, linkage)
