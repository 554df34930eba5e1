"""Lowest common ancestors of many leaves at once: of all points of a class, and of all entries of a column.

Of the entries of a column, each two neighbours from left to right meet at their lowest common ancestor, each at another
one. So m entries meet at m - 1 nodes, those of the tree that the column spans, however many lie between, and sums over
all pairs take O(nnz log n). Purity and the best cut are counted from the common ancestors of classes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import check_name
from grinch._compile import kernel
from grinch._labels import label_codes
from grinch._types import Counts, Floats, Ids, Labels
from grinch.tree.links import Paths, no_nodes, place_of_common_ancestor
from grinch.tree.tree import Tree


class ClassLCA(NamedTuple):
    """At ``nodes[i]``, ``left[i]`` points of a class meet ``right[i]`` others: every pair of a class, exactly once."""

    classes: Labels
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
    """Return where the points of each class meet, in O(n log n): classes are the columns of a matrix of ones."""
    labelled = np.flatnonzero(codes >= 0)
    starts = np.searchsorted(labelled, np.arange(tree.n_leaves + 1))
    shape = tree.n_leaves, int(codes.max(initial=-1)) + 1
    found = column_lca(tree, scipy.sparse.csr_matrix((np.ones(len(labelled)), codes[labelled], starts), shape=shape))
    sides = np.empty((2, len(found.nodes)))
    _count_sides(found.left, found.right, found.values, sides)
    return ClassLCA(codes[found.leaves[found.left]], found.nodes, *sides)


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
    check_name("unlabelled", unlabelled, ("count", "ignore"))
    return unlabelled == "ignore"


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
    _fill_column_lca(paths, by_column.indptr.astype(np.int64), found, scratch[0], scratch[1])
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
def _fill_column_lca(paths: Paths, starts: Counts, found: ColumnLCA, first: Counts, gaps: Counts) -> None:
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


@kernel
def _count_sides(left: Counts, right: Counts, sums: Floats, sides: Floats) -> None:
    """Write how many entries meet on each side; ``sums`` are ones at first, and sums over groups later."""
    for i in range(left.shape[0]):
        sides[0, i], sides[1, i] = sums[left[i]], sums[right[i]]
        sums[left[i]] += sums[right[i]]
