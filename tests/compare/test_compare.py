"""Methods side by side, each in a process of its own."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from commands import run_command
from grinch import HAC
from grinch.cli.compare import _cell
from grinch.compare import methods, worker
from grinch.compare.methods import Row, Worker, compare, parse_method, write_csv
from grinch.cuts import cut_best_f1
from grinch.metrics import dendrogram_purity, pairwise_f1
from refusals import refused


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_figures_are_those_of_the_methods(blobs):
    X, y = blobs
    hac, small = compare(X, y, ["hac", "mb-hac:buffer_size=30"], orders=2)
    tree = HAC().fit(X).tree_
    assert hac.method == "hac"
    assert hac.failure == ""
    assert hac.figures["purity"] == pytest.approx([dendrogram_purity(tree, y)] * 2)
    assert hac.figures["f1"] == pytest.approx([pairwise_f1(y, cut_best_f1(tree, y))] * 2)
    assert hac.figures["depth"] == [tree.depths().max()] * 2
    assert min(hac.figures["seconds"]) > 0
    assert hac.deviation("purity") == pytest.approx(0, abs=1e-12)
    assert small.figures["purity"][0] != small.figures["purity"][1], "other orders, other trees"
    assert small.mean("purity") == pytest.approx(np.mean(small.figures["purity"]))


@pytest.mark.slow
def test_labels_may_be_missing(blobs):
    X, y = blobs
    labels = np.array([str(c) for c in y], dtype=object)
    labels[::7] = None
    (row,) = compare(X, labels, ["online"], orders=1)
    assert 0 < row.figures["purity"][0] < 1
    (row,) = compare(X, None, ["online"], orders=1)
    assert sorted(row.figures) == ["depth", "memory", "seconds"]


@pytest.mark.slow
def test_a_method_that_takes_too_long_or_fails_does_not_stop_the_others(rng):
    X = rng.normal(size=(20_000, 8)).astype(np.float32)
    # With so wide a beam, PERCH takes hours; Online a fraction of a second.
    methods = ["perch:search=beam:beam_width=20000", "hac:lean=true", "online"]
    slow, wrong, fine = compare(X, None, methods, orders=1, linkage="cosine", time_limit=8)
    assert slow.failure == "over 8 s"
    assert slow.figures == {}
    assert wrong.failure == "ValueError"
    assert "lean=True needs a linkage that is reducible" in wrong.why
    assert fine.failure == ""
    assert len(fine.figures["seconds"]) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by Linux's RLIMIT_DATA")
def test_a_method_that_does_not_fit_in_memory_is_reported(rng):
    X = rng.normal(size=(16_000, 4)).astype(np.float32)
    hac, online = compare(X, None, ["hac", "online"], orders=1, memory_limit=1_200_000_000)
    assert hac.failure == "out of memory"
    assert online.failure == ""


def test_wrong_methods_are_refused_before_anything_runs(blobs):
    X, y = blobs
    refused("method must be one of", next, compare(X, y, ["grinch", "hacc"]))
    refused(r"a setting of a method is written name=value.*got 'cap'", parse_method, "grinch:cap")
    refused("a setting of method 'grinch' must be one of", parse_method, "grinch:caps=3")
    assert parse_method(" perch:search=beam ").settings == {"search": "beam"}


def test_the_csv_has_a_line_for_each_method(tmp_path):
    figures = {"purity": [0.5, 0.7], "f1": [0.4] * 2, "seconds": [1.0, 3.0], "memory": [2e6] * 2, "depth": [9.0, 11.0]}
    write_csv([Row("grinch", figures), Row("hac", {}, "out of memory", "no room")], tmp_path / "c.csv")
    names = ("method", "orders", "purity_mean", "purity_deviation", "memory_mean", "depth_mean", "failure")
    first, second = ([row[name] for name in names] for row in rows_of(tmp_path / "c.csv"))
    assert first == ["grinch", "2", "0.6", "0.1", "2", "10", ""]
    assert second == ["hac", "0", "", "", "", "", "out of memory"]


def run(*arguments, cwd):
    return run_command("compare", *arguments, cwd=cwd)


@pytest.mark.slow
def test_the_command_prints_a_table_and_writes_csv_and_picture(blobs, tmp_path):
    np.savez(tmp_path / "blobs.npz", X=blobs[0], y=blobs[1])
    done = run(
        "blobs.npz", "--methods", "online,hac:lean=true,hac", "--orders", "2", "--linkage", "cosine", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "blobs.npz: 300 points, 6 features; 2 shuffled orders each" in done.stdout
    for word in ("purity", "best F1", "seconds", "MB", "depth", "±", "ValueError", "reducible"):
        assert word in done.stdout
    rows = rows_of(tmp_path / "grinch-out" / "compare.csv")
    assert [row["method"] for row in rows] == ["online", "hac:lean=true", "hac"]
    assert 0 < float(rows[0]["purity_mean"]) <= 1
    assert (tmp_path / "grinch-out" / "compare.png").stat().st_size > 10_000
    wrong = run("blobs.npz", "--methods", "grnch", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean 'grinch'" in wrong.stderr


@pytest.mark.slow
def test_ctrl_c_reports_what_was_done(rng, tmp_path):
    np.save(tmp_path / "points.npy", rng.normal(size=(20_000, 8)))
    arguments = ["compare", "points.npy", "--methods", "online,perch:search=beam:beam_width=20000", "--orders", "1"]
    command = [sys.executable, "-m", "grinch.cli", *arguments]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    seen = ""
    while "online: done" not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate()
    assert process.returncode == 0, rest
    assert "Interrupted: these are the results so far" in rest
    assert [row["method"] for row in rows_of(tmp_path / "grinch-out" / "compare.csv")] == ["online"]


def test_settings_may_be_pythons_and_the_linkage_is_one_for_all(blobs):
    assert parse_method("perch:balance=False").settings == {"balance": False}
    assert parse_method("perch:max_leaves=None").settings == {"max_leaves": None}
    with pytest.raises(ValueError, match="linkage is the same for all methods that are compared: --linkage ward"):
        parse_method("mb-hac:linkage=ward")
    refused("methods must name at least one of grinch", next, compare(*blobs, []))
    X = blobs[0].copy()
    X[7, 2] = np.nan
    refused("NaN in row 7, column 2", next, compare(X, None, ["grinch"]))


@pytest.mark.slow
def test_all_failed_is_an_error_and_no_picture_is_claimed(blobs, tmp_path):
    np.save(tmp_path / "blobs.npy", blobs[0])
    done = run("blobs.npy", "--methods", "hac:lean=true", "--linkage", "cosine", "--orders", "1", cwd=tmp_path)
    assert done.returncode == 1
    assert "compare.png" not in done.stdout
    assert not (tmp_path / "grinch-out" / "compare.png").exists()


def process_of(tmp_path, method, settings=None):
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(30, 3)))
    data = {"vectors": str(tmp_path / "vectors.npy"), "labels": None, "seeds": [0], "memory_limit": None}
    return {**data, "method": method, "settings": settings or {}, "linkage": "average", "metric": None}


def test_memory_is_left_out_where_the_system_does_not_say(tmp_path, monkeypatch, capsys):
    """As on Windows, which has neither the module resource nor /proc."""
    monkeypatch.setattr(worker, "resource", None)
    monkeypatch.setattr(worker, "peak_memory", lambda: 0)
    worker.attempt(process_of(tmp_path, "online"))
    begun, found = map(json.loads, capsys.readouterr().out.splitlines())
    assert begun == {"begun": 0}
    assert sorted(found["found"]) == ["depth", "seconds"]
    worker.attempt({**process_of(tmp_path, "online"), "memory_limit": 10**9})
    assert "memory_limit needs Linux or macOS" in json.loads(capsys.readouterr().out)["why"]
    assert _cell(Row("online", found["found"]), "memory") == "n/a"


@pytest.mark.slow
def test_the_package_is_imported_without_the_module_resource():
    code = "import sys; sys.modules['resource'] = None; from grinch.compare import worker; print(worker.resource)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "None\n", done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not worker.FORKS, reason="each job has a worker of its own here")
def test_one_worker_runs_all_jobs_and_outlives_those_that_die(tmp_path, monkeypatch):
    with Worker(tmp_path) as process:
        fine = process.run(process_of(tmp_path, "online"), None, lambda done: None)
        first = process.process.pid
        # A job that cannot be read ends the copy, not the worker.
        wrong = process.run({**process_of(tmp_path, "hac"), "vectors": "nowhere.npy"}, None, lambda done: None)
        again = process.run(process_of(tmp_path, "hac"), None, lambda done: None)
        assert process.process.pid == first
        os.kill(first, signal.SIGKILL)
        assert process._died({}, process._exit_code()).why == "killed by the system"
        another = process.run(process_of(tmp_path, "hac"), None, lambda done: None)
    assert fine.failure == again.failure == another.failure == ""
    assert wrong.failure == "FileNotFoundError"
    assert list(again.figures) == ["seconds", "depth", "memory"]
    assert process.process is None


@pytest.mark.slow
def test_where_nothing_forks_each_job_has_a_worker_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(methods, "FORKS", False)
    with Worker(tmp_path) as process:
        outcome = process.run(process_of(tmp_path, "online"), None, lambda done: None)
        assert process.process is None
    assert len(outcome.figures["seconds"]) == 1
