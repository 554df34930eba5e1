"""Trees and clusters as files: text, arrays and Parquet tables."""

import csv
import os
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.cluster.hierarchy import linkage

from grinch import Tree
from grinch.io import trees as files


@pytest.fixture
def tree():
    return Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))


def test_each_file_says_what_the_tree_says(tree, tmp_path):
    files.write_newick(tree, tmp_path / "t.nwk", list("abcd"))
    assert (tmp_path / "t.nwk").read_text() == tree.to_newick(list("abcd")) + "\n"
    files.write_scipy(tree, tmp_path / "t.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), tree.to_scipy())
    files.write_tsv(tree, tmp_path / "t.tsv", list("abcd"), [0, 0, None, 1])
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
    files.write_tsv(tree, tmp_path / "t.tsv", values, values)
    table = pd.read_csv(tmp_path / "t.tsv", sep="\t", dtype=str, keep_default_na=False)
    assert sorted(table["label"]) == sorted(cells + 3 * [""])
    assert set(table["node"]) - set(table["parent"]) == set(cells) - {""}
    files.write_clusters(tmp_path / "c.csv", np.array([0, 0, 1, 1]), values, values, {"more": values})
    table = pd.read_csv(tmp_path / "c.csv", dtype=str, keep_default_na=False)
    assert [list(table[column]) for column in ("id", "label", "more")] == [cells] * 3
    files.write_layers(tmp_path / "l.csv", [np.array([0, 0, 1, 1])], values)
    assert list(pd.read_csv(tmp_path / "l.csv", dtype=str, keep_default_na=False)["id"]) == cells
    files.write_clusters_parquet(tmp_path / "c.parquet", np.array([0, 0, 1, 1]), range(4), {"more": values})
    assert pq.read_table(tmp_path / "c.parquet")["more"].to_pylist() == ["a", None, "3", "d"]
    files.write_newick(tree, tmp_path / "t.nwk", values)
    assert Tree.from_newick((tmp_path / "t.nwk").read_text()).names == cells


def test_a_row_says_what_the_tree_says_of_a_node(tree, tmp_path):
    files.write_tree_parquet(tree, tmp_path / "t.parquet", list("abcd"))
    table = pd.read_parquet(tmp_path / "t.parquet", dtype_backend="numpy_nullable")
    assert table["node"].tolist() == list(tree.nodes())
    keys, heights = tree.keys(list("abcd")), tree.heights()
    for row in table.itertuples():
        v = row.node
        assert (None if row.parent is pd.NA else row.parent) == tree.parent(v)
        children = () if tree.is_leaf(v) else (row.left, row.right)
        assert children == tree.children(v)
        assert (row.size, row.height, row.key) == (tree.size(v), heights[v], int(keys[v]))
        assert (row.id is pd.NA) == (not tree.is_leaf(v))
        assert (row.score is pd.NA) == tree.is_leaf(v)
        assert tree.is_leaf(v) or (row.score == tree.scores[v] and row.left is not pd.NA)
    leaves = table[table["id"].notna()]
    assert dict(zip(leaves["node"], leaves["id"], strict=True)) == dict(enumerate("abcd"))
    assert os.listdir(tmp_path) == ["t.parquet"]


def test_ids_are_positions_where_there_are_no_names_and_few_points_are_no_exception(tree, tmp_path):
    files.write_tree_parquet(tree, tmp_path / "t.parquet")
    table = pd.read_parquet(tmp_path / "t.parquet", dtype_backend="numpy_nullable")
    assert table["id"].dtype == "Int64"
    assert sorted(table["id"].dropna()) == [0, 1, 2, 3]
    files.write_tree_parquet(Tree(), tmp_path / "none.parquet")
    assert pd.read_parquet(tmp_path / "none.parquet").shape == (0, 9)
    single = Tree()
    single.attach()
    files.write_tree_parquet(single, tmp_path / "single.parquet", ["only"])
    assert pd.read_parquet(tmp_path / "single.parquet")["id"].tolist() == ["only"]
    with pytest.raises(ValueError, match="one entry for each of the 4 leaves; got 2"):
        files.write_tree_parquet(tree, tmp_path / "t.parquet", ["a", "b"])


def test_clusters_keep_the_types_of_their_columns(tmp_path):
    clusters, path = np.array([5, 5, 2]), tmp_path / "c.parquet"
    files.write_clusters_parquet(path, clusters, [7, 8, 9], {"name": ["cats", None, "dogs"], "seen": [1.5, 2.5, None]})
    found = pq.read_table(path).to_pydict()
    columns = {"id": [7, 8, 9], "cluster": [5, 5, 2], "name": ["cats", None, "dogs"], "seen": [1.5, 2.5, None]}
    assert list(found.items()) == list(columns.items())
    for ids in ([7, "x", (1, 2)], [2**70, 1, 2]):
        files.write_clusters_parquet(path, clusters, ids)
        assert pq.read_table(path)["id"].to_pylist() == list(map(str, ids))
    with pytest.raises(ValueError, match="name must have one entry for each of the 3 points; got 1"):
        files.write_clusters_parquet(path, clusters, None, {"name": ["cats"]})
    assert pq.read_table(path).num_rows == 3, "what was there stays"


def test_without_pyarrow_the_message_says_how_to_get_it(tree, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"writing .parquet needs pyarrow.*pip install 'grinch\[parquet\]'"):
        files.write_tree_parquet(tree, tmp_path / "t.parquet")
    assert os.listdir(tmp_path) == []
