"""How a tree is cut into flat clusters, and the labels of such a cut."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from grinch._checks import check_count, check_flag, check_name
from grinch._types import Labels, Mask
from grinch.cuts.automatic import AutomaticCut, Layer
from grinch.cuts.flat import check_n_clusters, check_threshold, splits_n_clusters, splits_threshold
from grinch.cuts.labels import joined, node_labels, without_noise
from grinch.cuts.n_cluster_cut import splits_sizeable
from grinch.tree import Tree

CUTS, LAYERS = ("sizeable", "height"), ("auto", "fine", "coarse")

Splits = Callable[[Tree, int], Mask]


@dataclass(frozen=True)
class Choice:
    """How to cut: into a number of clusters, at a threshold, or automatically. See :class:`grinch.Grinch`.

    >>> Choice(layer="finest")
    Traceback (most recent call last):
        ...
    ValueError: layer must be one of 'auto', 'fine', 'coarse', or the number of a layer; got 'finest'
    """

    n_clusters: int | None = None
    threshold: float | None = None
    cut: str = "sizeable"
    layer: str | int = "auto"
    min_cluster_size: int = 1
    noise: bool = False

    def __post_init__(self) -> None:
        check_cut(self.n_clusters, self.threshold)
        check_flag("noise", self.noise)
        check_count("min_cluster_size", self.min_cluster_size, 1)
        check_name("cut", self.cut, CUTS)
        is_number = isinstance(self.layer, int | np.integer) and not isinstance(self.layer, bool) and self.layer >= 0
        if self.layer not in LAYERS and not is_number:
            named = ", ".join(map(repr, LAYERS))
            raise ValueError(f"layer must be one of {named}, or the number of a layer; got {self.layer!r}")
        if self.layer != "auto" and not self.is_automatic:
            raise ValueError(
                f"layer is for the automatic cut; got layer={self.layer!r} with n_clusters={self.n_clusters!r} and"
                f" threshold={self.threshold!r}. Leave them out, or layer"
            )

    @property
    def is_automatic(self) -> bool:
        return self.n_clusters is None and self.threshold is None

    @property
    def is_plain(self) -> bool:
        """Whether it is a cut into a number of clusters that depends on the tree alone."""
        is_by_tree = self.cut == "sizeable" or self.min_cluster_size == 1
        return self.n_clusters is not None and not self.noise and is_by_tree

    def layer_of(self, found: AutomaticCut, rows: Any, *, or_coarsest: bool = False) -> Layer:
        """Return the chosen layer, small groups joined to clusters; ``or_coarsest`` where there are fewer layers."""
        if self.layer == "auto":
            return found.best_joined(rows, self.min_cluster_size)
        layers = found.joined(rows, self.min_cluster_size)
        most = len(layers) - 1
        number = {"fine": 0, "coarse": most}[self.layer] if isinstance(self.layer, str) else int(self.layer)
        if number > most and not or_coarsest:
            raise ValueError(f"layer must be from 0, the finest, to {most}, the coarsest; got {self.layer}")
        return layers[min(number, most)]


def flat_labels(
    choice: Choice,
    tree: Tree,
    automatic: Callable[[], AutomaticCut],
    rows: Callable[[], Any],
    splits: Splits = splits_n_clusters,
) -> Labels:
    """Return cluster numbers by node id, -1 above the cut and for points that belong nowhere.

    ``rows`` are the points, as from :func:`grinch.cuts.graph.comparable`; None for records. ``splits`` makes the cut by
    height.
    """
    n_clusters, threshold, min_size = choice.n_clusters, choice.threshold, choice.min_cluster_size
    becomes: Labels | None = None
    if choice.is_automatic:
        layer = choice.layer_of(automatic(), rows())
        is_split, becomes = layer.is_split, layer.becomes
    elif n_clusters is not None and choice.cut == "sizeable":
        is_split, becomes = splits_sizeable(tree, n_clusters, min_size)
    else:
        is_split = splits_threshold(tree, float(threshold)) if threshold is not None else splits(tree, n_clusters or 1)
        if min_size > 1:
            is_split, becomes = joined(tree, is_split, rows(), None, min_size)
    if choice.noise and becomes is not None:
        sizes = np.bincount(tree.number_subtrees(is_split)[: tree.n_leaves], minlength=len(becomes))
        becomes = np.where(sizes < min_size, -1, becomes)
    labels = node_labels(tree, is_split, becomes)
    return without_noise(tree, labels, automatic().graph, rows(), max(min_size, 2)) if choice.noise else labels


def check_cut(n_clusters: object, threshold: object) -> None:
    """Refuse two ways to cut at once, and values that none of them takes."""
    if n_clusters is not None:
        check_n_clusters(n_clusters)
    if threshold is not None:
        check_threshold(threshold)
        if abs(float(threshold)) > sys.float_info.max:  # type: ignore[arg-type]
            raise ValueError(
                f"threshold must be finite; got {threshold!r}. For one cluster of all points: n_clusters=1"
            )
    if n_clusters is not None and threshold is not None:
        raise ValueError(
            "n_clusters and threshold are two ways to cut: give one of them;"
            f" got n_clusters={n_clusters!r} and threshold={threshold!r}"
        )
