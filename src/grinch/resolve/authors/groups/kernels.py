"""The features of groups of records, compiled: one group against many at a time.

A group is a sorted array of token numbers with the count of each, and a row of numbers laid out by the constants below.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from grinch.resolve.authors.groups.statistics import FIELDS

N_FIELDS = len(FIELDS)
# Tokens that are no bag of words: given names, which are compared, and ORCIDs, which are equal or not.
GIVEN, ORCID = N_FIELDS, N_FIELDS + 1

# The numbers of a group: how many records, the years known, then by field the summed rarity of its tokens and the
# squared length of their weighted counts, then the topic vector.
SIZE, YEARS, YEAR_SUM, YEAR_MIN, YEAR_MAX, ORCIDS = range(6)
TOTALS = 6
SQUARES = TOTALS + N_FIELDS
TOPIC = SQUARES + N_FIELDS

# By field.
KNOWN, SHARED, OVERLAP, COSINE, RAREST, RATE = range(6)
N_MEASURES = 6
# After the fields.
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


@njit(cache=True, nogil=True)
def weigh(tokens, counts, field_of, rarity_of, numbers):
    """Fill in the totals and the squared lengths of all fields of a group."""
    numbers[TOTALS:TOPIC] = 0.0
    for k in range(len(tokens)):
        field = field_of[tokens[k]]
        if field < N_FIELDS:
            weight = rarity_of[tokens[k]]
            numbers[TOTALS + field] += weight
            numbers[SQUARES + field] += (weight * counts[k]) ** 2


@njit(cache=True, nogil=True)
def merged(tokens, counts, numbers, more_tokens, more_counts, more_numbers, field_of, rarity_of):
    """Two groups taken together. What adds up is added; only tokens of both change a field's total and length."""
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


@njit(cache=True, nogil=True)
def fill(row, a_tokens, a_numbers, b_tokens, b_counts, b_numbers, count_in_a, field_of, rarity_of, relation, place_of):
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


@njit(cache=True, nogil=True)
def features_of_one(
    a_tokens,
    a_counts,
    a_numbers,
    tokens,
    counts,
    ends,
    numbers,
    count_in_a,
    field_of,
    rarity_of,
    relation,
    place_of,
    rows,
):
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
