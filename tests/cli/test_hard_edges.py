"""What a command says of files, folders and numbers it cannot work with: one line, and exit code 2."""

from __future__ import annotations

import gzip
import os
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from commands import run_command
from effort import at_night
from grinch.io import points as sizes


@pytest.fixture
def run(tmp_path):
    """The command line in a folder of its own."""
    return partial(run_command, cwd=tmp_path)


def refused(done):
    """The one line of a refusal."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


FILES = {
    "nested.csv": (b"[" * 60_000 + b"]" * 60_000, "seems to be JSON"),
    "object.csv": (b'{"a": {"b": [1, 2]}}', "seems to be JSON"),
    "header.csv": (b"x" * 200_000 + b"\n1\n", "line 1 cannot be read"),
    "junk.tsv": (bytes(range(256)) * 9, "must be text in UTF-8"),
    "junk.npy": (b"\x93NUMPY" + bytes(200), "must be .npy version 1.0 or 2.0"),
    "table.npy": (b"a,b\n1,2\n", "is no array of numpy"),
    "table.npz": (b"a,b\n1,2\n", "cannot be read as .npz"),
    "table.parquet": (b"a,b\n1,2\n", "cannot be read as .parquet"),
    "table.csv.gz": (b"a,b\n1,2\n", "cannot be read as .csv"),
    "points.xlsx": (b"PK", "FILE must end in .npy"),
}


# Every day each of the files with one of the commands, by turns.
COMMANDS = ["cluster", "compare", "hint"]
IN_TURN = [
    (name, command) if i % len(COMMANDS) == j else at_night(name, command)
    for i, name in enumerate(FILES)
    for j, command in enumerate(COMMANDS)
]


@pytest.mark.parametrize(("name", "command"), IN_TURN)
def test_files_that_hold_no_points(run, tmp_path, command, name):
    content, message = FILES[name]
    (tmp_path / name).write_bytes(content)
    assert message in refused(run(command, name))
    assert os.listdir(tmp_path) == [name]


def test_arrays_of_the_wrong_shape(run, tmp_path, rng):
    np.save(tmp_path / "line.npy", np.arange(5.0))
    assert "must hold a matrix (points x features); got shape (5,)" in refused(run("cluster", "line.npy"))
    np.savez(tmp_path / "scalar.npz", X=rng.normal(size=(5, 2)), y=np.array(1))
    assert "array 'y' must have one entry for each of the 5 points; got shape ()" in refused(
        run("compare", "scalar.npz")
    )


def test_archives_beyond_the_memory(run, tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "available_memory", lambda: 1_000_000)
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"0,0\n" * 1_000_000))
    assert "unpacks to more than 1,000,000 bytes" in refused(run("cluster", "bomb.csv.gz"))


def test_missing_and_unreadable_files(run, tmp_path):
    assert "FILE 'nowhere.csv' does not exist" in refused(run("hint", "nowhere.csv"))
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in refused(run("compare", "folder.csv"))
    (tmp_path / "mine.csv").write_text("1,2\n3,4\n")
    (tmp_path / "mine.csv").chmod(0)
    if not os.access(tmp_path / "mine.csv", os.R_OK):  # root may read anything
        assert "Permission denied" in refused(run("cluster", "mine.csv"))


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody can write to")
def test_folders_that_cannot_be_written_to(run, tmp_path):
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    for out in ("/proc/self", "/proc/nothing/below", "x.csv", "x.csv/below"):
        for command in ("cluster", "compare"):
            message = f"--out must be a folder that can be made or written to; got {out!r}"
            assert message in refused(run(command, "x.csv", "--out", out))


@pytest.mark.parametrize("threshold", ["nan", "inf", "-inf", "1e999"])
def test_thresholds_that_are_no_numbers(run, tmp_path, threshold):
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    assert "threshold must be" in refused(run("cluster", "x.csv", "--threshold", threshold))
    assert os.listdir(tmp_path) == ["x.csv"]


@pytest.fixture
def table(rng):
    y = rng.integers(0, 3, 40)
    frame = pd.DataFrame(8 * np.eye(3, 4)[y] + rng.normal(size=(40, 4)), columns=list("abcd"))
    frame["kind"] = np.array(["=ape", "-bee", "-1"])[y]
    return frame


def test_a_table_through_a_pipe(run, tmp_path, table):
    code, out, _ = run(
        "cluster", "-", "--label", "kind", "-k", 3, "-q", "--no-picture", given=table.to_csv(index=False)
    )
    assert code == 0
    assert "standard input: 40 points, 4 features" in out
    clusters = pd.read_csv(tmp_path / "grinch-out" / "clusters.csv")
    assert clusters["label"].tolist() == ["-1" if kind == "-1" else f"'{kind}" for kind in table["kind"]]
    code, out, _ = run("hint", "-", "--drop", "kind", given=table.to_csv(index=False))
    assert code == 0
    assert "grinch cluster - --drop kind --linkage" in out
    assert "FILE '-' is empty" in refused(run("cluster", "-"))


@pytest.mark.slow
def test_methods_on_a_table_through_a_pipe(run, table):
    code, out, _ = run(
        "compare", "-", "--label", "kind", "--methods", "hac", "--orders", 1, given=table.to_csv(index=False)
    )
    assert code == 0
    assert "standard input: 40 points, 4 features; 1 shuffled orders each" in out


def test_old_results_survive_a_disk_that_is_full(run, tmp_path, table, monkeypatch):
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = ("cluster", "t.csv", "--drop", "kind", "-q")
    assert run(*arguments)[0] == 0
    out = tmp_path / "grinch-out"
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = run(*arguments, "-k", 2)
    assert code == 2
    assert err == "error: [Errno 28] No space left on device: 'grinch-out/tree.nwk'\n"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
