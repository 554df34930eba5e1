"""A store on the command line: points in and out of it, what its clusters are, and what became of them."""

from __future__ import annotations

import json
import signal
from functools import partial

import numpy as np
import pandas as pd
import pytest

import grinch
from commands import run_command
from grinch.cli import add as adding
from grinch.cli.changes import sentence, telling
from grinch.store.changes import Change


@pytest.fixture
def run(tmp_path):
    def run(*arguments, expect=0, **more):
        done = run_command(*arguments, cwd=tmp_path, **more)
        assert done.returncode == expect, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def table(rng, tmp_path):
    y = rng.integers(0, 4, 120)
    X = 8 * np.eye(4, 6)[y] + rng.normal(size=(120, 6))
    frame = pd.DataFrame(X.astype(np.float32), columns=[f"f{i}" for i in range(6)])
    frame.insert(0, "name", [f"point {i}" for i in range(120)])
    frame["title"] = [f"Title {i}" for i in range(120)]
    frame["species"] = np.array(["ape", "bee", "cow", "dog"])[y]
    frame[:80].to_csv(tmp_path / "monday.csv", index=False)
    frame[80:].to_csv(tmp_path / "tuesday.csv", index=False)
    return frame


OPTIONS = ("--id", "name", "--payload", "title", "--label", "species")


def test_from_day_to_day(run, table, tmp_path):
    done = run("add", "pets", "monday.csv", *OPTIONS, "--linkage", "ward")
    assert "80 points added" in done.stdout
    assert "80 in all, version 1" in done.stdout
    assert "grinch changes pets --since 0" in done.stdout
    assert "80 of 80" in done.stderr
    again = run("add", "pets", "monday.csv", *OPTIONS, "-q")
    assert "Nothing changed: all 80 points were there already; version 1" in again.stdout
    assert again.stderr == ""
    run("add", "pets", "tuesday.csv", *OPTIONS, "-q", "--batch", 15)
    with grinch.open(tmp_path / "pets", readonly=True) as store:
        assert store.ids == table["name"].tolist()
        assert store.version == 4
        assert store.payload(["point 90"]) == [{"title": "Title 90", "species": table["species"][90]}]
        sizes = {cluster: len(members) for cluster, members in store.clusters().items()}
    listed = run("clusters", "pets").stdout.splitlines()
    assert listed[0] == f"120 points in {len(sizes)} clusters, version 4"
    rows = [line.split() for line in listed[3:]]
    assert {int(row[0]): int(row[1]) for row in rows} == sizes
    assert [int(row[1]) for row in rows] == sorted(sizes.values(), reverse=True)
    assert "the 2 largest" in run("clusters", "pets", "--top", 2).stdout
    told = run("changes", "pets", "--since", 1).stdout
    assert "Version 2, " in told
    assert "Version 1" not in told
    assert " grew by " in told
    removed = run("remove", "pets", "point 3", "point 4").stdout
    assert "2 points removed" in removed
    assert "118 left; version 5" in removed
    assert "No cluster changed after version 5" in run("changes", "pets", "--since", 5).stdout


def test_names_are_shown(run, table, tmp_path):
    run("add", "pets", "monday.csv", *OPTIONS, "-q")
    with grinch.open(tmp_path / "pets") as store:
        first = min(store.clusters())
        store.label(first, "dogs [and] more")
    assert "dogs [and] more" in run("clusters", "pets").stdout
    assert f"cluster {first} was named 'dogs [and] more'" in run("changes", "pets").stdout


def test_remove_by_a_file_and_ids_that_are_not_there(run, tmp_path, rng):
    np.save(tmp_path / "x.npy", rng.normal(size=(30, 4)))
    run("add", "store", "x.npy", "-q")
    (tmp_path / "gone.txt").write_text("3\n4\n\n5\n")
    assert "3 points removed" in run("remove", "store", "--file", "gone.txt").stdout
    assert "1 point removed (1 were not there)" in run("remove", "store", "7", "99", "--ignore-missing").stdout
    assert "1 point removed" in run("remove", "store", "-f", "-", given="8\n").stdout
    refused = run("remove", "store", "9", "nobody", expect=2).stderr
    assert "ID must be in the store; it has no 'nobody'. Nothing was removed" in refused
    assert "give at least one ID" in run("remove", "store", expect=2).stderr
    with grinch.open(tmp_path / "store", readonly=True) as store:
        assert store.ids == [i for i in range(30) if i not in (3, 4, 5, 7, 8)]


def test_upkeep(run, table, tmp_path):
    run("add", "pets", "monday.csv", *OPTIONS, "-q")
    run("remove", "pets", "point 3")
    told = run("store", "info", "pets").stdout
    for fact in (
        "points            79",
        "features          6",
        "linkage           average",
        "writer            nobody",
    ):
        assert fact in told
    assert "all is well" in run("store", "check", "pets").stdout
    run("store", "snapshot", "pets")
    assert "79 points, version" in run("store", "compact", "pets").stdout
    assert "copied to copy/" in run("store", "backup", "pets", "copy").stdout
    assert "all is well" in run("store", "check", "copy").stdout
    for name in ("parquet", "csv", "newick"):
        run("store", "export", "pets", "--format", name, "-o", "out")
    clusters = pd.read_csv(tmp_path / "out" / "clusters.csv")
    assert clusters["id"].tolist() == [name for name in table["name"][:80] if name != "point 3"]
    assert json.loads(clusters["payload"][0]) == {"title": "Title 0", "species": table["species"][0]}
    same = pd.read_parquet(tmp_path / "out" / "clusters.parquet")
    assert same["cluster"].tolist() == clusters["cluster"].tolist()
    nodes = pd.read_parquet(tmp_path / "out" / "tree.parquet")
    assert len(nodes) == 2 * 79 - 1
    assert sorted(nodes["id"].dropna()) == sorted(clusters["id"])
    assert (tmp_path / "out" / "tree.nwk").read_text().count("point") == 79


def test_what_is_refused_is_said_in_one_line(run, table, tmp_path):
    for command in (("clusters",), ("changes",), ("store", "info"), ("store", "check")):
        refused = run(*command, "nowhere", expect=2).stderr
        assert refused == "error: STORE 'nowhere' does not exist; make it with: grinch add nowhere FILE\n"
    run("add", "pets", "monday.csv", *OPTIONS, "-q")
    for arguments, message in {
        ("add", "pets", "monday.csv", *OPTIONS, "--linkage", "ward"): "linkage cannot change",
        ("add", "pets", "monday.csv", "--id", "name", "--drop", "title"): "column 'species' must be numeric",
        ("add", "pets", "monday.csv", "--payload", "titel"): "did you mean 'title'?",
        ("clusters", "pets", "--cut", "coarse"): "cut must be one of 'default'; got 'coarse'",
        ("remove", "monday.csv", "x"): "STORE 'monday.csv' does not exist",
    }.items():
        refused = run(*arguments, "-q", expect=2) if arguments[0] == "add" else run(*arguments, expect=2)
        assert refused.stderr.startswith("error: ")
        assert message in refused.stderr
        assert refused.stderr.count("\n") == 1
    with grinch.open(tmp_path / "pets") as store:
        refused = run("remove", "pets", "point 3", expect=2).stderr
        assert "is being written to by process" in refused
        assert refused.count("\n") == 1
        assert "80 points" in run("clusters", "pets").stdout
        assert len(store) == 80


def test_a_row_that_cannot_be_read_is_found_before_the_first_batch(run, tmp_path, rng):
    X = rng.normal(size=(50, 3))
    X[40, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    refused = run("add", "store", "x.npy", "--batch", 10, "-q", expect=2).stderr
    assert "contains NaN in row 40, column 1" in refused
    assert not (tmp_path / "store").exists()


def test_ctrl_c_keeps_whole_batches(run, tmp_path, table, monkeypatch):
    real = grinch.open

    def interrupted(folder, **settings):
        store = real(folder, **settings)
        insert = store.insert

        def once(*values, **named):
            version = insert(*values, **named)
            if version == 3:
                signal.raise_signal(signal.SIGINT)
            return version

        store.insert = once
        return store

    monkeypatch.setattr(grinch, "open", interrupted, raising=False)
    done = run("add", "pets", "monday.csv", *OPTIONS, "-q", "--batch", 20, expect=130)
    assert "Interrupted after 60 of 80 points. The same command goes on from there." in done.stdout
    monkeypatch.undo()
    assert "60 points in" in run("clusters", "pets").stdout
    assert "20 points added" in run("add", "pets", "monday.csv", *OPTIONS, "-q").stdout


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "command",
    [("add",), ("remove",), ("clusters",), ("changes",), ("store",)]
    + [("store", name) for name in ("check", "compact", "export", "info", "snapshot", "backup")],
)
def test_help_fits_the_screen(run, command, columns):
    page = run(*command, "--help", columns=columns).stdout
    assert max(map(len, page.splitlines())) <= columns
    assert "..." not in page.replace("[ARGS]...", "").replace("[ID]...", "")


def test_payloads_are_json(rng):
    moment = pd.Timestamp("2026-11-16")
    values = [1, "a", None, float("nan"), float("inf"), [1, 2], {"a": 1}, moment, b"x"]
    assert [adding._plain(value) for value in values] == [
        1,
        "a",
        None,
        None,
        None,
        [1, 2],
        {"a": 1},
        str(moment),
        "b'x'",
    ]


change = partial(Change, 3, "default")


def test_sentences():
    names = {12: "cats"}
    found = [
        change("grew", 12, (), 90, 14),
        change("shrank", 5, (), 7, 1),
        change("split", 3, (41, 42), 40, 21),
        change("shrank", 3, (41, 42), 40, 21),
        change("born", 41, (3,), 12, 12, ("a", "b")),
        change("born", 42, (3,), 9, 9, ("c",)),
        change("merged", 7, (8, 9), 60, 25),
        change("grew", 7, (8, 9), 60, 25),
        change("dissolved", 8, (7,), 0, 15),
        change("dissolved", 9, (7,), 0, 10),
        change("dissolved", 10, (), 0, 1),
        change("dissolved", 11, (12, 5), 0, 4),
        change("born", 43, (), 3, 3, ("x", "y", "z")),
        change("born", 44, (5,), 5, 5, ("x", "y", "z")),
        change("renamed", 12, (), 90, 0),
    ]
    sizes = {each.cluster: each.size for each in found}
    assert [sentence(each, names, sizes) for each in telling(found)] == [
        "cluster 12 'cats' grew by 14 to 90",
        "cluster 5 shrank by 1 to 7",
        "cluster 3 was split into 3 (40 points), 41 (12 points) and 42 (9 points)",
        "clusters 7, 8 and 9 were merged into 7 (60 points)",
        "cluster 10 was dissolved with its 1 point",
        "cluster 11 was dissolved: its 4 points went to clusters 12 'cats' and 5",
        "cluster 43 was born with 3 points (x, y, z)",
        "cluster 44 was born with 5 points (x, y, z, …), of cluster 5",
        "cluster 12 was named 'cats'",
    ]
