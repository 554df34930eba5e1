"""An automatic cut is carried from version to version: its clusters stay where most of their points are."""

from __future__ import annotations

import numpy as np

from grinch._compile import kernel
from grinch._types import Floats, Ids, Labels, Mask
from grinch.tree import NONE, Tree


def carried_splits(tree: Tree, before: Labels) -> Mask:
    """By node id, whether a cut goes through it that leaves the clusters of ``before`` (by leaf, -1: none) whole.

    The place of a cluster is the node where it outnumbers all others by the most points, and above it as far as only
    new points came, up to half the height at which it meets another cluster. Nodes above these places are split: new
    points that came higher up make clusters of their own.

    >>> tree = Tree.from_newick("(((0,1),2),(3,4));")
    >>> np.flatnonzero(carried_splits(tree, np.array([7, 7, -1, 9, 9]))) == [tree.root]
    array([ True])
    """
    known, codes = np.unique(before[before >= 0], return_inverse=True)
    leader = np.full(tree.n_ids, NONE, np.int32)
    leader[np.flatnonzero(before >= 0)] = codes
    is_split = np.zeros(tree.n_ids, np.bool_)
    ahead, places = np.where(leader == NONE, 0.0, 1.0), np.full(len(known), NONE, np.int32)
    nodes, children, parents = tree.internal_nodes(), tree.child_pairs(), tree.parents()
    _fill_splits(nodes, children, parents, tree.heights(), leader, ahead, np.zeros(len(known)), places, is_split)
    return is_split


@kernel
def _fill_splits(
    nodes: Ids,
    children: Ids,
    parents: Ids,
    heights: Floats,
    leader: Ids,
    ahead: Floats,
    most: Floats,
    places: Ids,
    is_split: Mask,
) -> None:
    """Fill in what is above the places.

    By node, ``leader`` is who has the most points and ``ahead`` how many more than others, known of leaves; by cluster,
    ``most`` and ``places`` are scratch space.
    """
    for v in range(leader.shape[0]):
        if leader[v] != NONE and most[leader[v]] < 1.0:
            most[leader[v]] = 1.0
            places[leader[v]] = v
    for i in range(nodes.shape[0] - 1, -1, -1):
        v = nodes[i]
        left, right = children[v, 0], children[v, 1]
        larger = left if ahead[left] >= ahead[right] else right
        leader[v] = leader[larger]
        ahead[v] = ahead[left] + ahead[right] if leader[left] == leader[right] else abs(ahead[left] - ahead[right])
        if leader[v] != NONE and ahead[v] > most[leader[v]]:
            most[leader[v]] = ahead[v]
            places[leader[v]] = v
    for c in range(places.shape[0]):
        low = heights[places[c]]
        # Up to where it meets another, or is ahead by less, only new points were added.
        top = places[c]
        while parents[top] != NONE and ahead[parents[top]] == ahead[places[c]]:
            top = parents[top]
        most_high = (low + heights[parents[top] if parents[top] != NONE else top]) / 2
        v = places[c]
        while v != top and heights[parents[v]] <= most_high:
            v = parents[v]
        v = parents[v]
        while v != NONE and not is_split[v]:
            is_split[v] = True
            v = parents[v]
