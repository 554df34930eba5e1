"""Blocks in processes and on machines: what fails, dies or is stopped loses nothing that was finished."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from effort import at_night
from grinch.resolve.authors.runs import run_blocks
from refusals import refused

BLOCKS = {f"block {i}": list(range(i)) for i in range(1, 9)}
SUMS = {name: sum(block) for name, block in BLOCKS.items()}

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="dask is not installed: pip install 'grinch[dask]'"
)
# dask and joblib leave sockets and pipes to be closed by the interpreter.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def sum_unless_five(block):
    if len(block) == 5:
        raise ZeroDivisionError("five of them")
    return sum(block)


def sum_or_die(block):
    if len(block) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return sum(block)


def sum_and_note(folder, block):
    """Leave a file for each call; the first with five of them dies, and says so, when a file wants it."""
    wish = Path(folder) / "die"
    (Path(folder) / f"{len(block)}-{time.time_ns()}").touch()
    if len(block) == 5 and wish.exists():
        wish.rename(Path(folder) / "died")
        os.kill(os.getpid(), signal.SIGKILL)
    return sum(block)


def called(folder):
    """How many had each block that was worked on."""
    return sorted(int(path.name.split("-")[0]) for path in folder.glob("*-*"))


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("jobs", [1, at_night(2)])
def test_every_block_is_done_and_reported_the_largest_first(jobs):
    done = []
    outcomes = run_blocks(sum, BLOCKS, jobs=jobs, on_done=done.append)
    assert outcomes == (SUMS, {}, [])
    assert list(outcomes.results) == list(BLOCKS)
    assert (done if jobs == 1 else sorted(done, reverse=True)) == sorted(BLOCKS, reverse=True)
    assert run_blocks(sum, {}, jobs=jobs) == ({}, {}, [])


@pytest.mark.parametrize("jobs", [1, at_night(2)])
def test_a_block_that_fails_is_reported_the_others_are_kept_and_it_is_tried_again(tmp_path, jobs):
    results, failures, unfinished = run_blocks(sum_unless_five, BLOCKS, jobs=jobs, checkpoint=tmp_path)
    assert results == {name: total for name, total in SUMS.items() if name != "block 5"}
    assert list(failures) == ["block 5"]
    assert failures["block 5"].startswith("ZeroDivisionError: five of them (test_authors_parallel.py, line ")
    assert unfinished == []
    assert run_blocks(sum, BLOCKS, checkpoint=tmp_path) == (SUMS, {}, [])


@pytest.mark.slow
def test_a_process_that_dies_takes_only_its_block_along():
    results, failures, _ = run_blocks(sum_or_die, BLOCKS, jobs=2)
    assert results == {name: total for name, total in SUMS.items() if name != "block 5"}
    assert failures == {"block 5": "the process that worked on it died (killed, or out of memory?)"}


def test_finished_blocks_are_not_run_again(tmp_path, notes):
    run = partial(run_blocks, partial(sum_and_note, str(notes)), checkpoint=tmp_path / "checkpoint")
    some = {name: BLOCKS[name] for name in ("block 1", "block 2")}
    assert run(some).results == {name: SUMS[name] for name in some}
    three = {**some, "block 3": BLOCKS["block 3"]}
    done = []
    assert run(three, on_done=done.append).results == {name: SUMS[name] for name in three}
    assert sorted(done) == list(three)
    assert called(notes) == [1, 2, 3]
    run({"block 1": [5]})  # other records under the same name
    run(some, stamp="other settings")
    assert called(notes) == [1, 1, 1, 2, 2, 3]


def test_names_of_blocks_can_be_anything(tmp_path):
    odd = {"a/b": [1], "a-b": [2], "../up": [3], "王 伟": [4], "": [5], "x" * 500: [6]}
    for _ in range(2):
        assert list(run_blocks(sum, odd, checkpoint=tmp_path / "in").results.values()) == [1, 2, 3, 4, 5, 6]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_wrong_parameters(tmp_path):
    refused("engine must be one of 'joblib', 'dask'; got 'ray'", run_blocks, sum, BLOCKS, engine="ray")
    refused(r"jobs \(-1 .*\) must be a whole number of at least 1; got 0", run_blocks, sum, BLOCKS, jobs=0)
    refused("address is that of a dask scheduler", run_blocks, sum, BLOCKS, address="tcp://10.0.0.1:8786")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"checkpoint must be a folder that can be made; got .*file"):
        run_blocks(sum, BLOCKS, checkpoint=tmp_path / "file")
    with pytest.raises(TypeError, match="the result of a task must be JSON-able"):
        run_blocks(set, BLOCKS, checkpoint=tmp_path / "folder")


SCRIPT = """
import sys, time
from grinch.resolve.authors.runs import run_blocks

def slowly(block):
    # In short sleeps: a signal that comes just before a long one does not end it.
    for _ in range(1 if len(block) > 3 else 600):
        time.sleep(0.1)
    return sum(block)

if __name__ == "__main__":
    blocks = {str(i): list(range(i)) for i in range(1, 7)}
    outcomes = run_blocks(slowly, blocks, on_done=lambda name: print(name, flush=True), **eval(sys.argv[1]))
    print(outcomes.results, outcomes.unfinished)
"""


BY_DASK = pytest.param({"jobs": 2, "engine": "dask"}, marks=[needs_dask, pytest.mark.slow])


@pytest.mark.parametrize("options", [{}, at_night({"jobs": 2}), BY_DASK])
def test_ctrl_c_keeps_what_is_finished(tmp_path, options):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", repr({**options, "checkpoint": "kept"})]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **pipes)
    finished = {process.stdout.readline().strip() for _ in range(3)}
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to the workers too
    out, err = process.communicate(timeout=60)
    assert finished == {"4", "5", "6"}, err
    assert out.strip() == "{'4': 6, '5': 10, '6': 15} ['1', '2', '3']", err
    assert len(list((tmp_path / "kept").iterdir())) == 3


@needs_dask
@pytest.mark.slow
def test_dask_loses_no_block_with_a_worker(processes, notes):
    (notes / "die").touch()
    run = partial(run_blocks, engine="dask", address=processes.client.scheduler.address)
    blocks, done = {f"block {i}": list(range(i)) for i in range(1, 25)}, []
    outcomes = run(partial(sum_and_note, str(notes)), blocks, on_done=done.append)
    assert outcomes == ({name: sum(block) for name, block in blocks.items()}, {}, [])
    assert sorted(done) == sorted(blocks)
    assert called(notes).count(5) == 2
    # What had been fetched before the worker died was not run a second time, only what was on its way.
    assert len(called(notes)) <= len(blocks) + 6
    failing = run(sum_unless_five, BLOCKS)
    assert list(failing.failures) == ["block 5"]
    assert len(failing.results) == len(BLOCKS) - 1


@needs_dask
def test_an_address_where_nobody_is(monkeypatch):
    monkeypatch.setattr("grinch.running.SECONDS_FOR_A_WORKER", 1)
    with pytest.raises(ValueError, match=r"address must be that of a running dask scheduler; got 'tcp://127.0.0.1:9'"):
        run_blocks(sum, BLOCKS, engine="dask", address="tcp://127.0.0.1:9")


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"engine='dask' needs dask .* pip install 'grinch\[dask\]'"):
        run_blocks(sum, BLOCKS, engine="dask")
