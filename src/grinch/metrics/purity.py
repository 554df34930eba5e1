"""Dendrogram purity: whether the classes are nodes of the tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count
from grinch._types import Floats, Labels
from grinch.cuts.flat import check_n_clusters, split_order
from grinch.tree import Tree
from grinch.tree.lca import check_unlabelled, class_codes, class_lca, labelled_sizes


def dendrogram_purity(tree: Tree, labels: npt.ArrayLike, *, unlabelled: str = "count") -> float:
    """Dendrogram purity of a tree: over all pairs of points of one class, the mean purity of their common ancestor.

    Exact, in O(n log depth).

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : array-like of shape (n_leaves,)
        The true class of each point; None or nan for a point without one.
    unlabelled : {"count", "ignore"}
        Points without a class make no pairs. With ``"count"`` they still count in the nodes they are in, which
        makes these less pure; with ``"ignore"`` it is as if they were not in the tree.

    Returns
    -------
    float
        Between 0 and 1; 1 when every class is a node of the tree. ``nan`` if no class has two points.

    Examples
    --------
    >>> from grinch import Tree
    >>> from grinch.metrics import dendrogram_purity
    >>> tree = Tree()
    >>> for beside in (None, 0, 1):
    ...     leaf = tree.attach(beside)
    >>> tree.to_newick(lengths=False)
    '(0,(1,2));'
    >>> dendrogram_purity(tree, ["a", "b", "b"]), round(dendrogram_purity(tree, ["a", "a", "b"]), 3)
    (1.0, 0.667)
    >>> dendrogram_purity(tree, ["a", "a", None], unlabelled="ignore")
    1.0
    """
    return purity_of_codes(tree, class_codes(labels, tree.n_leaves), check_unlabelled(unlabelled))


def purity_of_codes(tree: Tree, codes: Labels, ignore_unlabelled: bool = False) -> float:
    """Dendrogram purity for classes given as numbers, -1 for none."""
    meetings = class_lca(tree, codes)
    pairs = meetings.pairs
    if not len(pairs):
        return float("nan")
    sizes = labelled_sizes(tree, codes) if ignore_unlabelled else tree.sizes()
    purities = (meetings.left + meetings.right) / sizes[meetings.nodes]
    return float((pairs @ purities) / pairs.sum())


class RunningPurity:
    """Dendrogram purity of a growing tree, after each point or every few of them: the curve of the paper's figures.

    Each value is exact. An insert may rearrange any part of the tree, and changes the size of every node above the
    new point, the largest ones among them; so every value is counted from scratch in O(n log depth): some
    0.5 ms at 5,000 points, 30 ms at 100,000. Only the classes are kept. For long streams give ``every``.

    Parameters
    ----------
    labels : array-like of shape (n_points,)
        The true class of each point of the whole stream, in the order of arrival; None or nan for none.
    every : int
        Count only when at least this many points have arrived since the last value.

    Attributes
    ----------
    history : list of (int, float)
        The number of points and the purity, for each value so far.

    Examples
    --------
    >>> from grinch import Tree
    >>> from grinch.metrics import RunningPurity
    >>> tree, running = Tree(), RunningPurity(["a", "b", "a", "b"], every=2)
    >>> for beside in (None, 0, 0, 1):
    ...     leaf = tree.attach(beside)
    ...     purity = running.update(tree)
    >>> running.history
    [(2, nan), (4, 1.0)]
    """

    def __init__(self, labels: npt.ArrayLike, every: int = 1):
        self.every = check_count("every", every, 1)
        self._codes = class_codes(labels, np.size(labels))
        self.history: list[tuple[int, float]] = []

    def update(self, tree: Tree) -> float | None:
        """The purity of the tree so far, over the first ``tree.n_leaves`` labels; None where it was not yet due."""
        n = tree.n_leaves
        if n > len(self._codes):
            raise ValueError(
                f"tree must have at most the {len(self._codes)} points there are labels for; got {n} leaves"
            )
        if n - (self.history[-1][0] if self.history else 0) < self.every:
            return None
        self.history.append((n, purity_of_codes(tree, self._codes[:n])))
        return self.history[-1][1]


@overload
def expected_purity(tree: Tree, labels: npt.ArrayLike, n_clusters: int, *, unlabelled: str = ...) -> float: ...


@overload
def expected_purity(
    tree: Tree, labels: npt.ArrayLike, n_clusters: Sequence[int], *, unlabelled: str = ...
) -> Floats: ...


def expected_purity(
    tree: Tree, labels: npt.ArrayLike, n_clusters: int | Sequence[int], *, unlabelled: str = "count"
) -> float | Floats:
    """Mean purity of the clusters of a cut, by their sizes: how many points are of their cluster's largest class.

    All cuts together take O(n log n), so that a whole curve costs no more than one point of it.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : array-like of shape (n_leaves,)
        The true class of each point; None or nan for a point without one.
    n_clusters : int or sequence of int
        Into how many clusters to cut, as :func:`grinch.cuts.cut_n_clusters` does.
    unlabelled : {"count", "ignore"}
        Whether points without a class count as points that are not of the largest class, or not at all.

    Returns
    -------
    float, or array for a sequence
        Between 0 and 1; ``nan`` if there are no points to count.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> from grinch.metrics import expected_purity
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))
    >>> expected_purity(tree, ["a", "a", "b", "c"], [1, 2, 3]).tolist()
    [0.5, 0.75, 1.0]
    """
    ignore = check_unlabelled(unlabelled)
    wanted = [n_clusters] if np.ndim(n_clusters) == 0 else list(n_clusters)  # type: ignore[arg-type]
    for k in wanted:
        check_n_clusters(k)
    codes = class_codes(labels, tree.n_leaves)
    counted = int((codes >= 0).sum()) if ignore else tree.n_leaves
    if not counted:
        return float("nan") if np.ndim(n_clusters) == 0 else np.full(len(wanted), np.nan)
    largest, splits = _largest_class(tree, codes), split_order(tree)
    left, right = tree.child_pairs()[splits].T
    gains = largest[left] + largest[right] - largest[splits]
    curve = np.cumsum(np.concatenate([[largest[tree.root]], gains])) / counted
    values = curve[np.minimum(wanted, tree.n_leaves) - 1]
    return float(values[0]) if np.ndim(n_clusters) == 0 else values


def _largest_class(tree: Tree, codes: Labels) -> Floats:
    """By node id, how many of its points are of its largest class."""
    largest = np.zeros(tree.n_ids)
    largest[: tree.n_leaves] = codes >= 0
    meetings = class_lca(tree, codes)
    np.maximum.at(largest, meetings.nodes, meetings.left + meetings.right)
    return tree.max_upward(largest)
