"""Measures of trees and of flat clusterings, given labels or similarities, and of the shape of a tree."""

from grinch.metrics.costs import dasgupta_cost, moseley_wang_revenue
from grinch.metrics.pairs import (
    Scores,
    adjusted_rand,
    bcubed,
    normalized_mutual_information,
    pairwise_f1,
    pairwise_scores,
)
from grinch.metrics.purity import RunningPurity, SampledPurity, dendrogram_purity, expected_purity, sampled_purity
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
