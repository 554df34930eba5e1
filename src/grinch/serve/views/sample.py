"""A sample of the points, from left to right: what the means and the words of any node are estimated from.

The points under a node are a range of places, so those of the sample that are under it are a range, too: its mean is
the difference of two sums, and its words are next to each other.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from grinch._types import Counts, Floats, Ids, Vectors32
from grinch.serve.sources import Source, sampled
from grinch.serve.views.fields import Fields
from grinch.serve.views.scene import Scene
from grinch.serve.views.shortening import N_DIRECTIONS, Shortening, is_wide, sparse_units
from grinch.summaries.vectors import dense_rows
from grinch.text.analysis import WORD
from grinch.text.keywords import ENGLISH

MOST_POINTS = 50_000
# Of vectors, fewer where they are long.
MOST_NUMBERS = 20_000_000
LONGEST_TEXT = 500
# With fewer of its points in the sample nothing is said of a node.
FEWEST = 3


class Words:
    """The words of some texts, one text after the other, by number."""

    def __init__(self, texts: list[str | None]):
        numbers: dict[str, int] = {}
        found: list[int] = []
        ends = np.zeros(len(texts) + 1, np.int64)
        for i, text in enumerate(texts):
            if text:
                # A word counts once a text: what is said in many texts matters, not what one says often.
                for word in dict.fromkeys(WORD.findall(text[:LONGEST_TEXT].lower())):
                    if word not in ENGLISH and not word.isdigit():
                        found.append(numbers.setdefault(word, len(numbers)))
            ends[i + 1] = len(found)
        self.ends, self.words = ends, list(numbers)
        self.numbers = np.array(found, np.int32)
        self.everywhere = np.bincount(self.numbers, minlength=len(numbers)).astype(np.float64)

    def keywords(self, start: int, stop: int, n: int) -> list[str]:
        """The words that are frequent in the texts from ``start`` to ``stop`` and rare elsewhere."""
        own = self.numbers[self.ends[start] : self.ends[stop]]
        if not len(own):
            return []
        numbers, counts = np.unique(own, return_counts=True)
        total = max(len(self.ends) - 1, 1)
        share, all_share = counts / max(stop - start, 1), self.everywhere[numbers] / total
        # How much more often than elsewhere, weighed by how often: a word of one text in fifty says little.
        weights = share * np.log((share + 1e-9) / (all_share + 1e-9) + 1)
        least = 2 if stop - start >= 8 else 1
        weights[counts < least] = 0
        best = np.lexsort((numbers, -weights))[:n]
        return [self.words[numbers[i]] for i in best.tolist() if weights[i] > 0]


class Sample:
    """Some of the points of a scene: their rows and texts."""

    def __init__(self, scene: Scene, source: Source, fields: Fields, metric: str, shortening: Shortening | None = None):
        self.scene, self.metric = scene, metric
        self._source, self._fields = source, fields
        self._shortening = shortening or Shortening()
        self.is_shortened = is_wide(source.rows(scene.seen.keys[:1])) if scene.n else False
        width = N_DIRECTIONS if self.is_shortened else source.n_features() or 1
        self.places: Counts = sampled(scene.n, max(min(MOST_POINTS, MOST_NUMBERS // width), 1))
        self._keys = scene.seen.keys[scene.order[self.places]]

    @cached_property
    def rows(self) -> Vectors32 | None:
        """Their rows as they are compared, wide sparse ones shortened; None if points are no vectors."""
        rows = self._source.rows(self._keys) if self.scene.n else None
        return None if rows is None else self.comparable(rows)

    @cached_property
    def _shorten(self) -> Shortening:
        rows = self._source.rows(self._keys)
        self._shortening.fit(sparse_units(rows) if self.metric == "cosine" else rows, self.scene.n)
        return self._shortening

    @cached_property
    def words(self) -> Words | None:
        """The words of their texts; None if they have none."""
        if not self._fields.has_text or not self.scene.n:
            return None
        texts = [self._fields.text_of(payload) for payload in self._source.payloads(self._keys)]
        return Words(texts) if any(texts) else None

    def comparable(self, rows: Any) -> Vectors32:
        """Rows as they are compared: of length 1 where directions count; shortened if they are wide and sparse."""
        if is_wide(rows):
            return self._shorten(sparse_units(rows) if self.metric == "cosine" else rows)
        rows = dense_rows(rows)
        found: Vectors32 = np.asarray(rows, np.float32)
        if self.metric != "cosine":
            return found
        norms = np.linalg.norm(found, axis=1, keepdims=True)
        return (found / np.where(norms > 0, norms, 1)).astype(np.float32)

    def span(self, v: int) -> tuple[int, int]:
        """Which of the sample are under a node."""
        start = int(self.scene.starts[v])
        begin, end = np.searchsorted(self.places, [start, start + int(self.scene.sizes[v])])
        return int(begin), int(end)

    @cached_property
    def _sums(self) -> Floats:
        assert self.rows is not None
        return np.concatenate([np.zeros((1, self.rows.shape[1])), np.cumsum(self.rows, axis=0, dtype=np.float64)])

    def means(self, nodes: Ids) -> Floats | None:
        """The mean row of each node; of one without a point in the sample, that of the nearest to it."""
        if self.rows is None or not len(self.rows):
            return None
        starts = self.scene.starts[nodes]
        begin = np.searchsorted(self.places, starts)
        end = np.searchsorted(self.places, starts + self.scene.sizes[nodes])
        begin = np.minimum(begin, len(self.places) - 1)
        end = np.maximum(end, begin + 1)
        return (self._sums[end] - self._sums[begin]) / (end - begin)[:, None]

    def keywords(self, v: int, n: int = 5) -> list[str]:
        """The words that stand out under a node."""
        if self.words is None:
            return []
        begin, end = self.span(v)
        is_all = end - begin == int(self.scene.sizes[v])
        return self.words.keywords(begin, end, n) if is_all or end - begin >= FEWEST else []

    def columns(self, v: int, rows: Vectors32, names: list[str], n: int = 6) -> list[dict[str, object]]:
        """The columns in which some rows are furthest from all, in standard deviations."""
        assert self.rows is not None
        mean, deviation = self.rows.mean(axis=0), self.rows.std(axis=0)
        own = rows.mean(axis=0)
        z = np.where(deviation > 0, (own - mean) / np.where(deviation > 0, deviation, 1), 0)
        best = np.argsort(-np.abs(z), kind="stable")[:n]
        return [
            {"name": names[i], "mean": float(own[i]), "all": float(mean[i]), "z": float(z[i])}
            for i in best.tolist()
            if abs(z[i]) > 0.1
        ]
