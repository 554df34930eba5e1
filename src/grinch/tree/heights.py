"""Heights of nodes, from the scores of their merges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grinch._types import Floats
from grinch.tree import walks

if TYPE_CHECKING:
    from grinch.tree.tree import Tree


def heights(tree: Tree, ceiling: float | None) -> Floats:
    """By node id, ``ceiling`` minus the score (see :meth:`grinch.Tree.heights`)."""
    values = np.zeros(tree.n_ids)
    if tree.n_leaves < 2:
        return values
    internal = tree.internal_nodes()
    scores = tree.scores[internal]
    if np.isnan(scores).any():
        walks.fill_levels(tree.links.table, tree.preorder(), tree.offset, values)
        return values
    scores = _finite(scores)
    highest = float(scores.max()) if ceiling is None else ceiling
    values[internal] = np.maximum(highest - scores, 0.0)
    return tree.max_upward(values)


def split_keys(tree: Tree, ceiling: float | None) -> Floats:
    """By node id, what cuts go by: minus the lowest score at or below it, so that scores differ if rounding would not.

    Scores beyond the ceiling count as equal. Leaves are at -inf; a tree without scores is cut by its heights.
    """
    if tree.n_leaves < 2 or np.isnan(tree.scores[internal := tree.internal_nodes()]).any():
        return heights(tree, ceiling)
    keys = np.full(tree.n_ids, -np.inf)
    keys[internal] = -tree.scores[internal] if ceiling is None else -np.minimum(tree.scores[internal], ceiling)
    return tree.max_upward(keys)


def _finite(scores: Floats) -> Floats:
    """The same scores, infinite ones a step beyond the finite ones."""
    finite = scores[np.isfinite(scores)]
    if len(finite) == len(scores):
        return scores
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    step = (high - low) or 1.0
    return np.clip(scores, low - step, high + step)
