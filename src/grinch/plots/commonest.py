"""Which label is the commonest in a group of points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._labels import label_codes
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


def named(parameter: str, labels: GivenLabels, n: int) -> Named:
    """Labels of any kind, one for each of n points; None, nan and the empty text are none.

    >>> named("labels", ["b", None, "a", "b"], 4)
    Named(names=['b', 'a'], codes=array([ 0, -1,  1,  0]), values=['b', 'a'])
    """
    if len(labels) != n:
        raise ValueError(f"{parameter} must have one entry for each of the {n} points of the tree; got {len(labels)}")
    values = _as_values(labels)
    codes = label_codes(values)
    firsts = np.zeros(codes.max(initial=-1) + 1, np.int64)
    with_one = np.flatnonzero(codes >= 0)[::-1]
    firsts[codes[with_one]] = with_one  # of several points of a label the first stays
    found = values[firsts].tolist()
    counts = np.bincount(codes[with_one], minlength=len(found)).tolist()
    order = [i for i in sorted(range(len(found)), key=lambda i: (-counts[i], str(found[i]))) if str(found[i])]
    rank = np.full(len(found) + 1, -1, np.int64)  # one more, where -1 points
    rank[order] = np.arange(len(order))
    return Named([str(found[i]) for i in order], rank[codes], [found[i] for i in order])


def groups(parameter: str, labels: GivenLabels | None, tree: Tree, shown: Display) -> Groups | None:
    """The commonest label of every node, where there are labels."""
    if labels is None:
        return None
    known = named(parameter, labels, tree.n_leaves)
    return Groups(known, *commonest(tree, shown, known.codes, len(known.names)), tree.sizes())


def whole_nodes(tree: Tree, cut: Groups) -> Labels:
    """By number of a cluster, the lowest node over all its points, if it has no others; otherwise -1."""
    codes = cut.named.codes
    inside = tree.sum_upward(np.concatenate([codes >= 0, np.zeros(tree.n_ids - len(codes))]).astype(np.int64))
    total = np.bincount(codes[codes >= 0], minlength=len(cut.named.names) + 1)
    nodes = tree.preorder()
    whole = nodes[(cut.counts[nodes] == inside[nodes]) & (cut.counts[nodes] == total[cut.best[nodes]])]
    tops = np.full(len(total), -1, np.int64)
    tops[cut.best[whole]] = whole  # the last one stays, which is the lowest
    return tops


def _as_values(labels: GivenLabels) -> npt.NDArray[Any]:
    """Numbers as they are, all else as objects: sorting a million texts takes seconds, numbering them does not."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf":
        return labels
    values: npt.NDArray[Any] = np.empty(len(labels), object)
    values[:] = list(labels)
    return values
