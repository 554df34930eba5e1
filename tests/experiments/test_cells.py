"""Experiments cell by cell: what is finished is kept, what takes too long is stopped."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from commands import run_command
from experiments import cells as cells_module
from experiments import insert_and_remove, keys, run_experiment
from experiments.__main__ import main
from experiments.cells import FILE, NOT_RUN, OUT_OF_MEMORY, Cell, Cells, Task, _Queue, over
from experiments.keys import code_digest, source_of, text_of
from experiments.setting import MIXTURE, SCALES, Setting, System, failure_of, measured_tree, shown
from grinch.estimators.registry import SYSTEMS


def double(number):
    return {"double": 2 * number}


def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return {}


def too_large():
    raise MemoryError


def broken():
    raise ValueError("no such thing")


def wait_forever():
    """What compiled code does that cannot be interrupted."""
    while True:
        with suppress(KeyboardInterrupt):
            spin(60)


def lines(folder):
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def cells_of(folder, **settings):
    return Cells(folder / FILE, **settings)


def test_a_second_run_takes_over_what_is_there(tmp_path):
    assert cells_of(tmp_path).measure("table: a", double, 1).found == {"double": 2}
    second = cells_of(tmp_path)
    assert second.measure("table: a", double, 1).found == {"double": 2}
    assert second.measure("table: b", double, 3).found == {"double": 6}
    assert [name for name, _ in second.measured] == ["table: b"]
    assert [row["cell"] for row in lines(tmp_path)] == ["table: a", "table: b"]


@pytest.mark.parametrize(
    ("arguments", "others"),
    [((1,), {}), ((2,), {"data": "10 x 2, 11111111"}), ((2,), {"rooms": ["core"]}), ((2.0,), {})],
)
def test_another_argument_other_data_and_other_rooms_make_another_cell(tmp_path, arguments, others):
    cells_of(tmp_path).measure("a", double, 2)
    cells = cells_of(tmp_path)
    assert cells.measure("a", double, *arguments, **others).found == {"double": 2 * arguments[0]}
    assert len(cells.measured) == 1
    assert not Cells.measure(cells, "a", double, 2).failure
    assert len(cells.measured) == 1


def test_some_cells_are_measured_again_and_others_left_open(tmp_path):
    cells_of(tmp_path).measure("digits, PERCH", double, 1)
    cells = cells_of(tmp_path, again=["*PERCH"], skip=["*HAC"])
    assert cells.measure("digits, PERCH", double, 1).found == {"double": 2}
    assert cells.measure("digits, PERCH", double, 1).found == {"double": 2}, "again, but once"
    assert cells.measure("digits, HAC", double, 4) == Cell({}, failure=NOT_RUN)
    assert len(lines(tmp_path)) == 2


def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    cells = cells_of(tmp_path)
    cells.measure("a", double, 1)
    cells.measure("b", double, 2)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-20])
    again = cells_of(tmp_path)
    again.measure("b", double, 2), again.measure("a", double, 1)
    assert [name for name, _ in again.measured] == ["b"]
    assert len(cells_of(tmp_path).kept) == 2


def test_memory_that_is_not_there_is_a_result_and_an_error_is_not(tmp_path):
    cells = cells_of(tmp_path)
    assert cells.measure("large", too_large).failure == OUT_OF_MEMORY
    with pytest.raises(ValueError, match="no such thing"):
        cells.measure("broken", broken)
    assert [row["cell"] for row in lines(tmp_path)] == ["large"]


def test_what_no_table_has_any_more_leaves_the_file(tmp_path):
    for name in "cab":
        cells_of(tmp_path).measure(name, double, 1)
    cells = cells_of(tmp_path)
    cells.measure("b", double, 1), cells.measure("a", double, 2)
    cells.tidy()
    assert [(row["cell"], row["found"]["double"]) for row in lines(tmp_path)] == [("a", 4), ("b", 2)]


# Keys ---------------------------------------------------------------------------------------------------------------

CODE = """
import itertools
LIMIT = 3
UNUSED = 4

def helper(x):
    "Say something."
    return x + LIMIT  # in a way

def measured(x):
    return [helper(y) for y in itertools.count(x)]

def unused():
    return UNUSED
"""
NUMBERS = itertools.count()


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Return the code that a cell depends on, of a module with this text."""

    def read(text):
        name = f"code_of_a_cell_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        return source_of(importlib.import_module(name).measured).replace(name, "module")

    return read


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("# in a way", "# in another way", True),
        ("Say something.", "Say something else.", True),
        ("UNUSED = 4", "UNUSED = 5", True),
        ("    return UNUSED", "    return 2 * UNUSED", True),
        ("LIMIT = 3", "LIMIT = 2", False),
        ("x + LIMIT", "x - LIMIT", False),
        ("helper(y)", "helper(-y)", False),
    ],
)
def test_the_code_of_a_cell_is_its_function_and_what_that_uses(source, old, new, is_same):
    assert old in CODE
    assert (source(CODE.replace(old, new)) == source(CODE)) == is_same


def test_the_code_of_a_cell_includes_what_comes_from_other_modules_of_the_experiments():
    assert "def in_order" in source_of(insert_and_remove.static_hac)
    assert "def draw" not in source_of(insert_and_remove.static_hac)


def test_the_digest_of_rooms_is_that_of_their_syntax(tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "PACKAGE", tmp_path)
    room, digests = tmp_path / "room", []
    room.mkdir()
    for text in ("x = 1\n", "x  =  (1) # one\n", '"""A module."""\nx = 1\n', "x = 2\n"):
        (room / "a.py").write_text(text)
        code_digest.cache_clear()
        digests.append(code_digest("room"))
    (room / "a.py").rename(room / "b.py")
    code_digest.cache_clear()
    digests.append(code_digest("room"))
    assert [digests.index(each) for each in digests] == [0, 0, 0, 3, 4]
    with pytest.raises(FileNotFoundError, match="'attic'"):
        code_digest("attic")


def test_all_systems_have_rooms_and_all_rooms_are_there():
    assert set(keys.ROOMS) == set(SYSTEMS)
    assert all((keys.PACKAGE / room).exists() for room in {*keys.ALL, *keys.COMMON, *keys.COREFERENCE})


def test_where_data_are_does_not_matter():
    setting = Setting(SCALES["tiny"])
    here, there = (replace(setting, folder=Path(folder)).source("digits") for folder in ("/here", "/there"))
    assert text_of(here) == text_of(there) != text_of(setting.source("iris"))


# Processes ----------------------------------------------------------------------------------------------------------


def test_workers_go_on_with_the_data_they_have():
    tasks = [Task(f"{data}, {i}", "", double, (data,)) for data in "abc" for i in range(2)]
    queue = _Queue(tasks)
    taken = [queue.next(worker).arguments[0] for worker in (0, 1, 1, 0, 1, 0)]
    assert taken == ["a", "b", "b", "a", "c", "c"]
    assert queue.next(0) is None


@pytest.mark.slow
def test_a_cell_over_the_limit_is_stopped_and_the_next_one_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_module, "GRACE", 1.0)

    def measure(cells):
        return [
            cells.measure(*call)
            for call in (
                ("of the long, 0", spin, 60),
                ("of the long, 1", spin, 61),
                ("of the long, 2", spin, 62),
                ("short", double, 2),
                ("broken", broken),
            )
        ]

    cells = cells_of(tmp_path, limit=1.0)
    assert {cell.failure for cell in measure(cells)} == {NOT_RUN}
    said = []
    cells.measure_missing(said.append)
    found = measure(cells)
    assert found[0].failure == over(1)
    assert found[2].failure in (NOT_RUN, over(1)), "the others of the row would take as long"
    assert found[3].found == {"double": 4}
    assert "no such thing" in found[4].failure
    assert "(1 of 5)" in said[0]
    again = cells_of(tmp_path, limit=1.0)
    assert measure(again)[0].failure == over(1), "it would take as long again"
    assert measure(again)[4].failure == NOT_RUN
    assert {row["cell"] for row in lines(tmp_path)} <= {"short", *(f"of the long, {i}" for i in range(3))}
    assert cells_of(tmp_path, limit=2.0).measure("of the long, 0", spin, 60).failure == NOT_RUN, "the limit is another"


@pytest.mark.slow
def test_a_cell_that_does_not_end_is_killed():
    cells = Cells(limit=1.0)
    cells.measure("deaf", wait_forever)
    with patch.object(cells_module, "GRACE", 1.0):
        cells.measure_missing()
    assert cells.measure("deaf", wait_forever).failure == over(1)


@pytest.mark.slow
def test_a_tree_that_is_not_finished_says_how_far_it_came():
    source = Setting(SCALES["full"]).source(MIXTURE, 20_000)
    cells = Cells(limit=3.0)
    system = System("hac", settings={"lean": True})
    for _ in range(2):
        cell = cells.measure("hac", measured_tree, source, system, "random", 0)
        if cells.missing:
            cells.measure_missing()
    assert 1 <= cell.found["joined"] < cell.found["of"] == 20_000
    assert "of 20,000 points)" in failure_of(cell)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path):
    setting = Setting(SCALES["tiny"])
    script = (
        "import time; from pathlib import Path; from experiments import separated, run_experiment;"
        "from experiments.setting import SCALES, Setting; from experiments.cells import Cells;"
        "measure = Cells.measure;"
        "Cells.measure = lambda self, name, *rest, **more:"
        " time.sleep(60) if 'Online' in name else measure(self, name, *rest, **more);"
        f"run_experiment('recovery', Setting(SCALES['tiny']), Path({str(tmp_path)!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", script], env=os.environ)
    while not (tmp_path / FILE).exists() or len(lines(tmp_path)) < 9:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    result = run_experiment("recovery", setting, tmp_path)
    assert (result.about["cells taken over"], result.about["cells measured"]) == (9, 6)
    assert result.rows == run_experiment("recovery", setting).rows


@pytest.mark.slow
def test_the_command_says_what_it_took_over(tmp_path, monkeypatch):
    monkeypatch.setitem(SCALES, "quick", SCALES["tiny"])
    run = partial(run_command, "bench", "recovery", "--quick", "-o", "results", cwd=tmp_path, main=main)
    assert "earlier run" not in run("--skip", "*HAC*").stdout
    done = run("--again", "recovery: Online*")
    assert "9 of 15 cells from an earlier run" in done.stdout, done.stderr
    assert "15 of 15 cells from an earlier run" in run().stdout
    assert "earlier run" not in run("--seed", "1").stdout


def test_what_was_stopped_is_shown_beside_what_was_measured():
    done, stopped = Cell({"purity": 0.5}), Cell({}, failure=over(600))
    assert shown([done, done], "purity") == "0.500 ± 0.000"
    assert shown([done, stopped], "purity") == "0.500; more than 10 min"
    assert shown([stopped], "purity") == "more than 10 min"
