"""Orders of arrival."""

from __future__ import annotations

import numpy as np
import pytest

from grinch.datasets import arrival


@pytest.mark.parametrize("order", ["random", "sorted", "round-robin"])
def test_an_order_is_a_repeatable_permutation(order, rng):
    labels = rng.integers(0, 7, 200)
    found = arrival(labels, order, 3)
    assert sorted(found.tolist()) == list(range(200))
    assert found.tolist() == arrival(labels, order, 3).tolist() != arrival(labels, order, 4).tolist()
    assert arrival([], order).tolist() == []


def test_sorted_brings_class_after_class(rng):
    labels = rng.choice(["a", "b", "c", "d"], 100)
    seen = labels[arrival(labels, "sorted", 1)]
    assert (seen[1:] != seen[:-1]).sum() == 3
    assert len({"".join(dict.fromkeys(labels[arrival(labels, "sorted", s)])) for s in range(20)}) > 5


def test_round_robin_is_the_papers_where_classes_are_equal():
    labels = np.repeat(np.arange(5), 8)
    seen = labels[arrival(labels, "round-robin", 2)]
    assert seen.tolist() == seen[:5].tolist() * 8
    assert sorted(seen[:5].tolist()) == [0, 1, 2, 3, 4]


def test_round_robin_passes_over_classes_that_ran_out(rng):
    labels = np.array(["a"] * 5 + ["b"] * 2 + ["c"])
    for seed in range(5):
        rounds = "".join(labels[arrival(labels, "round-robin", seed)])
        assert sorted(rounds[:3]) == ["a", "b", "c"]
        assert sorted(rounds[3:5]) == ["a", "b"]
        assert rounds[5:] == "aaa"


def test_an_unknown_order_is_named():
    with pytest.raises(ValueError, match=r"order must be one of 'random', 'sorted', 'round-robin'; got 'sort'"):
        arrival([1, 2], "sort")
    with pytest.raises(ValueError, match=r"labels must be a list with one class for each point; got shape \(2, 1\)"):
        arrival([[1], [2]])
