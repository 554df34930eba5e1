"""Tasks on worker processes: what fails, dies or is stopped loses nothing that was finished."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import grinch
import sharding
from grinch import running
from grinch.errors import ShardError
from grinch.running import Workers
from refusals import refused

# dask leaves sockets and pipes to be closed by the interpreter.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def squares(notes, *more, numbers=range(6)):
    return {f"n-{number}": (str(notes), number, *more) for number in numbers}


RESULTS = {f"n-{number}": {"square": number**2} for number in range(6)}


def test_every_task_is_done_once_and_written_down(workers, notes, tmp_path):
    folder = tmp_path / "run"
    results = workers.run("squares", sharding.square, squares(notes), folder)
    assert results == RESULTS
    assert list(results) == list(RESULTS)
    assert sorted(path.name for path in folder.iterdir()) == ["squares"]
    assert sorted(path.name for path in (folder / "squares").iterdir()) == [f"{name}.json" for name in RESULTS]
    kept = [json.loads(path.read_text()) for path in (folder / "squares").iterdir()]
    assert {task["worker"] for task in kept} <= set(workers.client.nthreads())
    assert all(10**7 < task["peak_memory"] < 10**10 and 0 <= task["seconds"] < 10 for task in kept)
    report = workers.stages["squares"]
    assert (report.tasks, report.found) == (6, 0)
    assert report.task_seconds == pytest.approx(sum(task["seconds"] for task in kept))
    assert report.peak_memory == max(task["peak_memory"] for task in kept)

    assert workers.run("squares", sharding.square, squares(notes), folder) == RESULTS
    assert sharding.called(notes) == dict.fromkeys(range(6), 1)
    assert (workers.stages["squares"].tasks, workers.stages["squares"].found) == (6, 6)


def test_few_tasks_are_submitted_at_a_time(workers, notes, tmp_path, monkeypatch):
    waiting, futures, submit = [], [], workers.client.submit

    def note(function, task, **options):
        waiting.append(sum(not found.done() for found in futures) + 1)
        futures.append(submit(function, task, **options))
        return futures[-1]

    monkeypatch.setattr(workers.client, "submit", note)
    workers.run("squares", sharding.square, squares(notes, numbers=range(30)), tmp_path)
    assert len(waiting) == 30
    assert waiting[0] == 1
    assert max(waiting) <= 4  # twice the threads, of tasks as short as these


def test_another_stamp_stage_or_function_is_another_result(workers, notes, tmp_path):
    calls = [("squares", sharding.square, "a"), ("squares", sharding.square, "b"), ("more", sharding.square, "b")]
    for n, (stage, function, stamp) in enumerate([*calls, ("more", sharding.slow_square, "b")], start=1):
        for _ in range(2):
            workers.run(stage, function, squares(notes, numbers=[2]), tmp_path, stamp=stamp)
            assert sharding.called(notes) == {2: n}


def test_damaged_files_are_made_again(workers, notes, tmp_path):
    workers.run("squares", sharding.square, squares(notes), tmp_path)
    files = sorted((tmp_path / "squares").iterdir())
    files[0].write_text(files[0].read_text()[:20])
    files[1].write_text("[]")
    files[2].write_text("[" * 100_000)
    files[3].write_bytes(b"\xff\xfe")
    files[4].unlink()
    assert workers.run("squares", sharding.square, squares(notes), tmp_path) == RESULTS
    assert sharding.called(notes) == {0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 1}


def test_a_task_that_fails_is_named_and_the_same_call_goes_on(workers, notes, tmp_path):
    (tmp_path / "refuse").touch()
    tasks = squares(notes, "refuse")
    with pytest.raises(ShardError) as caught:
        workers.run("squares", sharding.square_unless, tasks, tmp_path / "run")
    assert (caught.value.stage, caught.value.task) == ("squares", "n-3")
    assert str(caught.value).startswith(
        "stage 'squares' failed at task 'n-3': ZeroDivisionError: three of them (sharding.py, line "
    )
    assert "the same call resumes" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    before = sharding.called(notes)
    assert 3 not in before
    assert 3 <= len(before) <= 5
    assert len(list((tmp_path / "run" / "squares").iterdir())) == len(before)
    (tmp_path / "refuse").unlink()
    assert workers.run("squares", sharding.square_unless, tasks, tmp_path / "run") == RESULTS
    assert sharding.called(notes) == dict.fromkeys(range(6), 1)


def test_a_worker_that_dies_loses_nothing(processes, notes, tmp_path):
    assert processes.run("squares", sharding.square_or_die_once, squares(notes), tmp_path / "run") == RESULTS
    assert (tmp_path / "died").exists()
    assert sharding.called(notes) == dict.fromkeys(range(6), 1)


def test_an_answer_that_went_with_its_worker_is_waited_for(workers, notes, tmp_path, monkeypatch):
    asked, outcome = [], running._outcome

    def gone_once(future):
        asked.append(future.key)
        return None if asked.count(future.key) == 1 else outcome(future)

    monkeypatch.setattr(running, "_outcome", gone_once)
    assert workers.run("squares", sharding.square, squares(notes), tmp_path) == RESULTS
    assert len(set(asked)) == 6
    assert len(asked) == 12


@pytest.mark.slow
def test_the_place_of_a_worker_that_died_is_not_given_up(notes, tmp_path):
    """A local cluster of dask's gives it up after some time, 15 seconds where it is not told otherwise."""
    pytest.importorskip("distributed")  # its defaults must be there before they are changed
    import dask

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1ms"}), Workers(n_workers=1) as workers:
        assert workers.run("squares", sharding.square_or_die_once, squares(notes), tmp_path / "run") == RESULTS
    assert (tmp_path / "died").exists()


@pytest.mark.slow
def test_a_task_that_kills_every_worker_is_named(workers, tmp_path):
    with pytest.raises(ShardError, match=r"task 'n-3': 4 workers died while they ran it.*out of memory\?"):
        workers.run("deaths", sharding.die, {f"n-{number}": (number,) for number in range(4)}, tmp_path)
    assert {path.stem for path in (tmp_path / "deaths").iterdir()} >= {"n-0", "n-1"}


def after_three(notes, happens):
    """Let something happen when three tasks were begun."""

    def wait():
        while len(list(notes.iterdir())) < 3:
            time.sleep(0.02)
        happens()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(workers, notes, tmp_path):
    tasks = squares(notes, numbers=range(40))
    thread = after_three(notes, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        workers.run("squares", sharding.square_when_told, tasks, tmp_path / "run")
    (tmp_path / "go").touch()
    thread.join()
    finished = {int(path.stem.removeprefix("n-")) for path in (tmp_path / "run" / "squares").glob("n-*")}
    assert 2 <= len(finished) < 40
    assert len(workers.run("squares", sharding.square_when_told, tasks, tmp_path / "run")) == 40
    times = sharding.called(notes)
    assert list(times) == list(range(40))
    assert {times[number] for number in finished} == {1}


SCRIPT = """
import sys, time
from pathlib import Path
from grinch.running import Workers

class Sleeper:  # known to this script only, which has no __name__ == "__main__"
    def __init__(self, seconds):
        self.seconds = seconds

def sleep(sleeper):
    time.sleep(sleeper.seconds)
    return sleeper.seconds

seconds = [0.1, 0.1, float(sys.argv[2]), float(sys.argv[2])]
tasks = {str(number): (Sleeper(length),) for number, length in enumerate(seconds)}
with Workers(n_workers=2) as workers:
    workers.run("sleep", sleep, tasks, Path(sys.argv[1]))
    print(workers.stages["sleep"].found)
"""


@pytest.mark.slow
def test_a_plain_script_is_stopped_by_ctrl_c_and_goes_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tmp_path / "run")]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "600"], start_new_session=True, **options) as process:
        while len(list(tmp_path.glob("run/sleep/*.json"))) < 2:
            assert process.poll() is None
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, errors = process.communicate(timeout=60)
    assert errors.endswith("KeyboardInterrupt\n")
    again = subprocess.run([*command, "0"], check=True, **options)
    assert again.stdout == "2\n"


@pytest.mark.slow
def test_a_lost_scheduler_is_named_and_nothing_finished_is_lost(notes, tmp_path):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        after_three(notes, lambda: cluster.sync(cluster.scheduler.close))
        with (
            Workers(cluster.scheduler_address) as workers,
            pytest.raises(ShardError, match=r"task 'n-\d+'.*: the connection to the scheduler of the cluster was lost"),
        ):
            workers.run("squares", sharding.slow_square, squares(notes, numbers=range(500)), tmp_path / "run")
    assert len(list((tmp_path / "run" / "squares").iterdir())) == pytest.approx(len(sharding.called(notes)), abs=1)


def test_a_cluster_without_workers_is_not_waited_for_in_vain(notes, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(running, "SECONDS_FOR_A_WORKER", 0.5)
    monkeypatch.setattr(running, "SECONDS_BETWEEN_CHECKS", 0.1)
    tasks = squares(notes, numbers=range(500))
    options = {"threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(n_workers=1, **options) as cluster, Workers(cluster.scheduler_address) as workers:
        after_three(notes, lambda: cluster.scale(0))
        with pytest.raises(ShardError, match=r"task 'n-\d+'.*: no worker of the cluster was left, and none came"):
            workers.run("squares", sharding.slow_square, tasks, tmp_path / "run")
        cluster.scale(1)
        cluster.wait_for_workers(1)
        assert 0 < len(list((tmp_path / "run" / "squares").iterdir())) < 500
        assert len(workers.run("squares", sharding.square, squares(notes), tmp_path / "again")) == 6


@pytest.mark.slow
def test_a_task_that_takes_too_much_memory_is_named(tmp_path):
    with (
        Workers(n_workers=1, memory_limit="400MB") as workers,
        pytest.raises(ShardError, match=r"task 'a': 4 workers died while they ran it.*out of memory\?"),
    ):
        workers.run("memory", sharding.take_memory, {"a": (10**9,)}, tmp_path)


def test_results_are_the_same_from_a_worker_and_from_disk(workers, tmp_path):
    first = workers.run("kinds", sharding.kinds_of_result, {"a": ()}, tmp_path)
    assert first == workers.run("kinds", sharding.kinds_of_result, {"a": ()}, tmp_path)
    assert first == {"a": {"pair": [1, 2], "3": 0.5}}
    with pytest.raises(ShardError, match=r"the result of a task must be JSON-able.*got object"):
        workers.run("objects", sharding.an_object, {"a": ()}, tmp_path)


def test_linear_algebra_has_one_thread(workers, tmp_path):
    assert workers.run("threads", sharding.blas_threads, {"a": ()}, tmp_path) == {"a": [1]}


def test_no_tasks_and_names_that_are_no_file_names(workers, tmp_path):
    assert workers.run("nothing", sharding.square, {}, tmp_path) == {}
    assert workers.stages["nothing"].tasks == 0
    for stage, name in (("a/b", "c"), ("a", "../c"), ("", "c"), ("a", ".c")):
        refused("names of stages and tasks must be letters", workers.run, stage, sharding.square, {name: ()}, tmp_path)


def test_all_workers_must_see_the_folder_and_have_this_version(workers, tmp_path):
    check = running.check_answer
    worker = next(iter(workers.client.nthreads()))
    with pytest.raises(ValueError, match=rf"file system that all workers reach.*{worker} does not see"):
        check(worker, (grinch.__version__, None), "token", tmp_path)
    with pytest.raises(ValueError, match=r"workers with grinch .* has 0\.0\.1\. Install the same version"):
        check(worker, ("0.0.1", "token"), "token", tmp_path)
    with pytest.raises(ValueError, match="answered ModuleNotFoundError: No module named 'grinch'"):
        check(worker, ModuleNotFoundError("No module named 'grinch'"), "token", tmp_path)
    assert running.version_and_text(str(tmp_path / "missing")) == (grinch.__version__, None)


def test_workers_that_do_not_start_are_explained(monkeypatch):
    distributed = pytest.importorskip("distributed")

    def fails(**_):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", fails)
    with (
        pytest.raises(RuntimeError, match=r"could not start its workers on this machine \(Nanny failed.*Call it again"),
        Workers(n_workers=2),
    ):
        pass


def test_what_is_no_client_is_refused():
    with pytest.raises(ValueError, match=r"client must be None, the address .* got 7"), Workers(7):
        pass
    refused("with a client, leave them out", Workers, "tcp://127.0.0.1:9", n_workers=2)
    refused("n_workers must be a whole number of at least 1 or None; got 0", Workers, n_workers=0)
    refused("inside a with statement", Workers().run, "a", sharding.square, {}, Path("nowhere"), error=RuntimeError)


def test_an_address_is_used_and_a_client_stays_open(cluster, notes, tmp_path, capsys):
    with Workers(cluster.client.scheduler.address, verbose=True) as workers:
        assert workers.client is not cluster.client
        assert workers.run("squares", sharding.square, squares(notes), tmp_path) == RESULTS
    assert "squares" in capsys.readouterr().err
    assert workers.client is None
    with Workers(cluster.client):
        pass
    assert cluster.client.status == "running"


def test_the_dashboard_is_named_in_the_log(cluster, caplog, monkeypatch):
    monkeypatch.setattr(Workers, "dashboard_link", "http://127.0.0.1:8787/status")
    with caplog.at_level(logging.INFO, "grinch.sharded"), Workers(cluster.client):
        assert caplog.messages == ["dashboard: http://127.0.0.1:8787/status"]
