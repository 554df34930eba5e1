"""A sample of the points, from left to right, from which means and keywords of any node are estimated.

The points under a node are a range of places, so those of the sample that are under it are a range, too: its mean is
the difference of two sums, and its words are next to each other.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from grinch._types import Counts, Floats, Ids, Vectors32
from grinch._vectors import scaled, unit_scale
from grinch.serve.backend import Backend, sampled
from grinch.serve.views.fields import Fields
from grinch.serve.views.scene import Scene
from grinch.summaries.vectors import dense_rows
from grinch.text.analysis import WORD
from grinch.text.keywords import ENGLISH

MAX_POINTS = 50_000
# Numbers of all vectors together: long ones are fewer.
MAX_NUMBERS = 20_000_000
MAX_TEXT = 500
# A node with fewer points in the sample has no keywords.
MIN_SAMPLED = 3
N_COLUMNS = 6
# Sparse rows with more columns are projected on this many directions, found from this many rows.
MAX_DENSE_COLUMNS, N_DIRECTIONS, MAX_ROWS_FOR_DIRECTIONS = 256, 32, 10_000


class Words:
    """The words of some texts, one text after the other, by number."""

    def __init__(self, texts: list[str | None]):
        numbers: dict[str, int] = {}
        listed: list[int] = []
        ends = np.zeros(len(texts) + 1, np.int64)
        for i, text in enumerate(texts):
            if text:
                # A word counts once per text: a word of many texts matters, not one that a text repeats.
                for word in dict.fromkeys(WORD.findall(text[:MAX_TEXT].lower())):
                    if word not in ENGLISH and not word.isdigit():
                        listed.append(numbers.setdefault(word, len(numbers)))
            ends[i + 1] = len(listed)
        self.ends, self.words = ends, list(numbers)
        self.numbers = np.array(listed, np.int32)
        self.everywhere = np.bincount(self.numbers, minlength=len(numbers)).astype(np.float64)

    def keywords(self, start: int, stop: int, n: int) -> Ids:
        """Return the numbers of the words that are frequent in the texts of a range and rare elsewhere."""
        own = self.numbers[self.ends[start] : self.ends[stop]]
        numbers, counts = np.unique(own, return_counts=True)
        total = max(len(self.ends) - 1, 1)
        share, all_share = counts / max(stop - start, 1), self.everywhere[numbers] / total
        # The ratio of frequencies, weighted by frequency: a word of one text in fifty says little.
        weights = share * np.log((share + 1e-9) / (all_share + 1e-9) + 1)
        weights[counts < (2 if stop - start >= 8 else 1)] = 0
        best = np.lexsort((numbers, -weights))[:n]
        return numbers[best[weights[best] > 0]]


class Sample:
    """Some of the points of a scene: their rows and texts."""

    def __init__(self, scene: Scene, backend: Backend, fields: Fields, directions: Directions):
        self.scene, self.metric, self._lock = scene, backend.metric(), threading.Lock()
        self._backend, self._fields, self._directions = backend, fields, directions
        self.is_shortened = _is_wide(backend.rows(scene.look.positions[:1])) if scene.n else False
        width = N_DIRECTIONS if self.is_shortened else backend.n_features or 1
        self.places: Counts = sampled(scene.n, max(min(MAX_POINTS, MAX_NUMBERS // width), 1))
        self._positions = scene.look.positions[scene.order[self.places]]

    @cached_property
    def rows(self) -> Vectors32 | None:
        """Their rows as they are compared, wide sparse ones shortened; None if points are not vectors."""
        rows = self._backend.rows(self._positions) if self.scene.n else None
        return None if rows is None else self.comparable(rows)

    @property
    def words(self) -> Words | None:
        """The words of their texts, found once; None if they have none."""
        with self._lock:
            return self._words

    @property
    def has_words(self) -> bool:
        """Whether the words have been found."""
        return "_words" in self.__dict__

    @cached_property
    def _words(self) -> Words | None:
        if not self._fields.has_text or not self.scene.n:
            return None
        texts = [self._fields.text_of(payload) for payload in self._backend.payloads(self._positions)]
        return Words(texts) if any(texts) else None

    def comparable(self, rows: Any) -> Vectors32:
        """Return rows as they are compared: of length 1 where directions count; shortened if wide and sparse."""
        if _is_wide(rows):
            return self._fitted_directions(self._scaled(rows))
        dense: Vectors32 = np.asarray(dense_rows(rows), np.float32)
        if self.metric != "cosine":
            return dense
        norms = np.linalg.norm(dense, axis=1, keepdims=True)
        return (dense / np.where(norms > 0, norms, 1)).astype(np.float32)

    def _scaled(self, rows: Any) -> Any:
        return scaled(rows, unit_scale(rows)).astype(np.float32) if self.metric == "cosine" else rows

    @cached_property
    def _fitted_directions(self) -> Directions:
        self._directions.fit(self._scaled(self._backend.rows(self._positions)), self.scene.n)
        return self._directions

    def span(self, v: int) -> tuple[int, int]:
        """Return the range of the sample that is under a node."""
        start = int(self.scene.starts[v])
        begin, end = np.searchsorted(self.places, [start, start + int(self.scene.sizes[v])])
        return int(begin), int(end)

    @cached_property
    def _sums(self) -> Floats:
        assert self.rows is not None
        return np.concatenate([np.zeros((1, self.rows.shape[1])), np.cumsum(self.rows, axis=0, dtype=np.float64)])

    def means(self, nodes: Ids) -> Floats:
        """Return the mean row of each node; for a node without a point in the sample, the nearest row."""
        starts = self.scene.starts[nodes]
        begin = np.minimum(np.searchsorted(self.places, starts), len(self.places) - 1)
        end = np.maximum(np.searchsorted(self.places, starts + self.scene.sizes[nodes]), begin + 1)
        return (self._sums[end] - self._sums[begin]) / (end - begin)[:, None]

    def keyword_numbers(self, v: int, n: int) -> list[int]:
        """Return the numbers of the words that stand out under a node."""
        begin, end = self.span(v)
        if self.words is None or (end - begin < MIN_SAMPLED and end - begin != int(self.scene.sizes[v])):
            return []
        return self.words.keywords(begin, end, n).tolist()

    def keywords(self, v: int, n: int = 5) -> list[str]:
        """Return the words that stand out under a node."""
        return [] if self.words is None else [self.words.words[i] for i in self.keyword_numbers(v, n)]

    @cached_property
    def mean(self) -> Vectors32:
        assert self.rows is not None
        return self.rows.mean(axis=0)

    @cached_property
    def deviation(self) -> Vectors32:
        assert self.rows is not None
        return self.rows.std(axis=0)

    def standing_out(self, means: Floats) -> tuple[Ids, Floats]:
        """Return the columns in which each mean is furthest from that of all, in standard deviations."""
        z = np.where(self.deviation > 0, (means - self.mean) / np.where(self.deviation > 0, self.deviation, 1), 0)
        best = np.argsort(-np.abs(z), axis=1, kind="stable")[:, :N_COLUMNS].astype(np.int32)
        return best, np.take_along_axis(z, best, axis=1)


class Directions:
    """The directions in which sparse rows vary most; they stay, so that a map does not turn as points come."""

    def __init__(self) -> None:
        self.directions: Vectors32 | None = None
        self._n = 0

    def fit(self, rows: Any, n: int) -> None:
        """Find the directions from some of n rows, unless they were found from half as many or more."""
        if self.directions is not None and self.directions.shape[0] == rows.shape[1] and n <= 2 * self._n:
            return
        from sklearn.decomposition import TruncatedSVD

        some = rows[:: max(-(-rows.shape[0] // MAX_ROWS_FOR_DIRECTIONS), 1)]
        # Empty columns would only take memory.
        used = np.unique(some.indices)
        width = min(N_DIRECTIONS, len(used), some.shape[0])
        self._n, self.directions = n, np.zeros((rows.shape[1], N_DIRECTIONS), np.float32)
        if width:
            self.directions[used, :width] = TruncatedSVD(width, random_state=0).fit(some[:, used]).components_.T

    def __call__(self, rows: Any) -> Vectors32:
        return np.asarray(rows @ self.directions, np.float32)


def _is_wide(rows: Any) -> bool:
    return scipy.sparse.issparse(rows) and rows.shape[1] > MAX_DENSE_COLUMNS
