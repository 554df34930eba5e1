"""Agglomerative clustering under any linkage: a pool of nodes, two of which are merged, again and again.

Two ways to choose the two:

* Best first. Each node keeps a heap of its scores with the nodes that were in the pool before it. So every pair is in
  exactly one heap, that of its younger node, and a heap changes only by losing its top; the best pair is on top of the
  best heap. All pairs are scored once and each leaves its heap at most once: O(n² log n), for any linkage at all.
* By a chain of nearest neighbours, in O(n) memory: walk from a node to its nearest, to that one's nearest, until two
  are each other's nearest, and merge them. Under a reducible linkage (merging two nodes that are each other's nearest
  brings the union no closer to a third than the nearer of them was) that is the same tree.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse

from grinch._checks import count_rows
from grinch._compile import entry, jitable, kernel
from grinch._interrupts import uninterrupted
from grinch._types import Floats, Ids, Slots, as_id
from grinch.core.engine import make_summaries, summaries_from_state
from grinch.errors import LinkageError, SavedModelError
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.saving.json_values import csr_of, value_bytes, value_of
from grinch.saving.state import Fields, State, are_within, array, item, require
from grinch.summaries import RecordSummaries, Summaries
from grinch.summaries.arrays import Arrays, merge, vector_score
from grinch.summaries.callbacks import LinkageFailed
from grinch.tree import NONE, Tree
from grinch.tree.links import NO_LIMIT


@jitable
def _is_before(keys: Floats, partners: Ids, i: int, j: int) -> bool:
    return keys[i] > keys[j] or (keys[i] == keys[j] and partners[i] < partners[j])


@jitable
def _sift_down(keys: Floats, partners: Ids, size: int, i: int) -> None:
    while True:
        best = 2 * i + 1
        if best >= size:
            break
        if best + 1 < size and _is_before(keys, partners, best + 1, best):
            best += 1
        if not _is_before(keys, partners, best, i):
            break
        keys[i], keys[best] = keys[best], keys[i]
        partners[i], partners[best] = partners[best], partners[i]
        i = best


@kernel
def heapify(keys: Floats, partners: Ids) -> None:
    """Order two arrays as a heap."""
    size = keys.shape[0]
    for i in range(size // 2 - 1, -1, -1):
        _sift_down(keys, partners, size, i)


@kernel
def drop_dead(keys: Floats, partners: Ids, size: int, slot_of: Ids) -> int:
    """Pop until the partner on top is still in the pool; return the size that is left."""
    while size > 0 and slot_of[partners[0]] < 0:
        size -= 1
        keys[0], partners[0] = keys[size], partners[size]
        _sift_down(keys, partners, size, 0)
    return size


CSR = ("data", "indices", "indptr")


def rows_to_state(rows: Any) -> State:
    if scipy.sparse.issparse(rows):
        is_matrix = isinstance(rows, scipy.sparse.spmatrix)
        parts = {part: getattr(rows, part) for part in CSR}
        return {"sparse": parts | {"shape": list(rows.shape), "is_matrix": is_matrix}}
    if isinstance(rows, np.ndarray):
        return {"dense": np.ascontiguousarray(rows)}
    return {"records": value_bytes(list(rows), "a record")}


def rows_from_state(state: Any) -> Any:
    if not isinstance(state, dict) or len(state) != 1:
        raise SavedModelError(f"{state!r:.60} are no points")
    if "records" in state:
        return value_of(array(state, "records", "|u1", 1))
    if "dense" in state:
        return array(state, "dense", None, 2)
    content = item(state, "sparse")
    return csr_of(item(content, "is_matrix"), item(content, "shape"), *(array(content, each, None, 1) for each in CSR))


# Pairs wait in at most 0.6 n² heap entries, each a score of 8 bytes and a node of 4.
HEAP_BYTES_PER_PAIR = 7.2
POOL = Fields(
    n_scores=int,
    n_leaves=int,
    size=int,
    n_moves=int,
    n_nodes=int,
    slot_of=("<i4", 1),
    sides=("<i4", 2),
    score_of=("<f8", 1),
    _nodes=("<i4", 1),
    _slots=("<i4", 1),
    _place=("<i4", 1),
)
HEAPS = Fields(nodes=("<i8", 1), sizes=("<i8", 1), keys=("<f8", 1), partners=("<i4", 1))


@entry
def merge_and_score(arrays: Arrays, slot: int, left: int, right: int, others: Ids, n: int) -> None:
    """Merge two groups into a slot, unless they are NONE, and score it with others."""
    if left != NONE:
        merge(arrays, slot, left, right)
    for i in range(n):
        arrays.answers[i] = vector_score(arrays, slot, as_id(others[i]))


class Candidates(NamedTuple):
    """Nodes of the pool and their scores with one node."""

    nodes: Ids
    scores: Floats


class Pool:
    """The nodes that wait to be merged, and how all that came before were.

    Nodes are numbered as they come, leaves and merged ones alike. A node in the pool has a slot among the
    summaries; merging two frees theirs.

    Parameters
    ----------
    linkage : VectorLinkage or Linkage
        What similar means.
    n_features : int
        Length of the vectors (ignored for records).
    capacity : int
        How many nodes can wait at a time.
    """

    def __init__(self, linkage: VectorLinkage | Linkage, n_features: int, capacity: int):
        self.linkage = linkage
        self.summaries: Summaries = make_summaries(linkage, n_features)
        self.n_scores, self.n_leaves, self.size, self.n_moves = 0, 0, 0, 0
        self._free: list[int] = []
        # By node: its slot (-1 once merged), its two sides (-1 for a leaf) and their score.
        self.slot_of = np.full(0, NONE, np.int32)
        self.sides = np.full((0, 2), NONE, np.int32)
        self.score_of = np.full(0, np.nan)
        self.n_nodes = 0
        # The pool without gaps: nodes and their slots, and by slot the place in it.
        self._nodes = np.empty(0, np.int32)
        self._slots = np.empty(0, np.int32)
        self._place = np.empty(0, np.int32)
        self.reserve(capacity)

    def to_state(self) -> State:
        """Return what a file holds of the pool."""
        return POOL.take(self) | {"free": np.array(self._free, np.int64), "summaries": self.summaries.to_state()}  # type: ignore[call-arg]

    @classmethod
    def from_state(cls, state: Any, linkage: VectorLinkage | Linkage) -> Self:
        pool = POOL.new(cls, state)
        pool.linkage, pool._free = linkage, array(state, "free", "<i8", 1).tolist()
        pool.summaries = summaries_from_state(item(state, "summaries"), linkage)
        return pool

    def validate(self) -> None:
        """Refuse a state in which nodes are not where they should be."""
        n, capacity, size = self.n_nodes, self.summaries.capacity, self.size
        require(self.summaries.most_asked == NO_LIMIT, "there is no room for scores")
        self.summaries.validate()
        require(0 <= n <= min(len(self.slot_of), len(self.sides), len(self.score_of)), "nodes are missing")
        require(self.sides.shape[1:] == (2,), "nodes do not have two sides")
        require(0 <= size <= min(len(self._nodes), len(self._slots), capacity), "the buffer is larger than it is")
        require(len(self._place) == len(self._nodes) == len(self._slots) == capacity, "the buffer has no room")
        sides = self.sides[:n]
        is_leaf = sides[:, 0] == NONE
        require(np.array_equal(is_leaf, sides[:, 1] == NONE), "a node has one side")
        require(are_within(sides, NONE, max(n, 1)), "a side is no node")
        require((sides.max(axis=1, initial=NONE) < np.arange(n)).all(), "a node is made of later ones")
        require(int(is_leaf.sum()) == self.n_leaves, "records are missing")
        used = np.bincount(sides[~is_leaf].ravel(), minlength=n)
        nodes, slots = self._nodes[:size], self._slots[:size]
        require((used <= 1).all() and np.array_equal(np.sort(nodes), np.flatnonzero(used == 0)), "nodes do not wait")
        require(are_within(slots, 0, max(capacity, 1)), "a node has no slot")
        require(np.array_equal(self.slot_of[nodes], slots), "a node is in another slot")
        require((np.delete(self.slot_of[:n], nodes) == NONE).all(), "a merged node has a slot")
        require(np.array_equal(self._place[slots], np.arange(size)), "a node is not in its place")
        require(np.array_equal(np.sort([*self._free, *slots.tolist()]), np.arange(capacity)), "slots are used twice")

    def reserve(self, capacity: int) -> None:
        """Make room for this many nodes at a time."""
        old, new = self.summaries.capacity, capacity + 1  # one more, for the union before its two sides leave
        if new > old:
            self.summaries.grow(new)
            self._free = [*range(new - 1, old - 1, -1), *self._free]
            more = np.zeros(new - old, np.int32)
            self._nodes, self._slots, self._place = (
                np.concatenate([values, more]) for values in (self._nodes, self._slots, self._place)
            )

    # Changing the pool --------------------------------------------------------------------------------------------

    def write(self, rows: Any) -> list[int]:
        """Put records into free slots (in one go if they are next to each other); each still has to enter."""
        n = count_rows(rows)
        slots = [self._free.pop() for _ in range(n)]
        if self.n_nodes == self.n_leaves:
            # Before anything is merged, slots are positions, and the frame of vectors may still move.
            self.summaries.take_all(slots[0], rows, self._count_move)
        else:
            for i, slot in enumerate(slots):
                self.summaries.write(slot, rows[i : i + 1])
        return slots

    def _count_move(self) -> None:
        self.n_moves += 1

    def release(self, slot: int) -> None:
        """Take back a record that was written and did not enter."""
        self._free.append(slot)

    def enter(self, slot: int, scored: bool = True) -> tuple[int, Candidates]:
        """Add the record in ``slot`` to the pool; return its node and its scores with those that are there."""
        found = self._scored(slot, NONE, NONE) if scored else Candidates(self._nodes[:0], np.empty(0))
        self.n_leaves += 1
        return self._add(slot, (NONE, NONE), math.nan), found

    def merge(self, u: int, v: int, score: float, scored: bool = True) -> tuple[int, Candidates]:
        """Replace two nodes by their union; return it and its scores with the others."""
        slot, left, right = self._free.pop(), int(self.slot_of[u]), int(self.slot_of[v])
        self._remove(u)
        self._remove(v)
        try:
            found = self._scored(slot, left, right, scored, (u, v))
        except BaseException:
            self._free.append(slot)
            for node, old in ((u, left), (v, right)):
                self._put(node, old)
            raise
        self._free += [left, right]
        return self._add(slot, (u, v), score), found

    def _add(self, slot: int, sides: tuple[int, int], score: float) -> int:
        node = self.n_nodes
        if node == len(self.slot_of):
            more = max(len(self.slot_of), self.summaries.capacity)
            self.slot_of = np.concatenate([self.slot_of, np.full(more, NONE, np.int32)])
            self.sides = np.concatenate([self.sides, np.full((more, 2), NONE, np.int32)])
            self.score_of = np.concatenate([self.score_of, np.full(more, np.nan)])
        self.n_nodes += 1
        self.sides[node], self.score_of[node] = sides, score
        self._put(node, slot)
        return node

    def _put(self, node: int, slot: int) -> None:
        self.slot_of[node] = slot
        self._nodes[self.size], self._slots[self.size], self._place[slot] = node, slot, self.size
        self.size += 1

    def _remove(self, node: int) -> None:
        """Take a node out of the pool; the last one takes its place."""
        self.size -= 1
        place, last = self._place[self.slot_of[node]], self.size
        self._nodes[place], self._slots[place] = self._nodes[last], self._slots[last]
        self._place[self._slots[place]] = place
        self.slot_of[node] = NONE

    # Asking the linkage -------------------------------------------------------------------------------------------

    def nodes(self) -> Ids:
        return self._nodes[: self.size]

    def scores(self, node: int) -> Candidates:
        """Return the scores of a node of the pool with all others."""
        found = self._scored(int(self.slot_of[node]), NONE, NONE)
        others = found.nodes != node
        return Candidates(found.nodes[others], found.scores[others])

    def _scored(self, slot: int, left: int, right: int, scored: bool = True, sides: tuple[int, ...] = ()) -> Candidates:
        """Score a slot, or the union of two nodes that is about to be made in it, with the whole pool."""
        n = self.size if scored else 0
        try:
            scores = self._asked(slot, left, right, n)
        except LinkageError as error:
            error.groups = [self._leaves_in(asked, sides if asked == slot else ()) for asked in error.nodes]
            raise
        self.n_scores += n
        return Candidates(self._nodes[:n].copy(), scores)

    def _asked(self, slot: int, left: int, right: int, n: int) -> Floats:
        summaries = self.summaries
        if isinstance(summaries, RecordSummaries):
            if left != NONE:
                summaries.merge(slot, left, right)
            return summaries.scores(slot, self._slots[:n].tolist())
        try:
            merge_and_score(summaries.arrays, slot, left, right, self._slots, n)
        except LinkageFailed:
            raise summaries.failure() from None
        return summaries.arrays.answers[:n].copy()

    def _leaves_in(self, slot: int, sides: tuple[int, ...]) -> list[int]:
        """Return the positions of the records in a slot, which may be about to be merged or to enter."""
        waiting = list(sides) or self._nodes[: self.size][self._slots[: self.size] == slot].tolist()
        is_leaf = self.sides[: self.n_nodes, 0] == NONE
        number, found = np.cumsum(is_leaf) - 1, []
        while waiting:
            node = waiting.pop()
            if is_leaf[node]:
                found.append(int(number[node]))
            else:
                waiting += self.sides[node].tolist()
        return sorted(found) or [self.n_leaves]

    # The tree -----------------------------------------------------------------------------------------------------

    def tree(self) -> Tree:
        """Return the tree of all merges; what is still in the pool is joined at the top, with score -inf."""
        left_over = self.nodes().tolist()
        is_leaf = self.sides[: self.n_nodes, 0] == NONE
        new_id = np.where(is_leaf, np.cumsum(is_leaf) - 1, self.n_leaves + np.cumsum(~is_leaf) - 1)
        pairs = new_id[self.sides[: self.n_nodes][~is_leaf]]
        scores = self.summaries.in_units(self.score_of[: self.n_nodes][~is_leaf])
        tops = new_id[np.sort(left_over)]
        return tree_of_merges(self.n_leaves, pairs, scores, tops, getattr(self.linkage, "ceiling", None))


def tree_of_merges(n_leaves: int, pairs: Slots, scores: Floats, tops: Slots, ceiling: float | None) -> Tree:
    """Return the tree of merges, with the nodes that are still apart joined one after the other, with score -inf."""
    if len(tops) > 1:
        unions = n_leaves + len(pairs) + np.arange(len(tops) - 1)
        extra = np.column_stack([np.concatenate([tops[:1], unions[:-1]]), tops[1:]])
        pairs, scores = np.concatenate([pairs, extra]), np.concatenate([scores, np.full(len(extra), -np.inf)])
    return Tree.from_merges(pairs, scores, ceiling)


class BestFirst:
    """A pool whose best pair is always known."""

    def __init__(self, pool: Pool):
        self.pool = pool
        self._heaps: dict[int, tuple[Floats, Ids]] = {}
        # One entry a node: minus the score on top of its heap, and the node.
        self._tops: list[tuple[float, int]] = []

    def to_state(self) -> State:
        """Return what a file holds of the pool and its pairs."""
        heaps = self._heaps.values()
        keys: Floats = np.concatenate([np.zeros(0), *(keys for keys, _ in heaps)])
        partners = np.concatenate([np.zeros(0, np.int32), *(others for _, others in heaps)])
        return {
            "pool": self.pool.to_state(),
            "heaps": {
                "nodes": np.array(list(self._heaps), np.int64),
                "sizes": np.array([len(keys) for keys, _ in heaps], np.int64),
                "keys": keys,
                "partners": partners,
            },
        }

    @classmethod
    def from_state(cls, state: Any, linkage: VectorLinkage | Linkage) -> Self:
        found = cls(Pool.from_state(item(state, "pool"), linkage))
        heaps = HEAPS.read(item(state, "heaps"))
        nodes, sizes, keys, partners = heaps["nodes"], heaps["sizes"], heaps["keys"], heaps["partners"]
        is_whole = are_within(sizes, 0, 2**31) and sizes.sum() == len(keys) == len(partners)
        require(is_whole and len(nodes) == len(sizes), "heaps of pairs do not follow each other")
        ends = np.cumsum(sizes)[:-1]
        # Copies, for a heap is shortened where it is.
        parts = zip(np.split(keys, ends), np.split(partners, ends), strict=True) if len(nodes) else ()
        found._heaps = {node: (k.copy(), p.copy()) for node, (k, p) in zip(nodes.tolist(), parts, strict=True)}
        for node in found._heaps:
            found._offer(node)
        return found

    def validate(self) -> None:
        """Refuse pairs of nodes that are not there."""
        self.pool.validate()
        require(set(self._heaps) == set(self.pool.nodes().tolist()), "nodes have no heaps")
        for node, (_, partners) in self._heaps.items():
            require(are_within(partners, 0, max(node, 1)), "a pair has a node that is not there")

    def enter(self, slot: int) -> None:
        with uninterrupted():
            self._keep(*self.pool.enter(slot))

    def admit(self, row: Any) -> None:
        """Write one record into the pool and let it enter; if the linkage refuses it, nothing has changed."""
        with uninterrupted():
            moves = self.pool.n_moves
            (slot,) = self.pool.write(row)
            if self.pool.n_moves > moves:
                self._score_again()
            try:
                self._keep(*self.pool.enter(slot))
            except BaseException:
                self.pool.release(slot)
                raise

    def merge_best(self) -> int:
        """Merge the best pair and return the new node."""
        with uninterrupted():
            score, u, v = self._best()
            node, found = self.pool.merge(u, v, score)
            del self._heaps[u], self._heaps[v]
            self._keep(node, found)
        return node

    def copy(self) -> BestFirst:
        """Return an independent copy, to merge what is left without changing this one."""
        import copy

        twin = copy.copy(self)
        shared = [self.pool.linkage]
        if isinstance(self.pool.summaries, RecordSummaries):
            # No merge changes its arguments; and what they refer to may be as deep as the tree.
            shared += self.pool.summaries.items
        twin.pool = copy.deepcopy(self.pool, {id(thing): thing for thing in shared})
        twin._heaps = {node: (keys.copy(), partners.copy()) for node, (keys, partners) in self._heaps.items()}
        twin._tops = self._tops.copy()
        return twin

    def _keep(self, node: int, found: Candidates) -> None:
        heapify(found.scores, found.nodes)
        self._heaps[node] = (found.scores, found.nodes)
        self._offer(node)

    def _score_again(self) -> None:
        """Score all pairs again after the frame of the vectors has moved, which changes how they are rounded."""
        self._heaps, self._tops = {}, []
        for node in np.sort(self.pool.nodes()).tolist():
            nodes, scores = self.pool.scores(node)
            self._keep(node, Candidates(nodes[nodes < node], scores[nodes < node]))

    def _offer(self, node: int) -> None:
        keys = self._heaps[node][0]
        if len(keys):
            heapq.heappush(self._tops, (-keys[0], node))

    def _best(self) -> tuple[float, int, int]:
        """Return the best score and its two nodes; both stay in the pool until they are merged."""
        while True:
            negative, node = self._tops[0]
            if node in self._heaps:
                keys, partners = self._heaps[node]
                if self.pool.slot_of[partners[0]] != NONE:
                    return -negative, int(partners[0]), node
                size = drop_dead(keys, partners, len(keys), self.pool.slot_of)
                self._heaps[node] = keys[:size], partners[:size]
                heapq.heappop(self._tops)
                self._offer(node)
            else:
                heapq.heappop(self._tops)


class Chained(Protocol):
    """A pool of nodes that a chain of nearest neighbours can merge."""

    size: int

    def nodes(self) -> Ids: ...

    def scores(self, node: int) -> Candidates: ...

    def merge(self, u: int, v: int, score: float, scored: bool = True) -> object: ...


def merge_by_chain(pool: Chained, progress: Callable[[float], None]) -> None:
    """Merge all of a pool by chains of nearest neighbours."""
    chain: list[int] = []
    place: dict[int, int] = {}  # of the nodes on the chain
    while pool.size > 1:
        if not chain:
            chain = [int(pool.nodes().min())]
            place = {chain[0]: 0}
        found = pool.scores(chain[-1])
        score = float(found.scores.max())
        best = found.nodes[found.scores == score]
        before = chain[-2] if len(chain) > 1 else NONE
        nearest = before if before in best else int(best.min())
        if nearest == before:
            with uninterrupted():
                pool.merge(before, chain[-1], score, scored=False)
            for node in chain[-2:]:
                del place[node]
            del chain[-2:]
            progress(1.0)
        elif nearest in place:
            # Only a linkage that is not reducible closes a circle; go on from the better pair.
            for node in chain[place[nearest] + 1 :]:
                del place[node]
            del chain[place[nearest] + 1 :]
        else:
            place[nearest] = len(chain)
            chain.append(nearest)
