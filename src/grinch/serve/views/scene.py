"""One version of a tree as it is shown: the order of its leaves, its cuts, labels, arrival times, and colors."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch import cuts
from grinch._types import Counts, Floats, Ids, Labels
from grinch.cuts.n_cluster_cut import Splits, sizeable, sizeable_ends
from grinch.plots.colors import label_colors, tree_colors
from grinch.store.queries import Look
from grinch.tree.blocks import Blocks, blocks, commonest, display, hues

if TYPE_CHECKING:
    from grinch.serve.views.sample import Sample

MAX_K = 5_000
MAX_CACHED_CUTS = 64
# Each cluster of a cut into k clusters has at least this share of the points: outliers are in none.
MIN_CLUSTER_SHARE = 1 / 2_000
# Successive ancestors in a path differ in size at least by this factor.
PATH_STEP = 1.25
MAX_PATH = 12


class Cut(NamedTuple):
    """The clusters of a cut, from left to right: the node of each, its start, size, id, and color."""

    name: str
    nodes: Ids
    starts: Ids
    sizes: Ids
    clusters: Labels
    colors: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def title(self) -> str:
        """The title on the screen; layers count from 1."""
        kind, _, which = self.name.partition(":")
        return {"k": f"{len(self):,} clusters", "layer": layer_title(self.name)}.get(kind, which)

    def at(self, places: npt.NDArray[np.integer]) -> Labels:
        """Return the index of the cluster that each place is in; -1 for none."""
        if not len(self):
            return np.full(len(places), -1, np.int64)
        at = np.searchsorted(self.starts, places, side="right") - 1
        return np.where((at >= 0) & (places < (self.starts + self.sizes)[at]), at, -1)


class Scene:
    """The tree of one version, its leaves from left to right, its cuts, labels and times.

    ``starts``, ``sizes``, ``heights`` are by node id; ``order`` is the leaf at each place, ``place`` the place of each
    leaf. ``codes`` are the labels of the leaves as numbers, -1 for none, and None if no labels are known.
    """

    def __init__(self, look: Look, codes: Labels | None = None, label_names: list[str] | None = None):
        self.look, self.tree, self.version = look, look.tree, look.version
        self.n = self.tree.n_leaves
        self.lock = threading.RLock()
        self.display = display(self.tree)
        self.starts, self.order = self.display
        self.sizes: Ids = self.tree.sizes()
        self.heights: Floats = self.tree.heights()
        self.place = np.empty(self.n, np.int32)
        self.place[self.order] = np.arange(self.n, dtype=np.int32)
        self.codes, self.label_names = codes, label_names or []
        self._cuts: dict[str, Cut] = {}
        self._fresh: tuple[int, Counts] | None = None
        self.layers: dict[str, Labels] = {}
        self.persistence: dict[str, float] = {}
        # Set by the viewer: whether points have texts, names given to nodes, their descriptions, a sample of points.
        self.has_text = False
        self.names: dict[int, str] = {}
        self.names_state: object = None
        self.titles: dict[int, str] = {}
        self.sample: Sample | None = None

    # Nodes --------------------------------------------------------------------------------------------------------

    def node(self, v: int) -> int:
        """Return a node that is in the tree; raises KeyError for others."""
        if v not in self.tree:
            raise KeyError(f"node {v} is not in the tree of version {self.version}; it has {self.n:,} points")
        return int(v)

    def leaf_at(self, position: int) -> int | None:
        """Return the leaf of the point at a position; None if it is not in this version."""
        leaf = int(np.searchsorted(self.look.positions, position)) if position >= 0 else self.n
        return leaf if leaf < self.n and self.look.positions[leaf] == position else None

    def leaves(self, v: int) -> Ids:
        """Return the leaves under a node, from left to right."""
        return self.order[self.starts[v] : self.starts[v] + self.sizes[v]]

    def spot(self, v: int) -> dict[str, int]:
        """Return a node with its place and size."""
        return {"node": int(v), "start": int(self.starts[v]), "size": int(self.sizes[v])}

    def step_up(self, v: int) -> int:
        """Return the next ancestor in a path: the topmost of those with nearly the same points; -1 above the root."""
        parents, tops = self.tree.parents(), self._tops
        u = int(tops[parents[v]]) if parents[v] >= 0 else -1
        while u >= 0 and parents[u] >= 0 and self.sizes[u] < PATH_STEP * self.sizes[v]:
            u = int(tops[parents[u]])
        return u

    @cached_property
    def _tops(self) -> Ids:
        """By node, the lowest ancestor, or the node itself, whose parent is much larger; at last the root."""
        parents = self.tree.parents()
        is_top = (parents < 0) | (self.sizes_above >= PATH_STEP * self.sizes)
        tops: Ids = np.where(is_top, np.arange(len(parents)), parents).astype(np.int32)
        # Twice as far in each round.
        while not np.array_equal(further := tops[tops], tops):
            tops = further
        return tops

    def path(self, v: int) -> list[int]:
        """Return the path from the root to a node, without nodes that differ little from the next."""
        path = [v]
        while (u := self.step_up(path[-1])) >= 0:
            path.append(u)
        if len(path) > MAX_PATH:
            path = [path[i] for i in np.linspace(0, len(path) - 1, MAX_PATH).round().astype(int)]
        return path[::-1]

    def ancestor_of_size(self, leaf: int, size: int) -> int:
        """Return the node over a leaf whose number of points is nearest to ``size``."""
        parents, v = self.tree.parents(), leaf
        while parents[v] >= 0 and abs(int(self.sizes[parents[v]]) - size) <= abs(int(self.sizes[v]) - size):
            v = int(parents[v])
        return v

    @cached_property
    def sizes_above(self) -> Ids:
        """By node id, the size of its parent; 0 for the root, and for ids of no node."""
        parents = self.tree.parents()
        return np.where(parents >= 0, self.sizes[parents], 0)

    @cached_property
    def gaps(self) -> Ids:
        """By place, the size of the smallest node over the point there and the one to its left."""
        gaps, internal = np.zeros(self.n, np.int32), self.tree.internal_nodes()
        gaps[self.starts[self.tree.child_pairs()[internal]].max(axis=1)] = self.sizes[internal]
        return gaps

    # Cuts ---------------------------------------------------------------------------------------------------------

    @cached_property
    def splits(self) -> Splits:
        """The splits by which cuts into k clusters are made."""
        return sizeable(self.tree, max(2 if self.n > 20 else 1, round(MIN_CLUSTER_SHARE * self.n)))

    @property
    def max_k(self) -> int:
        return min(int((self.splits.keys >= 0).sum()) + 1, self.n, MAX_K)

    def cut(self, name: str) -> Cut:
        """Return a cut by its name: ``k:37``, ``cut:NAME`` for tracked cuts, or ``layer:0``."""
        with self.lock:
            if name not in self._cuts:
                if len(self._cuts) > MAX_CACHED_CUTS:
                    self._cuts = {known: cut for known, cut in self._cuts.items() if not known.startswith("k:")}
                self._cuts[name] = self._make_cut(name)
            return self._cuts[name]

    def _make_cut(self, name: str) -> Cut:
        kind, _, which = name.partition(":")
        if kind == "k" and whole_number(which) in range(1, max(self.max_k, 1) + 1):
            nodes, _, is_hung = sizeable_ends(self.tree, self.splits, int(which))
            return self._sorted(name, nodes[~is_hung].astype(np.int32), None)
        labels = self.look.cuts.get(which) if kind == "cut" else self.layers.get(name)
        if labels is None:
            known = [*(f"cut:{known}" for known in self.look.cuts), *self.layers, f"k:1 to k:{self.max_k}"]
            raise ValueError(f"cut must be one of {', '.join(known)}; got {name!r:.60}")
        ids, numbers = np.unique(labels, return_inverse=True)
        numbers = numbers.astype(np.int64) - int((ids < 0).sum())
        tops = cuts.cluster_nodes(self.tree, np.maximum(numbers, -1))
        return self._sorted(name, tops.astype(np.int32), ids[ids >= 0])

    def _sorted(self, name: str, tops: Ids, ids: Labels | None) -> Cut:
        order = np.argsort(self.starts[tops], kind="stable")
        tops = tops[order]
        clusters = np.arange(len(tops)) if ids is None else ids[order]
        return Cut(name, tops, self.starts[tops], self.sizes[tops], clusters, tree_colors(self.hues[tops]))

    @cached_property
    def hues(self) -> Floats:
        """By node, a number from 0 to 1 for its hue."""
        return hues(self.tree, self.starts)

    @cached_property
    def label_colors(self) -> npt.NDArray[np.uint8]:
        """By label, its color."""
        assert self.codes is not None
        return label_colors(self.codes, self.order, len(self.label_names))

    @cached_property
    def commonest(self) -> tuple[Ids, Ids]:
        """By node, the commonest label and the number of points that have it."""
        assert self.codes is not None
        return commonest(self.tree, self.display, self.codes, len(self.label_names))

    # Arrival ------------------------------------------------------------------------------------------------------

    @cached_property
    def arrival(self) -> Floats:
        """By leaf, its arrival from 0 (first) to 1 (last); by time where that is known."""
        when = self.look.arrived.astype(np.float64) if self.look.times is None else self.look.times
        if self.n == 0:
            return np.empty(0)
        first, last = known_range(when) or (0.0, 0.0)
        if not last > first:
            when, first, last = np.arange(self.n, dtype=np.float64), 0.0, max(self.n - 1.0, 1.0)
        arrival: Floats = np.nan_to_num((when - first) / (last - first))
        return arrival

    @cached_property
    def _arrival_sums(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self.arrival[self.order])])

    def mean_arrival(self, nodes: Ids) -> Floats:
        """Return the mean arrival of the points under each node."""
        start, size = self.starts[nodes], self.sizes[nodes]
        return (self._arrival_sums[start + size] - self._arrival_sums[start]) / size

    def fresh_before(self, since: int) -> Counts:
        """Return, by place, the number of points to its left that came after version ``since``."""
        with self.lock:
            if self._fresh is None or self._fresh[0] != since:
                self._fresh = since, np.concatenate([[0], np.cumsum(self.look.arrived[self.order] > since)])
            return self._fresh[1]

    def fresh(self, nodes: Ids, since: int | None) -> Ids:
        """Return the number of points under each node that came after a version."""
        if since is None:
            return np.zeros(len(nodes), np.int32)
        before, start = self.fresh_before(since), self.starts[nodes]
        return (before[start + self.sizes[nodes]] - before[start]).astype(np.int32)

    # Blocks -------------------------------------------------------------------------------------------------------

    def blocks(self, x0: int, x1: int, min_size: int, cut: Cut, max_rows: int, named: Iterable[int] = ()) -> Blocks:
        """Return the blocks between two places; clusters of the cut and named nodes start a block of their own."""
        is_top = np.zeros(self.tree.n_ids, np.bool_)
        is_top[cut.nodes] = True
        is_top[list(named)] = True
        return blocks(self.tree, self.starts, x0, x1, min_size, is_top, max_rows)

    def clusters_of(self, nodes: Ids, cut: Cut) -> Labels:
        """Return the index of the cluster of a cut that each node is in; -1 for nodes above the cut."""
        at = cut.at(self.starts[nodes])
        if not len(cut):
            return at
        is_inside = self.starts[nodes] + self.sizes[nodes] <= (cut.starts + cut.sizes)[at]
        return np.where((at >= 0) & is_inside, at, -1)


def layer_title(name: str) -> str:
    """Return the title of a layer from its name, counting from 1."""
    return f"layer {int(name[6:]) + 1}" if name.startswith("layer:") else ""


def known_range(times: Floats) -> tuple[float, float] | None:
    """Return the first and the last of the times that are known; None if none is."""
    known = times[np.isfinite(times)]
    return (float(known.min()), float(known.max())) if len(known) else None


def whole_number(text: str) -> int | None:
    """Return the whole number that a text is; None if it is none, or too long.

    >>> whole_number("37"), whole_number("-5"), whole_number("²"), whole_number("x")
    (37, -5, None, None)
    """
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) < 20 else None
