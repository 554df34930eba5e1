"""The features of groups of records, compiled: one group against many at a time.

A group is a sorted array of token numbers with the count of each, and a row of numbers laid out by the constants below.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._compile import compiled
from grinch.resolve.authors.groups.statistics import FIELDS

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
# Features after those of the fields.
OTHERS = N_FIELDS * N_MEASURES
(
    TOPIC_KNOWN,
    TOPIC_COSINE,
    GIVEN_KNOWN,
    GIVEN_CONFLICT,
    GIVEN_EQUAL,
    GIVEN_SIMILARITY,
    GIVEN_RAREST,
    YEAR_KNOWN,
    YEAR_GAP,
    YEAR_DISTANCE,
    YEAR_SPAN,
    ORCID_EQUAL,
    ORCID_DIFFERENT,
    SMALLER,
    LARGER,
) = range(OTHERS, OTHERS + 15)
N_FEATURES = OTHERS + 15

# How two given names relate.
CONFLICTING, BOTH_FULL, SAME, ALIKE = range(4)


@compiled
def weigh(tokens: Tokens, counts: Counts, field_of: Tokens, rarity_of: Numbers, numbers: Numbers) -> None:
    """Fill in the totals and the squared lengths of all fields of a group."""
    numbers[TOTALS:TOPIC] = 0.0
    for k in range(len(tokens)):
        field = field_of[tokens[k]]
        if field < N_FIELDS:
            weight = rarity_of[tokens[k]]
            numbers[TOTALS + field] += weight
            numbers[SQUARES + field] += (weight * counts[k]) ** 2


@compiled
def merged(
    tokens: Tokens,
    counts: Counts,
    numbers: Numbers,
    more_tokens: Tokens,
    more_counts: Counts,
    more_numbers: Numbers,
    field_of: Tokens,
    rarity_of: Numbers,
) -> tuple[Tokens, Counts, Numbers]:
    """The union of two groups. Numbers are added, then corrected for the tokens that both groups have."""
    n, m = len(tokens), len(more_tokens)
    union, total = np.empty(n + m, np.int32), np.empty(n + m, np.float32)
    both = numbers + more_numbers
    both[YEAR_MIN] = min(numbers[YEAR_MIN], more_numbers[YEAR_MIN])
    both[YEAR_MAX] = max(numbers[YEAR_MAX], more_numbers[YEAR_MAX])
    i = j = k = 0
    while i < n and j < m:
        if tokens[i] < more_tokens[j]:
            union[k], total[k] = tokens[i], counts[i]
            i += 1
        elif more_tokens[j] < tokens[i]:
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
    while i < n:
        union[k], total[k] = tokens[i], counts[i]
        i += 1
        k += 1
    while j < m:
        union[k], total[k] = more_tokens[j], more_counts[j]
        j += 1
        k += 1
    return union[:k], total[:k], both


@compiled
def fill(
    row: Numbers,
    a_tokens: Tokens,
    a_numbers: Numbers,
    b_tokens: Tokens,
    b_counts: Counts,
    b_numbers: Numbers,
    count_in_a: Counts,
    field_of: Tokens,
    rarity_of: Numbers,
    relation: Numbers,
    place_of: Tokens,
) -> None:
    """One row of features; ``count_in_a`` has the counts of a's tokens, by token."""
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
                    row[GIVEN_CONFLICT] += share * related[CONFLICTING]
                    row[GIVEN_KNOWN] += share * related[BOTH_FULL]
                    row[GIVEN_SIMILARITY] += share * related[ALIKE]
                    row[GIVEN_EQUAL] += share * related[SAME]
                    if related[SAME] > 0:
                        row[GIVEN_RAREST] = max(row[GIVEN_RAREST], rarity_of[token])
        elif count_in_a[token] > 0:
            if field == ORCID:
                row[ORCID_EQUAL] = 1.0
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
        row[ORCID_DIFFERENT] = 1.0 - row[ORCID_EQUAL]
    if row[GIVEN_KNOWN] > 0:
        row[GIVEN_EQUAL] /= row[GIVEN_KNOWN]
        row[GIVEN_SIMILARITY] /= row[GIVEN_KNOWN]
    if a_numbers[YEARS] > 0 and b_numbers[YEARS] > 0:
        row[YEAR_KNOWN] = 1.0
        row[YEAR_GAP] = max(0.0, a_numbers[YEAR_MIN] - b_numbers[YEAR_MAX], b_numbers[YEAR_MIN] - a_numbers[YEAR_MAX])
        row[YEAR_DISTANCE] = abs(a_numbers[YEAR_SUM] / a_numbers[YEARS] - b_numbers[YEAR_SUM] / b_numbers[YEARS])
        row[YEAR_SPAN] = max(a_numbers[YEAR_MAX], b_numbers[YEAR_MAX]) - min(a_numbers[YEAR_MIN], b_numbers[YEAR_MIN])
    dot = a_square = b_square = 0.0
    for i in range(TOPIC, len(a_numbers)):
        dot += a_numbers[i] * b_numbers[i]
        a_square += a_numbers[i] * a_numbers[i]
        b_square += b_numbers[i] * b_numbers[i]
    if a_square > 0 and b_square > 0:
        row[TOPIC_KNOWN] = 1.0
        row[TOPIC_COSINE] = dot / np.sqrt(a_square * b_square)
    row[SMALLER] = np.log(min(a_numbers[SIZE], b_numbers[SIZE]))
    row[LARGER] = np.log(max(a_numbers[SIZE], b_numbers[SIZE]))


@compiled
def features_of_one(
    a_tokens: Tokens,
    a_counts: Counts,
    a_numbers: Numbers,
    tokens: Tokens,
    counts: Counts,
    ends: Ends,
    numbers: Numbers,
    count_in_a: Counts,
    field_of: Tokens,
    rarity_of: Numbers,
    relation: Numbers,
    place_of: Tokens,
    rows: Numbers,
) -> None:
    """The features of one group with many, whose tokens lie end to end; ``count_in_a`` is zero before and after."""
    for i in range(len(a_tokens)):
        count_in_a[a_tokens[i]] = a_counts[i]
    start = 0
    for i in range(len(ends)):
        stop = ends[i]
        fill(
            rows[i],
            a_tokens,
            a_numbers,
            tokens[start:stop],
            counts[start:stop],
            numbers[i],
            count_in_a,
            field_of,
            rarity_of,
            relation,
            place_of,
        )
        start = stop
    for i in range(len(a_tokens)):
        count_in_a[a_tokens[i]] = 0.0
