"""Which branches of a tree are drawn, and in which order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

from grinch import Tree
from grinch.plots.dendrogram import default_size, in_order, outline
from grinch.tree.blocks import display
from pictures import chain


def random_tree(rng, n: int) -> Tree:
    """Any two roots meet next, at any height: also below what is under them."""
    roots, pairs = list(range(n)), []
    for k in range(n - 1):
        i, j = rng.choice(len(roots), 2, replace=False)
        pairs.append([roots[i], roots[j]])
        roots = [root for root in roots if root not in pairs[-1]] + [n + k]
    return Tree.from_merges(np.array(pairs), rng.normal(size=n - 1).round(1), 3.0)


def outlined(tree: Tree, n_branches: int, min_size: int | None = None):
    return outline(tree, display(tree).starts, tree.heights(), n_branches, min_size)


def smaller_side(tree: Tree, v: int) -> int:
    return min(tree.size(child) for child in tree.children(v))


@pytest.mark.parametrize("n_branches", [1, 2, 5, 12, 100])
@pytest.mark.parametrize("min_size", [1, 3])
def test_the_splits_that_are_drawn_have_the_largest_smaller_sides(rng, n_branches, min_size):
    for _ in range(10):
        tree = random_tree(rng, 60)
        branches = outlined(tree, n_branches, min_size)
        drawn = [branch.split for branch in branches if branch.parts]
        internal = tree.internal_nodes().tolist()
        allowed = sorted((smaller_side(tree, v) for v in internal if smaller_side(tree, v) >= min_size), reverse=True)
        assert sorted((smaller_side(tree, v) for v in drawn), reverse=True) == allowed[: n_branches - 1]


def test_branches_lead_from_split_to_split_and_count_what_is_folded(rng):
    for _ in range(20):
        tree = random_tree(rng, 80)
        branches = outlined(tree, 15, 1)
        drawn = {branch.split for branch in branches if branch.parts}
        assert branches[0].node == tree.root
        for branch in branches:
            # Down the larger side, until a drawn split: what is left out on the way is what is folded.
            v = branch.node
            while not tree.is_leaf(v) and v not in drawn:
                v = max(
                    tree.children(v), key=lambda child: (any(u in drawn for u in below(tree, child)), tree.size(child))
                )
            if branch.parts:
                assert v == branch.split
                assert {branches[i].node for i in branch.parts} == set(tree.children(v))
                assert branch.folded == tree.size(branch.node) - tree.size(v)
            else:
                assert (tree.is_leaf(v), branch.split, branch.folded) == (True, -1, 0)
        last = sum(tree.size(branch.node) for branch in branches if not branch.parts)
        assert last + sum(branch.folded for branch in branches) == 80


def below(tree: Tree, v: int) -> list[int]:
    found = [v]
    for u in found:
        found.extend(tree.children(u))
    return found


def test_a_chain_has_one_branch_and_two_groups_at_its_end_are_found():
    assert [branch.node for branch in outlined(chain(20_000), 40)] == [chain(20_000).root]
    points = np.r_[np.arange(40.0) / 40, 5 + np.arange(60.0) / 60, 10.0 * 1.3 ** np.arange(1, 60)]
    tree = Tree.from_scipy(linkage(points[:, None], "single"))
    branches = outlined(tree, 2)
    assert [tree.size(branch.node) for branch in branches] == [159, 60, 40]
    assert branches[0].folded == 59


def test_groups_worth_a_name():
    assert [default_size(n) for n in (1, 19, 20, 60, 100, 2_500, 10_000, 1_000_000)] == [1, 1, 1, 3, 5, 5, 20, 2_000]


@pytest.mark.parametrize("method", ["average", "complete", "ward"])
def test_branches_of_points_on_a_line_are_in_the_order_of_the_line(rng, method):
    points = rng.normal(size=(200, 1)).cumsum(axis=0)
    tree = Tree.from_scipy(linkage(points, method))
    branches = outlined(tree, 25, 1)
    means = np.array([points[tree.leaves(branch.node)].mean() for branch in branches])
    order = in_order(branches, tree.sizes(), np.abs(means[:, None] - means))
    assert len(order) == 25
    steps = np.diff(means[order])
    assert (steps > 0).all() or (steps < 0).all()


def test_every_split_turns_the_nearest_ends_towards_each_other_and_keeps_branches_together(rng):
    for _ in range(20):
        tree = random_tree(rng, 60)
        branches = outlined(tree, 20, 1)
        distances = rng.random((len(branches), len(branches)))
        distances += distances.T
        for known in (None, distances):
            order = in_order(branches, tree.sizes(), known)
            place = {i: k for k, i in enumerate(order)}
            last = {}
            for i in range(len(branches) - 1, -1, -1):
                parts = [last[part] for part in branches[i].parts]
                last[i] = sorted((p for part in parts for p in part), key=place.get) if parts else [i]
                spots = [place[j] for j in last[i]]
                assert spots == list(range(spots[0], spots[0] + len(spots)))
                if parts and known is not None:
                    upper, lower = sorted(parts, key=lambda part: place[part[0]])
                    ends = [distances[a, b] for a in (upper[0], upper[-1]) for b in (lower[0], lower[-1])]
                    assert distances[upper[-1], lower[0]] == min(ends)


def test_without_distances_the_larger_side_comes_first():
    tree = Tree.from_scipy(linkage([[0.0], [1.0], [20.0], [21.0], [22.5], [40.0]]))
    branches = outlined(tree, 3, 1)
    assert [tree.size(branches[i].node) for i in in_order(branches, tree.sizes())] == [3, 1, 2]
