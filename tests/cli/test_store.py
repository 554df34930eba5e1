"""A store on the command line: points in and out of it, what its clusters are, and what became of them."""

import json
import signal
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

import grinch
from commands import run as run_here
from grinch.cli.points import json_value
from grinch.store import Store, forks, recuts, state
from grinch.store.database import Operation


@pytest.fixture
def run(tmp_path):
    return partial(run_here, cwd=tmp_path)


@pytest.fixture
def table(rng, tmp_path):
    y = rng.integers(0, 4, 120)
    frame = pd.DataFrame((8 * np.eye(4, 6)[y] + rng.normal(size=(120, 6))).astype(np.float32))
    frame.columns = [f"f{i}" for i in range(6)]
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
    rows = [line.split() for line in listed[3 : 3 + len(sizes)]]
    assert {int(row[0]): int(row[1]) for row in rows} == sizes
    assert [int(row[1]) for row in rows] == sorted(sizes.values(), reverse=True)
    assert "the 2 largest" in run("clusters", "pets", "--top", 2).stdout
    told = run("changes", "pets", "--since", 1, "--each").stdout
    assert "Version 2 (" in told
    assert "Version 1" not in told
    assert " grew" in told
    removed = run("remove", "pets", "point 3", "point 4").stdout
    assert "2 points removed" in removed
    assert "118 left; version 5" in removed
    assert "The clusters are the same" in run("changes", "pets", "--since", 5).stdout


def test_remove_by_a_file_and_ids_that_are_not_there(run, tmp_path, rng):
    np.save(tmp_path / "x.npy", rng.normal(size=(30, 4)))
    run("add", "store", "x.npy", "-q")
    (tmp_path / "gone.txt").write_text("3\n4\n\n5\n")
    assert "3 points removed" in run("remove", "store", "--file", "gone.txt").stdout
    assert "Nothing changed: 1 point had been removed before" in run("remove", "store", "4").stdout
    assert "Nothing changed: none of 2 points" in run("remove", "store", "4", "x", "--ignore-missing").stdout
    assert "1 point removed (1 was not there)" in run("remove", "store", "7", "99", "--ignore-missing").stdout
    assert "1 point removed" in run("remove", "store", "-f", "-", given="8\n").stdout
    refused = run("remove", "store", "9", "99", expect=2).stderr
    assert "99 never was. Nothing was removed; --ignore-missing ignores" in refused
    with grinch.open(tmp_path / "store", readonly=True) as store:
        assert store.ids == [i for i in range(30) if i not in (3, 4, 5, 7, 8)]


def test_upkeep(run, table, tmp_path):
    table.loc[4, "title"] = "=Title 4"
    table[:80].to_csv(tmp_path / "monday.csv", index=False)
    run("add", "pets", "monday.csv", *OPTIONS, "-q")
    run("remove", "pets", "point 3")
    told = run("store", "info", "pets").stdout
    for name, value in {"points": 79, "features": 6, "linkage": "average", "writer": "nobody"}.items():
        assert f"{name:<18}{value}" in told
    assert "all is well" in run("store", "check", "pets").stdout
    run("store", "snapshot", "pets")
    assert "79 points, version" in run("store", "compact", "pets").stdout
    assert "copied to copy/" in run("store", "backup", "pets", "copy").stdout
    assert "all is well" in run("store", "check", "copy").stdout
    for name in ("parquet", "csv", "newick"):
        run("store", "export", "pets", "--format", name, "-o", "out")
    clusters = pd.read_csv(tmp_path / "out" / "clusters.csv")
    assert clusters["id"].tolist() == [name for name in table["name"][:80] if name != "point 3"]
    assert list(clusters) == ["id", "cluster", "name", "title", "species"]
    assert clusters["title"][:4].tolist() == ["Title 0", "Title 1", "Title 2", "'=Title 4"]
    same = pd.read_parquet(tmp_path / "out" / "clusters.parquet")
    assert same["title"][3] == "=Title 4"
    assert same["cluster"].tolist() == clusters["cluster"].tolist()
    nodes = pd.read_parquet(tmp_path / "out" / "tree.parquet")
    assert len(nodes) == 2 * 79 - 1
    assert sorted(nodes["id"].dropna()) == sorted(clusters["id"])
    assert (tmp_path / "out" / "tree.nwk").read_text().count("point") == 79


def test_another_writer_is_named(run, table, tmp_path):
    run("add", "pets", "monday.csv", *OPTIONS, "-q")
    with grinch.open(tmp_path / "pets"):
        refused = run("remove", "pets", "point 3", expect=2).stderr
        assert "is being written to by process" in refused
        assert "Wait until it is done; grinch clusters and grinch changes read beside it" in refused
        assert "80 points" in run("clusters", "pets").stdout


def test_a_row_that_cannot_be_read_is_found_before_the_first_batch(run, tmp_path, rng):
    X = rng.normal(size=(50, 3))
    X[40, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    refused = run("add", "store", "x.npy", "--batch", 10, "-q", expect=2).stderr
    assert "contains NaN in row 40, column 1" in refused
    assert not (tmp_path / "store").exists()


def test_ctrl_c_keeps_whole_batches(run, tmp_path, table, monkeypatch):
    insert = Store.insert

    def once(*given, **named):
        version = insert(*given, **named)
        if version == 3:
            signal.raise_signal(signal.SIGINT)
        return version

    monkeypatch.setattr(Store, "insert", once)
    done = run("add", "pets", "monday.csv", *OPTIONS, "-q", "--batch", 20, expect=130)
    assert "Interrupted after 60 of 80 points.\nThe same command resumes from there." in done.stdout
    done = run("add", "unnamed", "monday.csv", *OPTIONS[2:], "--drop", "name", "-q", "--batch", 20, expect=130)
    assert "Do not give the same command again: without --id, the first 60 points would be" in done.stdout
    monkeypatch.undo()
    assert "60 points in" in run("clusters", "pets").stdout
    assert "20 points added" in run("add", "pets", "monday.csv", *OPTIONS, "-q").stdout


def test_payloads_are_json(rng):
    moment = pd.Timestamp("2026-11-16")
    values = [1, "a", None, float("nan"), float("inf"), [1, 2], {"a": 1}, moment, b"x"]
    assert [json_value(value) for value in values] == [1, "a", None, None, None, [1, 2], {"a": 1}, str(moment), "b'x'"]


def test_ids_of_one_kind_and_columns_of_one_order(run, tmp_path, rng):
    frame = pd.DataFrame(rng.normal(size=(20, 3)), columns=list("abc"))
    frame.insert(0, "id", range(20))
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    for first, second, kind in (("x.csv", "x.parquet", "text"), ("x.parquet", "x.csv", "number")):
        run("add", kind, first, "--id", "id", "-q", "--dtype", "float64")
        assert "Nothing changed: all 20 points" in run("add", kind, second, "--id", "id", "-q").stdout
        with grinch.open(tmp_path / kind, readonly=True) as store:
            assert store.id_kind == kind
        assert "1 point removed" in run("remove", kind, "7").stdout
    frame.assign(id=[f"0{i}" for i in range(20)]).to_csv(tmp_path / "texts.csv", index=False)
    refused = run("add", "number", "texts.csv", "--id", "id", "-q", expect=2).stderr
    assert "--id must be a whole number, like the other ids in the store; got '00'" in refused
    frame[["id", "b", "a", "c"]].assign(id=range(50, 70)).to_csv(tmp_path / "swapped.csv", index=False)
    for command in ("add", "predict"):
        refused = run(command, "text", "swapped.csv", "--id", "id", expect=2).stderr
        assert "columns in the order of the store, 'a', 'b', 'c'" in refused
    frame.rename(columns={"c": "d"}).to_csv(tmp_path / "other.csv", index=False)
    assert "it lacks 'c' and has 'd' as well" in run("add", "text", "other.csv", "--id", "id", expect=2).stderr


def test_points_that_are_there_with_another_row(run, table, tmp_path):
    run("add", "pets", "monday.csv", *OPTIONS, "-q")
    table[70:90].assign(f0=table["f0"] + 1).to_csv(tmp_path / "changed.csv", index=False)
    refused = run("add", "pets", "changed.csv", *OPTIONS, "-q", expect=2).stderr
    assert "'point 70' is there with another. Nothing was inserted; --update changes such points" in refused
    done = run("add", "pets", "changed.csv", *OPTIONS, "-q", "--update").stdout
    assert "10 points added" in done
    assert "10 were there already (updated); 90 in all" in done
    with grinch.open(tmp_path / "pets", readonly=True) as store:
        assert store.vectors(["point 70"])[0, 0] == np.float32(table["f0"][70] + 1)
    assert "Nothing changed" in run("add", "pets", "changed.csv", *OPTIONS, "-q", "--update").stdout


def test_names_cuts_and_predictions(run, table, tmp_path):
    assert "kept as float32" in run("add", "pets", "monday.csv", *OPTIONS, "-q", "--linkage", "ward", "-k", 4).stdout
    assert "is called 'dogs'; version 2" in run("label", "pets", "1", "dogs").stdout
    assert "version 2 as before" in run("label", "pets", "1", "dogs").stdout
    assert "dogs" in run("clusters", "pets").stdout
    assert "dogs: the name of cluster 1 now" in run("changes", "pets", "--since", 1).stdout
    assert "has no name" in run("label", "pets", "1", "--clear").stdout
    listed = run("cuts", "pets", "--add", "own").stdout
    assert "2 cuts, version 4" in listed
    assert "into 4" in listed
    assert "version 5" in run("recut", "pets", "--cut", "own").stdout
    assert "1 cut, version 6" in run("cuts", "pets", "--drop", "own").stdout
    given = ("--id", "name", "--drop", "title", "--drop", "species")
    lines = run("predict", "pets", "monday.csv", *given).stdout.splitlines()
    with grinch.open(tmp_path / "pets", readonly=True) as store:
        labels = store.labels()
    assert lines == ["id,cluster", *(f"point {i},{label}" for i, label in enumerate(labels))]
    run("predict", "pets", "monday.csv", *given, "-o", "found.csv")
    assert (tmp_path / "found.csv").read_text().splitlines() == lines


def test_layers(run, table, tmp_path):
    run("add", "pets", "monday.csv", *OPTIONS, "-q", "--layer", "coarse")
    assert "automatic, coarse" in run("cuts", "pets").stdout
    assert "automatic, layer 0" in run("cuts", "pets", "--add", "fine", "--layer", "0").stdout
    assert "is cut in another way" in run("add", "pets", "tuesday.csv", *OPTIONS, "--layer", "fine", expect=2).stderr
    with grinch.open(tmp_path / "pets", readonly=True) as store:
        layers = [layer for layer, _ in store.layers()[1]]
        assert len(set(store.labels().tolist())) == layers[-1].max() + 1
        assert len(set(store.labels("fine").tolist())) == layers[0].max() + 1


def test_clusters_and_changes_are_shown_by_what_is_kept_with_points(run, table, tmp_path, monkeypatch):
    run("add", "pets", "monday.csv", *OPTIONS, "-q")
    run("add", "pets", "tuesday.csv", *OPTIONS, "-q", "--batch", 20)
    listed = run("clusters", "pets", columns=80).stdout
    assert " · Title " in listed
    assert max(map(len, listed.splitlines())) <= 80
    assert table["species"][0] in run("clusters", "pets", "--show", "species").stdout
    told = run("changes", "pets", columns=80).stdout
    assert told.startswith("From the beginning to version 3 (")
    assert "new points" in told.splitlines()[0]
    assert "new, " in told
    assert max(map(len, told.splitlines())) <= 80
    rows = json.loads(run("changes", "pets", "--since", 1, "--format", "json").stdout)
    assert (rows["since"], rows["version"]) == (1, 3)
    with grinch.open(tmp_path / "pets", readonly=True) as store:
        sizes = {cluster: len(members) for cluster, members in store.clusters().items()}
    assert {row["cluster"]: row["size"] for row in rows["changes"]} == sizes
    assert all(row["size"] - row["size_before"] == row["count"] for row in rows["changes"] if row["kind"] == "grew")
    head = run("changes", "pets", "--since", "yesterday", "--each", "--format", "csv").stdout.splitlines()[0]
    assert head == "version,kind,cluster,name,others,size,count,exemplars"


@pytest.mark.parametrize("width", [40, 60, 120])
def test_no_column_is_left_out_on_a_narrow_screen(run, table, width):
    run("add", "pets", "monday.csv", *OPTIONS, "-q", "--linkage", "ward")
    whole = run("clusters", "pets").stdout.splitlines()[3:]
    head, *rows = run("clusters", "pets", columns=width).stdout.splitlines()[2:]
    assert head.split() == ["cluster", "size", "since", "for", "example"]
    assert max(map(len, [head, *rows])) <= width
    assert [row.split()[:3] for row in rows] == [row.split()[:3] for row in whole]
    shown = [(row.rstrip(), all_of_it.rstrip()) for row, all_of_it in zip(rows, whole, strict=True)]
    assert all(row == all_of_it or (row[-1] == "…" and all_of_it.startswith(row[:-1])) for row, all_of_it in shown)


@pytest.mark.skipif(not forks.CAN_FORK, reason="cuts are made in the background by a fork")
def test_the_news_are_those_of_the_cut_that_was_due(run, rng, tmp_path, monkeypatch):
    monkeypatch.setattr(state, "MAX_AT_ONCE", 0)
    # It takes until the store is closed.
    monkeypatch.setattr(recuts.Recuts, "is_under_way", lambda self: self.names)
    X = rng.normal(size=(400, 3))
    np.save(tmp_path / "monday.npy", X[:250]), np.save(tmp_path / "tuesday.npy", X[250:])
    run("add", "points", "monday.npy", "-q")
    done = run("add", "points", "tuesday.npy", "-q", "--batch", 50)
    with grinch.open(tmp_path / "points", readonly=True) as store:
        news = store.digest(1, 0).counts
        assert f"Clusters: {news}\n" in done.stdout
        assert store.version > 4
        assert news != store.digest(1, 0, until=4).counts


def test_a_linkage_of_your_own_is_imported(run, tmp_path, monkeypatch):
    (tmp_path / "own_linkage_of_a_test.py").write_text("def near(a, b):\n    return -abs(a[0][0] - b[0][0])\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    import own_linkage_of_a_test

    with grinch.open(tmp_path / "own", linkage=own_linkage_of_a_test.near) as store:
        store.insert([[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]])
    del sys.modules["own_linkage_of_a_test"]
    refused = run("clusters", "own", expect=2).stderr
    assert "needs 'own_linkage_of_a_test:near'" in refused
    assert "grinch --import own_linkage_of_a_test COMMAND" in refused
    assert "3 points in" in run("--import", "own_linkage_of_a_test", "clusters", "own").stdout


def test_a_store_of_another_engine_is_taken_over(run, rng, tmp_path, monkeypatch):
    X = rng.normal(size=(60, 4))
    with grinch.open(tmp_path / "old") as store:
        store.insert(X[:40])
    store = grinch.open(tmp_path / "old")
    with monkeypatch.context() as earlier:
        earlier.setattr("grinch.store.rows.Operation", partial(Operation, engine=0))
        store.insert(X[40:])
    labels = store.labels()
    store._release()  # as if its process had died: there is no snapshot of the last insert
    refused = run("clusters", "old", expect=2)
    assert "grinch store replay old NEW" in refused.stderr
    done = run("store", "replay", "old", "new")
    assert "1 operation done again, 1 of them by another engine before" in done.stdout
    assert "may differ" in done.stdout
    with grinch.open(tmp_path / "new", readonly=True) as replayed:
        assert replayed.version == 2
        assert np.array_equal(replayed.labels(), labels)
    assert "'new' is there" in run("store", "replay", "old", "new", expect=2).stderr
