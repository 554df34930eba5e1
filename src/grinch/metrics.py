"""How good a tree or a flat clustering is, given labels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch.tree import Tree, walks


def dendrogram_purity(tree: Tree, labels: npt.ArrayLike) -> float:
    """Dendrogram purity of a tree: over all pairs of points of one class, the mean purity of their common ancestor.

    Exact, in O(n log n): neighbouring leaves of one class (from left to right) meet at m - 1 distinct nodes, and at
    each of them a points of the class on the left meet b on the right, which settles a·b pairs at once.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : array-like of shape (n_leaves,)
        The true class of each point; None or nan for a point without one, which counts in the nodes it is in.

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
    """
    classes = _classes(labels, tree.n_leaves)
    n = tree.n_leaves
    if n < 2:
        return float("nan")
    preorder = tree.preorder()
    leaves, gaps = walks.no_nodes(n), walks.no_nodes(n - 1)
    walks.fill_gaps(tree.links.table, preorder, tree.offset, leaves, gaps)
    lowest = _range_minima(tree.depths()[gaps])
    by_class = np.argsort(classes[leaves], kind="stable")
    starts = np.searchsorted(classes[leaves][by_class], np.arange(classes.max() + 2))
    scratch = np.empty((3, n), np.int64)
    total, pairs = _sum_purity(by_class, starts, lowest, tree.sizes()[gaps].astype(np.float64), scratch)
    return total / pairs if pairs else float("nan")


def _classes(labels: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    values = np.asarray(labels)
    if values.shape != (n,):
        raise ValueError(f"labels must have one entry for each of the {n} leaves; got shape {values.shape}")
    # A point without a label (None or nan) is of no class: it counts in the nodes it is in, but makes no pairs.
    missing = np.array([v is None or v != v for v in values.tolist()], dtype=np.bool_)
    codes = np.empty(n, np.int64)
    _, codes[~missing] = np.unique(
        values[~missing].astype(str if values.dtype == object else values.dtype), return_inverse=True
    )
    codes[missing] = codes[~missing].max(initial=-1) + 1 + np.arange(missing.sum())
    return codes


def _range_minima(depths: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """A sparse table: row j, column i is the position of the smallest depth among i … i + 2^j - 1."""
    n = len(depths)
    rows = [np.arange(n, dtype=np.int32)]
    step = 1
    while 2 * step <= n:
        last = rows[-1].copy()
        left, right = rows[-1][: n - 2 * step + 1], rows[-1][step : n - step + 1]
        last[: n - 2 * step + 1] = np.where(depths[left] <= depths[right], left, right)
        rows.append(last)
        step *= 2
    table = np.stack(rows)
    # Comparing positions needs the depths too; they ride along as the last row.
    return np.vstack([table, depths[None, :].astype(np.int32)])


@kernel
def _lowest_between(table, i, j):
    """Position of the smallest depth among gaps i … j - 1."""
    span, row = j - i, 0
    while (2 << row) <= span:
        row += 1
    left, right = table[row, i], table[row, j - (1 << row)]
    depths = table[table.shape[0] - 1]
    return left if depths[left] <= depths[right] else right


@kernel
def _sum_purity(by_class, starts, table, sizes, scratch):
    total, pairs = 0.0, 0
    depths = table[table.shape[0] - 1]
    meet, first, stack = scratch[0], scratch[1], scratch[2]
    for c in range(starts.shape[0] - 1):
        begin, m = starts[c], starts[c + 1] - starts[c]
        pairs += m * (m - 1) // 2
        # meet[t]: where members t and t + 1 meet; first[t]: the first member on its left side.
        top = 0
        for t in range(m):
            g = -1
            if t < m - 1:
                g = _lowest_between(table, by_class[begin + t], by_class[begin + t + 1])
            reach = t
            # A deeper node ends here: its right side is the members up to t.
            while top > 0 and (g < 0 or depths[meet[stack[top - 1]]] > depths[g]):
                top -= 1
                s = stack[top]
                a, b = s - first[s] + 1, t - s
                total += a * b * (a + b) / sizes[meet[s]]
                reach = first[s]
            if g >= 0:
                meet[t], first[t] = g, reach
                stack[top] = t
                top += 1
    return total, pairs


def pairwise_f1(labels: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """F1 of the pairs put together: the harmonic mean of pairwise precision and recall.

    >>> from grinch.metrics import pairwise_f1
    >>> pairwise_f1([0, 0, 1, 1], [5, 5, 5, 7])
    0.4
    """
    true, found = np.asarray(labels), np.asarray(predicted)
    if true.ndim != 1 or true.shape != found.shape:
        raise ValueError(
            f"labels and predicted must be one-dimensional and of one length; got shapes {true.shape} and {found.shape}"
        )
    a, b = _classes(true, len(true)), _classes(found, len(true))
    _, both = np.unique(a.astype(np.int64) * (int(b.max(initial=0)) + 1) + b, return_counts=True)

    def pairs(counts: npt.NDArray[np.int64]) -> float:
        return float((counts.astype(np.float64) * (counts - 1)).sum() / 2)

    together, in_true, in_found = pairs(both), pairs(np.bincount(a)), pairs(np.bincount(b))
    return 2 * together / (in_true + in_found) if in_true + in_found else 1.0
