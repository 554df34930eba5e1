"""How good a tree or a flat clustering is, given labels or similarities, and what a tree looks like."""

from grinch.metrics.costs import dasgupta_cost, moseley_wang_revenue
from grinch.metrics.pairs import (
    Scores,
    adjusted_rand,
    bcubed,
    normalized_mutual_information,
    pairwise_f1,
    pairwise_scores,
)
from grinch.metrics.purity import RunningPurity, dendrogram_purity, expected_purity
from grinch.metrics.sampled import SampledPurity, sampled_purity
from grinch.metrics.shape import TreeProfile, tree_profile

__all__ = [
    "RunningPurity",
    "SampledPurity",
    "Scores",
    "TreeProfile",
    "adjusted_rand",
    "bcubed",
    "dasgupta_cost",
    "dendrogram_purity",
    "expected_purity",
    "moseley_wang_revenue",
    "normalized_mutual_information",
    "pairwise_f1",
    "pairwise_scores",
    "sampled_purity",
    "tree_profile",
]
