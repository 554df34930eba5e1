"""Costs that need no labels, against all pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch
import scipy.sparse

from grinch import Tree
from grinch.metrics import (
    dasgupta_cost,
    moseley_wang_revenue,
)


@pytest.mark.parametrize("wrap", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_costs_of_trees_by_all_pairs(rng, similarity, wrap):
    vectors = rng.random((25, 4)) * (rng.random((25, 4)) < 0.6)
    vectors[3] = 0
    tree = Tree.from_scipy(sch.linkage(vectors, "average"))
    lengths = np.linalg.norm(vectors, axis=1)
    unit = vectors / np.where(lengths, lengths, 1)[:, None] if similarity == "cosine" else vectors
    cost = revenue = total = 0.0
    for i, j in itertools.combinations(range(25), 2):
        size, similar = tree.size(tree.lca(i, j)), unit[i] @ unit[j]
        cost, revenue, total = cost + similar * size, revenue + similar * (25 - size), total + similar
    assert dasgupta_cost(tree, wrap(vectors), similarity) == pytest.approx(cost)
    assert moseley_wang_revenue(tree, wrap(vectors), similarity) == pytest.approx(revenue)
    part = moseley_wang_revenue(tree, wrap(vectors), similarity, normalized=True)
    assert part == pytest.approx(revenue / (23 * total))
    assert 1 / 3 < part < 1


def test_costs_of_tiny_trees_and_unknown_similarities():
    for tree in (Tree(), Tree.from_scipy(np.empty((0, 4)))):
        assert dasgupta_cost(tree, np.ones((tree.n_leaves, 2))) == 0.0
        assert np.isnan(moseley_wang_revenue(tree, np.ones((tree.n_leaves, 2)), normalized=True))
    with pytest.raises(ValueError, match="similarity must be one of 'dot', 'cosine'; got 'cosin'; did you mean"):
        dasgupta_cost(Tree(), np.ones((0, 2)), "cosin")
