"""When the points under each node of a tree last changed.

By node there is a key, the sum of a pseudo-random number for each of its points. Where a node has other points than
before, the key says whether another node had just these.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch._types import Counts, Flags, Slots
from grinch.cuts.tracking.follower import Arrays, Follower, Region
from grinch.tree.links import NONE, SIZE, Links, left, right

Keys = npt.NDArray[np.uint64]

# By node: the key, and the version in which its points last changed.
BY_NODE = {"keys": np.uint64, "changed_at": np.int64}


def add_versions(follower: Follower) -> None:
    """Let a follower note of nodes when their points changed."""
    for name, dtype in BY_NODE.items():
        if name not in follower.arrays:
            follower.add(name, dtype)
    follower.noted_of_nodes += BY_NODE


def update_versions(links: Links, arrays: Arrays, region: Region, version: int) -> None:
    """Note which nodes of a region have points that came, or other points than any node had before."""
    keys, changed_at, nodes = arrays["keys"], arrays["changed_at"], region.nodes
    keys[region.came], changed_at[region.came] = keys_of(arrays["oldest"][region.came]), version
    before = keys[nodes]
    has_new = np.zeros(len(keys), np.uint8)
    has_new[region.came] = 1
    _sum_keys(links, nodes, keys, has_new)
    is_new = has_new[nodes] == 1
    others = nodes[~is_new & (keys[nodes] != before)]
    if len(others):
        freed = region.freed_by
        earlier = np.concatenate([freed["keys"], before]), np.concatenate([freed["changed_at"], changed_at[nodes]])
        changed_at[others] = _when(keys[others], *earlier, version)
    changed_at[nodes[is_new]] = version


def _when(keys: Keys, earlier: Keys, changed_at: Counts, version: int) -> Counts:
    """Return when the points of these keys last changed: now, unless a node had them all before."""
    when = np.full(len(keys), version)
    # Few of many: it is the few that are sorted.
    order = np.argsort(keys)
    match = order[np.minimum(np.searchsorted(keys, earlier, sorter=order), len(keys) - 1)]
    is_match = keys[match] == earlier
    when[match[is_match]] = changed_at[is_match]
    return when


def changed_nodes(links: Links, arrays: Arrays, since: int) -> Slots:
    """Return the nodes of the tree whose points changed after a version: leaves that came, and internal nodes."""
    return np.flatnonzero((arrays["changed_at"] > since) & (links.table[:, SIZE] != NONE))


def keys_of(positions: Counts) -> Keys:
    """Return a number for every position, which looks random: splitmix64.

    The key of a group is the sum of those of its points, so the order in which they are added does not matter.

    >>> keys_of(np.array([0, 1])).tolist()
    [16294208416658607535, 7960286522194355700]
    """
    z = positions.astype(np.uint64) + np.uint64(1)
    z *= np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def _sum_keys(tree: Links, nodes: Slots, keys: Keys, has_new: Flags) -> None:
    for i in range(nodes.shape[0]):
        v = nodes[i]
        a, b = left(tree, v), right(tree, v)
        keys[v] = keys[a] + keys[b]
        has_new[v] = has_new[a] | has_new[b]
