"""Sparse vectors on a tree: where the entries of each column meet, from which sums over columns take O(nnz log n).

Of the entries of a column, each two neighbours from left to right meet at their lowest common ancestor, each at another
one. So m entries meet at m - 1 nodes, those of the tree that the column spans, however many lie between.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grinch._compile import kernel
from grinch._types import Counts, Floats, Ids
from grinch.tree import walks
from grinch.tree.paths import Paths, fill_paths, new_paths, place_of_common_ancestor
from grinch.tree.tree import Tree


class ColumnMeetings(NamedTuple):
    """At ``nodes[i]``, the entries of a column that begin at ``left[i]`` meet those that begin at ``right[i]``.

    What has met is known by its first entry from then on. Entries are in ``leaves`` and ``values``, column by column.
    """

    nodes: Ids
    left: Counts
    right: Counts
    leaves: Ids
    values: Floats


def column_meetings(tree: Tree, matrix: Any) -> ColumnMeetings:
    """Where the entries of a CSR matrix with a row for each leaf meet, further down first."""
    paths = new_paths(tree.n_ids)
    if tree.n_leaves:
        fill_paths(tree.links.table, tree.preorder(), tree.offset, tree.sizes(), paths)
    leaves = np.argsort(paths.places[: tree.n_leaves], kind="stable")
    by_column = matrix[leaves].tocsc()
    n = by_column.nnz - int((np.diff(by_column.indptr) > 0).sum())
    found = ColumnMeetings(
        walks.no_nodes(n),
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
    """By node id, the summed products of all pairs of rows of a CSR matrix that part there.

    >>> import scipy.sparse
    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> products_across(tree, scipy.sparse.csr_matrix([[1.0, 2], [3, 0], [0, 5]]))[tree.internal_nodes()].tolist()
    [10.0, 3.0]
    """
    across, found = np.zeros(tree.n_ids), column_meetings(tree, matrix)
    _add_products(found.nodes, found.left, found.right, found.values, across)
    return across


@kernel
def _fill_meetings(paths: Paths, starts: Counts, found: ColumnMeetings, first: Counts, gaps: Counts) -> None:
    """Groups of entries wait on a stack: ``first`` of each, and the place where it will meet the one before it."""
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
    """``sums`` are the values of entries at first."""
    for i in range(nodes.shape[0]):
        across[nodes[i]] += sums[left[i]] * sums[right[i]]
        sums[left[i]] += sums[right[i]]
