"""Which label is the commonest in a group of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._labels import is_missing
from grinch._types import Ids, Labels
from grinch.tree import Tree
from grinch.tree.blocks import Display, commonest

GivenLabels = Sequence[Any] | npt.NDArray[Any]


class Named(NamedTuple):
    """Labels as numbers, the commonest of all first: point i has ``names[codes[i]]``, or none where that is -1."""

    names: list[str]
    codes: Labels
    values: list[Any]
    """The labels themselves, by number."""


class Groups(NamedTuple):
    """Labels of points, and by node id the commonest of them and how many points have it (-1 and 0 for none)."""

    named: Named
    best: Ids
    counts: Ids
    sizes: Ids

    def code(self, node: int) -> int:
        return int(self.best[node])

    def name(self, node: int) -> str:
        return self.named.names[self.code(node)] if self.code(node) >= 0 else ""

    def share(self, node: int) -> float:
        return float(self.counts[node] / self.sizes[node])


def named(parameter: str, labels: GivenLabels, n: int, nowhere: int | None = None) -> Named:
    """Labels of any kind, one for each of n points; None, nan, the empty text and ``nowhere`` are none.

    >>> named("labels", ["b", None, "a", "b"], 4)
    Named(names=['b', 'a'], codes=array([ 0, -1,  1,  0]), values=['b', 'a'])
    """
    if len(labels) != n:
        raise ValueError(f"{parameter} must have one entry for each of the {n} points of the tree; got {len(labels)}")
    found, codes = _distinct(labels)
    counts = np.bincount(codes, minlength=len(found)).tolist()
    order = sorted(range(len(found)), key=lambda i: (-counts[i], str(found[i])))
    order = [
        i for i in order if not is_missing(found[i]) and str(found[i]) and (nowhere is None or found[i] != nowhere)
    ]
    rank = np.full(len(found), -1, np.int64)
    rank[order] = np.arange(len(order))
    return Named([str(found[i]) for i in order], rank[codes], [found[i] for i in order])


def _distinct(labels: GivenLabels) -> tuple[list[Any], Labels]:
    """The labels that there are, and by point which of them it has."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf":
        found, codes = np.unique(labels, return_inverse=True)
        return found.tolist(), codes.astype(np.int64)
    # Sorting a million texts takes seconds, looking them up does not.
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    number = {value: i for i, value in enumerate(dict.fromkeys(values))}
    return list(number), np.fromiter(map(number.__getitem__, values), np.int64, len(values))


def groups(parameter: str, labels: GivenLabels | None, tree: Tree, shown: Display) -> Groups | None:
    """The commonest label of every node, where there are labels."""
    if labels is None:
        return None
    known = named(parameter, labels, tree.n_leaves, nowhere=-1 if parameter == "clusters" else None)
    return Groups(known, *commonest(tree, shown, known.codes, len(known.names)), tree.sizes())


def whole_nodes(tree: Tree, cut: Groups) -> Labels:
    """By number of a cluster, the lowest node over all its points, if it has those of no other; otherwise -1."""
    codes, n = cut.named.codes, len(cut.named.names)
    total = np.bincount(codes[codes >= 0], minlength=n)
    nodes = np.flatnonzero(cut.counts > 0)
    nodes = nodes[cut.counts[nodes] == total[cut.best[nodes]]]
    nodes = nodes[cut.counts[nodes] == _clustered(tree, codes)[nodes]]
    tops = np.full(n, -1, np.int64)
    by_size = nodes[np.argsort(-cut.sizes[nodes], kind="stable")]
    tops[cut.best[by_size]] = by_size  # the last one stays, which is the lowest
    return tops


def _clustered(tree: Tree, codes: Labels) -> Labels:
    """By node id, how many points are in clusters."""
    if (codes >= 0).all():
        return tree.sizes().astype(np.int64)
    inside = np.zeros(tree.n_ids, np.int64)
    inside[: len(codes)] = codes >= 0
    return tree.sum_upward(inside)
