"""Purity from a sample of pairs, against the exact one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.hierarchy as sch

from grinch import Tree
from grinch.metrics import (
    dendrogram_purity,
    sampled_purity,
)


def test_sampled_purity_holds_the_exact_one(blobs):
    vectors, classes = blobs
    labels = [None if i % 7 == 0 else int(c) for i, c in enumerate(classes)]
    tree = Tree.from_scipy(sch.linkage(vectors, "average"))
    exact = dendrogram_purity(tree, labels)
    assert 0.2 < exact < 0.95
    for seed in range(10):
        sampled = sampled_purity(tree, labels, 5_000, 0.999, random_state=seed)
        assert sampled.low < exact < sampled.high
    assert sampled_purity(tree, labels, 400_000, random_state=1).purity == pytest.approx(exact, abs=0.003)
    assert sampled_purity(tree, labels, 50, random_state=3) == sampled_purity(tree, labels, 50, random_state=3)


def test_sampled_purity_at_the_edges():
    tree = Tree.from_scipy([[0, 1, 1.0, 2]])
    assert sampled_purity(tree, [0, 0]).high == 1.0
    assert all(np.isnan(sampled_purity(tree, [0, 1])))
    assert all(np.isnan(sampled_purity(Tree(), [])))
    with pytest.raises(ValueError, match="n_pairs must be a whole number of at least 1; got 0"):
        sampled_purity(tree, [0, 0], 0)
    with pytest.raises(ValueError, match=r"confidence must be between 0 and 1, such as 0\.95; got 95"):
        sampled_purity(tree, [0, 0], confidence=95)
