"""Compiled code with checks of all indices: what they refuse, in which functions, and that an error fails the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

from grinch._bounds import EXIT_CODE
from grinch.core.engine import Engine
from grinch.core.rules import EXACT
from grinch.linkage.named import linkage_of
from grinch.summaries.arrays import State
from pages import ROOT

READ, WRITE, ROW, START, STOP, BLOCK = range(6)
PROGRAM = f"""
import ctypes, json, sys
import numpy as np
from numba import njit
from grinch._bounds import OutOfBounds
from grinch._compile import compiled, entry, jitable, kernel
from grinch.linkage.named import Formula
from grinch.summaries.callbacks import call_float
from grinch.summaries.callbacks import int32_at

@jitable
def part(values, table, i, what):
    if what == {READ}:
        return values[i]
    if what == {WRITE}:
        values[i] = 5
    if what == {ROW}:
        return table[i, 0]
    if what == {START}:
        return values[i:].shape[0]
    if what == {STOP}:
        return values[:i].shape[0]
    if what == {BLOCK}:
        return int32_at(table[0, 0], np.int64(3))[i]
    return 0

@entry
def by_entry(values, table, i, what):
    return part(values, table, i, what)

@kernel
def by_kernel(values, table, i, what):
    return part(values, table, i, what)

@compiled
def by_compiled(values, table, i, what):
    return part(values, table, i, what)

def outcome(function, i, what):
    block = np.arange(1, 4, dtype=np.int32)
    try:
        return int(function(np.array([1, 2, 3]), np.array([[block.ctypes.data], [8], [9]]), i, what))
    except OutOfBounds as error:
        return str(error)

asked, functions = json.loads(sys.argv[1]), (by_entry, by_kernel, by_compiled)
found = [[outcome(function, i, what) for what, i in asked] for function in functions]
hits = [sum(function.stats.cache_hits.values()) for function in functions]
print(json.dumps([found, hits]), flush=True)

if "formula" in sys.argv:

    @njit
    def beyond(a, b):
        return a.mean[a.mean.shape[0] + int(a.size)]

    mean, moments = np.ones(20, np.float32), np.zeros(3)
    formula, rows = Formula(beyond), (mean.ctypes.data, moments.ctypes.data)
    call_float(formula.address, (*rows, *rows, 3))
    print("not noticed")
"""


def run(folder, asked, *arguments, checked="1"):
    path = folder / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, str(path), json.dumps(asked), *arguments]
    return subprocess.run(command, env={**given, "GRINCH_BOUNDS_CHECK": checked}, capture_output=True, text=True)


def test_an_index_that_is_not_there_is_refused_by_code_with_a_cache_of_its_own(tmp_path):
    inside = {READ: 3, WRITE: 0, ROW: 9, START: 1, STOP: 2, BLOCK: 3}
    negative, beyond = "index is negative in part", "index is out of bounds in part"
    expected = {(what, 2): value for what, value in inside.items()} | {(what, -1): negative for what in inside}
    expected |= {(what, 3): beyond for what in (READ, WRITE, ROW, BLOCK)}
    last = [(READ, -1)]  # without checks it is the last entry, as in Python
    assert json.loads(run(tmp_path, last, checked="0").stdout) == [[[3]] * 3, [0] * 3]
    done = run(tmp_path, list(expected), "formula")
    assert json.loads(done.stdout) == [[list(expected.values())] * 3, [0] * 3]
    assert json.loads(run(tmp_path, last, checked="0").stdout) == [[[3]] * 3, [1] * 3]
    # The formula is called from C, where the error can only be printed.
    assert (done.returncode, "index is out of bounds in beyond" in done.stderr) == (EXIT_CODE, True)


PRINTED = """
import threading
from numba import cfunc, types

@cfunc(types.float64(types.int64))
def failing(i):
    if i == 0:
        raise IndexError("only printed")
    return 1.0

def test_here():
    failing.ctypes(0)

def test_in_a_thread():
    thread = threading.Thread(target=failing.ctypes, args=(0,))
    thread.start()
    thread.join()

def test_that_passes():
    assert failing.ctypes(1) == 1.0
"""


def test_an_error_that_numba_only_prints_fails_the_tests(tmp_path):
    (tmp_path / "test_printed.py").write_text(PRINTED, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml", tmp_path]
    given = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, env=given, capture_output=True, text=True, cwd=tmp_path)
    assert "2 failed, 1 passed" in done.stdout, done.stdout


class Strict(np.ndarray):
    """An array without negative indices, for compiled code that runs as plain Python."""

    def __getitem__(self, index):
        return super().__getitem__(_not_negative(index))

    def __setitem__(self, index, value):
        super().__setitem__(_not_negative(index), value)


def _not_negative(index):
    assert all(i >= 0 for i in (index if isinstance(index, tuple) else (index,)) if isinstance(i, (int, np.integer)))
    return index


def test_no_move_looks_above_the_root(rng, monkeypatch):
    def strict(*fields):
        return State(*(field.view(Strict) if isinstance(field, np.ndarray) else field for field in fields))

    monkeypatch.setattr("grinch.core.engine.State", strict)
    engine = Engine(linkage_of("average"), EXACT._replace(graft_cap=20), n_features=8, compiled=False)
    engine.insert(rng.normal(size=(40, 8)).astype(np.float32))
    assert engine.n_leaves == 40
