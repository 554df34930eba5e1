"""Summaries of the nodes of a tree under a linkage, and their upkeep."""

from grinch.summaries.records import RecordSummaries
from grinch.summaries.sparse import SparseSummaries
from grinch.summaries.vectors import VectorSummaries

__all__ = ["RecordSummaries", "SparseSummaries", "Summaries", "VectorSummaries"]

Summaries = VectorSummaries | SparseSummaries | RecordSummaries
