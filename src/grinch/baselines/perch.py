"""PERCH: what builds its tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from grinch._checks import count_rows
from grinch._compile import entry
from grinch._interrupts import uninterrupted
from grinch._types import Advance, Ids, Vectors32, as_id
from grinch.baselines.perch_moves import (
    BALANCE_ROTATIONS,
    COLLAPSES,
    N_ENDS,
    ROTATIONS,
    Boxes,
    PerchRules,
    insert,
    note_pair,
)
from grinch.linkage.named import linkage_of
from grinch.neighbors.exact import ExactSearch, Neighbors, batches
from grinch.saving.state import MANY, Fields, State, are_within, item, require, scalar
from grinch.summaries import VectorSummaries
from grinch.summaries.arrays import StoredPoints
from grinch.tree import NONE, Tree
from grinch.tree.checks import links_from_state, links_to_state, validate_links
from grinch.tree.links import NO_LIMIT, PARENT, SIZE, Links, new_links

RULES = Fields(balance=bool, max_leaves=int, beam_width=int)
BOXES = Fields(
    low=("<f4", 2),
    high=("<f4", 2),
    collapsed=("|u1", 1),
    ends=("<i4", 1),
    place=("<i4", 1),
    sample=("<i4", 2),
    beam=("<i4", 1),
    gaps=("<f8", 1),
    counts=("<i8", 1),
)
# What the points are stored for: a linkage whose leaf-level form is the metric.
METRICS = {"euclidean": ("centroid", None), "cosine": ("average", "cosine")}


@entry
def insert_all(tree: Links, boxes: Boxes, rules: PerchRules, start: int, nearest: Ids) -> None:
    """Insert leaves from ``start`` on, beside those in ``nearest``."""
    for i in range(nearest.shape[0]):
        insert(tree, boxes, rules, start + i, as_id(nearest[i]))


class PerchBuilder:
    """A PERCH tree under construction."""

    def __init__(self, rules: PerchRules, metric: str, n_features: int, exact_leaves: int, compiled: bool = True):
        self.rules, self._run = rules, insert_all if compiled else insert_all.py_func  # type: ignore[attr-defined]
        self.summaries = VectorSummaries(linkage_of(*METRICS[metric]), n_features)  # type: ignore[arg-type]
        # Sizes are needed for balance and for the means of collapsed nodes.
        exact_sizes = rules.balance or rules.max_leaves > 0
        self._size_limit = NO_LIMIT if exact_sizes else exact_leaves
        self.links = new_links(0, self._size_limit)
        self._search = ExactSearch(self.summaries, 1)
        width = max(rules.beam_width, 1)
        self.boxes = Boxes(
            points=self.summaries.arrays.means,
            low=np.zeros((0, n_features), np.float32),
            high=np.zeros((0, n_features), np.float32),
            collapsed=np.zeros(0, np.uint8),
            ends=np.zeros(0, np.int32),
            place=np.zeros(0, np.int32),
            pairs=np.zeros(0, np.int32),
            pair_place=np.zeros(0, np.int32),
            sample=np.zeros((1, exact_leaves), np.int32),
            beam=np.zeros(2 * width, np.int32),
            gaps=np.zeros(2 * width),
            counts=np.zeros(4, np.int64),
        )

    def to_state(self) -> State:
        """Return what a file holds of the builder."""
        return {
            "size_limit": int(self._size_limit),
            "rules": RULES.take(self.rules),
            "links": links_to_state(self.links),
            "summaries": self.summaries.to_state(self.links),
            "search": self._search.to_state(),
            "boxes": BOXES.take(self.boxes),
        }

    @classmethod
    def from_state(cls, state: Any, metric: str) -> Self:
        """Return the builder of a state, made with this metric."""
        builder = object.__new__(cls)
        builder.rules, builder._run = PerchRules(**RULES.read(item(state, "rules"))), insert_all
        builder._size_limit = scalar(state, "size_limit", int)
        linkage: Any = linkage_of(*METRICS[metric])
        builder.summaries = VectorSummaries.from_state(item(state, "summaries"), linkage)
        builder.links = links_from_state(item(state, "links"))
        builder._search = ExactSearch.from_state(item(state, "search"), builder.summaries)
        pairs: dict[str, Any] = {name: np.zeros(0, np.int32) for name in ("pairs", "pair_place")}
        boxes = BOXES.read(item(state, "boxes"))
        builder.boxes = Boxes(points=builder.summaries.arrays.means, **boxes, **pairs)
        return builder

    def validate(self) -> None:
        """Refuse a state that compiled code could not use."""
        links, boxes, rules, capacity = self.links, self.boxes, self.rules, self.summaries.capacity
        validate_links(links)
        n, width = self.n_leaves, self.summaries.n_features
        require(n == links.n_slots and len(links.table) == 2 * capacity, "there is no room for the points")
        require(links.limit == self._size_limit, "sizes are counted up to another limit")
        require(self.summaries.most_asked == NO_LIMIT, "there is no room for scores")
        self.summaries.validate()
        require(rules.max_leaves >= 0 and 0 <= rules.beam_width <= MANY, "rules are none")
        require(boxes.low.shape == boxes.high.shape == (capacity, width), "nodes have no boxes")
        require(np.isfinite(boxes.low).all() and np.isfinite(boxes.high).all(), "a box is not finite")
        require(boxes.collapsed.shape == (capacity,), "nodes are neither collapsed nor not")
        require(are_within(boxes.collapsed, 0, 2), "nodes are neither collapsed nor not")
        require(len(boxes.sample) >= 1 and 1 <= boxes.sample.shape[1] <= MANY, "there is no room for a sample")
        require(len(boxes.beam) == len(boxes.gaps) == 2 * max(rules.beam_width, 1), "there is no room for the search")
        require(boxes.counts.shape == (4,), "the counters are others")
        n_ends = int(boxes.counts[N_ENDS])
        require(boxes.place.shape == (2 * capacity,) and 0 <= n_ends <= len(boxes.ends), "ends have no places")
        if rules.max_leaves:
            is_roomy = len(boxes.ends) >= min(rules.max_leaves, capacity) + 2
            require(is_roomy and n_ends <= rules.max_leaves + 1, "too many ends")
        ends = boxes.ends[:n_ends]
        require(are_within(ends, 0, 2 * capacity), "an end is none of the nodes")
        require((links.table[ends, SIZE] != NONE).all() if n_ends else True, "an end is none of the nodes")
        require(np.array_equal(boxes.place[ends], np.arange(n_ends)), "an end is not in its place")
        require(self._search.k == 1, "one neighbour is to be looked for")

    @property
    def n_leaves(self) -> int:
        return self.links.n_leaves

    @property
    def stats(self) -> dict[str, int]:
        counts = self.boxes.counts
        names = {"rotations": ROTATIONS, "balance_rotations": BALANCE_ROTATIONS, "collapses": COLLAPSES}
        return {name: int(counts[i]) for name, i in names.items()}

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        start, count = self.n_leaves, count_rows(rows)
        self._reserve(start + count)
        done = 0
        while done < count:
            taken = self.summaries.take(start + done, rows[done:] if done else rows)
            if taken:
                self._insert_written(start + done, start + done + taken, progress)
            else:
                self._move()
            done += taken

    def _insert_written(self, start: int, stop: int, progress: Advance | None = None) -> None:
        for first, candidates in self._neighbors(start, stop):
            self._run(self.links, self.boxes, self.rules, first, candidates[:, 0])
            if progress is not None:
                progress(len(candidates))

    def _move(self) -> None:
        """Change the frame of the vectors. Boxes are in the old one, so all points are inserted again."""
        n = self.n_leaves
        with uninterrupted():
            self.summaries.move(n)
            self.boxes = self.boxes._replace(points=self.summaries.arrays.means)
            self._search.rewritten()
            self.links = new_links(0, self._size_limit).resized(self.summaries.capacity)
            for name in ("low", "high", "collapsed", "ends", "place", "pairs", "pair_place", "counts"):
                getattr(self.boxes, name)[...] = 0
            self._insert_written(0, n)

    def _neighbors(self, start: int, stop: int) -> Iterator[Neighbors]:
        """Nearest neighbours found beforehand; or placeholders, where each insert looks for its own in the tree."""
        if self.rules.beam_width or self.rules.max_leaves:
            return (Neighbors(lo, np.full((hi - lo, 1), NONE, np.int32)) for lo, hi in batches(start, stop))
        return self._search.stream(start, stop)

    def tree(self) -> Tree:
        scores = np.full(len(self.links.table), np.nan)
        for begin in range(0, self.n_leaves, 4096):
            part = slice(begin, min(begin + 4096, self.n_leaves))
            sides = self.boxes.high[part].astype(np.float64) - self.boxes.low[part]
            at = self.summaries.capacity + begin
            scores[at : at + len(sides)] = -np.sqrt(np.einsum("ij,ij->i", sides, sides)) / self.summaries.frame.scale
        return Tree.from_links(self.links, scores, 0.0)

    def points(self) -> Vectors32:
        """Return the points in the order they came."""
        return self.summaries.arrays.means[: self.n_leaves]

    def kept(self) -> StoredPoints:
        """Return the points in the order they came, with what they are measured from."""
        return self.summaries.points(np.arange(self.n_leaves))

    def _reserve(self, n: int) -> None:
        if n <= self.summaries.capacity and self.links.table.flags.writeable:
            return
        capacity = max(n, int(1.5 * self.summaries.capacity)) if self.n_leaves else n
        capacity = max(capacity, self.summaries.capacity)
        self.links = self.links.resized(capacity)
        self._move_ends(capacity - self.summaries.capacity)
        self.summaries.grow(capacity)

        def longer(values: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
            new = np.zeros((n, *values.shape[1:]), values.dtype)
            new[: len(values)] = values
            return new

        b = self.boxes
        self.boxes = b._replace(
            points=self.summaries.arrays.means,
            **{name: longer(getattr(b, name), capacity) for name in ("low", "high", "collapsed")},
            **{name: getattr(b, name).copy() for name in ("sample", "beam", "gaps", "counts")},
        )
        self._find_pairs()

    def _move_ends(self, shift: int) -> None:
        """Collapsed nodes are internal nodes, which have new ids when there is room for more leaves."""
        old, n = self.summaries.capacity, int(self.boxes.counts[N_ENDS])
        # At most as many as there may be leaves, and one more until two are collapsed.
        ends = np.zeros(min(self.rules.max_leaves, old + shift) + 2, np.int32)
        ends[:n] = self.boxes.ends[:n]
        ends[:n][ends[:n] >= old] += shift
        place = np.zeros(2 * (old + shift), np.int32)
        place[ends[:n]] = np.arange(n)
        self.boxes = self.boxes._replace(ends=ends, place=place)

    def _find_pairs(self) -> None:
        """Fill the heap of pairs, which no file has: the tree has them all."""
        has_limit, ends = self.rules.max_leaves > 0, self.boxes.ends[: self.boxes.counts[N_ENDS]]
        self.boxes = self.boxes._replace(
            pairs=np.zeros(len(self.boxes.ends) if has_limit else 0, np.int32),
            pair_place=np.zeros(self.summaries.capacity if has_limit else 0, np.int32),
        )
        for p in self.links.table[ends, PARENT].tolist():
            note_pair(self.links, self.boxes, p)
