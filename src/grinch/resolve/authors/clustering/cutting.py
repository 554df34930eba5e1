"""From a tree under a learned linkage to authors: the cut that is expected to put the most right pairs together."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._compile import compiled
from grinch._types import Floats, Ids, Labels, Mask
from grinch.cuts.flat import known_scores
from grinch.cuts.labels import labels_of
from grinch.tree import Tree


def cut_by_precision(tree: Tree, threshold: float) -> Labels:
    """Cut a tree whose scores are the expected precision of each merge.

    A merge of groups of n and m records puts n · m pairs together, of which the share ``score`` is right, so it gains
    n · m · (score - threshold). A cluster gains the sum over all merges inside it, and the cut with the largest gain is
    taken. So neither one odd merge at the top of a mixed group nor one at the bottom of a pure group decides alone, as
    it does under :func:`grinch.cuts.cut_threshold`, which is meant for scores that fall from the leaves to the root.

    Parameters
    ----------
    tree : Tree
        With scores, such as those of :class:`~grinch.resolve.authors.learned.linkage.CorefLinkage`.
    threshold : float
        The precision at which putting a pair together pays off; a finite number.

    Returns
    -------
    array of shape (n_leaves,)
        Cluster numbers by record.

    Examples
    --------
    >>> tree = Tree.from_merges(np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.4, 0.9, 0.8]))
    >>> cut_by_precision(tree, 0.5).tolist(), cut_by_precision(tree, 0.85).tolist()
    ([0, 0, 0, 0], [0, 1, 2, 2])
    """
    return labels_of(tree, splits_by_precision(tree, threshold))


def splits_by_precision(tree: Tree, threshold: float) -> Mask:
    """By node id, whether the cut goes through it."""
    if not np.isfinite(threshold):
        raise ValueError(f"threshold must be a finite number, usually between 0 and 1; got {threshold!r}")
    is_split = np.zeros(tree.n_ids, np.bool_)
    if tree.n_leaves > 1:
        # A rule of infinite weight makes scores infinite.
        scores = np.clip(known_scores(tree), -1e9, 1e9)
        _fill_splits(tree.internal_nodes(), tree.child_pairs(), tree.sizes(), scores, threshold, is_split)
    return is_split


@compiled
def _fill_splits(nodes: Ids, children: Ids, sizes: Ids, scores: Floats, threshold: float, is_split: Mask) -> None:
    whole, best = np.zeros(len(sizes)), np.zeros(len(sizes))
    for i in range(len(nodes) - 1, -1, -1):
        v, left, right = nodes[i], children[nodes[i], 0], children[nodes[i], 1]
        whole[v] = whole[left] + whole[right] + float(sizes[left]) * sizes[right] * (scores[v] - threshold)
        apart = best[left] + best[right]
        is_split[v] = apart > whole[v]
        best[v] = max(apart, whole[v])


def pair_counts(authors: npt.NDArray[np.int64], labels: Labels) -> npt.NDArray[np.float64]:
    """How many pairs are together in both, in the true authors, and in the clustering.

    >>> pair_counts(np.array([0, 0, 1]), np.array([0, 0, 0])).tolist()
    [1.0, 1.0, 3.0]
    """

    def pairs(codes: npt.NDArray[np.int64]) -> float:
        counts = np.unique(codes, return_counts=True)[1].astype(np.float64)
        return float((counts * (counts - 1)).sum() / 2)

    return np.array([pairs(authors * (int(labels.max(initial=0)) + 1) + labels), pairs(authors), pairs(labels)])
