"""The tree on which neighbours and two trees agree, against scipy's average linkage on the same similarities."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import cdist, squareform

from engines import engine_in
from grinch import Grinch, Tree
from grinch.refine.agreement import LEAST_HEIGHT, MOST_ROUNDS, ONE_SIDED_PART, agreed_tree, apartness
from grinch.tree.checks import check_links
from grinch.tree.links import NONE
from grinch.tree.rounds import rounds


def clades(tree):
    return {frozenset(tree.leaves(int(v)).tolist()) for v in tree.internal_nodes()}


def nearest(X, k):
    return np.argsort(cdist(X, X) + 1e9 * np.eye(len(X)), axis=1)[:, :k].astype(np.int32)


def similarities(near, trees):
    """What every pair of points counts, one by one."""
    known = [{i, *near[i].tolist()} - {NONE} for i in range(len(near))]
    found = np.zeros((len(near), len(near)))
    pairs = {(min(i, j), max(i, j)) for i, mine in enumerate(known) for j in mine - {i}}
    met = [{pair: tree.heights()[tree.lca(*pair)] for pair in pairs} for tree in trees]
    usual = [np.median(list(heights.values())) for heights in met]
    for i, mine in enumerate(known):
        for j in mine - {i}:
            both = 1.0 if i in known[j] else ONE_SIDED_PART
            pair = min(i, j), max(i, j)
            low = np.prod([(heights[pair] / u + LEAST_HEIGHT) ** -2 for heights, u in zip(met, usual, strict=True)])
            found[i, j] = found[j, i] = both * len(mine & known[j]) * low
    return found


@pytest.mark.parametrize("seed", range(4))
def test_it_is_average_linkage_on_what_pairs_count(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    near = nearest(X, 8)
    near[rng.random(60) < 0.3, 5:] = NONE
    trees = [Tree.from_scipy(linkage(X[:, :2], "average")), Tree.from_scipy(linkage(X, "complete"))]
    matrix = similarities(near, trees)
    assert scipy.sparse.csgraph.connected_components(scipy.sparse.csr_matrix(matrix))[0] == 1
    expected = Tree.from_scipy(linkage(squareform(matrix.max() - matrix, checks=False), "average"))
    assert clades(agreed_tree(near, trees)) == clades(expected)


def test_what_neighbours_do_not_connect_is_joined_in_the_order_of_the_last_tree(rng):
    centres = np.array([[0.0, 0], [100, 0], [104, 0], [0, 90]])
    X = np.repeat(centres, 5, axis=0) + rng.normal(size=(20, 2)) / 10
    tree = Tree.from_scipy(linkage(X, "average"))
    found = clades(agreed_tree(nearest(X, 4), [tree]))
    assert {frozenset(range(i, i + 5)) for i in range(0, 20, 5)} <= found
    assert frozenset(range(5, 15)) in found
    lonely = np.full((20, 4), NONE, np.int32)
    assert len(clades(agreed_tree(lonely, [tree]))) == 19


def test_ties_take_few_rounds():
    """A path of equal edges has one pair at a time that points at each other."""
    n = 5000
    path = scipy.sparse.diags([np.ones(n - 1)] * 2, [-1, 1], format="csr")
    made = sum(1 for _ in rounds(path, (), strong=True, most_strong=MOST_ROUNDS))
    assert MOST_ROUNDS < made < MOST_ROUNDS + np.log2(n) + 2


def test_points_keep_their_slots_after_removals(rng):
    X = rng.normal(size=(300, 4))
    model = Grinch().fit(X)
    model.remove(range(0, 300, 7))
    slots = engine_in(model).slots()
    before = model.tree_
    model.refine()
    assert engine_in(model).slots().tolist() == slots.tolist()
    check_links(engine_in(model).links)
    assert clades(model.tree_) != clades(before)
    # Neighbours of a point are those of its row: the nearest are still close in the tree.
    tree, kept = model.tree_, X[model.ids_]
    unit = kept / np.linalg.norm(kept, axis=1)[:, None]
    near = nearest(unit, 1)[:, 0]
    sizes = [tree.size(tree.lca(i, int(j))) for i, j in enumerate(near)]
    assert np.median(sizes) < 20
    model.partial_fit(rng.normal(size=(50, 4)))
    check_links(engine_in(model).links)


def test_how_far_apart_distant_points_are_kept_is_counted_pair_by_pair(rng):
    X = rng.normal(size=(30, 2))
    tree = Tree.from_scipy(linkage(X, "average"))
    pairs, distances = rng.integers(0, 30, (50, 2)).astype(np.int32), rng.random(50)
    expected = np.mean([d * tree.size(tree.lca(int(i), int(j))) for (i, j), d in zip(pairs, distances, strict=True)])
    assert apartness(tree, pairs, distances) == pytest.approx(expected)
