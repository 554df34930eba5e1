"""The tree in the formats of other programs; :class:`~grinch.tree.Tree` has these functions as methods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch._labels import is_missing
from grinch._types import Floats, Labels

if TYPE_CHECKING:
    import networkx

    from grinch.tree.tree import Tree


def merges_of_scipy(matrix: npt.ArrayLike) -> tuple[Labels, Floats]:
    """Pairs of nodes and scores from a scipy linkage matrix, as :meth:`grinch.Tree.from_merges` takes them."""
    rows = np.asarray(matrix, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != 4:
        raise ValueError(f"matrix must be a scipy linkage matrix of shape (n-1, 4); got shape {rows.shape}")
    n = len(rows) + 1
    pairs = rows[:, :2]
    is_known = (pairs >= 0) & (pairs < n + np.arange(n - 1)[:, None]) & (pairs == np.rint(pairs))
    if not is_known.all() or len(np.unique(pairs)) < 2 * n - 2 or not (rows[:, 2] >= 0).all():
        raise ValueError(
            "matrix must join clusters that exist, each exactly once, at heights of at least 0;"
            " a row of this one does not (see scipy.cluster.hierarchy.is_valid_linkage)"
        )
    return pairs.astype(np.int64), -rows[:, 2]


def to_scipy(tree: Tree) -> Floats:
    """The (n-1) x 4 linkage matrix of scipy, rows by ascending height."""
    n = tree.n_leaves
    if n < 2:
        return np.empty((0, 4))
    internal = tree.internal_nodes()[::-1]
    heights = tree.heights()
    # Children come first in `internal` and are never higher, so a stable sort keeps them before their parent.
    internal = internal[np.argsort(heights[internal], kind="stable")]
    row_id = np.arange(tree.n_ids)
    row_id[internal] = n + np.arange(n - 1)
    pairs = np.sort(row_id[tree.child_pairs()[internal]], axis=1)
    return np.column_stack([pairs, heights[internal], tree.sizes()[internal]]).astype(np.float64)


def _newick_name(name: object) -> str:
    text = "" if is_missing(name) else str(name)
    if text and not re.search(r"[\s()\[\]{}'\":;,_]", text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _newick_tokens(tree: Tree, name_of: Callable[[int], str], lengths: bool) -> Iterator[str]:
    # Lists: numbers of an array are slow to take one by one.
    parents, children, heights = tree.parents().tolist(), tree.child_pairs().tolist(), tree.heights().tolist()
    offset, root = tree.offset, tree.root

    def length(v: int) -> str:
        if not lengths or v == root:
            return ""
        return f":{heights[parents[v]] - heights[v]:.6g}"

    v, came_from = root, -1
    while True:
        left, right = children[v]
        if v >= offset and came_from == parents[v]:
            yield "("
            v, came_from = left, v
            continue
        if v >= offset and came_from == left:
            yield ","
            v, came_from = right, v
            continue
        yield (")" if v >= offset else name_of(v)) + length(v)
        if v == root:
            break
        v, came_from = parents[v], v
    yield ";"


def to_newick(tree: Tree, names: Sequence[object] | None = None, lengths: bool = True) -> str:
    """Newick text; branch lengths are differences of height."""
    if tree.n_leaves == 0:
        return ";"

    def name_of(leaf: int) -> str:
        return str(leaf) if names is None else _newick_name(names[leaf])

    return "".join(_newick_tokens(tree, name_of, lengths))


def to_networkx(tree: Tree) -> networkx.DiGraph:
    """A directed graph from parent to child; nodes carry ``size``, ``height`` and, if known, ``score``."""
    try:
        import networkx
    except ImportError:
        raise ImportError("to_networkx() needs networkx; install it with: pip install 'grinch[networkx]'") from None
    graph = networkx.DiGraph()
    sizes, heights, scores, parents = tree.sizes(), tree.heights(), tree.scores, tree.parents()
    for v in tree.nodes():
        attributes: dict[str, Any] = {"size": int(sizes[v]), "height": float(heights[v])}
        if v >= tree.offset and not np.isnan(scores[v]):
            attributes["score"] = float(scores[v])
        if v < tree.offset and tree.names is not None:
            attributes["id"] = tree.names[v]
        graph.add_node(v, **attributes)
        if v != tree.root:
            graph.add_edge(int(parents[v]), v)
    return graph
