"""The words, or other named columns, that set a group of points apart.

:func:`keywords` counts the words of texts; :func:`cluster_terms` and :func:`branch_terms` go by a matrix whose columns
have names, such as the words of texts or the items of baskets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import check_count
from grinch._compile import jitable, kernel
from grinch._labels import check_labels
from grinch._types import Counts, Floats, Ids, Labels
from grinch.text.analysis import WORD, check_texts, in_pairs
from grinch.tree.blocks import display
from grinch.tree.tree import Tree

Tokenize = Callable[[str], Iterable[str]]

# Frequent everywhere, so they say nothing of a cluster; the weights alone do not always keep them out.
ENGLISH = frozenset(
    WORD.findall("""
    about above after again against all also although always am among an and another any are around as at be
    became because been before being below between both but by can cannot could did do does doing done down during
    each either else ever every few for from further get had has have having he hence her here hers herself him
    himself his how however if in indeed instead into is it its itself just least less like made make many may me
    might mine more moreover most much must my myself neither never no nor not now of off often on once one only
    or other others otherwise our ours ourselves out over own per perhaps please quite rather re same see several
    shall she should since so some such than that the their theirs them themselves then there therefore these they
    this those though through throughout thus to together too toward towards under until up upon us use used using
    very via was we well were what whatever when where whether which while who whole whom whose why will with
    within without would yet you your yours yourself yourselves
    """)
)


def keywords(
    texts: Sequence[str | None],
    labels: npt.ArrayLike,
    n: int = 10,
    stop_words: Collection[str] | str | None = "english",
    tokenize: Tokenize | None = None,
) -> list[list[str]]:
    """Return the words that are frequent in a cluster and rare elsewhere, by class-based TF-IDF (c-TF-IDF).

    The texts of a cluster count as one. A word weighs its frequency in the cluster times log(1 + a / f), where a is
    the average number of words per cluster and f the frequency of the word in all clusters together. BERTopic
    (Grootendorst, 2022) names its topics in this way.

    Parameters
    ----------
    texts : sequence of str
        A text for each point; None and nan count as empty.
    labels : array-like of int of shape (n_points,)
        The cluster of each point; the texts of -1 (points that belong nowhere) are left out.
    n : int, default=10
        At most this many words for each cluster.
    stop_words : "english", collection of str or None, default="english"
        Words to ignore: a short English list, or one of your own, in lower case.
    tokenize : callable, optional
        A function from a text to its words; by default runs of two or more letters or digits, in lower case, and of
        Chinese, Japanese and other scripts without spaces, pairs of characters.

    Returns
    -------
    list of lists of str
        By cluster number, the words of greatest weight first; equal weights in alphabetical order.

    Examples
    --------
    >>> texts = ["the cat sat", "a cat and a dog", "stocks fell", "the stocks rose, the bonds fell"]
    >>> keywords(texts, [0, 0, 1, 1], n=2)
    [['cat', 'dog'], ['fell', 'stocks']]
    """
    numbers, count = check_labels(labels), check_count("n", n, 1)
    if tokenize is not None and not callable(tokenize):
        raise ValueError(f"tokenize must be a function from a text to its words, or None; got {tokenize!r}")
    counters = _word_counts(check_texts(texts, len(numbers)), numbers, tokenize, _ignored(stop_words))
    everywhere: Counter[str] = Counter()
    for counter in counters:
        everywhere.update(counter)
    # Numbers without points are no clusters, and do not lower the average.
    average = everywhere.total() / max(len(np.unique(numbers[numbers >= 0])), 1)
    rarity = {word: math.log1p(average / frequency) for word, frequency in everywhere.items()}
    return [_heaviest(counter, rarity, count) for counter in counters]


def _words(texts: list[str], tokenize: Tokenize | None) -> Iterable[str]:
    """Return the words of several texts; by default of all at once, which takes half of the time."""
    if tokenize is None:
        return WORD.findall(in_pairs("\n".join(texts).lower()))
    return chain.from_iterable(map(tokenize, texts))


def _ignored(stop_words: Collection[str] | str | None) -> Collection[str]:
    if isinstance(stop_words, str) and stop_words == "english":
        return ENGLISH
    if isinstance(stop_words, (str, bytes)) or not (stop_words is None or isinstance(stop_words, Collection)):
        raise ValueError(f"stop_words must be 'english', a list of words, or None; got {stop_words!r}")
    return frozenset(stop_words or ())


def _word_counts(
    texts: list[str], numbers: Labels, tokenize: Tokenize | None, ignored: Collection[str]
) -> list[Counter[str]]:
    """Return the counts of the words in the texts of each cluster."""
    members: list[list[str]] = [[] for _ in range(int(numbers.max(initial=-1)) + 1)]
    for text, number in zip(texts, numbers.tolist(), strict=True):
        if number >= 0 and text:
            members[number].append(text)
    counters = [Counter(_words(own, tokenize)) for own in members]
    for counter in counters:
        for word in counter.keys() & ignored if len(ignored) else ():
            del counter[word]
    return counters


def _heaviest(counter: Counter[str], rarity: dict[str, float], n: int) -> list[str]:
    counts = np.fromiter(counter.values(), np.float64, len(counter))
    weights = counts * np.fromiter(map(rarity.__getitem__, counter), np.float64, len(counter))
    # All that weigh as much as the n-th, and then the first of them by word.
    least = np.partition(weights, -n)[-n] if n < len(weights) else 0.0
    words = list(counter)
    weighed = sorted((-weights[i], words[i]) for i in np.flatnonzero(weights >= least).tolist())
    return [word for _, word in weighed[:n]]


Names = Sequence[str | None]
# Or the column of each name, as vectorizers of scikit-learn have it in ``vocabulary_``.
NamesOrColumns = Names | Mapping[str, int]


@dataclass(frozen=True)
class Keywords:
    """Names that stand out in each of several groups, by number of the group."""

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
    """Rows in CSR form, without columns that have no name, and scratch space for the sums of a group."""

    ends: Counts
    columns: Ids
    values: Floats
    # By column: its mean over all rows, and an upper bound of log(1 + m / mean).
    means: Floats
    bounds: Floats
    # By column its sum; the columns with a sum above 0; the weights of the best columns.
    sums: Floats
    touched: Ids
    weights: Floats


def cluster_terms(X: Any, labels: npt.ArrayLike, names: NamesOrColumns, n: int = 10) -> Keywords:
    """Return the columns that weigh more in a cluster than in all rows, from the sums of its rows.

    A column with mean m in the cluster and M in all rows weighs m log(1 + m / M).

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_points, n_columns)
        Weights from 0 on, such as the counts or the TF-IDF of words.
    labels : array-like of int of shape (n_points,)
        The cluster of each point; -1 (points that belong nowhere) are in none.
    names : sequence of str or None, or mapping of str to int
        The name of each column, or the column of each name (``vocabulary_`` of a vectorizer of scikit-learn); a column
        without a name is left out.
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
    rows, called = _rows(X, names, order, count)
    bounds = np.searchsorted(numbers[order], np.arange(int(numbers.max(initial=-1)) + 2))
    best = np.full((len(bounds) - 1, count), -1, np.int32)
    _fill_clusters(rows, bounds.astype(np.int64), best)
    return Keywords(best, called)


def branch_terms(tree: Tree, X: Any, names: NamesOrColumns, n: int = 5) -> Keywords:
    """Return the columns that weigh more below a node than in all rows, for every node of a tree.

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
    rows, called = _rows(X, names, shown.order, count)
    best = np.full((tree.n_ids, count), -1, np.int32)
    _fill_branches(rows, tree.parents(), tree.sizes(), shown.starts, shown.order, best)
    return Keywords(best, called)


def _by_column(names: Any, width: int) -> Names:
    """Return the name of each column, also from a mapping of names to columns, which is in no order of columns."""
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


def _rows(X: Any, names: NamesOrColumns, order: npt.NDArray[Any], count: int) -> tuple[_Rows, Names]:
    """Return the rows of X in this order, with room for ``count`` columns of a group, and the name of each column."""
    matrix, n = scipy.sparse.csr_array(X), len(order)
    called = _by_column(names, matrix.shape[1])
    if matrix.shape[0] != n:
        raise ValueError(f"X must have one row for each of the {n:,} points; got shape {matrix.shape}")
    if matrix.shape[1] != len(called):
        raise ValueError(f"names must have one entry for each of the {matrix.shape[1]:,} columns; got {len(called):,}")
    if matrix.dtype.kind not in "fiub" or (matrix.nnz and not (matrix.data.min() >= 0 and matrix.data.max() < np.inf)):
        raise ValueError("X must be finite numbers from 0 on, such as counts or weights of words; it has others")
    if None in called:
        is_named = scipy.sparse.diags_array(np.array([name is not None for name in called], np.float32))
        matrix = scipy.sparse.csr_array(matrix @ is_named)
        matrix.eliminate_zeros()
    matrix.sum_duplicates()
    width = matrix.shape[1]
    means = np.bincount(matrix.indices, matrix.data, width) / max(n, 1)
    largest = float(matrix.data.max()) if matrix.nnz else 0.0
    bounds = np.log1p(np.divide(largest, means, out=np.zeros_like(means), where=means > 0))
    matrix = matrix[order]
    parts = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data.astype(np.float64)
    return _Rows(*parts, means, bounds, np.zeros(width), np.empty(width, np.int32), np.empty(count)), called


@kernel
def _fill_clusters(rows: _Rows, bounds: Labels, best: Ids) -> None:
    for c in range(best.shape[0]):
        count = _add(rows, bounds[c], bounds[c + 1], 0)
        _choose(rows, count, bounds[c + 1] - bounds[c], best[c])
        _clear(rows, count)


@kernel
def _fill_branches(rows: _Rows, parents: Ids, sizes: Ids, starts: Ids, order: Ids, best: Ids) -> None:
    for place in range(order.shape[0]):
        v, end, count = order[place], place, 0
        while True:
            count = _add(rows, end, place + sizes[v], count)
            end = place + sizes[v]
            _choose(rows, count, sizes[v], best[v])
            above = parents[v]
            # The larger child is on the left: a heavy path is all that begins at one place.
            if above < 0 or starts[above] != place:
                break
            v = above
        _clear(rows, count)


@jitable
def _add(rows: _Rows, start: int, stop: int, count: int) -> int:
    """Add some rows to the sums; return the number of columns that are not zero then."""
    for i in range(rows.ends[start], rows.ends[stop]):
        column, value = rows.columns[i], rows.values[i]
        if value > 0:
            if rows.sums[column] == 0:
                rows.touched[count] = column
                count += 1
            rows.sums[column] += value
    return count


@jitable
def _clear(rows: _Rows, count: int) -> None:
    for i in range(count):
        rows.sums[rows.touched[i]] = 0


@jitable
def _choose(rows: _Rows, count: int, size: int, best: Ids) -> None:
    """Find the columns of greatest weight, by insertion into a short list."""
    found, n = 0, best.shape[0]
    for i in range(count):
        column = rows.touched[i]
        mean = rows.sums[column] / size
        # The logarithm is most of the time, and few columns can still be among the first.
        if found == n and mean * rows.bounds[column] < rows.weights[n - 1]:
            continue
        weight = mean * np.log1p(mean / rows.means[column])
        at = found
        while at > 0 and (weight > rows.weights[at - 1] or (weight == rows.weights[at - 1] and column < best[at - 1])):
            at -= 1
        if at == n:
            continue
        found = min(found + 1, n)
        for j in range(found - 1, at, -1):
            rows.weights[j], best[j] = rows.weights[j - 1], best[j - 1]
        rows.weights[at], best[at] = weight, column
