"""Flat clusters from a tree."""

from grinch.cuts.automatic import AutomaticCut, Layer, automatic_cut, cut_auto
from grinch.cuts.choice import Choice, check_cut, flat_labels
from grinch.cuts.cluster_tree import ClusterTree, central_leaves, cluster_nodes, collapse
from grinch.cuts.costs import cut_by_cost, node_costs, splits_by_cost
from grinch.cuts.flat import (
    check_n_clusters,
    check_threshold,
    cut_inconsistency,
    cut_n_clusters,
    cut_threshold,
    splits,
    splits_n_clusters,
    splits_threshold,
)
from grinch.cuts.graph import NeighborGraph, neighbor_graph
from grinch.cuts.labels import labels_of, node_labels, without_noise
from grinch.cuts.medoids import central_points, cluster_sizes, exemplars
from grinch.cuts.n_cluster_cut import cut_sizeable
from grinch.cuts.oracle import BestThreshold, best_threshold, cut_best_f1, splits_best_f1
from grinch.text.keywords import Keywords, branch_terms, cluster_terms, keywords
