"""The tree in the formats of other programs; :class:`~grinch.tree.Tree` has these functions as methods."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._labels import is_missing
from grinch._types import Floats, Labels

if TYPE_CHECKING:
    import networkx

    from grinch.tree.tree import Tree


def merges_of_scipy(matrix: npt.ArrayLike) -> tuple[Labels, Floats]:
    """Return pairs of nodes and scores from a scipy linkage matrix, as :meth:`grinch.Tree.from_merges` takes them."""
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
    """Return the (n-1) x 4 linkage matrix of scipy, rows by ascending height."""
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
    """Return newick text; branch lengths are differences of height."""
    if tree.n_leaves == 0:
        return ";"

    def name_of(leaf: int) -> str:
        return str(leaf) if names is None else _newick_name(names[leaf])

    return "".join(_newick_tokens(tree, name_of, lengths))


def to_networkx(tree: Tree) -> networkx.DiGraph:
    """Return a directed graph from parent to child; nodes carry ``size``, ``height`` and, if known, ``score``."""
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


# Newick, as other programs write it -----------------------------------------------------------------------------------


# Comments, quoted names (in which '' is a quote), signs, and everything else up to the next sign.
TOKEN = re.compile(r"\[[^\]]*\]|'(?:[^']|'')*'|\"[^\"]*\"|[(),:;]|[^\s(),:;'\"\[\]]+|\S")
SIGNS = {"(", ")", ",", ":", ";"}


class Merges(NamedTuple):
    """A binary tree as merges, as :meth:`grinch.Tree.from_merges` takes them; ``scores`` are minus the heights."""

    pairs: Labels
    scores: Floats
    names: list[str]


def merges_of_newick(text: str) -> Merges:
    """Parse the first tree of a text.

    A node with more than two children becomes several, one above the other at the same height; one with a single child
    is left out. Heights come from branch lengths, where a missing one is nothing; in a tree without any, a node is one
    higher than the highest below it. Where the leaves are called 0 to n - 1, that is what they are.

    >>> merges_of_newick("((a:1,b:1):2,'c d':3);")
    Merges(pairs=array([[0, 1],
           [3, 2]]), scores=array([-1., -3.]), names=['a', 'b', 'c d'])
    """
    tokens = _tokens_of_first_tree(text)
    reader = _Reader(has_lengths=":" in tokens)
    for token in tokens:
        reader.take(token)
    if reader.is_open():
        raise _bad("it ends too early" if text.strip() else "it is empty")
    return reader.merges()


def _tokens_of_first_tree(text: str) -> list[str]:
    """Return all up to the first ``;``, without comments."""
    found: list[str] = []
    for match in TOKEN.finditer(text):
        token = match[0]
        if token in ("'", '"', "["):
            raise _bad(f"{token!r} is not closed")
        if token[0] != "[":
            found.append(token)
        if token == ";":
            break
    return found


class _Reader:
    """Takes one token after the other.

    Nodes are leaves from 0 on, and -1 - k for the k-th merge, until it is known how many leaves there are.
    """

    def __init__(self, has_lengths: bool):
        # The length of a branch that has none.
        self.missing = 0.0 if has_lengths else 1.0
        self.names: list[str] = []
        self.pairs: list[tuple[int, int]] = []
        self.heights: list[float] = []
        self.branch: dict[int, float] = {}
        # For every bracket that is open, the children so far; the first entry is for what is outside of all.
        self.levels: list[list[int]] = [[]]
        self.node: int | None = None
        self.has_length = False
        self.previous = ""

    def take(self, token: str) -> None:
        if self.previous == ":" and token in SIGNS:
            raise _bad(f"{token!r} after ':', where a length must be")
        if token == "(":
            if self.node is not None:
                raise _bad(f"'(' after {self.previous!r}")
            self.levels.append([])
        elif token in (",", ")"):
            self._end_child(token)
        elif token == ":":
            self._expect_length()
        elif self.previous == ":":
            self._add_length(token)
        elif token != ";":
            self._add_name(token)
        self.previous = token

    def is_open(self) -> bool:
        """Return whether the tree is not complete yet."""
        return len(self.levels) > 1 or self.node is None

    def merges(self) -> Merges:
        n, names = len(self.names), self.names
        pairs = np.array(self.pairs, np.int64).reshape(-1, 2)
        pairs = np.where(pairs < 0, n - 1 - pairs, pairs)
        if set(names) == {str(i) for i in range(n)}:
            number = np.array([int(name) for name in names])
            pairs = np.where(pairs < n, number[np.minimum(pairs, n - 1)], pairs)
            names = [str(i) for i in range(n)]
        return Merges(pairs, -np.array(self.heights, np.float64), names)

    def _end_child(self, token: str) -> None:
        if self.node is None:
            raise _bad(f"{token!r} after {self.previous!r}, where a node must be")
        if len(self.levels) == 1:
            raise _bad(f"{token!r} outside of all brackets")
        self.levels[-1].append(self.node)
        self.node = self._joined(self.levels.pop()) if token == ")" else None
        self.has_length = False

    def _joined(self, children: list[int]) -> int:
        """Return the node over these: of several, one above the other at the same height; of one, that one."""
        top = max(self._height_above(child) for child in children)
        node = children[0]
        for child in children[1:]:
            self.pairs.append((node, child))
            self.heights.append(top)
            node = -len(self.pairs)
        return node

    def _height_above(self, node: int) -> float:
        """Return where the branch above a node ends."""
        height = self.heights[-1 - node] if node < 0 else 0.0
        return height + self.branch.get(node, self.missing)

    def _expect_length(self) -> None:
        if self.node is None:
            raise _bad("a length without a node")
        if self.has_length:
            raise _bad(f"two lengths of one node, the second after {self.previous!r}")

    def _add_length(self, token: str) -> None:
        assert self.node is not None
        try:
            length = float(token)
        except ValueError:
            length = math.nan
        if not math.isfinite(length):
            raise _bad(f"{token!r} is no length")
        # A node that is left out adds its branch to that of its only child.
        self.branch[self.node] = self.branch.get(self.node, 0.0) + max(length, 0.0)
        self.has_length = True

    def _add_name(self, token: str) -> None:
        if token == "]" or (self.node is not None and self.previous != ")"):
            raise _bad(f"{token!r} after {self.previous!r}")
        # What nodes with children are called is passed over.
        if self.node is None:
            self.names.append(_unquoted(token))
            self.node = len(self.names) - 1


def _unquoted(token: str) -> str:
    if token[0] == "'":
        return token[1:-1].replace("''", "'")
    if token[0] == '"':
        return token[1:-1]
    # As the format has it, where names are not quoted.
    return token.replace("_", " ")


def _bad(why: str) -> ValueError:
    return ValueError(f"text must be a tree in Newick, such as '((a:1,b:1):2,c:3);': {why}")
