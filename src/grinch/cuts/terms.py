"""The columns that set a group apart, where every column has a name: the words of texts, the items of baskets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import check_count
from grinch._compile import jitable, kernel
from grinch._types import Floats, Ids, Labels
from grinch.cuts.medoids import check_labels
from grinch.tree.blocks import display
from grinch.tree.tree import Tree

Names = Sequence[str | None]
# Or the column of each name, as vectorizers of scikit-learn have it in ``vocabulary_``.
NamesOrColumns = Names | Mapping[str, int]


@dataclass(frozen=True)
class Keywords:
    """The names that stand out in each of several groups, by number of the group; found in a table when asked for."""

    columns: Ids
    names: Names

    @overload
    def __getitem__(self, group: int) -> list[str]: ...
    @overload
    def __getitem__(self, group: slice) -> list[list[str]]: ...
    def __getitem__(self, group: int | slice) -> list[str] | list[list[str]]:
        if isinstance(group, slice):
            return [self[i] for i in range(*group.indices(len(self)))]
        return [str(self.names[column]) for column in self.columns[group].tolist() if column >= 0]

    def __len__(self) -> int:
        return len(self.columns)


class _Rows(NamedTuple):
    """Rows one after the other, columns that have names only, and what a column weighs on average in all rows."""

    ends: npt.NDArray[np.int64]
    columns: npt.NDArray[np.int32]
    values: Floats
    means: Floats
    # Of a column: as much as it can be more frequent than everywhere, as a factor of its weight.
    most: Floats


class _Room(NamedTuple):
    """What the columns of a group sum up to, and which of them are not zero."""

    sums: Floats
    touched: npt.NDArray[np.int32]
    weights: Floats


def cluster_terms(X: Any, labels: npt.ArrayLike, names: NamesOrColumns, n: int = 10) -> Keywords:
    """The columns that weigh more in a cluster than in all rows, from the sums of its rows.

    A column with mean m in the cluster and M in all rows weighs m log(1 + m / M).

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_points, n_columns)
        Weights from 0 on, such as the counts or the TF-IDF of words.
    labels : array-like of int of shape (n_points,)
        The cluster of each point; -1 (points that belong nowhere) are in none.
    names : sequence of str or None, or mapping of str to int
        What each column is called, or the column of each name (``vocabulary_`` of a vectorizer of scikit-learn); a
        column without a name is left out.
    n : int, default=10
        At most this many names for each cluster.

    Returns
    -------
    Keywords
        By cluster number, the names of greatest weight first; of equals, the first column.

    Examples
    --------
    >>> found = cluster_terms([[2, 1, 0], [3, 0, 0], [0, 1, 1]], [0, 0, 1], ["cat", "the", "stock"])
    >>> found[0], found[1]
    (['cat', 'the'], ['stock', 'the'])
    """
    numbers, count = check_labels(labels), check_count("n", n, 1)
    order = np.argsort(numbers, kind="stable")
    matrix = scipy.sparse.csr_array(X)
    called = _by_column(names, matrix.shape[1])
    rows = _rows(matrix, called, len(numbers), order)
    bounds = np.searchsorted(numbers[order], np.arange(int(numbers.max(initial=-1)) + 2))
    best = np.full((len(bounds) - 1, count), -1, np.int32)
    _fill_clusters(rows, bounds.astype(np.int64), _room(rows, count), best)
    return Keywords(best, called)


def branch_terms(tree: Tree, X: Any, names: NamesOrColumns, n: int = 5) -> Keywords:
    """The columns that weigh more below a node than in all rows, for every node of a tree at once.

    Weights are those of :func:`cluster_terms`. Sums go up each heavy path once, so rows are added O(log n) times each,
    however deep the tree; every node looks once at the columns that are not zero below it.

    Parameters
    ----------
    tree : Tree
        A tree; the rows of X are its leaves, in order.
    X, names, n
        As in :func:`cluster_terms`.

    Returns
    -------
    Keywords
        By node id.

    Examples
    --------
    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> branch_terms(tree, [[2, 1, 0], [3, 0, 0], [0, 1, 1]], ["cat", "the", "stock"], n=1)[tree.lca(0, 1)]
    ['cat']
    """
    count, shown = check_count("n", n, 1), display(tree)
    matrix = scipy.sparse.csr_array(X)
    called = _by_column(names, matrix.shape[1])
    rows = _rows(matrix, called, tree.n_leaves, shown.order)
    best = np.full((tree.n_ids, count), -1, np.int32)
    _fill_branches(rows, tree.parents(), tree.sizes(), shown.starts, shown.order, _room(rows, count), best)
    return Keywords(best, called)


def _by_column(names: Any, width: int) -> Names:
    """The name of each column, also where the columns of names are given; a dict is in no order of columns."""
    if isinstance(names, (str, bytes, set, frozenset)):
        raise ValueError(
            f"names must be a list with the name of each column, or a mapping of names to columns; got"
            f" {type(names).__name__}"
        )
    if not isinstance(names, Mapping):
        return list(names)
    called: list[str | None] = [None] * width
    for name, column in names.items():
        if not isinstance(name, str) or isinstance(column, bool) or not isinstance(column, (int, np.integer)):
            raise ValueError(
                "names must map the name of each column to its number, as vocabulary_ of scikit-learn's vectorizers"
                f" does; got {name!r:.60}: {column!r:.60}"
            )
        if not 0 <= column < width:
            raise ValueError(
                f"names must map to columns of X, from 0 to {width - 1:,}; {name!r:.60} is mapped to {column:,}"
            )
        if called[column] is not None:
            raise ValueError(
                f"names must map to different columns; {called[column]!r} and {name!r} are both {column:,}"
            )
        called[column] = name
    return called


def _rows(matrix: Any, names: Names, n: int, order: npt.NDArray[Any]) -> _Rows:
    if matrix.shape[0] != n:
        raise ValueError(f"X must have one row for each of the {n:,} points; got shape {matrix.shape}")
    if matrix.shape[1] != len(names):
        raise ValueError(f"names must have one entry for each of the {matrix.shape[1]:,} columns; got {len(names):,}")
    if matrix.dtype.kind not in "fiub" or (matrix.nnz and not (matrix.data.min() >= 0 and matrix.data.max() < np.inf)):
        raise ValueError("X must be finite numbers from 0 on, such as counts or weights of words; it has others")
    if None in names:
        is_named = scipy.sparse.diags_array(np.array([name is not None for name in names], np.float32))
        matrix = scipy.sparse.csr_array(matrix @ is_named)
        matrix.eliminate_zeros()
    matrix.sum_duplicates()
    means = np.bincount(matrix.indices, matrix.data, matrix.shape[1]) / max(n, 1)
    largest = float(matrix.data.max()) if matrix.nnz else 0.0
    most = np.log1p(np.divide(largest, means, out=np.zeros_like(means), where=means > 0))
    matrix = matrix[order]
    return _Rows(
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float64), means, most
    )


def _room(rows: _Rows, n: int) -> _Room:
    width = len(rows.means)
    return _Room(np.zeros(width), np.empty(width, np.int32), np.empty(n))


@kernel
def _fill_clusters(rows: _Rows, bounds: Labels, room: _Room, best: Ids) -> None:
    for c in range(best.shape[0]):
        count = _add(rows, bounds[c], bounds[c + 1], room, 0)
        _choose(rows, count, bounds[c + 1] - bounds[c], room, best[c])
        _clear(room, count)


@kernel
def _fill_branches(rows: _Rows, parents: Ids, sizes: Ids, starts: Ids, order: Ids, room: _Room, best: Ids) -> None:
    for place in range(order.shape[0]):
        v, end, count = order[place], place, 0
        while True:
            count = _add(rows, end, place + sizes[v], room, count)
            end = place + sizes[v]
            _choose(rows, count, sizes[v], room, best[v])
            above = parents[v]
            # The larger child is on the left: a heavy path is all that begins at one place.
            if above < 0 or starts[above] != place:
                break
            v = above
        _clear(room, count)


@jitable
def _add(rows: _Rows, start: int, stop: int, room: _Room, count: int) -> int:
    """Add some rows to the sums; how many columns are not zero then."""
    for i in range(rows.ends[start], rows.ends[stop]):
        column, value = rows.columns[i], rows.values[i]
        if value > 0:
            if room.sums[column] == 0:
                room.touched[count] = column
                count += 1
            room.sums[column] += value
    return count


@jitable
def _clear(room: _Room, count: int) -> None:
    for i in range(count):
        room.sums[room.touched[i]] = 0


@jitable
def _choose(rows: _Rows, count: int, size: int, room: _Room, best: Ids) -> None:
    """The columns of greatest weight, by insertion into a short list."""
    found, n = 0, best.shape[0]
    for i in range(count):
        column = room.touched[i]
        mean = room.sums[column] / size
        # The logarithm is most of the time, and few columns can still be among the first.
        if found == n and mean * rows.most[column] < room.weights[n - 1]:
            continue
        weight = mean * np.log1p(mean / rows.means[column])
        at = found
        while at > 0 and (weight > room.weights[at - 1] or (weight == room.weights[at - 1] and column < best[at - 1])):
            at -= 1
        if at == n:
            continue
        found = min(found + 1, n)
        for j in range(found - 1, at, -1):
            room.weights[j], best[j] = room.weights[j - 1], best[j - 1]
        room.weights[at], best[at] = weight, column
