"""PERCH: what builds its tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._compile import entry
from grinch._interrupts import uninterrupted
from grinch._types import Advance, Ids, Vectors32, as_id, count_rows
from grinch.baselines.perch_boxes import BALANCE_ROTATIONS, COLLAPSES, N_ENDS, ROTATIONS, Boxes
from grinch.baselines.perch_moves import PerchRules, insert
from grinch.linkage.named import linkage_of
from grinch.neighbors.base import Neighbors, batches
from grinch.neighbors.exact import ExactSearch
from grinch.summaries import VectorSummaries
from grinch.summaries.kept import Kept, kept_vectors
from grinch.tree import NONE, Tree
from grinch.tree.links import LEAVES, NO_LIMIT, Links, grown, new_links

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
            witness=np.zeros(0, np.int32),
            collapsed=np.zeros(0, np.uint8),
            ends=np.zeros(0, np.int32),
            place=np.zeros(0, np.int32),
            sample=np.zeros((3, exact_leaves), np.int32),
            beam=np.zeros(2 * width, np.int32),
            gaps=np.zeros(2 * width),
            counts=np.zeros(4, np.int64),
        )

    @property
    def n_leaves(self) -> int:
        return int(self.links.head[LEAVES])

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
            self._search.rewritten()
            self.links = grown(new_links(0, self._size_limit), self.summaries.capacity)
            for name in ("low", "high", "witness", "collapsed", "ends", "place", "counts"):
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
        """The points in the order they came."""
        return self.summaries.arrays.means[: self.n_leaves]

    def kept(self) -> Kept:
        """The points in the order they came, with what they are measured from."""
        return kept_vectors(self.summaries, np.arange(self.n_leaves))

    def _reserve(self, n: int) -> None:
        if n <= self.summaries.capacity and self.links.table.flags.writeable:
            return
        capacity = max(n, int(1.5 * self.summaries.capacity)) if self.n_leaves else n
        capacity = max(capacity, self.summaries.capacity)
        self.links = grown(self.links, capacity)
        self._move_ends(capacity - self.summaries.capacity)
        self.summaries.grow(capacity)

        def longer(values: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
            new = np.zeros((n, *values.shape[1:]), values.dtype)
            new[: len(values)] = values
            return new

        b = self.boxes
        self.boxes = b._replace(
            points=self.summaries.arrays.means,
            **{name: longer(getattr(b, name), capacity) for name in ("low", "high", "witness", "collapsed")},
            **{name: getattr(b, name).copy() for name in ("sample", "beam", "gaps", "counts")},
        )

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
