"""Views of an engine: its tree at one moment, and the places of points in it, whatever the engine does afterwards.

A writer changes the tree, the summaries of its internal nodes and their scores, but never the vector of a point in its
slot. So a view has copies of the tree, of the scores and of the summaries of large nodes, which may lag. Those of
small nodes follow from the points under them and are computed again where a walk up from a leaf comes to them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grinch._checks import count_rows
from grinch._types import Floats, Ids, Slots
from grinch.core.moves import place_all, reach, score_pairs
from grinch.summaries.arrays import STALE, State, arrays_of, is_apart
from grinch.summaries.callbacks import LinkageFailed
from grinch.tree import Tree
from grinch.tree.links import (
    LEAVES,
    LEFT,
    NO_LIMIT,
    NONE,
    PARENT,
    RIGHT,
    ROOT,
    SIZE,
    Links,
    fill_preorder,
    new_links,
    no_nodes,
)

if TYPE_CHECKING:
    from grinch.core.engine import Engine

# The last leaf slots, which no point ever takes: for points that are looked up but not inserted.
SPARE = 256
# Points that are looked up at a time: by the engine in the first half of these slots, by its views in the second.
AT_ONCE = SPARE // 2


class Nearest(NamedTuple):
    """For points: the nearest leaves, best first, padded with -1, and the score of the first (-inf if none)."""

    slots: Ids
    score: Floats


class Places(NamedTuple):
    """For points that are looked up: the nearest leaf, the node each would join as a sibling, and the score of that."""

    nearest: Ids
    sibling: Ids
    score: Floats


class EngineView:
    """The tree of an engine at one moment, and what is needed to find places in it; any thread may use it.

    ``tree`` has scores in the user's units, ``raw_scores`` are those of its internal nodes as the moves compare them.
    """

    def __init__(self, engine: Engine, tree: Tree, raw_scores: Floats, lock: threading.Lock):
        self.tree, self.rules, self.n_slots = tree, engine.rules, engine.n_slots
        """``n_slots`` counts empty ones, too."""
        self.slots, internal = engine.links.nodes()
        """Those of the leaves of ``tree``, in ascending order."""
        self.scores = np.concatenate([[np.nan], raw_scores])[: len(self.slots)]
        """Those of siblings, by internal node."""
        summaries: Any = engine.summaries.frozen()
        search: Any = engine.search
        self.summaries, self.search = summaries, search.frozen(summaries, engine.n_slots)
        self.limit = engine.links.limit if engine.rules.lag else NO_LIMIT
        is_large = engine.links.table[internal, SIZE] > self.limit
        self.large = tree.offset + 1 + np.flatnonzero(is_large)
        """The nodes of more than ``limit`` leaves, in ascending order."""
        self.stored = summaries.stored(internal[is_large])
        """The summaries of these, which may lag."""
        here: Any = SimpleNamespace(rules=engine.rules, head=engine.links.head)
        self.cap = reach(here, engine.rules.rotate_cap) if engine.rules.rotate else 1
        """Walks do not go beyond as many leaves, but for points that have nothing in common with the others."""
        self.lock = lock
        """Held while points are looked up, for all views of an engine write these to the same slots."""

    def place(self, rows: Any) -> Places:
        """Return where points would go, as :meth:`grinch.core.engine.Engine.place` did, in the ids of ``tree``."""
        n = count_rows(rows)
        nodes, scores = np.full((n, 2), NONE, np.int32), np.full(n, -np.inf)
        at = self.summaries.capacity - AT_ONCE
        for begin in range(0, n if self.tree.n_leaves else 0, AT_ONCE):
            piece, part = rows[begin : begin + AT_ONCE], slice(begin, begin + AT_ONCE)
            queries = np.arange(at, at + count_rows(piece))
            with self.lock:
                try:
                    self.summaries.write(at, piece)
                    nearest = self.search.find(self.summaries.arrays, queries, self.n_slots)[:, 0]
                    found = np.searchsorted(self.slots, nearest)
                    nodes[part, 0] = np.where(nearest == NONE, NONE, found)
                    self._walk(queries, nodes[part], scores[part])
                except LinkageFailed:
                    raise ValueError("linkage returned nan, which is no score, for a point of X") from None
        return Places(nodes[:, 0], nodes[:, 1], self.summaries.in_units(scores))

    def _walk(self, queries: Slots, nodes: Ids, scores: Floats) -> None:
        """Walk up from the nearest leaves to where the queries would go; without one, from the root."""
        groups: dict[int, list[int]] = defaultdict(list)
        for i, leaf in enumerate(nodes[:, 0].tolist()):
            groups[self.tree.root if leaf == NONE else self._highest(leaf, self.cap)].append(i)
        beyond: dict[int, list[int]] = defaultdict(list)
        for top, group in groups.items():
            if self.tree.size(top) > self.limit:
                beyond[top] += group
                continue
            for i in self._walk_under(top, queries, nodes, scores, group, is_to_root=False):
                beyond[self._highest(top, self.limit)].append(i)
        for top, group in beyond.items():
            self._walk_under(top, queries, nodes, scores, group, is_to_root=True)

    def _walk_under(
        self, top: int, queries: Slots, nodes: Ids, scores: Floats, group: list[int], is_to_root: bool
    ) -> list[int]:
        """Walk up to ``top``, or from there on to the root; return those of the group that go on above ``top``."""
        part = SubtreeView(self, top, queries[group], is_to_root)
        places, reached = part.new(nodes[group]), np.empty(len(group))
        starts = places[:, 0].astype(np.intp)
        place_all(part.state, part.queries, places, reached)
        nodes[group, 1], scores[group] = part.old[places[:, 1]], reached
        if is_to_root or top == self.tree.root:
            return []
        # With nothing in common there is no cap, and the walk goes on above.
        at_top = np.flatnonzero(nodes[group, 1] == top)
        f = np.empty(len(at_top))
        score_pairs(part.state, part.queries[at_top], starts[at_top], f)
        arrays, pairs = arrays_of(part.state), zip(part.queries[at_top].tolist(), starts[at_top].tolist(), strict=True)
        goes_on = [is_apart(arrays, x, leaf, score) for (x, leaf), score in zip(pairs, f.tolist(), strict=True)]
        return [group[i] for i, is_on in zip(at_top.tolist(), goes_on, strict=True) if is_on]

    def _highest(self, node: int, cap: int) -> int:
        """Return the highest node from this one upwards that has at most ``cap`` leaves."""
        table = self.tree.links.table
        while (p := int(table[node, PARENT])) != NONE and table[p, SIZE] <= cap:
            node = p
        return node


class SubtreeView:
    """The nodes under one of a view, and if asked for those on the way from there to the root, as a tree of their own.

    ``old`` are the ids in the view's tree by those in this one, NONE where there is no node; ``queries`` are the slots
    of the points that are looked up.
    """

    def __init__(self, view: EngineView, top: int, queries: Slots, is_to_root: bool):
        table, offset = view.tree.links.table, view.tree.offset
        above = np.array([*view.tree.ancestors(top)] if is_to_root else [], np.intp)
        under = no_nodes(2 * int(table[top, SIZE]) - 1)
        if view.limit < table[top, SIZE]:
            above, under = np.append(top, above), under[:0]
        else:
            fill_preorder(table, top, offset, under)
        leaves, internal = under[under < offset], under[under >= offset]
        capacity = max(len(leaves) + len(queries), len(internal) + len(above) + 1)
        self.old = np.full(2 * capacity, NONE, np.intp)
        self.old[: len(leaves)] = leaves
        self.old[capacity + 1 : capacity + 1 + len(internal) + len(above)] = np.concatenate([internal, above])
        filled = np.flatnonzero(self.old != NONE)
        self._filled = filled[np.argsort(self.old[filled])]
        self.queries = np.arange(capacity - len(queries), capacity)
        at = np.concatenate([np.arange(len(leaves)), self.queries])
        points = np.concatenate([view.slots[leaves], queries])
        # What owns the rows of sparse nodes is there as long as they are.
        arrays, self._owner = view.summaries.part(points, at, capacity)
        inner, outer = np.split(capacity + 1 + np.arange(len(internal) + len(above)), [len(internal)])
        view.summaries.put_stored(arrays, outer, view.stored, np.searchsorted(view.large, above))
        stale, scores = np.zeros(2 * capacity, np.uint8), np.full(2 * capacity, np.nan)
        stale[inner] = STALE
        for nodes in (inner, outer):
            scores[nodes] = view.scores[self.old[nodes] - offset]
        arrays = arrays._replace(sibling_scores=scores, stale=stale, gone=np.zeros(capacity, np.uint8))
        links = self._links(view.tree, inner, int(above[-1]) if len(above) else top)
        self.state = State(*links, *arrays, view.rules)  # type: ignore[call-arg, arg-type]

    def new(self, ids: Ids) -> Ids:
        """Return the ids in this tree of nodes by those in the view's; NONE stays NONE."""
        at = np.minimum(np.searchsorted(self.old[self._filled], ids), len(self._filled) - 1)
        return np.where(ids == NONE, NONE, self._filled[at]).astype(np.int32)

    def _links(self, tree: Tree, inner: Slots, root: int) -> Links:
        links, table, old = new_links(len(self.old) // 2), tree.links.table, self.old
        below = self._filled[old[self._filled] != root]
        links.table[self._filled, SIZE] = table[old[self._filled], SIZE]
        links.table[below, PARENT] = self.new(table[old[below], PARENT])
        for side in (LEFT, RIGHT):
            links.table[inner, side] = self.new(table[old[inner], side])
        # As many leaves as in the whole tree, for the caps grow with it.
        links.head[ROOT], links.head[LEAVES] = self.new(np.array(root)), tree.n_leaves
        return links
