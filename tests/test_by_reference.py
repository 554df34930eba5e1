"""Named tuples that compiled code takes by reference."""

from __future__ import annotations

from sys import getrefcount
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core import event
from numba.core.errors import TypingError

from grinch import _compile
from grinch._by_reference import by_reference, narrowing


@by_reference
class Inner(NamedTuple):
    flag: bool
    weight: float


@by_reference
class Part(NamedTuple):
    numbers: np.ndarray
    scale: int


@by_reference
class Whole(NamedTuple):
    table: np.ndarray
    numbers: np.ndarray
    scale: int
    inner: Inner


part_of = narrowing(Part)


@_compile.jitable
def total(part):
    found = 0.0
    for i in range(part.numbers.shape[0]):
        found += part.numbers[i] * part.scale
    return found


@_compile.jitable
def total_of_whole(whole):
    return total(part_of(whole))


@_compile.entry
def read(whole):
    """All fields, a write to an array, and what another function makes of a part."""
    whole.table[1, 2] += 5
    row = whole.table[1]
    found = total_of_whole(whole) + total(part_of(whole)) + whole.inner.weight * row[2]
    return -found if whole.inner.flag else found


def whole(flag=False):
    return Whole(np.arange(12, dtype=np.int32).reshape(4, 3), np.array([0.5, 1.5]), 4, Inner(flag, 0.25))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))


@pytest.mark.parametrize("flag", [False, True])
def test_compiled_code_reads_what_python_reads(flag):
    given, same = whole(flag), whole(flag)
    assert read(given) == read.py_func(same) == (-1 if flag else 1) * (8 + 8 + 0.25 * 10)
    np.testing.assert_array_equal(given.table, same.table)
    assert len(read.signatures) == 1


def test_arrays_are_neither_kept_nor_freed():
    given = whole()
    read(given)
    table, numbers = given.table, given.numbers
    del given
    # The name here, and the argument of the count.
    assert getrefcount(table) == getrefcount(numbers) == 2


def test_other_fields_are_refused():
    @njit(_nrt=False)
    def wrong(whole):
        return whole.weight

    with pytest.raises(TypingError, match="weight"):
        wrong(whole())


def test_a_part_is_compiled_once_for_all_that_call_it(monkeypatch):
    """By an entry, by other parts, and by what has a whole of which it is a part."""

    @_compile.jitable
    def inner_part(part):
        return part.scale + 1

    @_compile.jitable
    def outer_part(whole):
        return inner_part(part_of(whole)) + 1

    @_compile.entry
    def of_whole(whole):
        return inner_part(part_of(whole)) + outer_part(whole)

    @_compile.entry
    def of_part(part):
        return inner_part(part)

    with event.install_recorder("numba:compile") as recorder:
        assert of_whole(whole()) == 11
        assert of_part(Part(np.zeros(3), 6)) == 7
    names = [each.data["dispatcher"].py_func.__name__ for _, each in recorder.buffer if each.is_start]
    assert sorted(names) == ["inner_part", "of_part", "of_whole", "outer_part"]
