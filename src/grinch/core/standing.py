"""A tree as it stood, for looking up where points would go while the tree itself is being changed.

A writer changes the tree, the summaries of its internal nodes and their scores, but never the vector of a point. So
what a walk up from a leaf needs is put together again, from the points under the nodes that it can reach.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from grinch._types import Floats, Ids, Slots, count_rows
from grinch.core import entries, moves
from grinch.core.places import SPARE, Places
from grinch.core.rules import Rules
from grinch.core.state import State
from grinch.summaries import SparseSummaries, VectorSummaries
from grinch.summaries.arrays import arrays_of
from grinch.summaries.upkeep import is_apart
from grinch.tree import Tree, walks
from grinch.tree.links import LEAVES, LEFT, NONE, OFFSET, PARENT, RIGHT, ROOT, SIZE, Links, new_links


@dataclass(frozen=True)
class Standing:
    """A tree that no longer changes, and what is needed to find places in it.

    ``scores`` are those of siblings, as the moves compare them. ``slots`` are those of the leaves, in ascending order;
    ``n_slots`` is how many there were, with the empty ones. ``summaries`` is a twin of those of the engine: it has the
    same points, in the arrays there were.
    """

    tree: Tree
    scores: Floats
    slots: Slots
    n_slots: int
    summaries: VectorSummaries | SparseSummaries
    search: Any
    rules: Rules
    at_end: threading.Lock
    """Held by whoever writes to the slots at the end."""
    is_current: Callable[[], bool]
    """Whether the points still have the same slots and vectors; they keep them as long as ``at_end`` is held."""

    def place(self, rows: Any) -> Places | None:
        """Return where points would go, as :meth:`grinch.core.engine.Engine.place`, in the ids of ``tree``.

        None if that cannot be said from here: the points have changed, or a walk leaves the nodes below the cap, whose
        summaries are those of the tree itself.
        """
        nodes, scores = np.empty((count_rows(rows), 2), np.int32), np.empty(count_rows(rows))
        at = self.summaries.capacity - SPARE
        for begin in range(0, count_rows(rows), SPARE):
            piece = rows[begin : begin + SPARE]
            queries = np.arange(at, at + count_rows(piece))
            with self.at_end:
                if not self.is_current():
                    return None
                self.summaries.write(at, piece)
                nearest = self.search.find(self.summaries.arrays, queries, self.n_slots)[:, 0]
                if (nearest == NONE).any():
                    return None
                leaves = np.searchsorted(self.slots, nearest)
                for i, (query, leaf) in enumerate(zip(queries.tolist(), leaves.tolist(), strict=True), begin):
                    place = self._place_one(query, leaf)
                    if place is None:
                        return None
                    nodes[i], scores[i] = place
        return Places(nodes[:, 0], nodes[:, 1], self.summaries.in_units(scores))

    def _place_one(self, query: int, leaf: int) -> tuple[tuple[int, int], float] | None:
        """Return the leaf, the node that the query would join, and the score of the two; None where a walk goes on."""
        top = self._highest(leaf)
        nodes = walks.no_nodes(2 * int(self.tree.links.table[top, SIZE]) - 1)
        walks.fill_preorder(self.tree.links.table, top, self.tree.offset, nodes)
        state, old, _owner = self._part(nodes, query)
        queries, score = np.array([state.head[OFFSET] - 1]), np.empty(1)
        start = np.flatnonzero(old == leaf)
        place = np.array([[start[0], NONE]], np.int32)
        entries.score_pairs(state, queries, start, score)
        is_unlimited = is_apart(arrays_of(state), int(queries[0]), int(start[0]), score[0]) and top != self.tree.root
        entries.place_all(state, queries, place, score)
        node = int(old[place[0, 1]])
        # With nothing in common there is no cap, and the walk goes on above.
        return None if is_unlimited and node == top else ((leaf, node), float(score[0]))

    def _highest(self, leaf: int) -> int:
        """Return the highest node that a walk up from a leaf can look at below the cap."""
        links = self.tree.links
        here: Any = SimpleNamespace(rules=self.rules, head=links.head)
        cap = moves.reach(here, self.rules.rotate_cap) if self.rules.rotate else 1
        while links.table[leaf, PARENT] != NONE and links.table[links.table[leaf, PARENT], SIZE] <= cap:
            leaf = int(links.table[leaf, PARENT])
        return leaf

    def _part(self, nodes: Ids, query: int) -> tuple[State, Slots, Any]:
        """A tree of these nodes, which come in preorder, with a slot for the query; and the old ids by the new ones.

        Last comes what has to be there as long as the tree is used.
        """
        is_leaf = nodes < self.tree.offset
        leaves, internal = nodes[is_leaf], nodes[~is_leaf]
        capacity = len(leaves) + 1
        old = np.full(2 * capacity, NONE, np.intp)
        old[: len(leaves)], old[capacity + 1 : capacity + 1 + len(internal)] = leaves, internal
        arrays, owner = self.summaries.part(np.append(self.slots[leaves], query))
        arrays = arrays._replace(
            sibling_scores=np.where(old >= self.tree.offset, self.scores[old], np.nan),
            stale=(np.arange(2 * capacity) > capacity).astype(np.uint8),
            gone=np.zeros(capacity, np.uint8),
            nodes=np.zeros(capacity, np.int32),
            answers=np.zeros(capacity),
        )
        state = State(*self._links(old, int(nodes[0])), *arrays, self.rules)  # type: ignore[arg-type]
        return state, old, owner

    def _links(self, old: Slots, root: int) -> Links:
        """The links of a part of the tree, with the old ids by the new ones."""
        links, filled = new_links(len(old) // 2), np.flatnonzero(old != NONE)
        ascending = filled[np.argsort(old[filled])]

        def new(ids: Any) -> Slots:
            return ascending[np.searchsorted(old[ascending], ids)]

        table = self.tree.links.table
        internal, below = filled[old[filled] >= self.tree.offset], filled[old[filled] != root]
        for side in (LEFT, RIGHT):
            links.table[internal, side] = new(table[old[internal], side])
        links.table[below, PARENT] = new(table[old[below], PARENT])
        links.table[filled, SIZE] = table[old[filled], SIZE]
        # As many leaves as in the whole tree, for the caps grow with it.
        links.head[ROOT], links.head[LEAVES] = new(root), self.tree.n_leaves
        return links
