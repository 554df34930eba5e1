"""Names of the groups of a tree in a plot: by clusters, labels, keywords of texts or ids, whatever was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._labels import is_missing
from grinch._types import Ids, Labels
from grinch.cuts import cluster_nodes
from grinch.plots.colors import side_by_side
from grinch.plots.style import counted
from grinch.text.analysis import check_texts
from grinch.text.keywords import keywords
from grinch.tree import Tree
from grinch.tree.blocks import Display, commonest, hues

GivenLabels = Sequence[Any] | npt.NDArray[Any]

# Words of a name; points of a group whose texts are read for it.
N_WORDS, SAMPLE = 4, 500
# A group is named after a label that at least this share of its points have; a cluster must have more, for a group of
# two clusters is not one of them.
MOST, NEARLY_ALL = 0.5, 0.8
# A cluster is one of a group's if at least half of it is there, or it is at least this share of the group; others are
# strays.
MIN_CLUSTER_SHARE = 0.05


class LabelGroups(NamedTuple):
    """Labels of points, as codes from the commonest on, -1 for none; and the commonest of them by node.

    ``names`` and ``values`` are by code: point i has ``values[codes[i]]``. By node id, ``best`` is the code of the
    commonest label below it, -1 for none, and ``counts`` the number of points that have it; ``sizes`` are the points.
    """

    names: list[str]
    codes: Labels
    values: list[Any]
    best: Ids
    counts: Ids
    sizes: Ids

    def code(self, node: int, min_share: float = 0.0) -> int:
        """Return the code of the commonest label of a node, -1 if a smaller share of its points have it."""
        return int(self.best[node]) if self.share(node) >= min_share else -1

    def name(self, node: int) -> str:
        """Return the commonest label of a node as a text, empty if there is none."""
        return self.names[self.best[node]] if self.best[node] >= 0 else ""

    def share(self, node: int) -> float:
        """Return the share of the points of a node that have its commonest label."""
        return float(self.counts[node] / self.sizes[node])


def group_labels(parameter: str, labels: GivenLabels | None, tree: Tree, shown: Display) -> LabelGroups | None:
    """Return the labels of points, of any kind, by node; None, nan and the empty text are none, and cluster -1."""
    if labels is None:
        return None
    n = tree.n_leaves
    if len(labels) != n:
        raise ValueError(f"{parameter} must have one entry for each of the {n} points of the tree; got {len(labels)}")
    found, numbers = _distinct(labels)
    counts = np.bincount(numbers, minlength=len(found)).tolist()

    def is_label(value: Any) -> bool:
        return not is_missing(value) and bool(str(value)) and not (parameter == "clusters" and value == -1)

    order = sorted(range(len(found)), key=lambda i: (-counts[i], str(found[i])))
    order = [i for i in order if is_label(found[i])]
    rank = np.full(len(found), -1, np.int64)
    rank[order] = np.arange(len(order))
    codes, values = rank[numbers], [found[i] for i in order]
    names = [str(value) for value in values]
    return LabelGroups(names, codes, values, *commonest(tree, shown, codes, len(names)), tree.sizes())


def _distinct(labels: GivenLabels) -> tuple[list[Any], Labels]:
    """Return the distinct labels, and the number of that of each point."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biuf":
        found, numbers = np.unique(labels, return_inverse=True)
        return found.tolist(), numbers.astype(np.int64)
    # Sorting a million texts takes seconds, looking them up does not.
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    number = {value: i for i, value in enumerate(dict.fromkeys(values))}
    return list(number), np.fromiter(map(number.__getitem__, values), np.int64, len(values))


def whole_nodes(tree: Tree, cut: LabelGroups) -> Labels:
    """Return, by code of a cluster, the lowest node over all its points if it has none of another; otherwise -1."""
    total = np.bincount(cut.codes[cut.codes >= 0], minlength=len(cut.names))
    nodes = np.flatnonzero(cut.counts > 0)
    nodes = nodes[cut.counts[nodes] == total[cut.best[nodes]]]
    clustered = np.zeros(tree.n_ids, np.int64)
    clustered[: tree.n_leaves] = cut.codes >= 0
    nodes = nodes[cut.counts[nodes] == tree.sum_upward(clustered)[nodes]]
    tops = np.full(len(cut.names), -1, np.int64)
    by_size = nodes[np.argsort(-cut.sizes[nodes], kind="stable")]
    tops[cut.best[by_size]] = by_size  # the last one stays, which is the lowest
    return tops


def place_colors(tree: Tree, shown: Display, cut: LabelGroups | None, drawn: list[tuple[int, int]]) -> list[str]:
    """Return the colors of groups in the order in which they are drawn, by their places in the tree.

    ``drawn`` has the code of the cluster of each group, -1 for none, and its node: groups of a cluster have its color.
    """
    tops = [] if cut is None else cluster_nodes(tree, cut.codes).tolist()
    nodes = [tops[code] if code >= 0 else node for code, node in drawn]
    distinct = list(dict.fromkeys(nodes))
    found = dict(zip(distinct, side_by_side(hues(tree, shown.starts)[distinct]), strict=True))
    return [found[node] for node in nodes]


class Naming:
    """Names of groups, from what a plot was given: names of clusters, labels, texts, clusters, ids of points.

    The first of them that has a name for a group gives it (with ``words_first``, texts before labels); labels only to
    groups of which a share of at least ``min_label_share`` have them.
    """

    def __init__(
        self,
        tree: Tree,
        shown: Display,
        labels: LabelGroups | None,
        clusters: LabelGroups | None,
        names: Mapping[Any, str] | None,
        texts: Sequence[str | None] | None,
        min_label_share: float = 0.0,
        words_first: bool = False,
    ):
        if names is not None and (clusters is None or not isinstance(names, Mapping)):
            got = "no clusters" if clusters is None else type(names).__name__
            raise ValueError(f"names must be a dictionary from clusters to their names, and needs clusters; got {got}")
        self._tree, self._shown, self._labels, self._clusters = tree, shown, labels, clusters
        self._min_label_share, self._words_first = min_label_share, words_first
        self._given = {} if names is None else dict(names)
        self._texts = None if texts is None else check_texts(texts, tree.n_leaves)

    def __call__(self, nodes: list[int]) -> list[str]:
        """Return a name for each of several groups that have no points in common, or the empty text."""
        words = self._keywords(nodes)
        return [
            self._given_name(v) or (self._words_first and words[i]) or self._label(v) or words[i] or self._other(v)
            for i, v in enumerate(nodes)
        ]

    def share(self, node: int) -> float:
        """Return the share of the points that have the label, if labels are the names; otherwise 1."""
        if self._labels is None or self._given_name(node) or not self._labels.counts[node]:
            return 1.0
        return self._labels.share(node)

    def label_beside(self, node: int) -> str:
        """Return the label of a group that is named by its words."""
        if self._labels is None or self._texts is None or not self._words_first:
            return ""
        return self._labels.name(node)

    def points(self, node: int) -> Ids:
        """Return the points of a group."""
        start = int(self._shown.starts[node])
        return self._shown.order[start : start + self._tree.size(node)]

    def sample(self, node: int) -> Labels:
        """Return points of a group, evenly chosen."""
        points = self.points(node).astype(np.int64)
        return points if len(points) <= SAMPLE else points[np.linspace(0, len(points) - 1, SAMPLE).astype(np.int64)]

    def _given_name(self, node: int) -> str:
        if self._clusters is None or not self._given or self._clusters.share(node) < NEARLY_ALL:
            return ""
        name = self._given.get(self._clusters.values[self._clusters.code(node)], "")
        return self._with_others(str(name), node) if name else ""

    def _label(self, node: int) -> str:
        if self._labels is None or self._labels.code(node, self._min_label_share) < 0:
            return ""
        return self._labels.name(node) + (" and others" if self._labels.share(node) < MOST else "")

    def _other(self, node: int) -> str:
        if self._tree.is_leaf(node) and self._tree.names is not None:
            return str(self._tree.names[node])
        if self._clusters is None or self._clusters.code(node) < 0:
            return ""
        name = f"cluster {self._clusters.name(node)}"
        if self._clusters.share(node) >= NEARLY_ALL:
            return self._with_others(name, node)
        n_clusters = self._count_clusters(node, MIN_CLUSTER_SHARE)
        return name if n_clusters == 1 else counted(n_clusters, "cluster")

    def _with_others(self, name: str, node: int) -> str:
        """Return the name of a group by the cluster of nearly all its points, and how many others are there whole."""
        others = self._count_clusters(node, NEARLY_ALL) - 1
        return f"{name} and {others:,} more" if others else name

    def _count_clusters(self, node: int, min_share: float) -> int:
        """Count the clusters of a group, without strays; where there are only strays, all of them."""
        assert self._clusters is not None
        all_codes = self._clusters.codes
        codes = all_codes[self.points(node)]
        total = np.bincount(all_codes[all_codes >= 0])
        counts = np.bincount(codes[codes >= 0], minlength=len(total))
        is_there = (counts > 0) & ((2 * counts >= total) | (counts >= min_share * len(codes)))
        return int(is_there.sum() or (counts > 0).sum())

    def _keywords(self, nodes: list[int]) -> list[str]:
        """Return the words that set each group apart from the others."""
        if self._texts is None or len(nodes) < 2:
            return [""] * len(nodes)
        chosen = [self.sample(v) for v in nodes]
        texts = [self._texts[i] for own in chosen for i in own.tolist()]
        groups = np.repeat(np.arange(len(nodes)), [len(own) for own in chosen])
        return [", ".join(words) for words in keywords(texts, groups, N_WORDS)]


def default_title(tree: Tree, cut: LabelGroups | None, n_drawn: int, what: str) -> str:
    """Return the number of points and clusters, and of the groups that are drawn."""
    title = counted(tree.n_leaves, "point")
    if cut is not None and cut.names:
        title += f" in {counted(len(cut.names), 'cluster')}"
    if n_drawn > 1:
        return f"{title}, {n_drawn} {what}"
    return title if tree.n_leaves == 1 else f"{title}, no split into two groups of some size"


def default_size(n: int) -> int:
    """Return the fewest points of a group worth a name: 5, or a twentieth of few, or a five-hundredth of many."""
    return max(min(5, n // 20), -(-n // 500), 1)
