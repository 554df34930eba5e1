"""Cuts where heights jump, against scipy."""

from __future__ import annotations

import pytest
import scipy.cluster.hierarchy as sch
from sklearn.metrics import adjusted_rand_score

from grinch import Tree
from grinch.cuts import (
    cut_inconsistency,
)


@pytest.mark.parametrize("method", ["average", "complete", "single", "ward"])
@pytest.mark.parametrize("depth", [1, 2, 3, 6])
def test_inconsistency_cuts_are_those_of_scipy(rng, method, depth):
    matrix = sch.linkage(rng.normal(size=(150, 3)), method)
    for factor in (0.0, 0.71, 0.9, 1.0, 1.15, 1.6):
        expected = sch.fcluster(matrix, factor, "inconsistent", depth)
        assert adjusted_rand_score(expected, cut_inconsistency(Tree.from_scipy(matrix), depth, factor)) == 1


def test_inconsistency_of_equal_heights_and_tiny_trees():
    equal = Tree.from_scipy([[0, 1, 0.1, 2], [2, 3, 0.1, 2], [4, 5, 0.1, 4]])
    assert cut_inconsistency(equal, factor=0.0).tolist() == [0, 0, 0, 0]
    assert cut_inconsistency(equal, factor=-0.5).tolist() == [0, 1, 2, 3]
    assert cut_inconsistency(Tree()).tolist() == []
    with pytest.raises(ValueError, match="depth must be a whole number of at least 1; got 0"):
        cut_inconsistency(equal, depth=0)
    with pytest.raises(ValueError, match="factor must be a number of standard deviations; got '1'"):
        cut_inconsistency(equal, factor="1")
