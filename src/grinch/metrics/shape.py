"""The shape of a tree: depths, balance and sizes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch.tree import Tree


class TreeProfile(NamedTuple):
    """Depths, balance and sizes of a tree.

    ``sackin`` is the sum of the depths of all leaves, ``colless`` the sum over internal nodes of the difference of
    their children's sizes. ``balance`` is the mean over internal nodes of the smaller child's size by the larger's,
    ``weighted_balance`` the same where a node counts by its size: the first is about the many small nodes, the second
    about the top. ``size_counts[i]`` is the number of nodes with more than 2^i and up to 2^(i+1) points: of 2, 3-4,
    5-8 …
    """

    n_leaves: int
    mean_depth: float
    median_depth: float
    max_depth: int
    balance: float
    weighted_balance: float
    sackin: int
    colless: int
    size_counts: tuple[int, ...]


def tree_profile(tree: Tree) -> TreeProfile:
    """Return depths, balance and sizes of a tree; means are ``nan`` where there are no values.

    >>> from grinch import Tree
    >>> from grinch.metrics import tree_profile
    >>> profile = tree_profile(Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 2], [4, 5, 3.0, 4]]))
    >>> profile.mean_depth, profile.balance, profile.sackin, profile.colless, profile.size_counts
    (2.0, 1.0, 8, 0, (2, 1))
    """
    n, nodes, sizes = tree.n_leaves, tree.internal_nodes(), tree.sizes().astype(np.int64)
    depths = tree.depths()[:n].astype(np.int64)
    left, right = sizes[tree.child_pairs()[nodes]].T
    ratios = np.minimum(left, right) / np.maximum(left, right)
    # The binary exponent of size - 1 is 1 for a size of 2, 2 for 3 and 4, 3 for 5 to 8.
    octaves = np.frexp(sizes[nodes] - 1.0)[1] - 1
    return TreeProfile(
        n_leaves=n,
        mean_depth=float(depths.mean()) if n else float("nan"),
        median_depth=float(np.median(depths)) if n else float("nan"),
        max_depth=int(depths.max(initial=0)),
        balance=float(ratios.mean()) if n > 1 else float("nan"),
        weighted_balance=float(np.average(ratios, weights=sizes[nodes])) if n > 1 else float("nan"),
        sackin=int(depths.sum()),
        colless=int(np.abs(left - right).sum()),
        size_counts=tuple(np.bincount(octaves).tolist()),
    )
