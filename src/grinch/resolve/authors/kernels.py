"""The features of groups of records, compiled: one group against many at a time.

A group is a sorted array of token numbers with the count of each, and a row of numbers laid out by the constants below.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, auto
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count
from grinch._compile import compiled

# The bags of tokens that describe a record.
FIELDS = ("coauthor", "coauthor_name", "title", "venue", "affiliation", "keyword")
Tokens = npt.NDArray[np.int32]
Counts = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]
Ends = npt.NDArray[np.int64]

N_FIELDS = len(FIELDS)
# Two fields that are not bags of words: given names, which are compared, and ORCIDs, which are equal or not.
GIVEN, ORCID = N_FIELDS, N_FIELDS + 1

# The numbers of a group: its records, its known years and ORCIDs, then by field the summed rarity of its tokens and the
# squared length of their weighted counts, then the topic vector.
SIZE, YEARS, YEAR_SUM, YEAR_MIN, YEAR_MAX, ORCIDS = range(6)
TOTALS = 6
SQUARES = TOTALS + N_FIELDS
TOPIC = SQUARES + N_FIELDS

# Features of each field.
KNOWN, SHARED, OVERLAP, COSINE, RAREST, RATE = range(6)
N_MEASURES = 6


class Other(IntEnum):
    """The features after those of the fields: topics, given names, years, ORCIDs, and sizes (log)."""

    TOPIC_KNOWN = N_FIELDS * N_MEASURES
    TOPIC_COSINE = auto()
    GIVEN_KNOWN = auto()
    GIVEN_CONFLICT = auto()
    GIVEN_EQUAL = auto()
    GIVEN_SIMILARITY = auto()
    GIVEN_RAREST = auto()
    YEAR_KNOWN = auto()
    YEAR_GAP = auto()
    YEAR_DISTANCE = auto()
    YEAR_SPAN = auto()
    ORCID_EQUAL = auto()
    ORCID_DIFFERENT = auto()
    SMALLER = auto()
    LARGER = auto()


N_FEATURES = N_FIELDS * N_MEASURES + len(Other)

# How two given names relate.
CONFLICTING, BOTH_FULL, SAME, ALIKE = range(4)


# What is kept of a group: its tokens, the count of each, and numbers laid out by the constants above. Plain tuples are
# what numba takes from Python at once.
Summary = tuple[Tokens, Counts, Numbers]
# Several groups: tokens and counts end to end, where those of each group end, and a row of numbers for each.
Many = tuple[Tokens, Counts, Ends, Numbers]
# By token: its field, its rarity, the place of a given name in a table of how names relate, and zeros to count in.
Vocabulary = tuple[Tokens, Numbers, Tokens, Counts]


@compiled
def weigh(a: Summary, known: Vocabulary) -> None:
    """Fill in the totals and the squared lengths of all fields of a group."""
    (tokens, counts, numbers), (field_of, rarity_of, _, _) = a, known
    numbers[TOTALS:TOPIC] = 0.0
    for k in range(len(tokens)):
        field = field_of[tokens[k]]
        if field < N_FIELDS:
            weight = rarity_of[tokens[k]]
            numbers[TOTALS + field] += weight
            numbers[SQUARES + field] += (weight * counts[k]) ** 2


@compiled
def merged(a: Summary, b: Summary, known: Vocabulary) -> Summary:
    """Return the union of two groups. Numbers are added, then corrected for the tokens that both groups have."""
    (tokens, counts, numbers), (more_tokens, more_counts, more_numbers) = a, b
    field_of, rarity_of, _, _ = known
    n, m = len(tokens), len(more_tokens)
    union, total = np.empty(n + m, np.int32), np.empty(n + m, np.float32)
    both = numbers + more_numbers
    both[YEAR_MIN] = min(numbers[YEAR_MIN], more_numbers[YEAR_MIN])
    both[YEAR_MAX] = max(numbers[YEAR_MAX], more_numbers[YEAR_MAX])
    i = j = k = 0
    while i < n or j < m:
        if j == m or (i < n and tokens[i] < more_tokens[j]):
            union[k], total[k] = tokens[i], counts[i]
            i += 1
        elif i == n or more_tokens[j] < tokens[i]:
            union[k], total[k] = more_tokens[j], more_counts[j]
            j += 1
        else:
            union[k], total[k] = tokens[i], counts[i] + more_counts[j]
            field = field_of[tokens[i]]
            if field < N_FIELDS:
                weight = rarity_of[tokens[i]]
                both[TOTALS + field] -= weight
                both[SQUARES + field] += 2.0 * weight * weight * counts[i] * more_counts[j]
            i += 1
            j += 1
        k += 1
    return union[:k], total[:k], both


@compiled
def fill(row: Numbers, a: Summary, b: Summary, known: Vocabulary, relation: Numbers) -> None:
    """Compute a row of features; ``count_in_a`` has the counts of a's tokens, by token."""
    (a_tokens, _, a_numbers), (b_tokens, b_counts, b_numbers) = a, b
    field_of, rarity_of, place_of, count_in_a = known
    row[:] = 0.0
    pairs = a_numbers[SIZE] * b_numbers[SIZE]
    for k in range(len(b_tokens)):
        token = b_tokens[k]
        field = field_of[token]
        if field == GIVEN:
            for i in range(len(a_tokens)):
                if field_of[a_tokens[i]] == GIVEN:
                    share = count_in_a[a_tokens[i]] * b_counts[k] / pairs
                    related = relation[place_of[a_tokens[i]], place_of[token]]
                    row[Other.GIVEN_CONFLICT] += share * related[CONFLICTING]
                    row[Other.GIVEN_KNOWN] += share * related[BOTH_FULL]
                    row[Other.GIVEN_SIMILARITY] += share * related[ALIKE]
                    row[Other.GIVEN_EQUAL] += share * related[SAME]
                    if related[SAME] > 0:
                        row[Other.GIVEN_RAREST] = max(row[Other.GIVEN_RAREST], rarity_of[token])
        elif count_in_a[token] > 0:
            if field == ORCID:
                row[Other.ORCID_EQUAL] = 1.0
                continue
            at, weight = field * N_MEASURES, rarity_of[token]
            row[at + SHARED] += 1.0
            row[at + OVERLAP] += weight
            row[at + RAREST] = max(row[at + RAREST], weight)
            row[at + RATE] += weight * count_in_a[token] * b_counts[k]
            row[at + COSINE] += weight * weight * count_in_a[token] * b_counts[k]
    for field in range(N_FIELDS):
        at = field * N_MEASURES
        least = min(a_numbers[TOTALS + field], b_numbers[TOTALS + field])
        if least > 0:
            row[at + KNOWN] = 1.0
            row[at + SHARED] = np.log1p(row[at + SHARED])
            row[at + OVERLAP] /= least
            row[at + RATE] /= pairs
            row[at + COSINE] /= np.sqrt(a_numbers[SQUARES + field] * b_numbers[SQUARES + field])
    if a_numbers[ORCIDS] > 0 and b_numbers[ORCIDS] > 0:
        row[Other.ORCID_DIFFERENT] = 1.0 - row[Other.ORCID_EQUAL]
    if row[Other.GIVEN_KNOWN] > 0:
        row[Other.GIVEN_EQUAL] /= row[Other.GIVEN_KNOWN]
        row[Other.GIVEN_SIMILARITY] /= row[Other.GIVEN_KNOWN]
    if a_numbers[YEARS] > 0 and b_numbers[YEARS] > 0:
        gaps = a_numbers[YEAR_MIN] - b_numbers[YEAR_MAX], b_numbers[YEAR_MIN] - a_numbers[YEAR_MAX]
        last, first = max(a_numbers[YEAR_MAX], b_numbers[YEAR_MAX]), min(a_numbers[YEAR_MIN], b_numbers[YEAR_MIN])
        row[Other.YEAR_KNOWN] = 1.0
        row[Other.YEAR_GAP] = max(0.0, gaps[0], gaps[1])
        row[Other.YEAR_DISTANCE] = abs(a_numbers[YEAR_SUM] / a_numbers[YEARS] - b_numbers[YEAR_SUM] / b_numbers[YEARS])
        row[Other.YEAR_SPAN] = last - first
    dot = a_square = b_square = 0.0
    for i in range(TOPIC, len(a_numbers)):
        dot += a_numbers[i] * b_numbers[i]
        a_square += a_numbers[i] * a_numbers[i]
        b_square += b_numbers[i] * b_numbers[i]
    if a_square > 0 and b_square > 0:
        row[Other.TOPIC_KNOWN] = 1.0
        row[Other.TOPIC_COSINE] = dot / np.sqrt(a_square * b_square)
    row[Other.SMALLER] = np.log(min(a_numbers[SIZE], b_numbers[SIZE]))
    row[Other.LARGER] = np.log(max(a_numbers[SIZE], b_numbers[SIZE]))


@compiled
def features_of_one(a: Summary, many: Many, known: Vocabulary, relation: Numbers, rows: Numbers) -> None:
    """Compute the features of one group with many; leave what counts in it zero."""
    (a_tokens, a_counts, _), (tokens, counts, ends, numbers), count_in_a = a, many, known[3]
    for i in range(len(a_tokens)):
        count_in_a[a_tokens[i]] = a_counts[i]
    start = 0
    for i in range(len(ends)):
        stop = ends[i]
        fill(rows[i], a, (tokens[start:stop], counts[start:stop], numbers[i]), known, relation)
        start = stop
    for i in range(len(a_tokens)):
        count_in_a[a_tokens[i]] = 0.0


Matrix = npt.NDArray[np.float64]

AGGREGATES = ("mean", "min", "max")


class PairGroup(NamedTuple):
    """The records of a group, and by record of the block the sum, least and greatest of its features with them."""

    members: npt.NDArray[np.int32]
    sums: npt.NDArray[np.float32]
    least: npt.NDArray[np.float32]
    greatest: npt.NDArray[np.float32]


class PairFeatures:
    """Features of two groups from precomputed features of pairs: mean, min and max over the cross pairs, and sizes.

    A record is its position in the block. A group keeps a row for each record of the block, and rows merge; so the
    features of two groups take as many steps as the second one has members, whatever the size of the first.

    Parameters
    ----------
    features : array of shape (n_records, n_records, n_features)
        The features of every pair, symmetric; the diagonal is not used.
    names : sequence of str, optional
        Names of the features (default: "pair_0", "pair_1", …).

    Examples
    --------
    >>> near = np.array([[0, 3, 1], [3, 0, 2], [1, 2, 0]], float)[:, :, None]
    >>> groups = PairFeatures(near, ["near"])
    >>> first, second, third = map(groups.leaf, range(3))
    >>> groups.names
    ('near_mean', 'near_min', 'near_max', 'smaller', 'larger')
    >>> groups.features(groups.merge(first, second), [third])[0, :3].tolist()
    [1.5, 1.0, 2.0]
    """

    def __init__(self, features: npt.ArrayLike, names: Sequence[str] | None = None):
        self.pairs = np.ascontiguousarray(features, np.float32)
        shape = self.pairs.shape
        if len(shape) != 3 or shape[0] != shape[1]:
            raise ValueError(f"features must have shape (n_records, n_records, n_features); got {shape}")
        if not np.isfinite(self.pairs).all():
            raise ValueError("features must be finite; got NaN or infinity. Replace missing values by a neutral one")
        if not np.array_equal(self.pairs, self.pairs.transpose(1, 0, 2)):
            raise ValueError("features must be symmetric: features[i, j] == features[j, i]; they are not")
        names = [f"pair_{i}" for i in range(shape[2])] if names is None else names
        if len(names) != shape[2]:
            raise ValueError(f"names must have one name for each of the {shape[2]} features; got {len(names)}")
        self.names: tuple[str, ...] = (
            *(f"{name}_{each}" for name in names for each in AGGREGATES),
            "smaller",
            "larger",
        )

    @classmethod
    def of_list(cls, pairs: npt.ArrayLike, features: npt.ArrayLike, n_records: int) -> PairFeatures:
        """Make them of a list of pairs, each once, and the features of each."""
        n_records = check_count("n_records", n_records, 1)
        i, j = np.asarray(pairs, np.int64).T
        values = np.asarray(features, np.float32)
        whole = np.zeros((n_records, n_records, values.shape[1]), np.float32)
        whole[i, j] = whole[j, i] = values
        return cls(whole)

    def leaf(self, record: Any) -> PairGroup:
        if not isinstance(record, (int, np.integer)) or not 0 <= record < len(self.pairs):
            raise ValueError(f"a record must be a position in the block, 0 to {len(self.pairs) - 1}; got {record!r}")
        rows = self.pairs[record]
        return PairGroup(np.array([record], np.int32), rows, rows, rows)

    def merge(self, a: PairGroup, b: PairGroup) -> PairGroup:
        return PairGroup(
            np.concatenate([a.members, b.members]),
            a.sums + b.sums,
            np.minimum(a.least, b.least),
            np.maximum(a.greatest, b.greatest),
        )

    def features(self, a: PairGroup, others: Sequence[PairGroup]) -> Matrix:
        """Return one row for each of the others, in the order of ``names``."""
        rows = np.empty((len(others), len(self.names)))
        if len(others):
            ends = np.cumsum([len(b.members) for b in others])
            members = np.concatenate([b.members for b in others])
            _aggregate(len(a.members), a.sums, a.least, a.greatest, members, ends, rows)
        return rows


@compiled
def _aggregate(
    size: int,
    sums: npt.NDArray[np.float32],
    least: npt.NDArray[np.float32],
    greatest: npt.NDArray[np.float32],
    members: npt.NDArray[np.int32],
    ends: npt.NDArray[np.int64],
    rows: Matrix,
) -> None:
    n_features = sums.shape[1]
    start = 0
    for i in range(len(ends)):
        n = ends[i] - start
        for f in range(n_features):
            total, low, high = 0.0, np.inf, -np.inf
            for k in range(start, ends[i]):
                total += sums[members[k], f]
                low = min(low, least[members[k], f])
                high = max(high, greatest[members[k], f])
            rows[i, 3 * f] = total / (size * n)
            rows[i, 3 * f + 1] = low
            rows[i, 3 * f + 2] = high
        rows[i, 3 * n_features] = np.log(min(size, n))
        rows[i, 3 * n_features + 1] = np.log(max(size, n))
        start = ends[i]
