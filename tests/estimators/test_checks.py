"""What is refused at the door, and what to do about it."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from grinch import Grinch
from grinch.estimators.checks import check_vectors

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [4.0, 0.0, 0.5]])
DAYS = [datetime.date(2020, 1, day) for day in (1, 2, 3)]


def message(X):
    """What is said of X, by a model that holds nothing afterwards."""
    model = Grinch()
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        model.fit(X)
    assert not model.__sklearn_is_fitted__()
    return str(refused.value)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (X.astype(complex), ["Complex data not supported", "numpy.hstack([X.real, X.imag])"]),
        (X.astype("datetime64[s]"), ["got dates (datetime64[s])", "days since the first"]),
        (X.astype("timedelta64[s]"), ["got spans of time (timedelta64[s])", "numpy.timedelta64(1, 's')"]),
        (np.zeros(3, [("a", float), ("b", float)]), ["structured_to_unstructured"]),
        (scipy.sparse.csr_array(X.astype(complex)), ["Complex data not supported"]),
        (np.ma.masked_array(X, mask=X > 3), ["X.filled(0)"]),
        *((frame({"day": np.array(DAYS, "datetime64[ns]")}), ["dates"]) for frame in (pd.DataFrame, pl.DataFrame)),
        # Missing numbers are not called text.
        (pd.DataFrame({"n": pd.array([1, None, 3], "Int64"), "kind": list("abc")}), ["column 'kind' holds str"]),
    ],
)
def test_values_that_are_no_real_numbers(values, words):
    said = message(values)
    for word in words:
        assert word in said


def broken(kind, change):
    matrix = kind(X)
    change(matrix)
    return matrix


def put(name, place, value):
    return lambda matrix: getattr(matrix, name).__setitem__(place, value)


def keep(name, n):
    return lambda matrix: setattr(matrix, name, getattr(matrix, name)[:n])


def blocks(X):
    return scipy.sparse.bsr_array(X, blocksize=(3, 1))


def lists(X):
    return scipy.sparse.lil_array(X)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (broken(scipy.sparse.csr_array, put("indices", 2, 7)), "indices must be < 3 (the indices are from 0 to 7)"),
        (broken(scipy.sparse.csr_matrix, put("indices", 0, -1)), "the indices are from -1 to 2"),
        (broken(scipy.sparse.csc_array, put("indices", 0, 10**6)), "the indices are from 0 to 1000000"),
        (broken(scipy.sparse.coo_array, lambda m: m.row.__setitem__(1, 9)), "axis 0 index 9 exceeds"),
        (
            broken(scipy.sparse.coo_array, lambda m: m.col.__setitem__(1, -5)),
            "negative axis 1 index: -5",
        ),
        (broken(scipy.sparse.csr_array, put("indptr", 1, 5)), "indptr"),
        (broken(scipy.sparse.csr_array, put("indptr", 3, 99)), "Last value of index pointer"),
        (broken(scipy.sparse.csr_array, keep("indptr", 2)), "index pointer size"),
        (broken(scipy.sparse.csc_array, keep("indptr", 2)), "index pointer size"),
        (broken(scipy.sparse.csr_array, keep("data", 2)), "should have the same size"),
        (broken(scipy.sparse.coo_array, keep("data", 2)), "must have the same length"),
        (broken(blocks, put("indices", 1, 40_000_000)), "the indices are from 0 to 40000000"),
        (broken(blocks, put("indices", 0, -40_000)), "the indices are from -40000 to 2"),
        (broken(blocks, put("indptr", 1, 99)), "Last value of index pointer"),
        (broken(blocks, keep("indptr", 1)), "index pointer size"),
        (broken(blocks, keep("data", 1)), "should have the same size"),
        (broken(blocks, lambda m: setattr(m, "data", np.ones((3, 2, 2)))), "do not fill the shape (3, 3)"),
        (broken(lists, put("rows", 1, [1, 50_000_000])), "those of row 1 are from 1 to 50000000"),
        (broken(lists, put("rows", 1, [-70_000, 1])), "those of row 1 are from -70000 to 1"),
        (broken(lists, put("rows", 1, [0, 2**70])), "those of row 1 are from 0 to 1180591620717411303424"),
        (broken(lists, put("data", 2, [1.0])), "row 2 has no list of columns and of as many values"),
        (broken(lists, keep("rows", 1)), "3 rows, 1 lists of columns and 3 of values"),
        (broken(lists, keep("data", 1)), "3 rows, 3 lists of columns and 1 of values"),
    ],
)
def test_sparse_matrices_with_indices_out_of_range(matrix, words):
    assert words in message(matrix)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["a", "b", "c"], "column 'kind of' holds str values such as 'a'"),
        (["1", None, "c"], "column 'kind of' holds str values such as 'c'"),
        (DAYS, "column 'kind of' holds"),
        (np.array(DAYS, "datetime64[ns]"), "column 'kind of' holds dates or times"),
    ],
)
def test_a_column_of_a_frame_is_named(frame, column, words):
    data = {"size": [1.0, np.nan, 3.0], "kind of": column, "text too": ["x", "y", "z"]}
    assert words in message(frame(data))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_ordinary_input_is_not_copied(dtype):
    values = X.astype(dtype)
    assert np.shares_memory(check_vectors(Grinch(), values, reset=True), values)
    matrix = scipy.sparse.csr_array(values)
    assert np.shares_memory(check_vectors(Grinch(), matrix, reset=True).data, matrix.data)
