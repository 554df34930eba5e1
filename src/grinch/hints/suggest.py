"""Which linkage suits these vectors? A hint that needs no labels.

A neighbour of a point is near by distance and near by angle: those both agree on favour neither. Every linkage clusters
the same sample of points, in several orders, and the one that keeps neighbours together in the smallest groups is
suggested. How well that works, and what works less well: docs/development/linkages.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from grinch._checks import check_count, check_name
from grinch._types import Ids, Mask
from grinch._vectors import nearest_rows
from grinch.errors import unknown_name
from grinch.estimators.checks import check_vectors, no_advice
from grinch.estimators.grinch import Grinch
from grinch.linkage.named import VECTOR_LINKAGES, VectorLinkage, linkage_of
from grinch.summaries.vectors import dense_rows
from grinch.tree import NONE, Tree

Named = str | tuple[str, str]

LINKAGES: tuple[Named, ...] = (("average", "sqeuclidean"), ("average", "cosine"), "cosine", "ward", "centroid")
# The linkage listed first is the one to leave for a reason: another must cost less by more than this part, whatever
# the order of the points.
CLEARLY = 0.05
TRIPLETS = 10_000
FEWEST_POINTS = 3


@dataclass(frozen=True)
class Candidate:
    """A linkage, and what is known of its trees without labels."""

    linkage: str
    metric: str
    cost: float
    """The mean share of all points under the common ancestor of two neighbours; lower is better."""
    deviation: float
    """The standard deviation of the cost over the orders."""
    agreement: float
    """How often trees of two orders agree on which two of three points belong together; a third by chance."""

    def __str__(self) -> str:
        return f"{self.linkage} ({self.metric})" if len(VECTOR_LINKAGES[self.linkage]) > 1 else self.linkage


@dataclass(frozen=True)
class Suggestion:
    """The linkage suggested for some vectors, and what it was chosen by; made by :func:`suggest_linkage`."""

    linkage: str
    metric: str
    reason: str
    candidates: tuple[Candidate, ...]
    """In the order of ``linkages``."""
    n_points: int
    """How many points were looked at."""

    def __str__(self) -> str:
        lines = [f"{'linkage':22}{'cost':>7}{'agreement':>11}"]
        lines += [f"{c!s:22}{c.cost:7.3f}{c.agreement:11.3f}" for c in sorted(self.candidates, key=lambda c: c.cost)]
        return "\n".join([*lines, self.reason])


def suggest_linkage(
    X: Any, linkages: Sequence[Named] = LINKAGES, *, n_orders: int = 3, sample: int = 2000, random_state: Any = 0
) -> Suggestion:
    """Suggest a linkage for vectors, without labels: the one that keeps neighbours together in the smallest groups.

    It is a heuristic: docs/linkages.md has the purity it loses against the best linkage on labelled sets. Scale X first
    as you mean to cluster it: that often decides more than the linkage.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_points, n_features)
        The vectors, at least three of them.
    linkages : sequence of names, or of pairs of a name and a metric
        Linkages on vectors to choose among, such as ``"ward"`` or ``("average", "sqeuclidean")``. The first is
        suggested unless another has a clearly lower cost.
    n_orders : int, default=3
        In how many random orders each linkage clusters the points; at least 2.
    sample : int, default=2000
        The largest number of points to use, drawn at random.
    random_state : int, RandomState or None, default=0
        The source of the sample and the orders.

    Returns
    -------
    Suggestion
        ``linkage`` and ``metric`` as :class:`~grinch.Grinch` takes them, ``reason`` in a sentence, and a row for each
        of the ``candidates``. Printing it shows all of that.

    Examples
    --------
    Groups along one line from the origin: angles say nothing.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([1.0, 5.0, 9.0], 30)[:, None] + rng.normal(scale=0.2, size=(90, 4))
    >>> hint = suggest_linkage(X, ["cosine", "ward"], n_orders=2)
    >>> hint.linkage, hint.metric
    ('ward', 'sqeuclidean')
    """
    chosen_from = _validate_linkages(linkages)
    check_count("n_orders", n_orders, 2)
    check_count("sample", sample, FEWEST_POINTS)
    rows = check_vectors(Grinch(), X, reset=True)
    if rows.shape[0] < FEWEST_POINTS:
        raise ValueError(f"X must have at least {FEWEST_POINTS} rows to compare trees of them; got {rows.shape[0]}")
    random = check_random_state(random_state)
    if rows.shape[0] > sample:
        rows = rows[np.sort(random.permutation(rows.shape[0])[:sample])]
    points = dense_rows(rows)
    seeds = random.randint(2**31 - 1, size=n_orders).tolist()
    triplets = random.randint(len(points), size=(3, TRIPLETS))
    near = agreed_neighbors(points)
    candidates = tuple(_candidate(linkage, points, near, seeds, triplets) for linkage in chosen_from)
    chosen, reason = _chosen(candidates)
    return Suggestion(chosen.linkage, chosen.metric, reason, candidates, len(points))


def _candidate(
    linkage: VectorLinkage, points: npt.NDArray[Any], near: Ids, seeds: Sequence[int], triplets: npt.NDArray[np.integer]
) -> Candidate:
    costs, choices = [], []
    for seed in seeds:
        model = Grinch(linkage.name, metric=linkage.metric, shuffle=True, random_state=seed)
        with no_advice():
            tree = model.fit(points).tree_
        costs.append(neighbor_cost(tree, near) / tree.n_leaves)
        choices.append(_closest_pairs(tree, triplets))
    agreement = np.mean([np.mean(a == b) for a, b in combinations(choices, 2)])
    return Candidate(linkage.name, linkage.metric, float(np.mean(costs)), float(np.std(costs)), float(agreement))


def _closest_pairs(tree: Tree, triplets: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Return which two of each three points have the smallest common ancestor: the first and second, and so on."""
    sizes = tree.sizes()
    return np.argmin([sizes[tree.common_ancestors(triplets[i], triplets[i - 1])] for i in range(3)], axis=0)


def _chosen(candidates: Sequence[Candidate]) -> tuple[Candidate, str]:
    """Return the suggested candidate, and why."""
    first, best = candidates[0], min(candidates, key=lambda c: c.cost)
    if len(candidates) == 1:
        return first, f"{first} is the only linkage given."
    if best is not first and not _is_clearly_better(best, first):
        return first, (
            f"{first} is as good as any: neighbours share groups of {first.cost:.1%} of the points, and of"
            f" {best.cost:.1%} under {best}, which is no clear difference."
        )
    others = min((c for c in candidates if c is not best), key=lambda c: c.cost)
    return best, (
        f"{best} keeps neighbours in the smallest groups: {best.cost:.1%} of the points on average, next to"
        f" {others.cost:.1%} under {others}."
    )


def _is_clearly_better(one: Candidate, first: Candidate) -> bool:
    """Return whether the costs differ by a part that counts, and by more than they do between orders."""
    return one.cost < (1 - CLEARLY) * first.cost and one.cost + one.deviation < first.cost - first.deviation


def _validate_linkages(linkages: Any) -> list[VectorLinkage]:
    if isinstance(linkages, str) or not hasattr(linkages, "__iter__"):
        raise ValueError(
            f"linkages must be a list of names, or of pairs of a name and a metric; got {linkages!r}. Put a single one"
            " into a list"
        )
    found = [_validate_linkage(entry) for entry in linkages]
    if not found:
        raise ValueError("linkages must name at least one linkage; got none. Leave it out to try the usual ones")
    return found


def _validate_linkage(entry: Any) -> VectorLinkage:
    name, metric = entry if isinstance(entry, (tuple, list)) and len(entry) == 2 else (entry, None)
    check_name("linkages", name, VECTOR_LINKAGES, " (or pairs of one and a metric)")
    if metric is not None and metric not in VECTOR_LINKAGES[name]:
        raise unknown_name("linkages", metric, VECTOR_LINKAGES[name], f" as the metric of {name!r}")
    linkage = linkage_of(name, metric)
    assert isinstance(linkage, VectorLinkage)
    return linkage


# Neighbours that favour neither distance nor angle, and how far apart a tree puts them --------------------------------

# How many nearest by each of the two are compared.
COUNTED = 10
# Rows of similarities that are looked at together.
BLOCK = 512


def agreed_neighbors(points: npt.NDArray[Any]) -> Ids:
    """Return, by point, those that are among its nearest by distance and by angle, padded with NONE.

    Ten nearest by each; more where fewer than one a point is in both.

    >>> agreed_neighbors(np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.1, 2.0]]))[:, 0].tolist()
    [1, 0, 3, 2]
    """
    n = len(points)
    centred = points.astype(np.float64) - points.mean(axis=0, dtype=np.float64)
    lengths = np.linalg.norm(points.astype(np.float64), axis=1, keepdims=True)
    directions = points / np.where(lengths > 0, lengths, 1.0)
    # Of x·y - |y|²/2, the largest is the nearest.
    shift = -0.5 * np.einsum("ij,ij->i", centred, centred)
    k = min(COUNTED, n - 1)
    while True:
        by_distance, by_angle = nearest_rows(centred, shift, k), nearest_rows(directions, np.zeros(n), k)
        is_in_both = np.concatenate(
            [_is_in(by_distance[i : i + BLOCK], by_angle[i : i + BLOCK]) for i in range(0, n, BLOCK)]
        )
        if is_in_both.sum() >= n or k == n - 1:
            break
        k = min(2 * k, n - 1)
    kept = np.where(is_in_both, by_distance, NONE)
    return np.ascontiguousarray(np.take_along_axis(kept, np.argsort(~is_in_both, axis=1, kind="stable"), axis=1))


def _is_in(a: Ids, b: Ids) -> Mask:
    """Return which entries of each row of ``a`` are in the same row of ``b``."""
    return (a[:, :, None] == b[:, None, :]).any(axis=2)


def neighbor_cost(tree: Tree, near: Ids) -> float:
    """Return the mean number of points under the common ancestor of two neighbours.

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> neighbor_cost(tree, np.array([[1, 2], [0, NONE], [NONE, NONE]]))
    2.3333333333333335
    """
    points, columns = np.nonzero(near != NONE)
    sizes = tree.sizes()[tree.common_ancestors(points, near[points, columns])]
    return int(sizes.sum(dtype=np.int64)) / len(sizes)
