"""The tree over the branches, and how near two of them are: by summaries that merge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from grinch._types import Floats, Labels
from grinch.linkage.base import VectorLinkage
from grinch.linkage.compiled import VectorGroup
from grinch.linkage.vector import formula_score
from grinch.sharded.store.routing import formed, squared_lengths_of
from grinch.tree import Tree


class Moments(NamedTuple):
    """What a linkage on vectors knows of a group: how many, their mean, and the mean squared distance to it."""

    size: int
    mean: Floats
    spread: float


def moments_of(pieces: Iterable[Any], n_features: int, linkage: VectorLinkage) -> Moments:
    """The moments of rows, dense or CSR, that come piece by piece, as the linkage compares them."""
    found = Moments(0, np.zeros(n_features), 0.0)
    for piece in pieces:
        rows = formed(piece.astype(np.float64), linkage.is_of_roots, linkage.is_spherical)
        mean = np.asarray(rows.mean(axis=0)).ravel()
        if scipy.sparse.issparse(rows):
            spread = max(float(squared_lengths_of(rows).mean() - mean @ mean), 0.0)
        else:
            spread = float(squared_lengths_of(rows - mean).mean())
        found = merged(found, Moments(rows.shape[0], mean, spread))
    return found


def merged(a: Moments, b: Moments) -> Moments:
    """The moments of two groups taken together.

    >>> one, other = Moments(1, np.array([0.0]), 0.0), Moments(1, np.array([2.0]), 0.0)
    >>> merged(one, other).mean.tolist(), merged(one, other).spread
    ([1.0], 1.0)
    """
    size = a.size + b.size
    share, step = b.size / size, b.mean - a.mean
    spread = (1 - share) * a.spread + share * b.spread + share * (1 - share) * float(step @ step)
    return Moments(size, a.mean + share * step, spread)


def score(linkage: VectorLinkage, a: Moments, b: Moments) -> float:
    """How similar two groups are."""
    means = np.stack([a.mean, b.mean]).astype(np.float32)
    lengths = np.linalg.norm(means.astype(np.float64), axis=1)
    if linkage.is_custom:
        groups = [
            VectorGroup(mean, float(some.size), some.spread, float(length))
            for mean, some, length in zip(means, (a, b), lengths, strict=True)
        ]
        return float(linkage.formula.function(*groups))
    moments = np.array([[a.size, a.spread, lengths[0]], [b.size, b.spread, lengths[1]]], np.float64)
    return float(formula_score(linkage.formula, means, moments, 0, 1))


def top_tree(linkage: VectorLinkage, pairs: Labels, groups: Sequence[Moments]) -> Tree:
    """The tree over groups, with the score of each pair of sides."""
    known, scores = list(groups), []
    for a, b in pairs.tolist():
        scores.append(score(linkage, known[a], known[b]))
        known.append(merged(known[a], known[b]))
    return Tree.from_merges(pairs, np.array(scores, np.float64), ceiling=linkage.ceiling)
