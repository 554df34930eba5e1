"""Labels of any kind, and which is the commonest where."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from grinch.cuts import cluster_nodes, cut_n_clusters
from grinch.plots.names import groups, named, whole_nodes
from grinch.tree.blocks import display


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", None, "b", ""],
        np.array(["b", "a", "", "b", ""]),
        pd.Series(["b", "a", np.nan, "b", pd.NA]),
        [("b",), ("a",), None, ("b",), float("nan")],
    ],
)
def test_labels_are_numbered_by_how_common_they_are_and_may_be_missing(labels):
    found = named("labels", labels, 5)
    assert found.codes.tolist() == [0, 1, -1, 0, -1]
    assert [str(value) for value in found.values] == found.names
    assert len(found.names) == 2


def test_numbers_are_labels_and_minus_one_is_no_cluster():
    assert named("labels", np.array([2.5, np.nan, 1.0, 1.0]), 4).names == ["1.0", "2.5"]
    assert named("labels", [-1, 4, 4], 3).names == ["4", "-1"]
    for clusters in ([-1, 4, 4], np.array([-1, 4, 4])):
        found = named("clusters", clusters, 3, nowhere=-1)
        assert (found.names, found.codes.tolist(), found.values) == (["4"], [-1, 0, 0], [4])


def test_the_commonest_label_of_every_node(tree, rng):
    labels = rng.integers(0, 5, 300)
    known = groups("labels", labels, tree, display(tree))
    for v in tree.nodes():
        counts = Counter(labels[tree.leaves(v)].tolist())
        assert counts[int(known.name(v))] == max(counts.values()) == round(known.share(v) * tree.size(v))


def test_the_node_of_a_cluster_is_the_lowest_over_all_its_points(tree):
    labels = cut_n_clusters(tree, 9)
    labels[labels == 4] = -1
    labels[np.flatnonzero(labels == 3)[:1]] = -1
    cut = groups("clusters", labels, tree, display(tree))
    expected = cluster_nodes(tree, labels)
    assert whole_nodes(tree, cut).tolist() == [expected[number] for number in cut.named.values]
    # Every other point: of no node all points and no others.
    scattered = groups("clusters", np.arange(300) % 2, tree, display(tree))
    assert whole_nodes(tree, scattered).tolist() == [-1, -1]
