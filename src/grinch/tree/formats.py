"""The tree in the formats of others. Functions of a tree's arrays; :class:`~grinch.tree.Tree` has them as methods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch.tree.links import LEFT, PARENT, RIGHT

if TYPE_CHECKING:
    import networkx

    from grinch.tree.tree import Tree


def to_scipy(tree: Tree) -> npt.NDArray[np.float64]:
    """The (n-1) x 4 linkage matrix of scipy, rows by ascending height."""
    n = tree.n_leaves
    if n < 2:
        return np.empty((0, 4))
    bottom_up = tree.preorder()[::-1]
    internal = bottom_up[bottom_up >= tree.offset]
    heights = tree.heights()
    # Children come first in `internal` and are never higher, so a stable sort keeps them before their parent.
    internal = internal[np.argsort(heights[internal], kind="stable")]
    row_id = np.arange(len(tree.links.table))
    row_id[internal] = n + np.arange(n - 1)
    pairs = np.sort(row_id[tree.links.table[internal][:, [LEFT, RIGHT]]], axis=1)
    return np.column_stack([pairs, heights[internal], tree.sizes()[internal]]).astype(np.float64)


def _newick_name(name: object) -> str:
    text = str(name)
    if text and not re.search(r"[\s()\[\]{}'\":;,_]", text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _newick_tokens(tree: Tree, name_of: Callable[[int], str], lengths: bool) -> Iterator[str]:
    table, offset, root = tree.links.table, tree.offset, tree.root
    heights = tree.heights()

    def length(v: int) -> str:
        if not lengths or v == root:
            return ""
        return f":{heights[table[v, PARENT]] - heights[v]:.6g}"

    v, came_from = root, -1
    while True:
        left, right = table[v, LEFT], table[v, RIGHT]
        if v >= offset and came_from == table[v, PARENT]:
            yield "("
            v, came_from = int(left), v
            continue
        if v >= offset and came_from == left:
            yield ","
            v, came_from = int(right), v
            continue
        yield (")" if v >= offset else name_of(v)) + length(v)
        if v == root:
            break
        v, came_from = int(table[v, PARENT]), v
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
    sizes, heights, scores = tree.sizes(), tree.heights(), tree.scores
    for v in tree.nodes():
        attributes: dict[str, Any] = {"size": int(sizes[v]), "height": float(heights[v])}
        if v >= tree.offset and not np.isnan(scores[v]):
            attributes["score"] = float(scores[v])
        if v < tree.offset and tree.names is not None:
            attributes["id"] = tree.names[v]
        graph.add_node(v, **attributes)
        if v != tree.root:
            graph.add_edge(int(tree.links.table[v, PARENT]), v)
    return graph
