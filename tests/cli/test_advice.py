"""What the command line says of settings that do not suit the points, and how texts and columns are compared."""

from __future__ import annotations

import json

import numpy as np
import pytest

import grinch
from commands import run_command
from grinch import Grinch

TEXTS = ["red apple pie", "stocks fell today", "green apple", "bonds and stocks", "rain in spain", "..."]


@pytest.fixture
def table(rng, tmp_path):
    """Two groups by the first column; the second is a large number that says nothing."""
    y = np.arange(60) % 2
    X = np.column_stack([10 * y + rng.normal(size=60), 1e6 * rng.normal(size=60)])
    rows = [f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True)]
    (tmp_path / "x.csv").write_text("\n".join(["years,dollars,y", *rows]))
    return X


def test_warnings_are_lines_on_the_standard_error(table, tmp_path):
    done = run_command("cluster", "x.csv", "--label", "y", "--clusters", "40", cwd=tmp_path)
    assert done.returncode == 0
    lines = [line for line in done.stderr.splitlines() if "warning" in line]
    assert [line.partition(": ")[2][:20] for line in lines] == ["the columns of X hav", "n_clusters=40 is mor"]
    assert all(line.startswith("warning: ") for line in lines)
    assert "--scale" in lines[0]
    assert ".py" not in done.stderr
    assert "warning" not in done.stdout


def test_scale_standardises_columns(table, tmp_path):
    plain = run_command("cluster", "x.csv", "--label", "y", "--clusters", "2", "--out", "plain", cwd=tmp_path)
    done = run_command("cluster", "x.csv", "--label", "y", "--clusters", "2", "--scale", cwd=tmp_path)
    assert "warning" in plain.stderr
    assert done.returncode == 0
    assert "warning" not in done.stderr
    expected = Grinch(n_clusters=2).fit((table - table.mean(axis=0)) / table.std(axis=0))
    assert json.loads((tmp_path / "grinch-out" / "summary.json").read_text())["settings"]["metric"] == "sqeuclidean"
    model = grinch.load(tmp_path / "grinch-out" / "model.grinch")
    np.testing.assert_array_equal(model.tree_.child_pairs(), expected.tree_.child_pairs())
    other = grinch.load(tmp_path / "plain" / "model.grinch")
    assert other.tree_.child_pairs().tolist() != expected.tree_.child_pairs().tolist()


def test_texts_are_compared_by_cosine(tmp_path):
    (tmp_path / "x.txt").write_text("\n".join(TEXTS * 5))
    done = run_command("cluster", "x.txt", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert grinch.load(tmp_path / "grinch-out" / "model.grinch").metric == "cosine"
    assert run_command("add", "news", "x.txt", cwd=tmp_path).returncode == 0
    assert "average (cosine)" in run_command("store", "info", "news", cwd=tmp_path).stdout
    run_command("cluster", "x.txt", "--linkage", "ward", "--out", "ward", cwd=tmp_path)
    assert grinch.load(tmp_path / "ward" / "model.grinch").metric is None


def test_vectors_are_compared_by_position(table, tmp_path):
    add = ("add", "points", "x.csv", "--label", "y")
    run_command(*add, cwd=tmp_path)
    assert "average (sqeuclidean)" in run_command("store", "info", "points", cwd=tmp_path).stdout
    assert run_command(*add, "--metric", "sqeuclidean", cwd=tmp_path).returncode == 0
