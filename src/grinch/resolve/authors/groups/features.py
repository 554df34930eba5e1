"""Features of two groups of records, from summaries that merge."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import murmurhash3_32

from grinch.errors import missing_extra
from grinch.resolve.authors.groups import kernels
from grinch.resolve.authors.groups.statistics import FIELDS, Statistics, tokens_of
from grinch.resolve.authors.records.names import Name, compatible, parsed
from grinch.resolve.authors.records.record import Record

Matrix = npt.NDArray[np.float64]

# Dimensions for coauthors in the vectors that neighbours are searched by.
N_DIRECTIONS = 64

MEASURES = ("known", "shared", "overlap", "cosine", "rarest", "rate")
OTHERS = (
    "topic_known",
    "topic_cosine",
    "given_known",
    "given_conflict",
    "given_equal",
    "given_similarity",
    "given_rarest",
    "year_known",
    "year_gap",
    "year_distance",
    "year_span",
    "orcid_equal",
    "orcid_different",
    "smaller",
    "larger",
)
# For each field (coauthors by initial and last name, by full name, words of the title …): whether both groups have it;
# how many tokens they share (log); the share of these in the summed rarity of the group with less of it; the cosine of
# the weighted bags of tokens; the rarity of the rarest shared token; the mean rarity shared by a pair of records. Then
# topics, given names, years, ORCIDs and sizes (log).
FEATURES: tuple[str, ...] = (*(f"{field}_{measure}" for field in FIELDS for measure in MEASURES), *OTHERS)
# Larger values of these never speak against a merge (1), or never for it (-1).
DIRECTIONS: dict[str, int] = {
    **{f"{field}_{measure}": 1 for field in FIELDS for measure in ("overlap", "cosine", "rarest", "rate")},
    **dict.fromkeys(("topic_cosine", "given_equal", "orcid_equal"), 1),
    **dict.fromkeys(("given_conflict", "orcid_different", "year_gap"), -1),
}


class Summary(NamedTuple):
    """What is kept of a group: its tokens, the count of each, and numbers laid out as in :mod:`.kernels`."""

    tokens: npt.NDArray[np.int32]
    counts: npt.NDArray[np.float32]
    numbers: npt.NDArray[np.float64]


class RecordFeatures:
    """Summaries of groups of records, and the features of two of them.

    Tokens are numbered as they arrive, so summaries of one object cannot be compared with those of another.

    Parameters
    ----------
    statistics : Statistics
        How rare tokens are; see :meth:`Statistics.of`.

    Examples
    --------
    >>> papers = [
    ...     Record("1", "Wei Wang", title="Deep trees", coauthors=("Li Chen",), year=2019),
    ...     Record("2", "W Wang", title="Trees", coauthors=("Li Chen", "Bo Li"), year=2021),
    ...     Record("3", "Wen Wang", title="Soup"),
    ... ]
    >>> groups = RecordFeatures(Statistics.of(papers))
    >>> first, second, third = map(groups.leaf, papers)
    >>> found = dict(zip(FEATURES, groups.features(first, [second])[0].tolist()))
    >>> found["coauthor_overlap"], found["year_gap"], found["given_conflict"]
    (1.0, 2.0, 0.0)
    >>> groups.features(groups.merge(first, second), [third])[0, FEATURES.index("given_conflict")].item()
    0.5
    """

    names = FEATURES

    def __init__(self, statistics: Statistics):
        self.statistics = statistics
        self._number: dict[tuple[int, Any], int] = {}
        self._field_of = np.zeros(64, np.int32)
        self._rarity_of = np.zeros(64)
        # By given name: its place, and how it relates to the others.
        self._place_of = np.zeros(64, np.int32)
        self._given: list[Name] = []
        self._relation = np.zeros((8, 8, 4))
        self._scratch = np.zeros(64, np.float32)
        self._one_end = np.zeros(1, np.int64)

    def leaf(self, record: Record) -> Summary:
        name, found = parsed(record.name), tokens_of(record)
        tokens = {self._token(i, token, field) for i, field in enumerate(FIELDS) for token in found[field]}
        tokens.add(self._token(kernels.GIVEN, name, None))
        if record.orcid:
            tokens.add(self._token(kernels.ORCID, record.orcid, None))
        year = np.nan if record.year is None else float(record.year)
        numbers = np.concatenate([np.zeros(kernels.TOPIC), self.statistics.topic(record)])
        is_dated = record.year is not None
        numbers[: kernels.TOTALS] = [
            1.0,
            float(is_dated),
            year if is_dated else 0.0,
            year if is_dated else np.inf,
            year if is_dated else -np.inf,
            float(bool(record.orcid)),
        ]
        sorted_tokens = np.array(sorted(tokens), np.int32)
        counts = np.ones(len(tokens), np.float32)
        kernels.weigh(sorted_tokens, counts, self._field_of, self._rarity_of, numbers)
        return Summary(sorted_tokens, counts, numbers)

    def merge(self, a: Summary, b: Summary) -> Summary:
        return Summary(*kernels.merged(*a, *b, self._field_of, self._rarity_of))

    def features(self, a: Summary, others: Sequence[Summary]) -> Matrix:
        """One row for each of the others, in the order of :data:`FEATURES`."""
        rows = np.empty((len(others), kernels.N_FEATURES))
        if len(others) == 1:
            (b,) = others
            self._one_end[0] = len(b.tokens)
            self._fill(a, b.tokens, b.counts, self._one_end, b.numbers.reshape(1, -1), rows)
        elif len(others):
            ends = np.cumsum([len(b.tokens) for b in others])
            tokens = np.concatenate([b.tokens for b in others])
            counts = np.concatenate([b.counts for b in others])
            numbers = np.concatenate([b.numbers for b in others]).reshape(len(others), -1)
            self._fill(a, tokens, counts, ends, numbers, rows)
        return rows

    def vectors(self, records: Sequence[Record]) -> npt.NDArray[np.float32]:
        """A vector for each record, to search neighbours by: its coauthors as random directions, and its topics."""
        rows = np.zeros((len(records), N_DIRECTIONS), np.float32)
        for row, record in zip(rows, records, strict=True):
            for key in tokens_of(record)["coauthor"]:
                row += self.statistics.rarity("coauthor", key) * _direction(key)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        rows /= np.where(lengths > 0, lengths, 1.0)[:, None]
        topics = [self.statistics.topic(record) for record in records]
        return np.hstack([rows, np.array(topics, np.float32).reshape(len(records), -1)])

    def _fill(self, a: Summary, tokens: Any, counts: Any, ends: Any, numbers: Any, rows: Matrix) -> None:
        kernels.features_of_one(
            a.tokens,
            a.counts,
            a.numbers,
            tokens,
            counts,
            ends,
            numbers,
            self._scratch,
            self._field_of,
            self._rarity_of,
            self._relation,
            self._place_of,
            rows,
        )

    def _token(self, field: int, value: Any, name: str | None) -> int:
        number = self._number.get((field, value))
        if number is None:
            number = self._number[field, value] = len(self._number)
            if number == len(self._field_of):
                self._field_of, self._rarity_of, self._place_of, self._scratch = (
                    np.concatenate([each, np.zeros_like(each)])
                    for each in (self._field_of, self._rarity_of, self._place_of, self._scratch)
                )
            self._field_of[number] = field
            if name is not None:
                self._rarity_of[number] = self.statistics.rarity(name, value)
            elif field == kernels.GIVEN:
                self._rarity_of[number] = self.statistics.rarity("given", " ".join(value.first))
                self._place_of[number] = self._add_given(value)
        return number

    def _add_given(self, name: Name) -> int:
        """Compare a new name with all known ones."""
        jaro_winkler = _jaro_winkler()
        place, n = len(self._given), len(self._relation)
        self._given.append(name)
        if place == n:
            grown = np.zeros((2 * n, 2 * n, 4))
            grown[:n, :n] = self._relation
            self._relation = grown
        given = " ".join(name.first)
        for other, known in enumerate(self._given):
            both_full = _is_full(name) and _is_full(known)
            alike = jaro_winkler(given, " ".join(known.first)) if both_full else 0.0
            same = both_full and name.first == known.first
            related = (float(not compatible(name, known)), float(both_full), float(same), alike)
            self._relation[place, other] = self._relation[other, place] = related
        return place


@lru_cache(maxsize=100_000)
def _direction(key: str) -> npt.NDArray[np.float32]:
    signs = np.random.default_rng(murmurhash3_32(key, positive=True)).integers(2, size=N_DIRECTIONS)
    return ((2 * signs - 1) / np.sqrt(N_DIRECTIONS)).astype(np.float32)


def _is_full(name: Name) -> bool:
    return any(len(part) > 1 for part in name.first)


def _jaro_winkler() -> Any:
    try:
        from rapidfuzz.distance import JaroWinkler
    except ImportError as error:
        raise missing_extra("comparing names", "rapidfuzz", "coref") from error
    return JaroWinkler.similarity
