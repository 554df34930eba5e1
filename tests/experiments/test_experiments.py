"""The paper's experiments at the smallest size, from the command line's point of view too."""

from __future__ import annotations

import html
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache, partial

import numpy as np
import pytest

from commands import run_command
from effort import at_night
from experiments import EXPERIMENTS, ablation, author_coreference, large_scale, run_experiment
from experiments.__main__ import main
from experiments.report import write_report
from experiments.setting import SCALES, Result, Setting, mean_and_deviation, points_of, read_result
from grinch import Grinch
from grinch.cli import bench
from grinch.metrics import dendrogram_purity


@pytest.fixture(scope="module")
def setting():
    """Tiny, and without any data sets but scikit-learn's and generated ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GRINCH_DATA", raising=False)
        yield Setting(SCALES["tiny"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def result_of(setting, folder):
    """The result of an experiment by name; each runs once."""
    return cache(lambda name: run_experiment(name, setting, folder))


def test_table_2_has_every_method(result_of):
    result = result_of("table2")
    assert [row["system"] for row in result.rows] == list(large_scale.METHODS)
    purities = {row["system"]: row["purities"][0] for row in result.rows}
    assert purities["Grinch (average)"] > purities["Online"] > 0
    assert max(purities.values()) < 1


def test_figures_of_the_paper_stand_beside_the_data_that_are_nearest():
    assert large_scale.papers_figure("speaker", "Rotate (cosine)") == "0.406 ± 0.003 (Speaker)"
    assert large_scale.papers_figure("speaker_digits", "HAC") == ""
    assert large_scale.papers_figure("digits", "Online") == ""


# Of these the parts have quick tests of their own; dynhac and time run in other tests every day.
SLOW = ("table3", "table4", "block-size", "dynhac", "time")
RUN = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in EXPERIMENTS]


@pytest.mark.parametrize("name", RUN)
def test_every_experiment_runs_and_leaves_its_result(name, result_of, folder):
    result = result_of(name)
    assert result.rows
    assert result.remarks
    assert all(column in row for row in result.rows for column in result.columns)
    assert result.about["scale"] == "tiny"
    assert {"seed", "version", "python", "processor", "cores", "seconds"} <= set(result.about)
    assert (folder / f"{name}.png").stat().st_size > 5_000
    written = read_result(folder / f"{name}.json")
    assert written.rows == json.loads(json.dumps(result.rows))
    assert html.escape(result.title) in write_report(folder).read_text()


def test_synthetic_data_are_perfect_for_grinch_and_in_the_papers_order(result_of):
    result = result_of("synthetic")
    purities = {title: values for title, (_, values) in result.curves.items()}
    assert purities["Grinch"] == [1.0, 1.0]
    assert np.mean(purities["Grinch"]) > np.mean(purities["Rotate"]) > np.mean(purities["Online"])
    assert "Grinch is perfect on every seed, above Rotate, and Rotate above Online" in result.remarks[0]


def test_the_ablation_turns_moves_off_one_by_one(result_of):
    rows = [row for row in result_of("table1").rows if row["data"] == "synthetic"]
    by_name = {row["row"]: row for row in rows}
    assert list(by_name)[:2] == ["no approximation", "no pull (as printed)"]
    assert all(len(more) == 1 for more, _ in list(ablation.ROWS.values())[1:])
    assert by_name["no approximation"]["purity"] == 1.0
    assert by_name["single NN search"]["restructurings"] > 0
    assert by_name["no restructure"]["restructurings"] == 0
    assert by_name["no restructure"]["grafts"] > 0
    assert by_name["no graft"]["grafts"] == 0
    assert by_name["no rotate"]["rotations"] == 0


def test_recovery_is_the_theorem(result_of):
    rows = {row["system"]: row for row in result_of("recovery").rows}
    for kind in ("cliques", "chains", "stars"):
        assert rows["Grinch (exact)"][kind] == "5 of 5"
        assert rows["HAC"][kind] == "5 of 5"
    assert rows["Online"]["chains share"] < 1


def test_changes_due_to_grafts_add_up(result_of):
    result = result_of("grafts")
    for title in ("Grinch", "Grinch, paper's mode"):
        points, summed = map(np.array, result.curves[title])
        changes = np.diff(summed, prepend=0)
        assert points.tolist() == list(range(2, 151))
        assert np.any(changes)
        for row in result.rows:
            until = points <= row["points"]
            assert row[f"{title}: sum"] == pytest.approx(changes[until].sum(), abs=1e-4)
            assert row[f"{title}: largest"] == pytest.approx(np.abs(changes[until]).max(), abs=1e-4)
    assert result.curves["Grinch"] != result.curves["Grinch, paper's mode"]


def test_the_last_purity_per_point_is_that_of_the_whole_tree(setting, result_of):
    result = result_of("purity-per-point")
    data = points_of(setting.aloi_like(5000))
    order = np.random.default_rng(0).permutation(len(data.labels))
    whole = dendrogram_purity(Grinch(metric="cosine").fit(data.vectors[order]).tree_, data.labels[order])
    assert result.curves["Grinch"][1][-1] == pytest.approx(whole, abs=1e-6)
    assert len(result.curves["Grinch"][0]) >= len(order) - 20


def test_remarks_say_where_grinch_falls_short():
    from experiments import robustness

    found = {
        "Grinch": {"random": [0.8], "sorted": [0.7], "round-robin": [0.79]},
        "Grinch, refined": {"random": [0.85], "sorted": [0.84], "round-robin": [0.85]},
        "Rotate": {"random": [0.7], "sorted": [0.71], "round-robin": [0.7]},
        "Online": {"random": [0.6], "sorted": [0.6], "round-robin": [0.6]},
    }
    assert robustness.verdicts("faces", found) == [
        "faces, sorted: Grinch at 0.700 is below Rotate at 0.710.",
        "faces: Grinch loses 0.100 under sorted order; refined, it is at 0.840, and in random order at 0.850.",
    ]


def test_the_report_needs_results(tmp_path):
    with pytest.raises(FileNotFoundError, match="has no results; make some with: grinch bench all --quick"):
        write_report(tmp_path)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(FileNotFoundError):
        write_report(tmp_path)
    Result("x", "A <title>", ["a"], [{"a": 1}]).write(tmp_path, lambda result: None)
    page = write_report(tmp_path).read_text()
    assert "A &lt;title&gt;" in page
    assert "<td class='number'>1</td>" in page


def test_a_small_data_set_is_taken_whole_and_a_large_one_sampled():
    assert len(points_of(Setting(SCALES["quick"]).source("digits")).labels) == 1797
    sample = points_of(Setting(SCALES["tiny"]).source("digits"))
    assert sample.vectors.shape == (150, 64)
    assert len(np.unique(sample.labels)) == 10


def test_figures_are_written_as_mean_and_deviation():
    assert mean_and_deviation([0.5, 0.7]) == "0.600 ± 0.100"
    assert mean_and_deviation([0.25]) == "0.250"
    assert mean_and_deviation([]) == ""


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setitem(SCALES, "quick", SCALES["tiny"])
    run = partial(run_command, cwd=tmp_path, main=main)
    done = run("bench", "time", "--quick", "-o", "results")
    assert done.returncode == 0, done.stderr
    assert "HAC / Grinch" in done.stdout
    assert (tmp_path / "results" / "report.html").exists()
    again = run("report", "results")
    assert again.returncode == 0
    assert "report.html" in again.stdout
    wrong = run("bench", "tabel1")
    assert wrong.returncode == 2
    assert "did you mean 'table1'" in wrong.stderr


def test_grinch_bench_finds_the_experiments_in_a_checkout(tmp_path):
    """In a process of its own, wherever the user is, with all arguments, and with its exit code."""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__main__.py").write_text("raise ImportError")
    command = [sys.executable, "-m", "grinch.cli"]
    wrong = subprocess.run([*command, "bench", "tabel1", "-o", "results"], cwd=tmp_path, capture_output=True, text=True)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean 'table1'" in wrong.stderr


def test_grinch_bench_says_what_is_missing_without_a_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    missing = run_command("bench", "--help", cwd=tmp_path)
    assert missing.returncode == 2
    assert "needs the folder 'experiments' of the repository" in missing.stderr
    assert "clone the repository and install it from there: pip install -e ." in missing.stderr


@pytest.mark.parametrize("is_terminal", [False, at_night(True)])
def test_ctrl_c_ends_grinch_bench_and_the_experiments(is_terminal, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "grinch.cli", "bench", "synthetic", "-o", "results"],
        cwd=tmp_path,
        start_new_session=True,
    )
    while not (tmp_path / "results").exists():
        assert process.poll() is None
        time.sleep(0.05)
    (os.killpg if is_terminal else os.kill)(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    # Until no process of the session is left.
    with suppress(ProcessLookupError):
        while True:
            os.killpg(process.pid, 0)
            time.sleep(0.05)


def test_remarks_on_coreference_name_the_worst_order():
    methods = {
        "grinch": {"f1": 0.75, "orders": [[0.75, 0.75], [0.80, 0.70]]},
        "hac": {"f1": 0.754, "orders": [[0.79], [0.76]]},
        "mb-hac-sm": {"f1": 0.76, "orders": [[0.76, 0.76], [0.76, 0.76]]},
        "online": {"failure": "more than 10 min"},
    }
    assert author_coreference.verdicts("names", {"methods": methods}) == [
        "names: Grinch at 0.750 is below mb-hac-sm at 0.760.",
        "names, split 1: Grinch is at 0.700 in its worst order, HAC at 0.760.",
    ]
