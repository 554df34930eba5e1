"""Lowest common ancestors of many leaves at once: of all points of a class, and of all entries of a column.

Of the entries of a column, each two neighbours from left to right meet at their lowest common ancestor, each at another
one. So m entries meet at m - 1 nodes, those of the tree that the column spans, however many lie between, and sums over
all pairs take O(nnz log n). Purity and the best cut are counted from the common ancestors of classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._compile import jitable, kernel
from grinch._labels import label_codes
from grinch._types import Counts, Floats, Ids, Labels, as_id
from grinch._vectors import first_not_below
from grinch.errors import unknown_name
from grinch.tree.links import Paths, fill_gaps, no_nodes, place_of_common_ancestor
from grinch.tree.tree import Tree


class ClassLCA(NamedTuple):
    """At ``nodes[i]``, ``left[i]`` points of a class meet ``right[i]`` others: every pair of a class, exactly once."""

    nodes: Ids
    left: Floats
    right: Floats

    @property
    def pairs(self) -> Floats:
        return self.left * self.right


def class_codes(labels: npt.ArrayLike, n: int) -> Labels:
    """Return classes as numbers from 0 on; -1 for a point without one (None or nan).

    >>> class_codes(["b", None, "a", "b"], 4).tolist()
    [0, -1, 1, 0]
    """
    shape = np.shape(np.asarray(labels))
    if shape != (n,):
        raise ValueError(f"labels must have one entry for each of the {n} leaves; got shape {shape}")
    return label_codes(labels)


def each_alone(codes: Labels) -> Labels:
    """Return the same classes, where each point without one is a class of its own.

    >>> each_alone(np.array([0, -1, 0, -1])).tolist()
    [0, 1, 0, 2]
    """
    missing = codes < 0
    codes = codes.copy()
    codes[missing] = codes.max(initial=-1) + 1 + np.arange(missing.sum())
    return codes


def class_lca(tree: Tree, codes: Labels) -> ClassLCA:
    """Return where the points of each class meet, in O(n log depth).

    Neighbouring leaves of one class (from left to right) meet at m - 1 distinct nodes, and at each of them a points
    of the class on the left meet b on the right, which settles a·b pairs at once.
    """
    n = tree.n_leaves
    leaves, gaps = no_nodes(n), no_nodes(max(n - 1, 0))
    if n > 1:
        fill_gaps(tree.links.table, tree.preorder(), tree.offset, leaves, gaps)
    else:
        leaves[:] = 0
    # A prefix of a stream may use fewer classes than its numbers go up to, and have fewer points than that.
    n_classes = int(codes.max(initial=-1)) + 1
    shapes = (3, n_classes), (5, n), (3, n)
    by_class, by_leaf, found = (np.empty(shape, dtype=np.int32) for shape in shapes)
    n_found = _meet(codes[leaves], tree.depths()[gaps], by_class, by_leaf, found)
    where, left, right = found[:, :n_found]
    return ClassLCA(gaps[where], left.astype(np.float64), right.astype(np.float64))


def pairs_under(tree: Tree, lcas: ClassLCA) -> Floats:
    """Return, by node id, how many pairs of one class are under it."""
    pairs = np.bincount(lcas.nodes, lcas.pairs, minlength=tree.n_ids)
    return tree.sum_upward(pairs.astype(np.float64))


def labelled_sizes(tree: Tree, codes: Labels) -> Ids:
    """Return, by node id, how many of its points have a class."""
    sizes = np.zeros(tree.n_ids, dtype=np.int32)
    sizes[: tree.n_leaves] = codes >= 0
    return tree.sum_upward(sizes)


def check_unlabelled(unlabelled: str) -> bool:
    """Return whether points without a class are to be ignored."""
    if unlabelled not in ("count", "ignore"):
        raise unknown_name("unlabelled", unlabelled, ("count", "ignore"))
    return unlabelled == "ignore"


@kernel
def _meet(codes: Labels, depths: Ids, by_class: Ids, by_leaf: Ids, found: Ids) -> int:
    """Fill ``found`` with (gap, points on its left, points on its right); return how many there are.

    ``codes`` and ``depths`` go from left to right: of the leaves, and of the common ancestors between neighbours.
    """
    last, count, top = by_class[0], by_class[1], by_class[2]
    shallow, meet, member, first, below = by_leaf[0], by_leaf[1], by_leaf[2], by_leaf[3], by_leaf[4]
    n_shallow, n_found = 0, 0
    n_classes = count.shape[0]
    for c in range(n_classes):
        count[c], top[c] = 0, -1
    for p in range(codes.shape[0]):
        # Of the gaps so far, `shallow` keeps those shallower than all after them.
        if p > 0:
            while n_shallow > 0 and depths[shallow[n_shallow - 1]] > depths[p - 1]:
                n_shallow -= 1
            shallow[n_shallow] = p - 1
            n_shallow += 1
        c = codes[p]
        if c < 0:
            continue
        if count[c] > 0:
            # The first of them since the last leaf of the class is where that leaf and this one meet.
            gap = shallow[first_not_below(shallow[:n_shallow], last[c], 0)]
            n_found, reach = _close(c, as_id(depths[gap]), depths, by_class, by_leaf, found, n_found)
            meet[p], member[p], first[p], below[p] = gap, count[c] - 1, reach, top[c]
            top[c] = p
        count[c] += 1
        last[c] = p
    for c in range(n_classes):
        n_found, _ = _close(c, -1, depths, by_class, by_leaf, found, n_found)
    return n_found


@jitable
def _close(c: int, depth: int, depths: Ids, by_class: Ids, by_leaf: Ids, found: Ids, n_found: int) -> tuple[int, int]:
    """Close the meetings of class c below ``depth``: all members so far that follow them are their right sides.

    Returns how many meetings are found by now, and the first member of the class under the last one closed.
    """
    count, top = by_class[1], by_class[2]
    meet, member, first, below = by_leaf[1], by_leaf[2], by_leaf[3], by_leaf[4]
    reach = count[c] - 1
    while top[c] >= 0 and depths[meet[top[c]]] > depth:
        s = top[c]
        found[0, n_found], found[1, n_found], found[2, n_found] = (
            meet[s],
            member[s] - first[s] + 1,
            count[c] - 1 - member[s],
        )
        n_found += 1
        reach = first[s]
        top[c] = below[s]
    return n_found, reach


class ColumnLCA(NamedTuple):
    """At ``nodes[i]``, the entries of a column that begin at ``left[i]`` meet those that begin at ``right[i]``.

    What has met is known by its first entry from then on. Entries are in ``leaves`` and ``values``, column by column.
    """

    nodes: Ids
    left: Counts
    right: Counts
    leaves: Ids
    values: Floats


def column_lca(tree: Tree, matrix: Any) -> ColumnLCA:
    """Return where the entries of a CSR matrix with a row for each leaf meet, further down first."""
    paths = tree.paths()
    leaves = np.argsort(paths.places[: tree.n_leaves], kind="stable")
    by_column = matrix[leaves].tocsc()
    n = by_column.nnz - int((np.diff(by_column.indptr) > 0).sum())
    found = ColumnLCA(
        no_nodes(n),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        leaves[by_column.indices].astype(np.int32),
        by_column.data.astype(np.float64),
    )
    longest = int(np.diff(by_column.indptr).max(initial=0))
    scratch = np.empty((2, longest), np.int64)
    _fill_meetings(paths, by_column.indptr.astype(np.int64), found, scratch[0], scratch[1])
    return found


def products_across(tree: Tree, matrix: Any) -> Floats:
    """Return, by node id, the summed products of all pairs of rows of a CSR matrix that part there.

    >>> import scipy.sparse
    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> products_across(tree, scipy.sparse.csr_matrix([[1.0, 2], [3, 0], [0, 5]]))[tree.internal_nodes()].tolist()
    [10.0, 3.0]
    """
    across, found = np.zeros(tree.n_ids), column_lca(tree, matrix)
    _add_products(found.nodes, found.left, found.right, found.values, across)
    return across


@kernel
def _fill_meetings(paths: Paths, starts: Counts, found: ColumnLCA, first: Counts, gaps: Counts) -> None:
    """Keep groups of entries on a stack: ``first`` of each, and the place where it will meet the one before it."""
    n = 0
    for column in range(starts.shape[0] - 1):
        waiting = 0
        for entry in range(starts[column], starts[column + 1]):
            gap = -1
            if waiting:
                u, v = paths.places[found.leaves[entry - 1]], paths.places[found.leaves[entry]]
                gap = place_of_common_ancestor(paths, u, v)
            # Of two ancestors of a leaf, the one further down has the later place.
            while waiting > 1 and gaps[waiting - 1] > gap:
                waiting -= 1
                found.nodes[n] = paths.nodes[gaps[waiting]]
                found.left[n], found.right[n] = first[waiting - 1], first[waiting]
                n += 1
            first[waiting], gaps[waiting] = entry, gap
            waiting += 1
        while waiting > 1:
            waiting -= 1
            found.nodes[n] = paths.nodes[gaps[waiting]]
            found.left[n], found.right[n] = first[waiting - 1], first[waiting]
            n += 1


@kernel
def _add_products(nodes: Ids, left: Counts, right: Counts, sums: Floats, across: Floats) -> None:
    """Add products to nodes; ``sums`` are the values of entries at first, and sums over groups later."""
    for i in range(nodes.shape[0]):
        across[nodes[i]] += sums[left[i]] * sums[right[i]]
        sums[left[i]] += sums[right[i]]
