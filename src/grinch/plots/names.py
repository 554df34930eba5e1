"""Which label is the commonest in a group of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._labels import is_missing
from grinch._types import Ids, Labels
from grinch.plots.style import counted
from grinch.text.analysis import check_texts
from grinch.text.keywords import keywords
from grinch.tree import Tree
from grinch.tree.blocks import Display, commonest

GivenLabels = Sequence[Any] | npt.NDArray[Any]


class Named(NamedTuple):
    """Labels as numbers, the commonest of all first: point i has ``names[codes[i]]``, or none where that is -1."""

    names: list[str]
    codes: Labels
    values: list[Any]
    """The labels themselves, by number."""


class LabelGroups(NamedTuple):
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


def groups(parameter: str, labels: GivenLabels | None, tree: Tree, shown: Display) -> LabelGroups | None:
    """The commonest label of every node, where there are labels."""
    if labels is None:
        return None
    known = named(parameter, labels, tree.n_leaves, nowhere=-1 if parameter == "clusters" else None)
    return LabelGroups(known, *commonest(tree, shown, known.codes, len(known.names)), tree.sizes())


def whole_nodes(tree: Tree, cut: LabelGroups) -> Labels:
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


# Words of a name; points of a group that are asked for it.
N_WORDS, SAMPLE = 4, 500
# A label that at least this share of the points have is what a group is called by; of clusters it must be more, for a
# group of two clusters is not one of them.
MOST, NEARLY_ALL = 0.5, 0.8
# A cluster is one of a group's if at least half of it is there, or it is at least this share of the group; others are
# strays.
FEW = 0.05


class Shares(NamedTuple):
    """The least share of the points that must have the label, or the cluster, that a group is called by."""

    label: float
    cluster: float


class Naming:
    """Names of groups, from what a picture was given: names of clusters, labels, texts, clusters, ids of points.

    The first of them that has a name for a group gives it (with ``words_first``, texts before labels); labels and
    clusters only to groups of which a share of at least ``least`` have them.
    """

    def __init__(
        self,
        tree: Tree,
        shown: Display,
        labels: LabelGroups | None,
        clusters: LabelGroups | None,
        names: Mapping[Any, str] | None,
        texts: Sequence[str | None] | None,
        least: Shares | None = None,
        words_first: bool = False,
    ):
        if names is not None and (clusters is None or not isinstance(names, Mapping)):
            got = "no clusters" if clusters is None else type(names).__name__
            raise ValueError(f"names must be a dictionary from clusters to their names, and needs clusters; got {got}")
        self._tree, self._shown, self._labels, self._clusters = tree, shown, labels, clusters
        self._least = least or Shares(0.0, NEARLY_ALL)
        self._given = {} if names is None else dict(names)
        self._words_first = words_first
        self._texts = None if texts is None else check_texts(texts, tree.n_leaves)

    def __call__(self, nodes: list[int]) -> list[str]:
        """A name for each of several groups that have no points in common, or the empty text."""
        words = self._keywords(nodes)
        return [
            self._given_name(v) or (self._words_first and words[i]) or self._label(v) or words[i] or self._other(v)
            for i, v in enumerate(nodes)
        ]

    @property
    def n(self) -> int:
        return self._tree.n_leaves

    def share(self, node: int) -> float:
        """The share of the points that have the label, if labels are the names; otherwise 1."""
        if self._labels is None or self._given_name(node) or not self._labels.counts[node]:
            return 1.0
        return self._labels.share(node)

    def label_beside(self, node: int) -> str:
        """The label of a group that is called by its words."""
        is_needed = self._words_first and self._texts is not None and self._labels is not None
        return self._labels.name(node) if is_needed and self._labels is not None else ""

    def sample(self, node: int) -> Labels:
        """Points of a group, evenly chosen."""
        start = int(self._shown.starts[node])
        points = self._shown.order[start : start + self._tree.size(node)].astype(np.int64)
        return points if len(points) <= SAMPLE else points[np.linspace(0, len(points) - 1, SAMPLE).astype(np.int64)]

    def _given_name(self, node: int) -> str:
        if self._clusters is None or not self._given or self._clusters.share(node) < self._least.cluster:
            return ""
        name = self._given.get(self._clusters.named.values[self._clusters.code(node)], "")
        return self._with_others(str(name), node) if name else ""

    def _label(self, node: int) -> str:
        if self._labels is None or self._labels.share(node) < self._least.label or self._labels.code(node) < 0:
            return ""
        return self._labels.name(node) + (" and others" if self._labels.share(node) < MOST else "")

    def _other(self, node: int) -> str:
        if self._tree.is_leaf(node) and self._tree.names is not None:
            return str(self._tree.names[node])
        if self._clusters is None or self._clusters.code(node) < 0:
            return ""
        name = f"cluster {self._clusters.name(node)}"
        if self._clusters.share(node) >= self._least.cluster:
            return self._with_others(name, node)
        n_clusters = self._count_clusters(node, FEW)
        return name if n_clusters == 1 else counted(n_clusters, "cluster")

    def _with_others(self, name: str, node: int) -> str:
        """Return the name of a group by the cluster of nearly all its points, and how many others are there whole."""
        others = self._count_clusters(node, self._least.cluster) - 1
        return f"{name} and {others:,} more" if others else name

    def _count_clusters(self, node: int, least: float) -> int:
        """Count the clusters of a group, without strays; where there are only strays, all of them."""
        assert self._clusters is not None
        start, all_codes = int(self._shown.starts[node]), self._clusters.named.codes
        codes = all_codes[self._shown.order[start : start + self._tree.size(node)]]
        total = np.bincount(all_codes[all_codes >= 0])
        counts = np.bincount(codes[codes >= 0], minlength=len(total))
        is_there = (counts > 0) & ((2 * counts >= total) | (counts >= least * len(codes)))
        return int(is_there.sum() or (counts > 0).sum())

    def _keywords(self, nodes: list[int]) -> list[str]:
        """The words that set each group apart from the others."""
        if self._texts is None or len(nodes) < 2:
            return [""] * len(nodes)
        chosen = [self.sample(v) for v in nodes]
        texts = [self._texts[i] for own in chosen for i in own.tolist()]
        groups = np.repeat(np.arange(len(nodes)), [len(own) for own in chosen])
        return [", ".join(words) for words in keywords(texts, groups, N_WORDS)]


def default_size(n: int) -> int:
    """The fewest points of a group worth a name: 5, or a twentieth of few points, or a five-hundredth of many."""
    return max(min(5, n // 20), -(-n // 500), 1)
