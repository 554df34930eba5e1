"""Content keys: the same leaves give the same key, whatever the tree, the type of the ids, or the process."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch import Grinch, Tree
from grinch.tree.keys import leaf_keys
from refusals import refused
from trees import random_tree, random_trees

IDS = [0, -1, 2**63, 2**64 - 1, 2**64, -(2**70), 0.5, 1.0, 1, float("nan"), float("inf"), True, False, None]
IDS += ["a", "", "ä\ud800", b"a", (), ("a", 1), (("a",), 1), ("a", "1"), uuid.UUID(int=7)]
# Stored keys must be found again: these numbers may never change.
KNOWN = {0: 0xE220A8397B1DCDAF, 1: 0x910A2DEC89025CC1, "a": 0x1393410D2C03E5A4, ("a", 1): 0xCB5FEA388034D441}


def splitmix64(value):
    z = (value + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@given(random_trees(), st.integers(0, 10**6))
def test_a_key_is_the_sum_over_the_leaves_modulo_2_to_the_64(tree, seed):
    ids = np.random.default_rng(seed).integers(-(2**63), 2**63, tree.n_leaves)
    keys, number = tree.keys(ids), leaf_keys(ids)
    assert keys.dtype == np.uint64
    assert len(keys) == tree.n_ids
    for v in tree.nodes():
        assert int(keys[v]) == sum(int(number[i]) for i in tree.leaves(v)) % 2**64
    outside = np.setdiff1d(np.arange(tree.n_ids), tree.preorder())
    assert not keys[outside].any()


@given(random_trees(), st.integers(0, 10**6))
def test_another_tree_over_the_same_ids_has_the_same_keys_for_the_same_leaves(tree, seed):
    order = np.random.default_rng(seed).permutation(tree.n_leaves)
    other = tree.relabelled(order)
    names = np.empty(tree.n_leaves, dtype=object)
    names[order] = [f"name {i}" for i in range(tree.n_leaves)]
    keys, others = tree.keys([f"name {i}" for i in range(tree.n_leaves)]), other.keys(names.tolist())
    assert sorted(keys[tree.preorder()]) == sorted(others[other.preorder()])
    assert keys[tree.root] == others[other.root]


@given(random_trees(), st.integers(0, 10**6))
def test_equal_keys_mean_equal_leaves(tree, seed):
    other = random_tree(np.random.default_rng(seed), tree.n_leaves)
    mine = {int(tree.keys()[v]): frozenset(tree.leaves(v).tolist()) for v in tree.nodes()}
    others = {int(other.keys()[v]): frozenset(other.leaves(v).tolist()) for v in other.nodes()}
    assert len(mine) == len(others) == 2 * tree.n_leaves - 1
    assert {mine[k] for k in mine.keys() & others.keys()} == set(mine.values()) & set(others.values())
    assert all(mine[k] == others[k] for k in mine.keys() & others.keys())


def test_ids_are_the_names_of_the_tree_and_what_is_left_of_a_node_is_known_by_its_key(rng):
    X = rng.normal(size=(60, 4))
    model = Grinch().fit(X, ids=[f"p{i}" for i in range(60)])
    model.remove([f"p{i}" for i in range(0, 60, 3)])
    tree = model.tree_
    assert tree.names is not None
    np.testing.assert_array_equal(tree.keys(), tree.keys(tree.names))
    left = Tree()
    left.attach()
    for _ in range(tree.n_leaves - 1):
        left.attach(beside=left.root)
    assert tree.keys()[tree.root] == left.keys(list(reversed(tree.names)))[left.root]


@pytest.mark.parametrize("dtype", ["i1", "u1", ">i2", "<u4", ">i8", "u8", object])
def test_a_whole_number_has_one_key_in_every_type(dtype):
    values = [0, 1, 77, 126]
    expected = [splitmix64(v) for v in values]
    assert leaf_keys(np.array(values, dtype=dtype)).tolist() == expected
    assert leaf_keys([np.dtype(dtype).type(v) if dtype is not object else v for v in values]).tolist() == expected
    assert leaf_keys([*values, "text"])[:-1].tolist() == expected


def test_large_and_negative_numbers_are_told_apart():
    assert leaf_keys(np.array([2**64 - 1], dtype=np.uint64)) != leaf_keys([-1])
    mixed = leaf_keys([2**64 - 1, 2**63, 2**64, -1, -(2**63)])
    assert len(set(mixed.tolist())) == 5
    assert mixed[:2].tolist() == leaf_keys(np.array([2**64 - 1, 2**63], dtype=np.uint64)).tolist()
    assert mixed[3:].tolist() == leaf_keys(np.array([-1, -(2**63)])).tolist()
    assert mixed[0] == leaf_keys([np.uint64(2**64 - 1), np.int8(-1)])[0]


def test_ids_of_all_kinds_have_keys_of_their_own():
    assert len(set(leaf_keys(IDS).tolist())) == len(IDS)
    assert {i: int(k) for i, k in zip(KNOWN, leaf_keys(list(KNOWN)), strict=True)} == KNOWN
    assert leaf_keys([-0.0]) == leaf_keys([0.0])
    assert leaf_keys(np.array(["a", "b"])).tolist() == leaf_keys(["a", "b"]).tolist()


def test_what_has_no_key_is_refused():
    tree = random_tree(np.random.default_rng(0), 3)
    refused(r"ids must be whole numbers, text, .*; got \[1\] \(list\)", tree.keys, [[1], [2], [3]], error=TypeError)
    refused("got <object", tree.keys, ["a", object(), "c"], error=TypeError)
    refused(r"one entry for each of the 3 leaves; got shape \(2,\)", tree.keys, ["a", "b"])
    refused(r"got shape \(3, 1\)", tree.keys, np.zeros((3, 1), dtype=int))


def test_few_and_many_leaves():
    assert Tree().keys().tolist() == [0] * Tree().n_ids
    single = Tree()
    single.attach()
    assert single.keys(["a"])[single.root] == leaf_keys(["a"])[0]
    n = 100_000
    large = Tree.from_merges(np.c_[np.r_[0, np.arange(n, 2 * n - 2)], np.arange(1, n)], np.zeros(n - 1))
    assert len(np.unique(large.keys())) == 2 * n - 1 + 1  # and the 0 of the id that is not in the tree
