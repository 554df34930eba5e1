"""The tree above the clusters of a cut, without what is below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch._compile import kernel
from grinch._labels import check_labels, label_codes
from grinch._types import Floats, Ids, Labels
from grinch.cuts.medoids import cluster_sizes, nearest_first
from grinch.errors import missing_extra
from grinch.tree import Tree
from grinch.tree.blocks import display, hues

if TYPE_CHECKING:
    import networkx

# States of nodes: points of no cluster only, or of several; otherwise the number of the one cluster.
NOWHERE, SEVERAL = -1, -2


@dataclass(frozen=True, eq=False)
class ClusterTree:
    """The tree above a cut, whose leaves are the clusters.

    Attributes
    ----------
    tree : Tree
        A tree with a leaf for each cluster, and the heights of the whole tree; the arrays below are by its node ids.
    clusters : array of shape (n_clusters,)
        The number of each cluster, by leaf; ascending.
    nodes : array
        The node of the whole tree that each node stands for.
    sizes : array
        The number of points in the clusters at or below each node.
    heights, scores : array
        The height of the node in the whole tree, and the linkage of its two children (nan where unknown).
    hues : array
        The place of each node in the whole tree from left to right, from 0 to 1, by which it is colored.
    n_points : int
        The number of points of the whole tree, those that belong nowhere included.
    names : list of str
        The names of the clusters, by leaf.
    keywords : list of lists of str, optional
        The keywords of each cluster, by leaf.
    confidence : array, optional
        The confidence in each cluster, by leaf, from 0 to 1.
    """

    tree: Tree
    clusters: Labels
    nodes: Labels
    sizes: Labels
    heights: Floats
    scores: Floats
    hues: Floats
    n_points: int
    names: list[str]
    keywords: list[list[str]] | None = None
    confidence: Floats | None = None

    @property
    def n_clusters(self) -> int:
        return len(self.clusters)

    def __repr__(self) -> str:
        return f"<ClusterTree with {self.n_clusters:,} clusters of {self.n_points:,} points>"

    def described(
        self,
        names: Sequence[object] | None = None,
        keywords: Sequence[Sequence[str]] | None = None,
        confidence: npt.ArrayLike | None = None,
    ) -> ClusterTree:
        """Return the tree with other names, keywords or confidences, one per cluster in the order of ``clusters``."""
        given: dict[str, Any] = {
            "names": None if names is None else [str(name) for name in names],
            "keywords": None if keywords is None else [list(words) for words in keywords],
            "confidence": None if confidence is None else np.asarray(confidence, np.float64),
        }
        changes = {name: value for name, value in given.items() if value is not None}
        for name, value in changes.items():
            if len(value) != (n := self.n_clusters):
                raise ValueError(f"{name} must have one entry for each of the {n} clusters; got {len(value)}")
        return replace(self, **changes)

    def labelled(self, numbers: npt.ArrayLike, labels: Sequence[Any]) -> ClusterTree:
        """Return the tree with its clusters named after their commonest labels, with their shares.

        ``numbers`` has the cluster of each point, -1 for none; ``labels`` the class of each point, None for none.
        Keywords stay in the name, with the label beside them.

        >>> from scipy.cluster.hierarchy import linkage
        >>> from grinch import Tree
        >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))
        >>> collapse(tree, [0, 0, 1, 1]).labelled([0, 0, 1, 1], ["a", "a", "b", None]).names
        ['a', 'b (50 %)']
        """
        clustered, n = check_labels(numbers), len(labels)
        if n != len(clustered):
            raise ValueError(f"labels must have an entry for each of the {len(clustered):,} points; got {n:,}")
        codes, sizes = label_codes(labels), cluster_sizes(clustered)
        value = dict(zip(codes.tolist(), labels, strict=True))
        is_known = (clustered >= 0) & (codes >= 0)
        pairs, counts = np.unique(np.column_stack([clustered, codes])[is_known], axis=0, return_counts=True)
        # The commonest comes last, and stays.
        order = np.lexsort((-pairs[:, 1], counts))
        best = dict(zip(pairs[order, 0].tolist(), order.tolist(), strict=True))
        names = list(self.names)
        for leaf, number in enumerate(self.clusters.tolist()):
            if number in best:
                i, has_words = best[number], self.keywords is not None and bool(self.keywords[leaf])
                label, share = str(value[int(pairs[i, 1])]), counts[i] / sizes[number]
                names[leaf] = _with_label(names[leaf] if has_words else "", label, float(share))
        return self.described(names)

    def to_networkx(self) -> networkx.DiGraph:
        """Return a ``networkx.DiGraph`` from parent to child, whose nodes are nodes of the whole tree.

        All nodes have ``size``, ``share`` (of all points) and ``height``, and those with a known one ``score``; the
        leaves have ``cluster`` and ``name``, and ``keywords`` and ``confidence`` where these are known.

        >>> from scipy.cluster.hierarchy import linkage
        >>> from grinch import Tree
        >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]]))
        >>> graph = collapse(tree, [0, 0, 1, 1]).to_networkx()
        >>> [(data["name"], data["size"], data["height"]) for _, data in graph.nodes(data=True) if "name" in data]
        [('cluster 0', 2, 1.0), ('cluster 1', 2, 2.0)]
        """
        try:
            import networkx
        except ImportError:
            raise missing_extra("to_networkx()", "networkx", "networkx") from None
        graph, parents = networkx.DiGraph(), self.tree.parents()
        for v in self.tree.preorder().tolist():
            graph.add_node(int(self.nodes[v]), **self._attributes(v))
            if v != self.tree.root:
                graph.add_edge(int(self.nodes[parents[v]]), int(self.nodes[v]))
        return graph

    def _attributes(self, v: int) -> dict[str, Any]:
        size = int(self.sizes[v])
        found: dict[str, Any] = {"size": size, "share": size / self.n_points, "height": float(self.heights[v])}
        if not np.isnan(self.scores[v]):
            found["score"] = float(self.scores[v])
        if v < self.n_clusters:
            found |= {"cluster": int(self.clusters[v]), "name": self.names[v]}
            if self.keywords is not None:
                found["keywords"] = self.keywords[v]
            if self.confidence is not None:
                found["confidence"] = float(self.confidence[v])
        return found


def _with_label(words: str, label: str, share: float) -> str:
    """Return a name with a label, and the share of the points that have it.

    >>> _with_label("", "cat", 0.5), _with_label("purr, tail", "cat", 0.5), _with_label("purr", "cat", 1.0)
    ('cat (50 %)', 'purr, tail (cat 50 %)', 'purr (cat)')
    """
    percent = "" if share == 1 else f"{100 * share:.0f} %"
    if words:
        return f"{words} ({label} {percent})" if percent else f"{words} ({label})"
    return f"{label} ({percent})" if percent else label


def collapse(tree: Tree, labels: npt.ArrayLike) -> ClusterTree:
    """Return the tree above a cut, whose leaves are the clusters.

    Parameters
    ----------
    tree : Tree
        The cluster tree.
    labels : array-like of int of shape (n_leaves,)
        The cluster of each point. It stands for the node with most of its points and none of another cluster; its
        points elsewhere count to its size. Points with -1 belong nowhere and are left out, as are the nodes that only
        lead to them.

    Examples
    --------
    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> tree = Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0], [30.0], [31.0]]))
    >>> clusters = collapse(tree, [0, 0, 1, 1, 2, 2])
    >>> clusters
    <ClusterTree with 3 clusters of 6 points>
    >>> clusters.tree.to_newick(clusters.names)
    "('cluster 2':21,('cluster 0':6,'cluster 1':6):15);"
    >>> clusters.sizes[clusters.tree.root].item()
    6
    """
    numbers = check_cut_labels(tree, labels)
    tops = _tops(tree, numbers)
    states, _ = _under(tree, _at_home(tree, numbers, tops))
    clusters, children = np.flatnonzero(tops >= 0), tree.child_pairs()
    # Where clusters meet: with some on both sides. Children come first.
    internal = tree.internal_nodes()[::-1]
    meetings = internal[(states[internal] == SEVERAL) & (states[children[internal]] != NOWHERE).all(axis=1)]
    k, nodes = len(clusters), np.concatenate([tops[clusters], meetings]).astype(np.int64)
    place, pairs = np.full(tree.n_ids, -1, np.int64), np.empty((len(meetings), 2), np.int64)
    place[nodes] = np.arange(len(nodes))
    _find_sides(tree.internal_nodes(), children, states, place, pairs, k)
    heights = tree.heights()
    small = Tree.from_merges(pairs, -heights[meetings], 0.0) if k else Tree()
    sizes = np.zeros(small.n_ids, np.int64)
    sizes[:k] = cluster_sizes(numbers)[clusters]

    def by_id(values: npt.NDArray[Any], fill: float) -> npt.NDArray[Any]:
        # A tree of n leaves leaves id n free.
        full = np.full(small.n_ids, fill, values.dtype)
        full[np.arange(len(nodes)) + (np.arange(len(nodes)) >= k)] = values
        return full

    return ClusterTree(
        tree=small,
        clusters=clusters,
        nodes=by_id(nodes, -1),
        sizes=small.sum_upward(sizes) if k else sizes,
        heights=by_id(heights[nodes], np.nan),
        scores=by_id(tree.scores[nodes], np.nan),
        hues=by_id(hues(tree, display(tree).starts)[nodes], np.nan),
        n_points=tree.n_leaves,
        names=[f"cluster {number}" for number in clusters.tolist()],
    )


def central_leaves(tree: Tree, labels: npt.ArrayLike, n: int = 3) -> list[Labels]:
    """Return the most central points of each cluster by the tree alone, for points that are no vectors.

    These are the medoids by cophenetic distance: the heights at which they meet the other points of their cluster have
    the smallest sums.

    >>> from scipy.cluster.hierarchy import linkage
    >>> from grinch import Tree
    >>> tree = Tree.from_scipy(linkage([[0.0], [3.0], [3.5], [9.0]]))
    >>> [points.tolist() for points in central_leaves(tree, [0, 0, 0, 1], n=2)]
    [[1, 2], [3]]
    """
    numbers = check_cut_labels(tree, labels)
    numbers = _at_home(tree, numbers, _tops(tree, numbers))
    states, members = _under(tree, numbers)
    remoteness = np.zeros(tree.n_ids)
    _sum_meetings(tree.internal_nodes(), tree.child_pairs(), states, members, tree.heights(), remoteness)
    return nearest_first(remoteness[: tree.n_leaves], numbers, n)


def check_cut_labels(tree: Tree, labels: npt.ArrayLike) -> Labels:
    """Return a cluster number for each leaf of a tree."""
    numbers = check_labels(labels)
    if len(numbers) != tree.n_leaves:
        raise ValueError(
            f"labels must have one entry for each of the {tree.n_leaves} points of the tree; got {len(numbers)}"
        )
    return numbers


def cluster_nodes(tree: Tree, labels: npt.ArrayLike) -> Labels:
    """Return, by cluster number, the lowest node with most of its points and none of another; -1 without points.

    >>> tree = Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    >>> cluster_nodes(tree, [0, 0, 1]).tolist() == [tree.parent(0), 2]
    True
    """
    return _tops(tree, check_cut_labels(tree, labels))


def _under(tree: Tree, numbers: Labels) -> tuple[Labels, Labels]:
    """Return, by node id, which cluster is under it (or NOWHERE, or SEVERAL), and how many points of clusters."""
    states, members = np.full(tree.n_ids, NOWHERE, np.int64), np.zeros(tree.n_ids, np.int64)
    states[: tree.n_leaves], members[: tree.n_leaves] = numbers, numbers >= 0
    _join_upward(tree.internal_nodes(), tree.child_pairs(), states, members)
    return states, members


def _tops(tree: Tree, numbers: Labels) -> Labels:
    states, members = _under(tree, numbers)
    pure = tree.preorder()
    pure = pure[states[pure] >= 0]
    # Of several nodes the last one stays: the one with the most points, and of those the lowest.
    pure = pure[np.argsort(members[pure], kind="stable")]
    tops = np.full(len(cluster_sizes(numbers)), -1, np.int64)
    tops[states[pure]] = pure
    return tops


def _at_home(tree: Tree, numbers: Labels, tops: Labels) -> Labels:
    """Return the clusters of points, -1 for those that are not under the node that their cluster stands for."""
    order, places = tree.preorder(), np.zeros(tree.n_ids, np.int64)
    places[order] = np.arange(len(order))
    tops = np.append(tops, tree.root)[numbers]  # one more, where -1 points
    first = places[tops]
    own = places[: tree.n_leaves]
    return np.where((own >= first) & (own < first + 2 * tree.sizes()[tops].astype(np.int64) - 1), numbers, NOWHERE)


@kernel
def _join_upward(nodes: Ids, children: Ids, states: Labels, members: Labels) -> None:
    for i in range(nodes.shape[0] - 1, -1, -1):
        v, left, right = nodes[i], children[nodes[i], 0], children[nodes[i], 1]
        members[v] = members[left] + members[right]
        if states[left] == states[right] or states[right] == NOWHERE:
            states[v] = states[left]
        else:
            states[v] = states[right] if states[left] == NOWHERE else SEVERAL


@kernel
def _find_sides(nodes: Ids, children: Ids, states: Labels, place: Labels, pairs: Labels, k: int) -> None:
    """Fill in, by meeting, the places of its two sides; another node has the place of the meeting below it."""
    for i in range(nodes.shape[0] - 1, -1, -1):
        v, left, right = nodes[i], children[nodes[i], 0], children[nodes[i], 1]
        if states[v] == SEVERAL and place[v] >= k:
            pairs[place[v] - k, 0], pairs[place[v] - k, 1] = place[left], place[right]
        elif place[v] < 0 and states[v] != NOWHERE:
            # Above a cluster, or a meeting, and points that belong nowhere; inside a cluster nothing has a place.
            place[v] = max(place[left], place[right])


@kernel
def _sum_meetings(
    nodes: Ids, children: Ids, states: Labels, members: Labels, heights: Floats, remoteness: Floats
) -> None:
    for i in range(nodes.shape[0]):
        v = nodes[i]
        if states[v] < 0:
            continue
        for side in range(2):
            child = children[v, side]
            remoteness[child] = remoteness[v] + heights[v] * (members[v] - members[child])
