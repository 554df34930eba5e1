"""Dendrogram purity: whether the classes are nodes of the tree."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch.classes import Codes, class_codes, class_meetings
from grinch.errors import unknown_name
from grinch.tree import Tree, walks


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
        Points without a class make no pairs. With ``"count"`` they still count in the nodes they are in, which are
        the less pure for it; with ``"ignore"`` it is as if they were not in the tree.

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
    if unlabelled not in ("count", "ignore"):
        raise unknown_name("unlabelled", unlabelled, ("count", "ignore"))
    return purity_of_codes(tree, class_codes(labels, tree.n_leaves), unlabelled == "ignore")


def purity_of_codes(tree: Tree, codes: Codes, ignore_unlabelled: bool = False) -> float:
    """Dendrogram purity for classes given as numbers, -1 for none."""
    meetings = class_meetings(tree, codes)
    pairs = meetings.pairs
    if not len(pairs):
        return float("nan")
    sizes = labelled_sizes(tree, codes) if ignore_unlabelled else tree.sizes()
    purities = (meetings.left + meetings.right) / sizes[meetings.nodes]
    return float((pairs @ purities) / pairs.sum())


def labelled_sizes(tree: Tree, codes: Codes) -> npt.NDArray[np.int32]:
    """By node id, how many of its points have a class."""
    sizes = np.zeros(len(tree.links.table), dtype=np.int32)
    sizes[: tree.n_leaves] = codes >= 0
    walks.sum_upward(tree.links.table, tree.preorder(), tree.offset, sizes)
    return sizes
