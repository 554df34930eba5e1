"""A sharded store of branches that were clustered elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import grinch
from branching import compare, grouped
from grinch import Grinch, Tree
from grinch.sharded.store import BranchOfFit, make_sharded

TOP = Tree.from_merges(np.array([[0, 2], [1, 3]]), np.array([0.5, 0.1]), ceiling=1.0)


def parts_of(X, names):
    """Three branches in which points that came one after the other are apart."""
    found = []
    for i in range(3):
        numbers = np.arange(i, len(X), 3)[::-1]
        ids = None if names is None else [names[j] for j in numbers]
        found.append(BranchOfFit(X[numbers], ids, numbers, Grinch(linkage="ward").fit(X[numbers]).tree_))
    return found


@pytest.mark.parametrize("is_named", [True, False])
def test_trees_stay_as_they_are(tmp_path, is_named):
    X = grouped(0, 90)
    names = [f"p{i}" for i in range(90)] if is_named else None
    parts, payload = parts_of(X, names), [["x"] * 30, None, ["y"] * 30]
    expected = {name: [None, "x", "y"][[1, 0, 2][i % 3]] for i, name in enumerate(names or range(90))}
    with make_sharded(tmp_path / "s", parts, TOP, linkage="ward", payload=payload) as store:
        compare(store, dict(zip(names or range(90), X, strict=True)), expected)
        store.check()
        trees = [branch.store.tree for branch in store._branches]
        for part, tree in zip(parts, trees, strict=True):
            assert sorted(tree.keys(range(30)).tolist()) == sorted(part.tree.keys(range(30)).tolist())
            np.testing.assert_allclose(
                np.sort(tree.scores[tree.internal_nodes()]),
                np.sort(part.tree.scores[part.tree.internal_nodes()]),
                rtol=1e-4,
            )
        sides = [set(store.tree.leaves(v).tolist()) for v in store.tree.children(store.tree.root)]
        assert set(range(1, 90, 3)) in sides
    with grinch.open(tmp_path / "s") as again:
        for before, branch in zip(trees, again._branches, strict=True):
            np.testing.assert_array_equal(branch.store.tree.child_pairs(), before.child_pairs())
        new = grouped(9, 20)
        ids = [f"q{i}" for i in range(20)] if is_named else None
        again.insert(new, ids=ids)
        rows = dict(zip((names or range(90)), X, strict=True)) | dict(zip(ids or range(90, 110), new, strict=True))
        compare(again, rows, expected)
        again.check()


def test_what_does_not_fit_together_is_refused(tmp_path):
    X = grouped(0, 9)
    parts = parts_of(X, None)
    for wrong, top, message in (
        (parts[:2], TOP, "a leaf for each branch"),
        ([parts[0], parts[1], parts[2]._replace(ids=["a", "b", "c"])], TOP, "for all branches or for none"),
        ([parts[0], parts[1], parts[2]._replace(rows=X[:2])], TOP, "branch 2 has 2 rows"),
        ([parts[0], parts[1], parts[0]], TOP, "is there twice"),
    ):
        with pytest.raises(ValueError, match=message):
            make_sharded(tmp_path / "s", wrong, top, linkage="ward")
    assert not (tmp_path / "s").exists()
    with pytest.raises(ValueError, match="on vectors"):
        make_sharded(tmp_path / "s", parts, TOP, linkage="complete")
    make_sharded(tmp_path / "s", parts, TOP, linkage="ward").close()
    with pytest.raises(FileExistsError, match="has a sharded store already"):
        make_sharded(tmp_path / "s", parts, TOP, linkage="ward")


def test_a_store_adopts_a_tree(tmp_path):
    X = grouped(3, 120)
    model = Grinch().fit(X[:100])
    with grinch.open(tmp_path / "s") as store, grinch.open(tmp_path / "grown") as grown:
        assert store.adopt(X[:100], model.tree_, payload=list(range(100))) == 1
        np.testing.assert_array_equal(store.tree.child_pairs(), model.tree_.child_pairs())
        assert store.payload([7]) == [7]
        grown.insert(X[:100])
        for one in (store, grown):
            one.insert(X[100:])
        assert store.tree.to_newick(lengths=False) == grown.tree.to_newick(lengths=False)
        np.testing.assert_array_equal(store.arrived(), [1] * 100 + [2] * 20)
        store.check()
        with pytest.raises(ValueError, match="for a store without points, and this one has had 120"):
            store.adopt(X[:100], model.tree_)
        store.compact()
        np.testing.assert_array_equal(store.arrived(), [1] * 100 + [2] * 20)
        tree = store.tree
    with grinch.open(tmp_path / "s") as store:
        np.testing.assert_array_equal(store.tree.child_pairs(), tree.child_pairs())


def test_a_reader_sees_a_tree_that_was_adopted(tmp_path):
    X = grouped(3, 50)
    tree = Grinch(linkage="ward").fit(X).tree_
    with grinch.open(tmp_path / "s") as store, grinch.open(tmp_path / "s", readonly=True) as reader:
        with pytest.raises(ValueError, match="a leaf for each of the 49 rows"):
            store.adopt(X[1:], tree)
        assert len(store) == 0
        store.adopt(X, tree)
        assert reader.refresh() == 1
        np.testing.assert_array_equal(reader.tree.child_pairs(), tree.child_pairs())
