"""The automatic cut of a fit: its points, who is near whom, and how far apart two sides are."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from grinch._types import Floats, Ids, Vectors32
from grinch.core.engine import Engine
from grinch.cuts.automatic import AutomaticCut, automatic_cut
from grinch.cuts.choice import Choice
from grinch.cuts.graph import N_NEIGHBORS, NeighborGraph, comparable, weighted
from grinch.cuts.labels import labels_of
from grinch.cuts.persistence import mean_gaps
from grinch.cuts.tracking import GrowingTree, WholeCut
from grinch.estimators.fit import Fit
from grinch.estimators.training_points import kept_points
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.neighbors import nearest_among
from grinch.summaries import RecordSummaries
from grinch.summaries.arrays import StoredPoints
from grinch.tree import NONE, Tree

# With fewer neighbours than that the graph says little, and more are looked for.
LEAST_NEIGHBORS = 10
# Copies of a direction are this far apart in float32.
ROUNDING = 1e-6


def automatic_cut_of(fitted: Fit) -> AutomaticCut:
    """The cut whose clusters last longest, of the tree of a fit."""
    tree = fitted.tree()
    if tree.n_leaves < 3:
        return automatic_cut(tree, None, tree.heights())
    if isinstance(fitted.builder, Engine) and isinstance(fitted.builder.summaries, RecordSummaries):
        # Records are looked at by their linkage alone.
        return automatic_cut(tree, _graph(fitted, None), tree.heights())
    kept = kept_points(fitted)
    rows = comparable_rows(kept)
    return automatic_cut(tree, _graph(fitted, rows), _heights(tree, kept, rows))


def rows_of(fitted: Fit) -> Any:
    """The points as rows whose Euclidean distances are those that count; None for records."""
    return comparable_rows(kept_points(fitted)) if fitted.n_leaves else None


def growing_tree(fitted: Fit) -> GrowingTree | None:
    """Return the tree under construction, for cuts that follow it; None where the builder writes down no moves."""
    if not isinstance(fitted.builder, Engine):
        return None
    return GrowingTree(fitted.builder, fitted.ids.positions, partial(_cut_automatically, fitted))


def _cut_automatically(fitted: Fit, choice: Choice) -> WholeCut:
    """Return the automatic cut that is chosen; where there are fewer layers, the coarsest."""
    found, tree = fitted.automatic(automatic_cut_of), fitted.tree()
    layer = choice.layer_of(found, rows_of(fitted), or_coarsest=True)
    labels = labels_of(tree, layer.is_split, layer.becomes)
    # Clusters of a layer are made of those of a finer one; what is whole in the layer itself stays whole if it can.
    values = np.full(tree.n_ids, -np.inf)
    values[: tree.n_leaves] = labels
    highest = tree.max_upward(values)
    values[: tree.n_leaves] = -labels
    is_mixed = highest != -tree.max_upward(values)
    assert layer.as_found is not None
    return WholeCut(layer.as_found | (layer.is_split & is_mixed), labels)


def _heights(tree: Tree, kept: StoredPoints, rows: Vectors32 | None) -> Floats:
    """How far apart the two sides of each node are: their mean squared distance, or the linkage's word on records."""
    if rows is None:
        return tree.heights()
    if not is_cut_by_heights(kept.linkage):
        return mean_gaps(tree, rows, "euclidean")
    return known_heights(tree, kept.linkage)


def is_cut_by_heights(linkage: VectorLinkage | Linkage) -> bool:
    """Whether the scores of a tree are the mean squared distances of two sides, so that they need not be found."""
    return isinstance(linkage, VectorLinkage) and linkage.name == "average" and not linkage.is_custom


def known_heights(tree: Tree, linkage: VectorLinkage | Linkage) -> Floats:
    """The heights of a tree, with copies of a direction at 0."""
    heights = tree.heights()
    if isinstance(linkage, VectorLinkage) and linkage.leaf_metric != "sqeuclidean":
        heights[heights < ROUNDING] = 0.0
    return heights


def _graph(fitted: Fit, rows: Vectors32 | None) -> NeighborGraph | None:
    """Who is near whom, by leaf of the tree handed out."""
    builder = fitted.builder
    if isinstance(builder, Engine) and (rows is None or builder.search.k >= LEAST_NEIGHBORS):
        return weighted(near_by_leaf(fitted, builder), rows)
    return None if rows is None else weighted(nearest_among(rows, N_NEIGHBORS), rows)


def near_by_leaf(fitted: Fit, engine: Engine) -> Ids:
    """The neighbours that an engine knows by slot, by leaf of the tree handed out."""
    slots, near = engine.slots(), engine.neighbors()
    leaf_of = np.full(engine.n_slots + 1, NONE, np.int32)  # one more, where NONE points
    leaf_of[slots] = fitted.leaves()
    return fitted.by_row(leaf_of[near[slots]])


def comparable_rows(kept: StoredPoints) -> Vectors32 | None:
    """Points as rows whose Euclidean distances are those that count; None for records."""
    if not kept.is_vectors:
        return None
    linkage = kept.linkage
    if isinstance(linkage, VectorLinkage):
        if isinstance(kept.rows, np.ndarray) and (linkage.is_spherical or linkage.leaf_metric == "sqeuclidean"):
            return np.asarray(kept.rows, np.float32)
        return comparable(kept.rows, "euclidean" if linkage.leaf_metric == "sqeuclidean" else "cosine")
    return comparable(kept.rows, "cosine" if getattr(linkage, "distance", "") == "cosine" else "euclidean")
