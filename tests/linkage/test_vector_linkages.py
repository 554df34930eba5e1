"""Every closed form against the mean, or the formula, over all pairs; precision at a million points."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numba import njit

from dense_linkages import DENSE_NAMES, score_by_hand
from grinch.core.engine import Engine
from grinch.core.rules import FAST
from grinch.linkage.named import WARD, linkage_of, merge_rows
from grinch.summaries import VectorSummaries
from grinch.summaries.arrays import vector_score
from refusals import refused


@pytest.mark.parametrize(("name", "metric"), DENSE_NAMES)
def test_score_of_every_pair_of_nodes_is_the_brute_force_value(rng, name, metric):
    X = rng.normal(size=(40, 7)) + 3
    engine = Engine(linkage_of(name, metric), FAST, n_features=7)
    engine.insert(X)
    tree = engine.tree()
    checked = 0
    for v in tree.nodes():
        if tree.is_leaf(v):
            continue
        left, right = tree.children(v)
        expected = score_by_hand(name, metric, X[tree.leaves(left)], X[tree.leaves(right)])
        assert tree.scores[v] == pytest.approx(expected, rel=2e-4, abs=1e-5)
        checked += 1
    assert checked == 39


@pytest.mark.parametrize(("name", "metric"), DENSE_NAMES)
def test_scores_are_symmetric_to_the_last_bit(rng, name, metric):
    engine = Engine(linkage_of(name, metric), FAST, n_features=5)
    engine.insert(rng.normal(size=(30, 5)))
    root = engine.links.head[0]
    nodes = [v for v in (0, 3, 7, *(engine.summaries.capacity + i for i in (1, 5, 20, 28, 29))) if v != root]
    engine.tree()  # brings every summary but the root's up to date
    sums = engine.summaries.arrays
    for u, v in itertools.product(nodes, nodes):
        assert vector_score(sums, u, v) == vector_score(sums, v, u)


@njit
def million_merges(rows):
    """Merge the same few rows into one node a million times, as the deepest tree would; the means, and which is it."""
    n = rows.shape[0]
    means, moments = np.zeros((n + 2, rows.shape[1]), np.float32), np.zeros((n + 2, 3))
    means[:n] = rows
    moments[:n, 0] = 1.0
    here, there = n, n + 1
    means[here] = rows[0]
    moments[here, 0] = 1.0
    for i in range(1_000_000):
        merge_rows(WARD, means, moments, there, here, i % n)
        here, there = there, here
    return means, here


@pytest.mark.slow
def test_a_million_points_in_a_chain_keep_their_mean(rng):
    row = rng.normal(size=(1, 4)).astype(np.float32) / 3
    means, top = million_merges(row)
    assert means[top].tolist() == row[0].tolist()
    rows = rng.normal(size=(1000, 4)).astype(np.float32) + 0.1
    means, top = million_merges(rows)
    # Merge i adds row i % 1000 to the first row, so a million merges hold every row 1,000 times, and row 0 once more.
    expected = (rows.astype(np.float64).sum(axis=0) * 1000 + rows[0]) / 1_000_001
    np.testing.assert_allclose(means[top], expected, rtol=1e-3)


def test_zero_vectors_score_zero_under_cosine():
    for linkage in (linkage_of("cosine"), linkage_of("average", "cosine")):
        engine = Engine(linkage, FAST, n_features=3)
        engine.insert(np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 2, 0.0]]))
        tree = engine.tree()
        tree.check()
        assert vector_score(engine.summaries.arrays, 0, 1) == 0.0
        assert vector_score(engine.summaries.arrays, 0, 2) == 0.0
        assert not np.isnan(tree.scores[[tree.parent(0), tree.root]]).any()


@pytest.mark.parametrize(
    ("linkage", "metric", "message"),
    [
        ("averge", None, r"linkage must be one of 'cosine', 'average'.*got 'averge'; did you mean 'average'\?"),
        (
            "average",
            "euclidian",
            r"metric must be one of.*for linkage='average'; got 'euclidian'; did you mean 'euclidean'",
        ),
        ("ward", "cosine", r"metric must be one of 'sqeuclidean' for linkage='ward'; got 'cosine'"),
        (lambda a, b: 0.0, "cosine", "metric belongs to a linkage given by name"),
    ],
)
def test_unknown_names_get_the_nearest_known_one(linkage, metric, message):
    refused(message, linkage_of, linkage, metric)


def test_what_is_no_linkage_is_refused():
    refused(r"linkage must be a name .* or a function f\(a, b\).*got 3", linkage_of, 3, error=TypeError)
    refused("an object, not a class", linkage_of, VectorSummaries, error=TypeError)
