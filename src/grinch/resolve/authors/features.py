"""What is common and what is rare in bibliographic records, and the topics of their words.

Both are counted without the authors, so unlabelled records serve as well as labelled ones. Words are kept by their hash
alone: the statistics have a fixed size, and names cannot be read from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.utils import murmurhash3_32

from grinch.errors import missing_extra
from grinch.resolve.authors import kernels
from grinch.resolve.authors.kernels import FIELDS, Other, Summary, Vocabulary
from grinch.resolve.authors.names import Name, compatible, folded, parsed
from grinch.resolve.authors.record import Record, block_key

N_SLOTS = 1 << 18
N_TOPIC_SLOTS = 1 << 14
N_TOPICS = 32
COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at based be by can for from has have in into is it its of on or our over that the their this"
        " to towards under using via we which with",
    )
)

Floats = npt.NDArray[np.float32]


def words(text: str) -> list[str]:
    """Return the words of a text that carry meaning, folded and in the singular.

    >>> words("The Trees of the Forest: a Survey")
    ['tree', 'forest', 'survey']
    """
    found = re.findall(r"[a-z0-9]+", folded(text))
    return [w[:-1] if len(w) > 3 and w[-1] == "s" and w[-2] != "s" else w for w in found if w not in COMMON]


# The tokens of a record are needed three times in a row: for its summary, its vector and its keys.
@lru_cache(maxsize=4096)
def tokens_of(record: Record) -> Mapping[str, list[str]]:
    """Return the tokens of each field of a record, without repeats."""
    own = block_key(record.name)
    keys = [key for key in map(block_key, record.coauthors) if key]
    # The author's own name among the coauthors says nothing; if it is there twice, one of them is somebody else.
    if own in keys and len(set(keys)) == len(keys) and record.name in record.coauthors:
        keys.remove(own)
    full = [" ".join((*name.first, name.last)) for name in map(parsed, record.coauthors) if _is_full(name.first)]
    return {
        "coauthor": _distinct(keys),
        "coauthor_name": _distinct(full),
        "title": _distinct(words(record.title)),
        "venue": _distinct(words(record.venue)),
        "affiliation": _distinct(words(record.affiliation)),
        "keyword": _distinct(" ".join(words(keyword)) for keyword in record.keywords),
    }


def topic_words(record: Record) -> list[str]:
    """Return all words that say what a record is about."""
    return words(" ".join((record.title, record.venue, record.abstract, *record.keywords)))


def _is_full(first: Sequence[str]) -> bool:
    return any(len(part) > 1 for part in first)


def _distinct(tokens: Iterable[str]) -> list[str]:
    return [token for token in dict.fromkeys(tokens) if token]


def _slot(text: str, n_slots: int) -> int:
    return int(murmurhash3_32(text, positive=True)) % n_slots


@dataclass(frozen=True)
class Statistics:
    """How many records have each token, by its hash, and where each word points among the topics.

    Examples
    --------
    >>> records = [Record(str(i), "A Lee", title=t) for i, t in enumerate(["deep trees", "deep nets", "deep soup"])]
    >>> known = Statistics.of(records)
    >>> known.rarity("title", "deep") < known.rarity("title", "soup") < known.rarity("title", "never seen")
    True
    """

    n_records: int
    counts: npt.NDArray[np.int32]
    topics: Floats

    @classmethod
    def of(cls, records: Sequence[Record], n_topics: int = N_TOPICS, random_state: int = 0) -> Statistics:
        """Count records; their authors are not used."""
        counts = np.zeros(N_SLOTS, np.int32)
        for record in records:
            for field, tokens in (*tokens_of(record).items(), ("given", [" ".join(parsed(record.name).first)])):
                for token in tokens:
                    counts[_slot(f"{field}:{token}", N_SLOTS)] += 1
        return cls(len(records), counts, _topics(records, n_topics, random_state))

    def rarity(self, field: str, token: str) -> float:
        """Return the rarity of a token, from 0 if all records have it to 1 if none has."""
        n = int(self.counts[_slot(f"{field}:{token}", N_SLOTS)])
        return float(1 - np.log1p(n) / np.log1p(max(self.n_records, 1))) if n < self.n_records else 0.0

    def topic(self, record: Record) -> Floats:
        """Return the topics of a record: a vector of length 1, or zeros if nothing is known."""
        slots = [_slot(word, N_TOPIC_SLOTS) for word in dict.fromkeys(topic_words(record))]
        vector = self.topics[slots].sum(axis=0) if slots else np.zeros(self.topics.shape[1], np.float32)
        length = np.sqrt(vector @ vector)
        return np.asarray(vector / length if length > 0 else vector, np.float32)


def _topics(records: Sequence[Record], n_topics: int, random_state: int) -> Floats:
    """Return topics by latent semantic analysis: by slot, the rarity of its word times its weight in each topic."""
    from sklearn.decomposition import TruncatedSVD

    rows, slots = [], []
    for i, record in enumerate(records):
        for word in dict.fromkeys(topic_words(record)):
            rows.append(i)
            slots.append(_slot(word, N_TOPIC_SLOTS))
    shape = (max(len(records), 1), N_TOPIC_SLOTS)
    matrix: Any = scipy.sparse.csr_array((np.ones(len(rows), np.float32), (rows, slots)), shape=shape)
    matrix.data[:] = 1.0
    frequency = np.bincount(matrix.indices, minlength=N_TOPIC_SLOTS)
    rarity = np.log((1 + shape[0]) / (1 + frequency)).astype(np.float32)
    matrix = matrix @ scipy.sparse.diags_array(rarity, dtype=np.float32)
    lengths = np.sqrt(np.maximum(matrix.power(2).sum(axis=1), 1e-12))
    matrix = scipy.sparse.diags_array(1 / lengths, dtype=np.float32) @ matrix
    n_topics_found = min(n_topics, min(shape) - 1)
    topics = np.zeros((N_TOPIC_SLOTS, n_topics), np.float32)
    if n_topics_found > 0 and matrix.nnz:
        found = TruncatedSVD(n_topics_found, random_state=random_state).fit(matrix).components_
        topics[:, :n_topics_found] = (found * rarity).T
    return topics


Matrix = npt.NDArray[np.float64]

# Dimensions for coauthors in the vectors that neighbours are searched by.
N_DIRECTIONS = 64

MEASURES = ("known", "shared", "overlap", "cosine", "rarest", "rate")
# For each field (coauthors by initial and last name, by full name, words of the title …): whether both groups have it;
# how many tokens they share (log); the share of these in the summed rarity of the group with less of it; the cosine of
# the weighted bags of tokens; the rarity of the rarest shared token; the mean rarity shared by a pair of records.
FEATURES: tuple[str, ...] = (
    *(f"{field}_{measure}" for field in FIELDS for measure in MEASURES),
    *(other.name.lower() for other in Other),
)
# Larger values of these never speak against a merge (1), or never for it (-1).
DIRECTIONS: dict[str, int] = {
    **{f"{field}_{measure}": 1 for field in FIELDS for measure in ("overlap", "cosine", "rarest", "rate")},
    **dict.fromkeys(("topic_cosine", "given_equal", "orcid_equal"), 1),
    **dict.fromkeys(("given_conflict", "orcid_different", "year_gap"), -1),
}


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
        self._known: Vocabulary = (
            np.zeros(64, np.int32),
            np.zeros(64),
            np.zeros(64, np.int32),
            np.zeros(64, np.float32),
        )
        self._given: list[Name] = []
        self._one_end = np.zeros(1, np.int64)
        # By place of a given name, how it relates to the others.
        self._relation = np.zeros((8, 8, 4))

    def leaf(self, record: Record) -> Summary:
        name, found = parsed(record.name), tokens_of(record)
        tokens = {self._token(i, token, field) for i, field in enumerate(FIELDS) for token in found[field]}
        tokens.add(self._token(kernels.GIVEN, name, None))
        if record.orcid:
            tokens.add(self._token(kernels.ORCID, record.orcid, None))
        is_dated = record.year is not None
        year = float(record.year or 0)
        years = (year, year, year) if is_dated else (0.0, np.inf, -np.inf)
        totals = [1.0, float(is_dated), *years, float(bool(record.orcid)), *[0.0] * (kernels.TOPIC - kernels.TOTALS)]
        numbers = np.concatenate([totals, self.statistics.topic(record)])
        made = np.array(sorted(tokens), np.int32), np.ones(len(tokens), np.float32), numbers
        kernels.weigh(made, self._known)
        return made

    def merge(self, a: Summary, b: Summary) -> Summary:
        return kernels.merged(a, b, self._known)

    def features(self, a: Summary, others: Sequence[Summary]) -> Matrix:
        """Return one row for each of the others, in the order of :data:`FEATURES`."""
        rows = np.empty((len(others), kernels.N_FEATURES))
        if len(others) == 1:  # most are: nothing to put end to end
            ((tokens, counts, numbers),) = others
            self._one_end[0] = len(tokens)
            many = tokens, counts, self._one_end, numbers.reshape(1, -1)
            kernels.features_of_one(a, many, self._known, self._relation, rows)
        elif len(others):
            ends = np.cumsum([len(tokens) for tokens, _, _ in others])
            tokens, counts, numbers = (np.concatenate(parts) for parts in zip(*others, strict=True))
            many = tokens, counts, ends, numbers.reshape(len(others), -1)
            kernels.features_of_one(a, many, self._known, self._relation, rows)
        return rows

    def vectors(self, records: Sequence[Record]) -> npt.NDArray[np.float32]:
        """Return a vector for each record, to search neighbours by: its coauthors as random directions, and topics."""
        rows = np.zeros((len(records), N_DIRECTIONS), np.float32)
        for row, record in zip(rows, records, strict=True):
            for key in tokens_of(record)["coauthor"]:
                row += self.statistics.rarity("coauthor", key) * _direction(key)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        rows /= np.where(lengths > 0, lengths, 1.0)[:, None]
        topics = [self.statistics.topic(record) for record in records]
        return np.hstack([rows, np.array(topics, np.float32).reshape(len(records), -1)])

    def _token(self, field: int, value: Any, name: str | None) -> int:
        number = self._number.get((field, value))
        if number is None:
            number = self._number[field, value] = len(self._number)
            if number == len(self._known[0]):
                a, b, c, d = (np.concatenate([each, np.zeros_like(each)]) for each in self._known)
                self._known = a, b, c, d
            field_of, rarity_of, place_of, _ = self._known
            field_of[number] = field
            if name is not None:
                rarity_of[number] = self.statistics.rarity(name, value)
            elif field == kernels.GIVEN:
                rarity_of[number] = self.statistics.rarity("given", " ".join(value.first))
                place_of[number] = self._add_given(value)
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
            both_full = _is_full(name.first) and _is_full(known.first)
            alike = jaro_winkler(given, " ".join(known.first)) if both_full else 0.0
            same = both_full and name.first == known.first
            related = (float(not compatible(name, known)), float(both_full), float(same), alike)
            self._relation[place, other] = self._relation[other, place] = related
        return place


@lru_cache(maxsize=100_000)
def _direction(key: str) -> npt.NDArray[np.float32]:
    signs = np.random.default_rng(murmurhash3_32(key, positive=True)).integers(2, size=N_DIRECTIONS)
    return ((2 * signs - 1) / np.sqrt(N_DIRECTIONS)).astype(np.float32)


def _jaro_winkler() -> Any:
    try:
        from rapidfuzz.distance import JaroWinkler
    except ImportError as error:
        raise missing_extra("comparing names", "rapidfuzz", "coref") from error
    return JaroWinkler.similarity
