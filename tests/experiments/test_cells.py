"""Experiments cell by cell: what is finished is kept, what takes too long is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from commands import run_command
from experiments import run_experiment
from experiments.__main__ import main
from experiments.cells import FILE, NOT_RUN, OUT_OF_MEMORY, Cell, Cells, over
from experiments.setting import SCALES, Setting, shown

ABOUT = {"version": "1", "seed": 0, "scale": "tiny"}


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


def lines(folder):
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def test_a_second_run_takes_over_what_is_there(tmp_path):
    first = Cells(tmp_path, prefix="table: ", about=ABOUT)
    assert first.measure("a", double, 1).found == {"double": 2}
    second = Cells(tmp_path, prefix="table: ", about=ABOUT)
    assert second.measure("a", double, 100).found == {"double": 2}
    assert second.measure("b", double, 3).found == {"double": 6}
    assert (second.n_taken_over, second.n_measured) == (1, 1)
    assert [row["cell"] for row in lines(tmp_path)] == ["table: a", "table: b"]


@pytest.mark.parametrize("change", [{"seed": 1}, {"version": "2"}, {"scale": "full"}])
def test_cells_of_another_seed_version_or_scale_are_not_mixed_in(tmp_path, change):
    Cells(tmp_path, about=ABOUT).measure("a", double, 1)
    assert Cells(tmp_path, about={**ABOUT, **change}).measure("a", double, 5).found == {"double": 10}
    assert Cells(tmp_path, about=ABOUT).measure("a", double, 7).found == {"double": 2}


def test_cells_on_other_data_are_not_mixed_in(tmp_path):
    Cells(tmp_path, about=ABOUT).measure("a", double, 1, data="10 x 2, 00000000")
    assert Cells(tmp_path, about=ABOUT).measure("a", double, 5, data="10 x 2, 11111111").found == {"double": 10}


def test_some_cells_are_measured_again_and_others_left_open(tmp_path):
    Cells(tmp_path, about=ABOUT).measure("digits, PERCH", double, 1)
    cells = Cells(tmp_path, about=ABOUT, again=["*PERCH"], skip=["*HAC"])
    assert cells.measure("digits, PERCH", double, 4).found == {"double": 8}
    assert cells.measure("digits, HAC", double, 4) == Cell({}, failure=NOT_RUN)
    assert Cells(tmp_path, about=ABOUT).measure("digits, PERCH", double, 1).found == {"double": 8}, "the latest counts"


def test_a_line_that_was_cut_off_is_measured_again(tmp_path):
    cells = Cells(tmp_path, about=ABOUT)
    cells.measure("a", double, 1)
    cells.measure("b", double, 2)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-20])
    again = Cells(tmp_path, about=ABOUT)
    assert again.measure("b", double, 2).found == {"double": 4}
    assert (again.measure("a", double, 1).found, again.n_taken_over) == ({"double": 2}, 1)
    assert len(Cells(tmp_path, about=ABOUT).kept) == 2


def test_memory_that_is_not_there_is_a_result_and_an_error_is_not(tmp_path):
    cells = Cells(tmp_path, about=ABOUT)
    assert cells.measure("large", too_large).failure == OUT_OF_MEMORY
    with pytest.raises(ValueError, match="no such thing"):
        cells.measure("broken", broken)
    assert [row["cell"] for row in lines(tmp_path)] == ["large"]


@pytest.mark.slow
def test_a_cell_over_the_limit_is_stopped_and_the_next_one_runs(tmp_path):
    with Cells(tmp_path, limit=1, about=ABOUT) as cells:
        assert cells.measure("long", spin, 60).failure == "more than 1 s"
        assert cells.measure("short", double, 2).found == {"double": 4}
        assert "no such thing" in cells.measure("broken", broken).failure
        worker = cells.worker.process
    assert not worker.is_alive()
    again = Cells(tmp_path, limit=1, about=ABOUT)
    assert again.measure("long", double, 1).failure == over(1), "it would take as long again"
    assert again.measure("short", double, 1).found == {"double": 4}
    assert [row["cell"] for row in lines(tmp_path)] == ["long", "short"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path):
    setting = Setting(SCALES["tiny"])
    script = (
        "import time; from pathlib import Path; from experiments import separated, run_experiment;"
        "from experiments.setting import SCALES, Setting;"
        "measure = separated.n_recovered;"
        "separated.n_recovered = lambda title, *rest: time.sleep(60) if title == 'Online' else measure(title, *rest);"
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
