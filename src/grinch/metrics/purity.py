"""Dendrogram purity, exact, running or sampled, and the purity of cuts: are the classes nodes of the tree?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count, check_name
from grinch._types import Floats, Ids, Labels
from grinch.cuts.flat import check_n_clusters, split_order
from grinch.tree import Tree
from grinch.tree.lca import check_unlabelled, class_codes, class_lca, labelled_sizes


def dendrogram_purity(tree: Tree, labels: npt.ArrayLike, *, unlabelled: str = "count", ties: str = "split") -> float:
    """Return the dendrogram purity: over all pairs of points of one class, the mean purity of their common ancestor.

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
    ties : {"split", "join"}
        With ``"join"`` a node and its parent of exactly the same score count as one node of more than two children:
        the purity of a tree such as that of :class:`~grinch.SCC` as it was before it was made binary.

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
    >>> of_one_node = Tree.from_merges(np.array([[0, 1], [2, 3]]), np.array([0.5, 0.5]))
    >>> round(dendrogram_purity(of_one_node, ["a", "a", "b"], ties="join"), 3)
    0.667
    """
    check_name("ties", ties, ("split", "join"))
    ignore = check_unlabelled(unlabelled)
    return purity_of_codes(tree, class_codes(labels, tree.n_leaves), ignore, join_ties=ties == "join")


def purity_of_codes(tree: Tree, codes: Labels, ignore_unlabelled: bool = False, join_ties: bool = False) -> float:
    """Return the dendrogram purity for classes given as numbers, -1 for none."""
    meetings = class_lca(tree, codes)
    pairs, nodes, counts = meetings.pairs, meetings.nodes, meetings.left + meetings.right
    if not len(pairs):
        return float("nan")
    sizes = labelled_sizes(tree, codes) if ignore_unlabelled else tree.sizes()
    if join_ties:
        nodes = _tops_of_ties(tree)[nodes]
        # The points of a class under a joined node are those of its highest meeting in it.
        _, groups = np.unique(np.stack([meetings.classes, nodes]), axis=1, return_inverse=True)
        most = np.zeros(len(pairs))
        np.maximum.at(most, groups.ravel(), counts)
        counts = most[groups.ravel()]
    return float((pairs @ (counts / sizes[nodes])) / pairs.sum())


def _tops_of_ties(tree: Tree) -> Ids:
    """Return, by node id, the highest ancestor that is reached by way of nodes of the same score."""
    parents, scores, tops = tree.parents(), tree.scores, np.arange(tree.n_ids, dtype=np.int32)
    is_tied = (parents >= 0) & (scores[parents] == scores)
    tops[is_tied] = parents[is_tied]
    while (higher := tops[tops] != tops).any():
        tops[higher] = tops[tops[higher]]
    return tops


class RunningPurity:
    """Dendrogram purity of a growing tree, after each point or every few of them: the curve of the paper's figures.

    Each value is exact. An insert may rearrange any part of the tree, so every value is computed from scratch, in O(n
    log depth). For long streams give ``every``.

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
        """Return the purity of the tree so far, by the first ``tree.n_leaves`` labels; None where it is not yet due."""
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
    """Return the purity of the clusters of a cut: the share of points that are of their cluster's largest class.

    All cuts together take O(n log n), so that a whole curve costs no more than one point of it.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : array-like of shape (n_leaves,)
        The true class of each point; None or nan for a point without one.
    n_clusters : int or sequence of int
        The number of clusters, as for :func:`grinch.cuts.cut_n_clusters`.
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
    ignore, is_one = check_unlabelled(unlabelled), np.ndim(n_clusters) == 0
    wanted = [n_clusters] if is_one else list(n_clusters)  # type: ignore[arg-type]
    for k in wanted:
        check_n_clusters(k)
    codes, values = class_codes(labels, tree.n_leaves), np.full(len(wanted), np.nan)
    if counted := int((codes >= 0).sum()) if ignore else tree.n_leaves:
        largest, splits = _largest_class(tree, codes), split_order(tree)
        left, right = tree.child_pairs()[splits].T
        gains = largest[left] + largest[right] - largest[splits]
        curve = np.cumsum(np.concatenate([[largest[tree.root]], gains])) / counted
        values = curve[np.minimum(wanted, tree.n_leaves) - 1]
    return float(values[0]) if is_one else values


def _largest_class(tree: Tree, codes: Labels) -> Floats:
    """Return, by node id, how many of its points are of its largest class."""
    largest = np.zeros(tree.n_ids)
    largest[: tree.n_leaves] = codes >= 0
    meetings = class_lca(tree, codes)
    np.maximum.at(largest, meetings.nodes, meetings.left + meetings.right)
    return tree.max_upward(largest)


class SampledPurity(NamedTuple):
    """An estimate, and an interval that contains the exact value with the given confidence."""

    purity: float
    low: float
    high: float


def sampled_purity(
    tree: Tree,
    labels: npt.ArrayLike,
    n_pairs: int = 100_000,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> SampledPurity:
    """Return the dendrogram purity estimated from pairs of one class, drawn at random; each pair's own purity is exact.

    The exact :func:`~grinch.metrics.dendrogram_purity` takes under a second for a million points as well; this is an
    estimate by other means, for figures to be compared with sampled ones.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : array-like of shape (n_leaves,)
        The true class of each point; None or nan for a point without one, which counts in the nodes it is in.
    n_pairs : int
        Pairs to draw, with replacement.
    confidence : float
        The least probability with which the interval contains the exact value. It is Hoeffding's interval, which needs
        no assumption: with 100,000 pairs and 0.95 it is ± 0.0043, clipped to 0 and 1.
    random_state : int, numpy Generator or None
        The source of randomness.

    Returns
    -------
    SampledPurity
        ``purity``, ``low`` and ``high``; all ``nan`` if no class has two points.

    Examples
    --------
    >>> from grinch import Tree
    >>> from grinch.metrics import sampled_purity
    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> purity, low, high = sampled_purity(tree, ["a", "a", "b"], n_pairs=500, random_state=0)
    >>> purity, round(low, 2), high
    (1.0, 0.94, 1.0)
    """
    n_pairs = check_count("n_pairs", n_pairs, 1)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, such as 0.95; got {confidence!r}")
    purities = _purities_of_pairs(tree, labels, n_pairs, np.random.default_rng(random_state))
    if not len(purities):
        return SampledPurity(np.nan, np.nan, np.nan)
    mean = float(purities.mean())
    margin = float(np.sqrt(np.log(2 / (1 - confidence)) / (2 * n_pairs)))
    return SampledPurity(mean, max(mean - margin, 0.0), min(mean + margin, 1.0))


def _purities_of_pairs(tree: Tree, labels: npt.ArrayLike, n_pairs: int, rng: np.random.Generator) -> Floats:
    """Return the purity of the common ancestor of each pair drawn."""
    codes, n, preorder = class_codes(labels, tree.n_leaves), tree.n_leaves, tree.preorder()
    leaves = preorder[preorder < tree.offset]
    # By class, then from left to right: what a class has under a node is a range of these keys.
    keys = np.sort((codes[leaves] * n + np.arange(n))[codes[leaves] >= 0])
    counts = np.bincount(keys // max(n, 1))
    weights = counts.astype(np.float64) * (counts - 1)
    if not weights.any():
        return np.empty(0)
    classes = rng.choice(len(counts), n_pairs, p=weights / weights.sum())
    first = rng.integers(0, counts[classes])
    second = rng.integers(0, counts[classes] - 1)
    second += second >= first
    start = (np.cumsum(counts) - counts)[classes]
    u, v = (leaves[keys[start + member] % n] for member in (first, second))
    nodes = tree.common_ancestors(u, v)
    before = np.empty(tree.n_ids, dtype=np.int64)
    before[preorder] = np.cumsum(preorder < tree.offset) - (preorder < tree.offset)
    left_end, sizes = classes * n + before[nodes], tree.sizes()[nodes]
    return (np.searchsorted(keys, left_end + sizes) - np.searchsorted(keys, left_end)) / sizes
