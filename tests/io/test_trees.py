"""Trees and clusters as files."""

from __future__ import annotations

import csv
import os

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.cluster.hierarchy import linkage

from grinch import Tree
from grinch.io.trees import write_clusters, write_clusters_parquet, write_layers, write_newick, write_scipy, write_tsv


@pytest.fixture
def tree():
    return Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))


def test_each_file_says_what_the_tree_says(tree, tmp_path):
    write_newick(tree, tmp_path / "t.nwk", list("abcd"))
    assert (tmp_path / "t.nwk").read_text() == tree.to_newick(list("abcd")) + "\n"
    write_scipy(tree, tmp_path / "t.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), tree.to_scipy())
    write_tsv(tree, tmp_path / "t.tsv", list("abcd"), [0, 0, None, 1])
    rows = list(csv.DictReader((tmp_path / "t.tsv").read_text().splitlines(), delimiter="\t"))
    assert len(rows) == 7
    labels = {row["node"]: row["label"] for row in rows if len(row["node"]) == 1}
    assert labels == {"a": "0", "b": "0", "c": "", "d": "1"}
    assert [row["parent"] for row in rows].count("") == 1
    assert sorted(os.listdir(tmp_path)) == ["t.npy", "t.nwk", "t.tsv"]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_missing_values_are_empty_cells(tree, tmp_path, missing):
    values = ["a", missing, 3, "d"]
    cells = ["a", "", "3", "d"]
    write_tsv(tree, tmp_path / "t.tsv", values, values)
    table = pd.read_csv(tmp_path / "t.tsv", sep="\t", dtype=str, keep_default_na=False)
    assert sorted(table["label"]) == sorted(cells + 3 * [""])
    assert set(table["node"]) - set(table["parent"]) == set(cells) - {""}
    write_clusters(tmp_path / "c.csv", np.array([0, 0, 1, 1]), values, values, {"more": values})
    table = pd.read_csv(tmp_path / "c.csv", dtype=str, keep_default_na=False)
    assert [list(table[column]) for column in ("id", "label", "more")] == [cells] * 3
    write_layers(tmp_path / "l.csv", [np.array([0, 0, 1, 1])], values)
    assert list(pd.read_csv(tmp_path / "l.csv", dtype=str, keep_default_na=False)["id"]) == cells
    write_clusters_parquet(tmp_path / "c.parquet", np.array([0, 0, 1, 1]), range(4), {"more": values})
    assert pq.read_table(tmp_path / "c.parquet")["more"].to_pylist() == ["a", None, "3", "d"]
    write_newick(tree, tmp_path / "t.nwk", values)
    assert Tree.from_newick((tmp_path / "t.nwk").read_text()).names == cells


class Unprintable:
    def __str__(self):
        raise OSError("No space left on device")


@pytest.mark.parametrize("write", [write_newick, write_tsv])
def test_what_was_there_survives_a_write_that_fails_halfway(tree, tmp_path, write):
    path = tmp_path / "old"
    path.write_text("old results")
    with pytest.raises(OSError, match="No space left"):
        write(tree, path, ["a", "b", "c", Unprintable()])
    with pytest.raises(OSError, match="No space left"):
        write_clusters(path, np.zeros(2, np.int64), ["a", Unprintable()])
    assert path.read_text() == "old results"
    assert os.listdir(tmp_path) == ["old"]


def test_clusters_can_be_opened_in_a_spreadsheet(tmp_path):
    names, labels = ["=1+1", "-1", "a, b", -3], ["@x", "+y", None, "-2.5"]
    write_clusters(tmp_path / "c.csv", np.array([0, 1, 0, 1]), names, labels)
    rows = list(csv.reader((tmp_path / "c.csv").read_text().splitlines()))
    assert rows == [
        ["id", "cluster", "label"],
        ["'=1+1", "0", "'@x"],
        ["-1", "1", "'+y"],
        ["a, b", "0", ""],
        ["-3", "1", "-2.5"],
    ]
