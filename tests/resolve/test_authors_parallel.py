"""Blocks in processes and on machines: what fails, dies or is stopped loses nothing that was finished."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from grinch.resolve.authors.runs import run_blocks

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
    """Leave a file that says which process worked on the block, and when it began and ended."""
    began = time.time()
    time.sleep(0.3)
    (Path(folder) / f"{len(block)}-{os.getpid()}-{time.time_ns()}").write_text(f"{began} {time.time()}")
    return sum(block)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_every_block_is_done_and_reported(jobs):
    done = []
    outcomes = run_blocks(sum, BLOCKS, jobs=jobs, on_done=done.append)
    assert outcomes == (SUMS, {}, [])
    assert list(outcomes.results) == list(BLOCKS)
    assert sorted(done) == sorted(BLOCKS)
    assert run_blocks(sum, {}, jobs=jobs) == ({}, {}, [])


def test_the_largest_come_first():
    done = []
    run_blocks(sum, BLOCKS, on_done=done.append)
    assert done == sorted(BLOCKS, reverse=True)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_block_that_fails_is_reported_and_the_others_are_kept(jobs):
    results, failures, unfinished = run_blocks(sum_unless_five, BLOCKS, jobs=jobs)
    assert results == {name: total for name, total in SUMS.items() if name != "block 5"}
    assert list(failures) == ["block 5"]
    assert failures["block 5"].startswith("ZeroDivisionError: five of them (test_authors_parallel.py, line ")
    assert unfinished == []


@pytest.mark.slow
def test_a_process_that_dies_takes_only_its_block_along():
    results, failures, _ = run_blocks(sum_or_die, BLOCKS, jobs=2)
    assert results == {name: total for name, total in SUMS.items() if name != "block 5"}
    assert failures == {"block 5": "the process that worked on it died (killed, or out of memory?)"}


def test_finished_blocks_are_not_run_again(tmp_path):
    notes, checkpoint = tmp_path / "notes", tmp_path / "checkpoint"
    notes.mkdir()
    run = partial(run_blocks, partial(sum_and_note, str(notes)), checkpoint=checkpoint)
    some = {name: BLOCKS[name] for name in ("block 1", "block 2")}
    assert run(some).results == {name: SUMS[name] for name in some}
    three = {**some, "block 3": BLOCKS["block 3"]}
    done = []
    assert run(three, on_done=done.append).results == {name: SUMS[name] for name in three}
    assert sorted(done) == list(three)
    assert sorted(path.name[0] for path in notes.iterdir()) == ["1", "2", "3"]
    run({"block 1": [5]})  # other records under the same name
    run(some, stamp="other settings")
    assert sorted(path.name[0] for path in notes.iterdir()) == ["1", "1", "1", "2", "2", "3"]


def test_names_of_blocks_can_be_anything(tmp_path):
    odd = {"a/b": [1], "a-b": [2], "../up": [3], "王 伟": [4], "": [5], "x" * 500: [6]}
    for _ in range(2):
        assert list(run_blocks(sum, odd, checkpoint=tmp_path / "in").results.values()) == [1, 2, 3, 4, 5, 6]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_failed_blocks_are_tried_again(tmp_path):
    assert "block 5" in run_blocks(sum_unless_five, BLOCKS, checkpoint=tmp_path).failures
    assert run_blocks(sum, BLOCKS, checkpoint=tmp_path) == (SUMS, {}, [])


def test_wrong_parameters(tmp_path):
    with pytest.raises(ValueError, match="engine must be one of 'joblib', 'dask'; got 'ray'"):
        run_blocks(sum, BLOCKS, engine="ray")
    with pytest.raises(ValueError, match=r"jobs \(-1 .*\) must be a whole number of at least 1; got 0"):
        run_blocks(sum, BLOCKS, jobs=0)
    with pytest.raises(ValueError, match="address is that of a dask scheduler"):
        run_blocks(sum, BLOCKS, address="tcp://10.0.0.1:8786")
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


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"jobs": 2}, marks=pytest.mark.slow),
        pytest.param({"jobs": 2, "engine": "dask"}, marks=[needs_dask, pytest.mark.slow]),
    ],
)
def test_ctrl_c_keeps_what_is_finished(tmp_path, options):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", repr({**options, "checkpoint": "kept"})]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    finished = {process.stdout.readline().strip() for _ in range(3)}
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to the workers too
    out, err = process.communicate(timeout=60)
    assert finished == {"4", "5", "6"}, err
    assert out.strip() == "{'4': 6, '5': 10, '6': 15} ['1', '2', '3']", err
    assert len(list((tmp_path / "kept").iterdir())) == 3


def start(folder, *arguments):
    # In a folder of their own, where dask leaves what it leaves; the tests are imported there to know the functions.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    command = [sys.executable, "-m", "dask", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@needs_dask
@pytest.mark.slow
def test_dask_loses_no_block_with_a_worker(tmp_path):
    place, notes = tmp_path / "scheduler.json", tmp_path / "notes"
    notes.mkdir()
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(place)]
    processes = [start(tmp_path, *scheduler)]
    try:
        wait_for(place.exists)
        address = json.loads(place.read_text())["address"]
        worker = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        processes += [start(tmp_path, *worker) for _ in range(2)]
        done = []

        def kill_one(name):
            done.append(name)
            workers = {process.pid for process in processes[1:]}
            used = {int(path.name.split("-")[1]) for path in notes.iterdir()}
            assert used <= workers
            if len(done) >= 4 and used == workers and processes[1].poll() is None:
                processes[1].kill()
                processes[1].wait()

        blocks = {f"block {i}": list(range(i)) for i in range(1, 25)}
        outcomes = run_blocks(
            partial(sum_and_note, str(notes)), blocks, engine="dask", address=address, on_done=kill_one,
            checkpoint=tmp_path / "checkpoint",
        )  # fmt: skip
        assert processes[1].poll() == -signal.SIGKILL
        assert outcomes == ({name: sum(block) for name, block in blocks.items()}, {}, [])
        assert sorted(done) == sorted(blocks)
        by_worker = [path.name.split("-")[1] for path in notes.iterdir()]
        assert by_worker.count(str(processes[1].pid)) >= 1
        # How many depends on when the second one was up; all that came after the kill are its.
        assert by_worker.count(str(processes[2].pid)) >= 1
        # What had been fetched before the worker died was not run a second time.
        assert len(by_worker) <= len(blocks) + 2
        failing = run_blocks(sum_unless_five, BLOCKS, engine="dask", address=address)
        assert list(failing.failures) == ["block 5"]
        assert len(failing.results) == len(BLOCKS) - 1
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def wait_for(condition):
    while not condition():
        time.sleep(0.05)
    time.sleep(0.2)


@needs_dask
def test_an_address_where_nobody_is(monkeypatch):
    monkeypatch.setattr("grinch.running.SECONDS_FOR_A_WORKER", 1)
    with pytest.raises(ValueError, match=r"address must be that of a running dask scheduler; got 'tcp://127.0.0.1:9'"):
        run_blocks(sum, BLOCKS, engine="dask", address="tcp://127.0.0.1:9")


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"engine='dask' needs dask .* pip install 'grinch\[dask\]'"):
        run_blocks(sum, BLOCKS, engine="dask")
