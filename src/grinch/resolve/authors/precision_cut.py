"""Cut of a tree of records by the expected precision of its merges.

A model learns from groups of a few hundred records and errs in groups beyond them, where one merge decides about most
pairs. So the precision of a merge of many records is estimated from parts of a size that the model knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from grinch._compile import compiled
from grinch._types import Floats, Ids, Labels, Mask
from grinch.cuts.flat import known_scores
from grinch.cuts.labels import labels_of
from grinch.tree import Tree

# The records of a branch, at most; docs/development/coref.md has others.
BRANCH = 30


class Scorer(Protocol):
    """A linkage that scores one group against many at once."""

    def leaf(self, record: Any) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any: ...

    def scores(self, a: Any, others: Sequence[Any]) -> npt.NDArray[np.float64]: ...


def rescore_large(tree: Tree, linkage: Scorer, records: Sequence[Any], branch: int = BRANCH) -> Tree:
    """Return the tree with the score of each merge of more than ``branch`` records estimated from its parts.

    The largest subtrees of at most ``branch`` records are the branches. A merge scores the mean of the linkage over all
    pairs of a branch of one side and a branch of the other, weighted by the pairs of records between them: if each of
    these scores is the precision between two branches, that is the precision of the merge. Scores that are no
    precision, below 0 or above 1, are those of a rule and stay.

    Parameters
    ----------
    tree : Tree
        With scores.
    linkage : Scorer
        The learned linkage, such as :class:`~grinch.resolve.authors.model.CorefLinkage`.
    records : sequence
        What the leaves are, in their order.
    branch : int
        The records of a branch, at most.

    Examples
    --------
    >>> from grinch.resolve.authors.kernels import PairFeatures
    >>> from grinch.resolve.authors.model import CorefLinkage, Model
    >>> from grinch.resolve.authors.predictors import Logistic
    >>> near = PairFeatures(np.array([[0, 4, 9], [4, 0, -9], [9, -9, 0]], float)[:, :, None], ["near"])
    >>> greatest = Model(Logistic(np.array([0.0, 0, 1, 0, 0]), np.zeros(1)), near.names)
    >>> tree = Tree.from_merges(np.array([[0, 1], [3, 2]]), np.array([0.98, 0.99]))
    >>> rescore_large(tree, CorefLinkage(greatest, near), range(3), branch=1).scores[[4, 5]].round(2).tolist()
    [0.98, 0.5]
    """
    scores, sizes, children = tree.scores.copy(), tree.sizes(), tree.child_pairs()
    preorder, parents = tree.preorder(), tree.parents()
    is_small = sizes <= branch
    large = [v for v in preorder[~is_small[preorder]].tolist() if 0 <= scores[v] <= 1]
    if not large:
        return tree
    is_top = np.zeros(tree.n_ids, np.int64)
    is_top[preorder] = is_small[preorder] & ~is_small[parents[preorder]]
    tops = preorder[is_top[preorder] == 1]
    summaries = _summaries(tree, linkage, records, preorder[is_small[preorder]])
    branches, weights = [summaries[v] for v in tops.tolist()], sizes[tops].astype(np.float64)
    # From left to right, the branches below a node follow each other.
    first = np.zeros(tree.n_ids, np.int64)
    first[preorder] = np.cumsum(is_top[preorder]) - is_top[preorder]
    n_below = tree.sum_upward(is_top)
    for v in large:
        few, many = sorted(children[v].tolist(), key=lambda child: n_below[child])
        others = slice(first[many], first[many] + n_below[many])
        total = 0.0
        for i in range(first[few], first[few] + n_below[few]):
            total += weights[i] * float(linkage.scores(branches[i], branches[others]) @ weights[others])
        scores[v] = total / (float(sizes[few]) * sizes[many])
    return tree.rescored(lambda _: scores, tree.ceiling)


def _summaries(tree: Tree, linkage: Scorer, records: Sequence[Any], nodes: Ids) -> dict[int, Any]:
    """Return the summaries of the roots of the subtrees that the nodes form, parents before children."""
    found: dict[int, Any] = {}
    for v in nodes[::-1].tolist():
        if tree.is_leaf(v):
            found[v] = linkage.leaf(records[v])
        else:
            left, right = tree.children(v)
            found[v] = linkage.merge(found.pop(left), found.pop(right))
    return found


def cut_by_precision(tree: Tree, threshold: float) -> Labels:
    """Cut a tree whose scores are the expected precision of each merge.

    A merge of groups of n and m records puts n · m pairs together, of which the share ``score`` is right, so it gains
    n · m · (score - threshold). A cluster gains the sum over all merges inside it, and the cut with the largest gain is
    taken. So neither one odd merge at the top of a mixed group nor one at the bottom of a pure group decides alone, as
    it does under :func:`grinch.cuts.cut_threshold`, which is meant for scores that fall from the leaves to the root.

    Parameters
    ----------
    tree : Tree
        With scores, such as those of :class:`~grinch.resolve.authors.model.CorefLinkage`.
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
    """Return, by node id, whether the cut goes through it."""
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
