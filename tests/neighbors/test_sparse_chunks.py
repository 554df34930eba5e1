"""Which columns a query is compared by depends on the points before it, not on the batches they came in."""

from __future__ import annotations

import pytest

from grinch import Grinch, neighbors
from sparse_data import sparse_groups
from twins import assert_same, reopened


@pytest.mark.parametrize("most_points", [1, 200])
def test_a_search_by_few_columns_in_any_batches(most_points, tmp_path, monkeypatch):
    monkeypatch.setattr(neighbors, "MOST_POINTS", most_points)
    X = sparse_groups(850)
    whole, parts = Grinch().fit(X), Grinch()
    assert whole.current_fit().builder.search.most_points == most_points
    for start, stop in ((0, 300), (300, 301), (301, 550), (550, 700), (700, 850)):
        parts = reopened(parts.partial_fit(X[start:stop]), tmp_path)
    assert parts.tree_.to_newick() == whole.tree_.to_newick()
    assert (parts.predict(X[:50]) == whole.predict(X[:50])).all()
    assert_same(whole, reopened(whole, tmp_path))
