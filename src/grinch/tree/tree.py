"""The cluster tree that users hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from grinch._types import Floats, Ids, Labels, Mask, Numbers
from grinch.saving.state import State, array, item, require, scalar
from grinch.tree import formats, keys
from grinch.tree import links as topology
from grinch.tree.checks import check_links, links_from_state, links_to_state, validate_links
from grinch.tree.links import NONE, Links, Paths, attach, max_upward, sum_upward
from grinch.tree.links import swap as swap_links

if TYPE_CHECKING:
    import networkx


class Tree:
    """A binary cluster tree of points.

    Leaf ``i`` is the ``i``-th point. Internal nodes have ids from :attr:`offset` upwards; in a tree handed out by an
    estimator that is ``n_leaves``, as scipy and scikit-learn number them. Arrays *by node id* have :attr:`n_ids`
    entries; those of ids that are not in the tree mean nothing.

    Parameters
    ----------
    capacity : int
        Initial capacity in leaves; it grows automatically.

    Examples
    --------
    >>> from grinch import Tree
    >>> tree = Tree()
    >>> a = tree.attach()
    >>> b = tree.attach(beside=a)
    >>> c = tree.attach(beside=tree.root)
    >>> tree.to_newick(lengths=False)
    '((0,1),2);'
    >>> tree.leaves(tree.parent(a)).tolist()
    [0, 1]
    >>> tree.sibling(c) == tree.lca(a, b)
    True
    """

    def __init__(self, capacity: int = 16):
        self.links: Links = topology.new_links(max(int(capacity), 1))
        self._scores: Floats | None = None
        self._ceiling: float | None = None
        self.names: list[Any] | None = None

    @classmethod
    def from_links(cls, links: Links, scores: Floats | None = None, ceiling: float | None = None) -> Tree:
        """Return a compact copy of a tree under construction: internal ids start at ``n_leaves``, sizes are exact.

        ``scores[v]`` is the linkage of v's two children (``nan`` if unknown) and ``ceiling`` the score of two
        identical points, which is where heights start from.
        """
        n = links.n_leaves
        tree = cls(n)
        if n == 0:
            return tree
        tree.links, _, internal = links.compacted(n)
        tree.links.head[topology.LIMIT] = topology.NO_LIMIT
        topology.fill_sizes(tree.links.table, tree.preorder(), n, tree.links.table[:, topology.SIZE])
        tree._ceiling = ceiling
        if scores is not None:
            tree._scores = np.full(2 * n, np.nan)
            tree._scores[n + 1 :] = scores[internal]
        return tree

    @classmethod
    def from_scipy(cls, matrix: npt.ArrayLike) -> Tree:
        """Return the tree of a scipy linkage matrix; its heights are kept.

        >>> from scipy.cluster.hierarchy import linkage
        >>> Tree.from_scipy(linkage([[0.0], [1.0], [5.0]])).to_newick()
        '(2:4,(0:1,1:1):3);'
        """
        return cls.from_merges(*formats.merges_of_scipy(matrix), ceiling=0.0)

    @classmethod
    def from_newick(cls, text: str) -> Tree:
        """Return the tree of a text in Newick, such as :meth:`to_newick` writes; branch lengths become heights.

        Leaves are numbered in order of appearance, and their labels become ``names``; leaves labelled 0 to n - 1 keep
        these numbers. A node with more than two children becomes several nodes, one above the other.

        >>> Tree.from_newick("((cat:1,dog:1):3,fly:4);").names
        ['cat', 'dog', 'fly']
        """
        pairs, scores, names = formats.merges_of_newick(text)
        tree = cls.from_merges(pairs, scores, ceiling=0.0)
        if names != [str(i) for i in range(len(names))]:
            tree.names = list(names)
        return tree

    @classmethod
    def from_merges(cls, pairs: npt.NDArray[np.integer], scores: Floats, ceiling: float | None = None) -> Tree:
        """Return the tree of n - 1 merges: merge k joins two nodes of ``pairs[k]`` into node n + k, at ``scores[k]``.

        Nodes 0 to n - 1 are the leaves. ``ceiling`` is the score of two identical points, where heights start from.

        >>> Tree.from_merges(np.array([[0, 2], [1, 3]]), np.array([0.9, 0.2]), ceiling=1.0).to_newick()
        '(1:0.8,(0:0.1,2:0.1):0.7);'
        """
        n = len(pairs) + 1
        tree = cls(n)
        table = tree.links.table
        table[:n, topology.SIZE] = 1
        # Internal node n + 0 has no leaf to arrive with, so merge k becomes node n + 1 + k.
        children = pairs.astype(np.int32)
        children[children >= n] += 1
        ids = n + 1 + np.arange(n - 1)
        table[ids, topology.LEFT], table[ids, topology.RIGHT] = children[:, 0], children[:, 1]
        table[children[:, 0], topology.PARENT] = ids
        table[children[:, 1], topology.PARENT] = ids
        tree.links.head[[topology.ROOT, topology.LEAVES, topology.USED]] = [2 * n - 1 if n > 1 else 0, n, n]
        topology.fill_sizes(table, tree.preorder(), n, table[:, topology.SIZE])
        tree._scores, tree._ceiling = np.full(2 * n, np.nan), ceiling
        tree._scores[ids] = scores
        return tree

    def rescored(self, change: Callable[[Floats], Floats], ceiling: float | None) -> Tree:
        """Return the same tree with its scores changed by a function; it shares the links of this one."""
        tree = Tree(self.offset)
        tree.links, tree.names = self.links, self.names
        tree._scores, tree._ceiling = change(self.scores), ceiling
        return tree

    def relabelled(self, order: npt.NDArray[np.integer]) -> Tree:
        """Return the same tree with leaf ``i`` renumbered ``order[i]`` (a permutation of the leaves)."""
        n, old = self.n_leaves, self.links.table
        new_id = np.arange(len(old) + 1)
        new_id[:n] = order
        new_id[-1] = NONE  # where NONE points
        tree = Tree(self.offset)
        tree.links.head[:] = self.links.head
        tree.links.head[topology.ROOT] = new_id[self.root]
        tree.links.table[new_id[:-1], : topology.SIZE] = new_id[old[:, : topology.SIZE]]
        tree.links.table[new_id[:-1], topology.SIZE] = old[:, topology.SIZE]
        tree._scores, tree._ceiling = self._scores, self._ceiling
        return tree

    # Structure ---------------------------------------------------------------------------------------------------

    @property
    def n_leaves(self) -> int:
        return self.links.n_leaves

    @property
    def offset(self) -> int:
        """Ids below it are leaves, ids above it internal nodes."""
        return self.links.offset

    @property
    def n_ids(self) -> int:
        """The length of an array by node id; some of the ids may be free."""
        return len(self.links.table)

    @property
    def root(self) -> int:
        """The root, or -1 in an empty tree."""
        return self.links.root

    def __len__(self) -> int:
        return self.n_leaves

    def __repr__(self) -> str:
        return f"<Tree with {self.n_leaves:,} leaves>"

    def __contains__(self, v: object) -> bool:
        if not isinstance(v, (int, np.integer)) or isinstance(v, bool):
            return False
        return bool(0 <= v < self.n_leaves or self.offset < v < self.offset + self.n_leaves)

    def _node(self, v: int) -> int:
        if v not in self:
            last = self.offset + self.n_leaves - 1
            internal = f" and {self.offset + 1} to {last} (internal nodes)" if self.n_leaves > 1 else ""
            raise KeyError(f"node {v!r} is not in this tree; it has 0 to {self.n_leaves - 1} (leaves){internal}")
        return int(v)

    def is_leaf(self, v: int) -> bool:
        return self._node(v) < self.offset

    def parent(self, v: int) -> int | None:
        """Return the parent, or None for the root."""
        p = int(self.links.table[self._node(v), topology.PARENT])
        return None if p == NONE else p

    def children(self, v: int) -> tuple[int, ...]:
        """Return the two children, or an empty tuple for a leaf."""
        if self.is_leaf(v):
            return ()
        return int(self.links.table[v, topology.LEFT]), int(self.links.table[v, topology.RIGHT])

    def sibling(self, v: int) -> int | None:
        """Return the sibling, or None for the root."""
        p = self.parent(v)
        if p is None:
            return None
        left, right = self.children(p)
        return right if v == left else left

    def ancestors(self, v: int) -> Iterator[int]:
        """Yield from the parent of v up to the root."""
        p = self.parent(v)
        while p is not None:
            yield p
            p = self.parent(p)

    def lca(self, u: int, v: int) -> int:
        """Return the lowest common ancestor of two nodes (a node is an ancestor of itself)."""
        seen = {self._node(u), *self.ancestors(u)}
        node: int = self._node(v)
        while node not in seen:
            node = int(self.links.table[node, topology.PARENT])
        return node

    def size(self, v: int) -> int:
        """Return how many leaves are under v."""
        return int(self.links.table[self._node(v), topology.SIZE])

    def leaves(self, v: int | None = None) -> Ids:
        """Return positions of the points under v (default: all), in the order they arrived."""
        if v is None:
            return np.arange(self.n_leaves, dtype=np.int32)
        v = self._node(v)
        nodes = topology.no_nodes(2 * self.size(v) - 1)
        topology.fill_preorder(self.links.table, v, self.offset, nodes)
        return np.sort(nodes[nodes < self.offset])

    def preorder(self) -> Ids:
        """Return all node ids, parents before children; reversed, children before parents."""
        return self.links.preorder()

    def internal_nodes(self) -> Ids:
        """Return the ids of the internal nodes, parents before children; reversed, children before parents."""
        nodes = self.preorder()
        return nodes[nodes >= self.offset]

    def nodes(self) -> Iterator[int]:
        """Yield all node ids, parents before children."""
        return iter(self.preorder().tolist())

    def common_ancestors(self, u: npt.NDArray[np.integer], v: npt.NDArray[np.integer]) -> Ids:
        """Return the lowest common ancestor of each pair of nodes ``u[i]``, ``v[i]``: O(n) once, then O(log n) a pair.

        >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> tree.common_ancestors(np.array([0, 0]), np.array([1, 2])).tolist() == [tree.lca(0, 1), tree.root]
        True
        """
        found = topology.no_nodes(len(u))
        if len(found):
            topology.fill_common_ancestors(self.paths(), u, v, found)
        return found

    def paths(self) -> Paths:
        """Return the tree laid out in heavy paths."""
        paths = topology.new_paths(self.n_ids)
        if self.n_leaves:
            topology.fill_paths(self.links.table, self.preorder(), self.offset, self.sizes(), paths)
        return paths

    # Arrays by node id, and passes over them ------------------------------------------------------------------------

    def parents(self) -> Ids:
        """Return the parent by node id, -1 for the root. Read-only, as are :meth:`child_pairs` and :meth:`sizes`."""
        return _read_only(self.links.table[:, topology.PARENT])

    def child_pairs(self) -> Ids:
        """Return left and right child by node id, of shape (n_ids, 2); -1 for leaves.

        >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> tree.child_pairs()[tree.root].tolist() == list(tree.children(tree.root))
        True
        """
        return _read_only(self.links.table[:, topology.LEFT : topology.RIGHT + 1])

    def sizes(self) -> Ids:
        """Number of leaves by node id."""
        return _read_only(self.links.table[:, topology.SIZE])

    def depths(self) -> Ids:
        """Number of edges to the root by node id."""
        depths = np.zeros(self.n_ids, dtype=np.int32)
        if self.n_leaves:
            topology.fill_depths(self.links.table, self.preorder(), self.offset, depths)
        return depths

    def sum_upward(self, values: Numbers) -> Numbers:
        """Return, by node id, the sum of the values of the node and of all nodes below it.

        >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> int(tree.sum_upward(np.ones(tree.n_ids, dtype=int))[tree.root])
        5
        """
        sums = values.copy()
        sum_upward(self.links.table, self.preorder(), self.offset, sums)
        return sums

    def max_upward(self, values: Floats) -> Floats:
        """Return, by node id, the greatest of the values of the node and of all nodes below it.

        >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> float(tree.max_upward(np.array([0.0, 7, 2, 0, 5, 1]))[tree.root])
        7.0
        """
        greatest = values.copy()
        max_upward(self.links.table, self.preorder(), self.offset, greatest)
        return greatest

    def number_subtrees(self, is_split: Mask) -> Labels:
        """Return the number of each node's subtree when the nodes in ``is_split`` are split, by node id; -1 above them.

        A node is split only if all its ancestors are. Subtrees are numbered from 0 on, from left to right.

        >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> tree.number_subtrees(np.arange(tree.n_ids) == tree.root)[:3].tolist()
        [1, 1, 0]
        """
        numbers = np.full(self.n_ids, NONE, dtype=np.int64)
        if self.n_leaves:
            topology.fill_labels(self.links.table, self.preorder(), is_split, numbers)
        return numbers

    def keys(self, ids: Sequence[Any] | npt.NDArray[Any] | None = None) -> keys.Keys:
        """Return content keys by node id: the same leaves give the same key in any tree; 0 for ids not in the tree.

        Use a key to cache what you compute for a node, such as a name or a summary: it is the same as long as the
        members are, across processes and machines. A key is the sum, modulo 2^64, of a pseudo-random number for each
        leaf id: n different sets share one with a probability of about n^2 / 2^65, unless ids are chosen to that end.

        Parameters
        ----------
        ids : sequence or array of shape (n_leaves,), optional
            An id for each leaf: whole numbers, text, bytes, floats, booleans, None, UUIDs, or tuples of these. By
            default :attr:`names`, or the positions of the points where there are none.

        Examples
        --------
        >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
        >>> other = Tree.from_scipy([[1, 2, 1.0, 2], [0, 3, 2.0, 3]])
        >>> node = tree.lca(0, 1)
        >>> bool(tree.keys(["ape", "bee", "cow"])[node] == other.keys(["cow", "bee", "ape"])[other.lca(1, 2)])
        True
        """
        return keys.keys(self, ids)

    # What the builder knew ----------------------------------------------------------------------------------------

    @property
    def scores(self) -> Floats:
        """By node id, the linkage of its two children when the tree was handed out; ``nan`` where unknown."""
        if self._scores is None:
            return np.full(self.n_ids, np.nan)
        return self._scores

    @property
    def ceiling(self) -> float | None:
        """The score of two identical points, if known."""
        return self._ceiling

    def heights(self) -> Floats:
        """Return, by node id, a height that never falls towards the root; leaves are at 0.

        It is ``ceiling - score``, where ceiling is the score of two identical points (1 for cosine, 0 for distances,
        otherwise the best score in the tree), raised to the height of the children where a merge scored better than
        the merges below it. Without scores it is the number of edges down to the deepest leaf.
        """
        values = np.zeros(self.n_ids)
        if self.n_leaves < 2:
            return values
        internal = self.internal_nodes()
        scores = self.scores[internal]
        if np.isnan(scores).any():
            depths = self.depths().astype(np.float64)
            return np.maximum(self.max_upward(depths) - depths, 0.0)
        scores = _finite(scores)
        highest = float(scores.max()) if self._ceiling is None else self._ceiling
        values[internal] = np.maximum(highest - scores, 0.0)
        return self.max_upward(values)

    def split_keys(self) -> Floats:
        """Return, by node id, what decides which node a cut splits first: as :meth:`heights`, before any rounding.

        It is minus the lowest score at or below the node, so that scores differ where heights are rounded to the same.
        Scores beyond the ceiling count as equal. Leaves are at -inf; a tree without scores is cut by its heights.
        """
        if self.n_leaves < 2 or np.isnan(self.scores[internal := self.internal_nodes()]).any():
            return self.heights()
        values = np.full(self.n_ids, -np.inf)
        values[internal] = -self.scores[internal]
        if self._ceiling is not None:
            values[internal] = np.maximum(values[internal], -self._ceiling)
        return self.max_upward(values)

    # Change -------------------------------------------------------------------------------------------------------

    def attach(self, beside: int | None = None) -> int:
        """Add the next leaf as the sibling of ``beside`` (nothing for the first leaf) and return its id."""
        if (beside is None) != (self.n_leaves == 0):
            raise ValueError(f"beside must be a node for every leaf but the first; got {beside!r}")
        if beside is not None:
            beside = self._node(beside)
        leaf = self.n_leaves
        if leaf == self.offset:
            shift = self.offset
            self.links = self.links.resized(2 * self.offset)
            if beside is not None and beside >= shift:
                beside += shift
        self._scores = None
        if beside is None:
            topology.attach_first(self.links, leaf)
        else:
            attach(self.links, leaf, beside, self.offset + leaf)
        return leaf

    def move(self, v: int, beside: int) -> int:
        """Take v out and make it the sibling of ``beside``; return their parent."""
        v, beside = self._node(v), self._node(beside)
        if self.lca(v, beside) == v or self.parent(v) == beside:
            raise ValueError(f"beside must lie outside v and not be its parent; got v={v}, beside={beside}")
        self._scores = None
        p = int(topology.detach(self.links, v))
        topology.make_sibling(self.links, v, beside, p)
        return p

    def swap(self, u: int, v: int) -> None:
        """Exchange the places of two subtrees, neither inside the other."""
        if self.lca(u, v) in (u, v):
            raise ValueError(f"u and v must be disjoint subtrees; got u={u}, v={v}")
        self._scores = None
        swap_links(self.links, u, v)

    # Checks and formats -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Verify every invariant of the structure; raise AssertionError naming the first that fails."""
        check_links(self.links)

    def to_scipy(self) -> Floats:
        """Return the (n-1) x 4 linkage matrix of scipy, with heights made monotone (see :meth:`heights`).

        ``scipy.cluster.hierarchy``'s ``fcluster``, ``cut_tree`` and ``dendrogram`` work on it. For very deep trees
        give ``dendrogram`` a ``truncate_mode="lastp"``: without it scipy recurses.

        A merge that scores better than one below it is raised to the height of that one. Of merges at equal heights,
        ``fcluster(Z, k, "maxclust")`` undoes all or none, so it can find far fewer clusters than ``n_clusters=k`` does.
        Use ``n_clusters=k``, :func:`grinch.cuts.cut_n_clusters` or scipy's ``cut_tree(Z, n_clusters=k)`` instead: they
        count merges, the upper ones first.

        >>> from scipy.cluster.hierarchy import cut_tree, fcluster
        >>> from grinch.cuts import cut_n_clusters
        >>> tree = Tree.from_merges(np.array([[0, 1], [2, 3]]), np.array([-5.0, -4.0]))
        >>> Z = tree.to_scipy()
        >>> Z[:, 2].tolist(), fcluster(Z, 2, "maxclust").tolist()
        ([1.0, 1.0], [1, 1, 1])
        >>> cut_n_clusters(tree, 2).tolist(), cut_tree(Z, n_clusters=2).ravel().tolist()
        ([0, 0, 1], [0, 0, 1])
        """
        return formats.to_scipy(self)

    def to_newick(self, names: Sequence[object] | None = None, lengths: bool = True) -> str:
        """Return Newick text with heights as branch lengths; ``names`` are by default ids or positions."""
        names = self.names if names is None else names
        if names is not None and len(names) != self.n_leaves:
            raise ValueError(f"names must have one entry for each of the {self.n_leaves} leaves; got {len(names)}")
        return formats.to_newick(self, names, lengths)

    def to_networkx(self) -> networkx.DiGraph:
        """Return a ``networkx.DiGraph`` from parent to child; nodes have ``size``, ``height`` and ``score``."""
        return formats.to_networkx(self)

    # In files -----------------------------------------------------------------------------------------------------

    def to_state(self) -> State:
        """Return what a file holds of the tree; not the names of its leaves."""
        return {"links": links_to_state(self.links), "scores": self._scores, "ceiling": self._ceiling}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        tree = cls()
        tree.links = links_from_state(item(state, "links"))
        tree._scores = None if item(state, "scores") is None else array(state, "scores", "<f8", 1)
        tree._ceiling = None if item(state, "ceiling") is None else scalar(state, "ceiling", float)
        return tree

    def validate(self) -> None:
        """Refuse what is no tree; its internal ids must start at the number of leaves."""
        validate_links(self.links)
        n = self.n_leaves
        require(n == self.links.n_slots == len(self.links.table) // 2, "the tree has free slots")
        require(self._scores is None or self._scores.shape == (2 * n,), "scores are not there for every node")


def _read_only(view: Ids) -> Ids:
    view.flags.writeable = False
    return view


def _finite(scores: Floats) -> Floats:
    """Return the same scores with infinite ones a step beyond the finite ones."""
    finite = scores[np.isfinite(scores)]
    if len(finite) == len(scores):
        return scores
    low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
    step = (high - low) or 1.0
    return np.clip(scores, low - step, high + step)
