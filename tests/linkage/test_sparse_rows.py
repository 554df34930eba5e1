"""Sparse rows: products, unions and what is dropped, against dense arithmetic."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from effort import trials
from grinch._vectors import product_of
from grinch.linkage.named import COUNT, FORMULAS, LENGTH, SPREAD, formula_score, merge_rows
from grinch.linkage.sparse import (
    DROPPED,
    N_MOMENTS,
    SQUARE,
    formula_of_product,
    keep_largest,
    merge_moments,
    product_with,
    unite,
)

WIDTH = 60
vectors = hnp.arrays(np.float32, WIDTH, elements=st.sampled_from([0.0, 0.0, 0.0, 0.5, -1.5, 3.0, 0.1]))
lengthy = st.one_of(vectors, vectors.map(lambda row: np.where(np.arange(WIDTH) == 7, row, np.float32(0))))


def row_of(vector):
    columns = np.flatnonzero(vector).astype(np.int32)
    return columns, vector[columns]


@given(lengthy, lengthy)
@settings(max_examples=trials(60, 500))
def test_products_are_those_of_dense_rows_and_the_same_to_the_last_bit_both_ways(a, b):
    wide = float(a.astype(np.float64) @ b.astype(np.float64))
    found = product_of(*row_of(a), *row_of(b))
    assert np.isclose(found, wide, rtol=1e-14, atol=1e-14)
    assert found == product_of(*row_of(b), *row_of(a)) == product_with(a, *row_of(b))


@given(vectors, st.integers(1, WIDTH))
@settings(max_examples=trials(60, 500))
def test_the_largest_entries_are_kept_of_equals_the_first(vector, most):
    columns, values = row_of(vector)
    n = len(columns)
    order = np.lexsort((columns, -np.abs(values)))[:most]
    expected = np.sort(columns[order])
    kept, dropped = keep_largest(columns, values, n, most, np.empty(n, np.float32))
    assert columns[:kept].tolist() == expected.tolist()
    assert np.isclose(dropped, (vector.astype(np.float64) ** 2).sum() - (values[:kept].astype(np.float64) ** 2).sum())


@given(vectors, vectors, st.integers(1, 5), st.integers(1, 5), st.sampled_from(range(len(FORMULAS))))
@settings(max_examples=trials(80, 800))
def test_unions_and_scores_are_those_of_dense_rows(a, b, n_a, n_b, formula):
    if n_a < n_b:
        n_a, n_b = n_b, n_a
    means, moments = np.zeros((3, WIDTH), np.float32), np.zeros((3, N_MOMENTS))
    means[0], means[1] = a, b
    moments[:2, COUNT], moments[:2, SPREAD] = (n_a, n_b), (0.25, 0.5)
    moments[:2, SQUARE] = (means[:2].astype(np.float64) ** 2).sum(axis=1)
    moments[:2, LENGTH] = np.sqrt(moments[:2, SQUARE])
    product = product_of(*row_of(a), *row_of(b))
    score = formula_of_product(formula, product, moments, 0, 1)
    assert np.isclose(score, formula_score(formula, means, moments, 0, 1), rtol=1e-5, atol=1e-5)

    dense = moments.copy()
    merge_rows(FORMULAS.index("ward"), means, dense, 2, 0, 1)
    columns, values = np.empty(WIDTH, np.int32), np.empty(WIDTH, np.float32)
    n, found = unite(*row_of(a), *row_of(b), n_b / (n_a + n_b), columns, values)
    merge_moments(moments, 2, 0, 1, found, 0.125)
    assert found == product
    united = np.zeros(WIDTH, np.float32)
    united[columns[:n]] = values[:n]
    assert np.allclose(united, means[2], rtol=1e-6, atol=1e-6)
    assert np.allclose(moments[2, :DROPPED], dense[2, :DROPPED], rtol=1e-5, atol=1e-5)
    assert moments[2, DROPPED] == 0.125
