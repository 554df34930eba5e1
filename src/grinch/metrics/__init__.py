"""How good a tree or a flat clustering is, given labels."""

from grinch.metrics.pairs import pairwise_f1
from grinch.metrics.purity import dendrogram_purity

__all__ = ["dendrogram_purity", "pairwise_f1"]
