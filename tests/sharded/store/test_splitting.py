"""Where a branch is split."""

from __future__ import annotations

import numpy as np

from grinch.linkage.named import linkage_of
from grinch.sharded.store.routing import MOST, VOTES, Router, drawn
from grinch.sharded.store.splitting import two_sides, with_groups
from grinch.tree import Tree


def chain(n):
    """A tree in which one point after the other leaves."""
    pairs = np.array([[0, 1], *([k + 2, n + k] for k in range(n - 2))])
    return Tree.from_merges(pairs, np.linspace(1, 0, n - 1), ceiling=1.0)


def test_a_chain_is_halved():
    sides = two_sides(chain(3000))
    assert np.bincount(sides).tolist() == [1500, 1500]


def test_small_groups_go_to_the_side_they_are_near_as_a_whole():
    # Two groups of eight, and above them a pair that is near the second, and a point near the first.
    left, right = "(((0,1),(2,3)),((4,5),(6,7)))", "(((8,9),(10,11)),((12,13),(14,15)))"
    sides = two_sides(Tree.from_newick(f"((({left},{right}),(16,17)),18);"))
    assert sides.tolist() == [0] * 8 + [1] * 8 + [3, 3, 2]
    rows = np.array([[0.0, 1]] * 8 + [[1.0, 0]] * 8 + [[5, 0.1], [4, 0.2], [0.3, 7]])
    for name, shift in (("average", 0), ("cosine", 0), ("ward", 0), ("ward", 1000)):
        found = with_groups(sides, rows + shift, np.arange(19), Router(linkage_of(name)))
        assert found.tolist() == [0] * 8 + [1] * 10 + [0]


def test_routing_points_depend_on_the_points_alone():
    numbers = np.random.default_rng(0).permutation(10_000)
    whole, router = numbers[drawn(numbers)], Router(linkage_of("ward"))
    rows = np.random.default_rng(1).normal(size=(10_000, 3))
    sample = router.sample(numbers[:0], rows[:0])
    for some in np.split(np.arange(10_000), 7_000 + np.arange(0, 3_000, 1_000)):
        sample = router.grown(sample, numbers[some], rows[some])
    assert len(sample.numbers) == MOST == len(np.unique(sample.numbers))
    assert set(sample.numbers.tolist()) == set(whole.tolist())
    assert abs(np.mean(whole) - 5_000) < 200


def test_the_nearest_routing_points_vote():
    rng = np.random.default_rng(5)
    rows, points = rng.normal(size=(300, 6)) + 50, rng.normal(size=(90, 6)) + 50
    owners = rng.integers(0, 3, 90)
    gaps = np.square(rows[:, None] - points[None]).sum(axis=2)
    products = rows @ points.T
    cosines = products / np.linalg.norm(points, axis=1)
    for settings, near in (
        (("ward", None), -gaps),
        (("average", "sqeuclidean"), -gaps),
        (("average", "dot"), products),
        (("average", "cosine"), cosines),
        (("cosine", None), cosines),
    ):
        router = Router(linkage_of(*settings))
        samples = [router.sample(np.flatnonzero(owners == i), points[owners == i]) for i in range(3)]
        order = np.argsort(-near, axis=1)[:, :VOTES]
        votes = np.array([np.bincount(owners[some], minlength=3) for some in order]) + 0.0
        votes[np.arange(300), owners[order[:, 0]]] += 0.5
        # In float32 two that are all but equal may change places.
        assert (router.owners(rows, samples) == votes.argmax(axis=1)).mean() > 0.97
        one_each = [router.sample(np.array([i]), points[i : i + 1]) for i in range(2)]
        assert (router.owners(rows, one_each) == near[:, :2].argmax(axis=1)).mean() > 0.97
        empty = router.sample(np.empty(0, np.int64), points[:0])
        assert router.owners(rows, [empty, samples[0]]).tolist() == [1] * 300
