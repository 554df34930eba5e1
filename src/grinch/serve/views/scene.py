"""One version of a tree as it is shown: what is where, and what color everything has."""

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
from grinch.plots.style import PALETTE, color_slots
from grinch.serve.sources import Seen
from grinch.tree import Tree
from grinch.tree.blocks import Blocks, Display, blocks, commonest, covering, display

if TYPE_CHECKING:
    from grinch.serve.views.sample import Sample

# Colors that can be told apart.
SLOTS = len(PALETTE)
MAX_K = 5_000
# Of a cut into k clusters, each has at least this share of the points: outliers are in none.
LEAST_SHARE = 1 / 2_000
# Neighbouring ancestors in a path differ in size at least by this factor.
STEP = 1.25
LONGEST_PATH = 12


class Cut(NamedTuple):
    """The clusters of a cut, from left to right: the node of each, where it starts, its size, its id, its color."""

    name: str
    nodes: Ids
    starts: Ids
    sizes: Ids
    clusters: Labels
    slots: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.nodes)

    def at(self, places: npt.NDArray[np.integer]) -> Labels:
        """Which of the clusters each place is in; -1 for none."""
        if not len(self):
            return np.full(len(places), -1, np.int64)
        found = np.searchsorted(self.starts, places, side="right") - 1
        return np.where((found >= 0) & (places < (self.starts + self.sizes)[found]), found, -1)


class Scene:
    """The tree of one version, its leaves from left to right, its cuts, labels and times.

    ``starts``, ``sizes``, ``heights`` are by node id; ``order`` is the leaf at each place, ``place`` the place of each
    leaf.
    """

    def __init__(self, seen: Seen):
        self.seen, self.tree, self.version = seen, seen.tree, seen.version
        self.n = self.tree.n_leaves
        self.lock = threading.RLock()
        self.display: Display = display(self.tree)
        self.starts, self.order = self.display
        self.sizes: Ids = self.tree.sizes()
        self.heights: Floats = self.tree.heights()
        self.place = np.empty(self.n, np.int32)
        self.place[self.order] = np.arange(self.n, dtype=np.int32)
        self.codes: Labels | None = None
        self.label_names: list[str] = []
        self._commonest: tuple[Ids, Ids] | None = None
        self._cuts: dict[str, Cut] = {}
        self.layers: dict[str, Labels] = {}
        self.persistence: dict[str, float] = {}
        # What a viewer found out about this version: descriptions of nodes, and a sample of the points.
        self.titles: dict[int, str] = {}
        self.sample: Sample | None = None

    # Nodes --------------------------------------------------------------------------------------------------------

    def node(self, v: int) -> int:
        """A node there is."""
        if v not in self.tree:
            raise KeyError(f"node {v} is not in the tree of version {self.version}; it has {self.n:,} points")
        return int(v)

    def leaves(self, v: int) -> Ids:
        """The leaves under a node, from left to right."""
        return self.order[self.starts[v] : self.starts[v] + self.sizes[v]]

    def covering(self, x0: int, x1: int) -> int:
        return covering(self.tree, self.starts, x0, x1)

    def path(self, v: int) -> list[int]:
        """From the root to a node, without those in between that have nearly the points of the next."""
        parents, found, last = self.tree.parents(), [v], v
        u = int(parents[v])
        while u >= 0:
            above = int(parents[u])
            # Of a run of nodes of nearly the same points, the highest.
            is_step = above < 0 or self.sizes[above] >= STEP * self.sizes[u]
            if above < 0 or (is_step and self.sizes[u] >= STEP * self.sizes[last]):
                found.append(u)
                last = u
            u = above
        if len(found) > LONGEST_PATH:
            kept = np.linspace(0, len(found) - 1, LONGEST_PATH).round().astype(int)
            found = [found[i] for i in kept]
        return found[::-1]

    def ancestor_of_size(self, leaf: int, size: int) -> int:
        """The node over a leaf whose number of points is nearest to ``size``."""
        parents, v = self.tree.parents(), leaf
        while parents[v] >= 0 and abs(int(self.sizes[parents[v]]) - size) <= abs(int(self.sizes[v]) - size):
            v = int(parents[v])
        return v

    @cached_property
    def sizes_above(self) -> Ids:
        """By node id, the size of its parent; 0 for the root, and where there is no node."""
        parents = self.tree.parents()
        return np.where(parents >= 0, self.sizes[parents], 0)

    # Cuts ---------------------------------------------------------------------------------------------------------

    @cached_property
    def splits(self) -> Splits:
        """The splits by which cuts into k clusters are made."""
        return sizeable(self.tree, max(2 if self.n > 20 else 1, round(LEAST_SHARE * self.n)))

    def split_order(self) -> Ids:
        """The same splits in the order in which they are taken."""
        nodes = self.tree.internal_nodes() if self.n else np.empty(0, np.int32)
        nodes = nodes[self.splits.keys[nodes] >= 0]
        return nodes[np.argsort(-self.splits.keys[nodes], kind="stable")]

    @property
    def max_k(self) -> int:
        return min(int((self.splits.keys >= 0).sum()) + 1, self.n, MAX_K)

    def cut(self, name: str) -> Cut:
        """A cut by its name: ``k:37``, ``cut:NAME`` of those that are followed, or ``layer:0``."""
        with self.lock:
            if name not in self._cuts:
                if len(self._cuts) > 64:
                    self._cuts = {known: cut for known, cut in self._cuts.items() if not known.startswith("k:")}
                self._cuts[name] = self._make_cut(name)
            return self._cuts[name]

    def _make_cut(self, name: str) -> Cut:
        kind, _, which = name.partition(":")
        if kind == "k" and whole_number(which) in range(1, max(self.max_k, 1) + 1):
            nodes, _, is_hung = sizeable_ends(self.tree, self.splits, int(which))
            return self._sorted(name, nodes[~is_hung].astype(np.int32), None)
        if kind == "cut" and which in self.seen.cuts:
            return self._cut_of_labels(name, self.seen.cuts[which])
        if name in self.layers:
            return self._cut_of_labels(name, self.layers[name])
        known = [*(f"cut:{known}" for known in self.seen.cuts), *self.layers, f"k:1 to k:{self.max_k}"]
        raise ValueError(f"cut must be one of {', '.join(known)}; got {name!r:.60}")

    def _cut_of_labels(self, name: str, labels: Labels) -> Cut:
        ids, numbers = np.unique(labels, return_inverse=True)
        numbers = numbers.astype(np.int64) - int((ids < 0).sum())
        tops = cuts.cluster_nodes(self.tree, np.maximum(numbers, -1))
        return self._sorted(name, tops.astype(np.int32), ids[ids >= 0])

    def shown_labels(self, name: str) -> Ids:
        """The clusters of a cut by leaf, -1 for points that are not under the node by which their cluster is shown."""
        cut, found = self.cut(name), np.full(self.n, -1, np.int32)
        for first, size, cluster in zip(cut.starts.tolist(), cut.sizes.tolist(), cut.clusters.tolist(), strict=True):
            found[self.order[first : first + size]] = cluster
        return found

    def _sorted(self, name: str, tops: Ids, ids: Labels | None) -> Cut:
        order = np.argsort(self.starts[tops], kind="stable")
        tops = tops[order]
        clusters = np.arange(len(tops)) if ids is None else ids[order]
        # The color goes with the oldest point, which stays when clusters grow, or another cut is taken.
        slots = color_slots(self._oldest(tops) if ids is None else clusters)
        return Cut(name, tops, self.starts[tops], self.sizes[tops], clusters, slots)

    def _oldest(self, tops: Ids) -> Labels:
        starts, ends = self.starts[tops], self.starts[tops] + self.sizes[tops]
        if not len(starts):
            return np.empty(0, np.int64)
        # Every second range is between two clusters; one more entry, where the last one ends.
        order = np.append(self.order, self.n)
        return np.minimum.reduceat(order, np.column_stack([starts, ends]).ravel())[::2].astype(np.int64)

    # Labels -------------------------------------------------------------------------------------------------------

    def set_labels(self, codes: Labels, names: list[str]) -> None:
        """Let the class of each leaf be known; -1 for none."""
        with self.lock:
            self.codes, self.label_names, self._commonest = codes, names, None

    @property
    def commonest(self) -> tuple[Ids, Ids]:
        """By node, the commonest label and how many points have it."""
        with self.lock:
            if self._commonest is None:
                assert self.codes is not None
                self._commonest = commonest(self.tree, self.display, self.codes, len(self.label_names))
            return self._commonest

    # Arrival ------------------------------------------------------------------------------------------------------

    @cached_property
    def _rank_sums(self) -> Floats:
        """By place, the sum of arrivals to the left of it, where arrival goes from 0 to 1."""
        return np.concatenate([[0.0], np.cumsum(self.arrival[self.order])])

    @cached_property
    def arrival(self) -> Floats:
        """By leaf, when it came, from 0 (first) to 1 (last); by time where that is known."""
        when = self.seen.arrived.astype(np.float64) if self.seen.times is None else self.seen.times
        if self.n == 0:
            return np.empty(0)
        first, last = known_range(when) or (0.0, 0.0)
        if not last > first:
            when, first, last = np.arange(self.n, dtype=np.float64), 0.0, max(self.n - 1.0, 1.0)
        found: Floats = np.nan_to_num((when - first) / (last - first))
        return found

    def mean_arrival(self, nodes: Ids) -> Floats:
        start, size = self.starts[nodes], self.sizes[nodes]
        return (self._rank_sums[start + size] - self._rank_sums[start]) / size

    def fresh_before(self, since: int) -> Counts:
        """By place, how many points to the left of it came after version ``since``."""
        with self.lock:
            known = getattr(self, "_fresh", None)
            if known is None or known[0] != since:
                counts = np.concatenate([[0], np.cumsum(self.seen.arrived[self.order] > since)])
                self._fresh = known = (since, counts)
            found: Counts = known[1]
            return found

    def fresh(self, nodes: Ids, since: int | None) -> Ids:
        """How many points under each node came after a version."""
        if since is None:
            return np.zeros(len(nodes), np.int32)
        before, start = self.fresh_before(since), self.starts[nodes]
        return (before[start + self.sizes[nodes]] - before[start]).astype(np.int32)

    # Blocks -------------------------------------------------------------------------------------------------------

    def blocks(self, x0: int, x1: int, least: int, cut: Cut, max_rows: int, named: Iterable[int] = ()) -> Blocks:
        """The blocks between two places; clusters of the cut and nodes with a name begin one of their own."""
        is_kept = np.zeros(self.tree.n_ids, np.bool_)
        is_kept[cut.nodes] = True
        is_kept[list(named)] = True
        return blocks(self.tree, self.starts, x0, x1, least, is_kept, max_rows)

    def clusters_of(self, nodes: Ids, cut: Cut) -> Labels:
        """Which cluster of a cut each node is in; -1 for those above the cut."""
        found = cut.at(self.starts[nodes])
        if not len(cut):
            return found
        is_inside = self.starts[nodes] + self.sizes[nodes] <= (cut.starts + cut.sizes)[found]
        return np.where((found >= 0) & is_inside, found, -1)


def known_range(times: Floats) -> tuple[float, float] | None:
    """The first and the last of the times that are known; None if none is."""
    known = times[np.isfinite(times)]
    return (float(known.min()), float(known.max())) if len(known) else None


def whole_number(text: str) -> int | None:
    """The number that a text is, if it is one of a reasonable length.

    >>> whole_number("37"), whole_number("-5"), whole_number("²"), whole_number("x")
    (37, -5, None, None)
    """
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and len(digits) < 20 else None


def empty_scene(version: int = 0) -> Scene:
    """That of a store without points."""
    nothing = np.empty(0, np.int64)
    return Scene(Seen(version, Tree(), nothing, nothing, None, {}, {}))
