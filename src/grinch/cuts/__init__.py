"""Flat clusters from a tree."""

from grinch.cuts.costs import cut_by_cost, node_costs, splits_by_cost
from grinch.cuts.flat import (
    check_cut,
    check_n_clusters,
    check_threshold,
    cut_n_clusters,
    cut_threshold,
    labels_of,
    node_labels,
    splits,
    splits_n_clusters,
    splits_threshold,
)
from grinch.cuts.oracle import cut_best_f1

__all__ = [
    "check_cut",
    "check_n_clusters",
    "check_threshold",
    "cut_best_f1",
    "cut_by_cost",
    "cut_n_clusters",
    "cut_threshold",
    "labels_of",
    "node_costs",
    "node_labels",
    "splits",
    "splits_by_cost",
    "splits_n_clusters",
    "splits_threshold",
]
