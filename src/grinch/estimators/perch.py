"""PERCH as an estimator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch import cuts
from grinch._checks import check_count, check_flag
from grinch._compile import entry
from grinch._types import Advance, Ids, count_rows
from grinch.baselines import perch_moves
from grinch.baselines.perch_moves import BALANCE_ROTATIONS, COLLAPSES, ROTATIONS, Boxes, PerchRules
from grinch.cuts.costs import COSTS
from grinch.cuts.flat import Mask
from grinch.errors import unknown_name
from grinch.estimators.base import IncrementalClusterer
from grinch.estimators.checks import check_vectors
from grinch.linkage.named import linkage_of
from grinch.neighbors.base import Neighbors, batches
from grinch.neighbors.exact import ExactSearch
from grinch.summaries.vectors import VectorSummaries
from grinch.tree import Tree
from grinch.tree.links import LEAVES, NO_LIMIT, Links, grown, new_links

SEARCHES = ("exact", "beam")
# What the points are stored for: a linkage whose leaf-level form is the metric.
METRICS = {"euclidean": ("centroid", None), "cosine": ("average", "cosine")}


class Perch(IncrementalClusterer):
    """PERCH: points go beside their nearest neighbour, and nodes rotate where one is masked (Kobren et al., KDD 2017).

    If every point is closer to all of its own cluster than to any other point, every cluster is a node of the tree, in
    any order of arrival.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}, default="euclidean"
        Euclidean distance of the points, or of their directions.
    search : {"exact", "beam"}, default="exact"
        Look for the nearest neighbour among all leaves, or down the tree along the boxes nearest to the point.
    beam_width : int, default=10
        How many boxes the beam search goes on with.
    balance : bool, default=False
        Also rotate where that makes the tree more balanced and masks nothing (PERCH-B).
    max_leaves : int, optional
        Collapse mode (PERCH-C; with ``balance`` PERCH-BC): past this many leaves, the two sibling leaves whose common
        box is smallest become one, which is compared by its mean from then on. The tree still has all points.
    exact_leaves : int, default=16
        Whether a node is masked is decided exactly for nodes with up to this many leaves; for larger ones by their
        boxes and this many of their leaves.
    n_clusters : int, optional
        Cut the tree into this many flat clusters (default: 8, unless ``threshold`` is given), by splitting the node of
        the greatest ``cost`` again and again.
    cost : {"half_diameter_times_n", "diameter", "n", "kmeans"}, default="half_diameter_times_n"
        The cost of a node: see :func:`grinch.cuts.node_costs`.
    threshold : float, optional
        Cut the tree from the top at the first nodes that score at least this; a node's score is minus the diameter of
        its bounding box.
    shuffle, random_state, verbose
        As in :class:`~grinch.Grinch`; so are ``tree_``, ``labels_``, ``ids_``, ``clusters_`` and ``stats_``.

    Examples
    --------
    >>> from grinch import Perch
    >>> Perch(n_clusters=2).fit_predict([[0.0, 0], [9, 9], [0, 1], [9, 8], [1, 1]]).tolist()
    [0, 1, 0, 1, 0]
    """

    _free = (*IncrementalClusterer._free, "cost")

    def __init__(
        self,
        *,
        metric: str = "euclidean",
        search: str = "exact",
        beam_width: int = 10,
        balance: bool = False,
        max_leaves: int | None = None,
        exact_leaves: int = 16,
        n_clusters: int | None = None,
        cost: str = "half_diameter_times_n",
        threshold: float | None = None,
        shuffle: bool = False,
        random_state: Any = None,
        verbose: bool | int = False,
    ):
        self.metric = metric
        self.search = search
        self.beam_width = beam_width
        self.balance = balance
        self.max_leaves = max_leaves
        self.exact_leaves = exact_leaves
        self.n_clusters = n_clusters
        self.cost = cost
        self.threshold = threshold
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose

    def _checked(self, X: Any, reset: bool) -> Any:
        for name, accepted in (("metric", METRICS), ("search", SEARCHES), ("cost", COSTS)):
            if getattr(self, name) not in accepted:
                raise unknown_name(name, getattr(self, name), accepted)
        check_flag("balance", self.balance)
        check_count("beam_width", self.beam_width, 1)
        check_count("exact_leaves", self.exact_leaves, 1)
        if self.max_leaves is not None:
            check_count("max_leaves", self.max_leaves, 2)
        cuts.check_cut(self.n_clusters, self.threshold)
        return check_vectors(self, X, reset)

    def _new_builder(self, rows: Any) -> PerchBuilder:
        rules = PerchRules(
            balance=bool(self.balance),
            max_leaves=int(self.max_leaves or 0),
            beam_width=int(self.beam_width) if self.search == "beam" else 0,
        )
        return PerchBuilder(rules, self.metric, rows.shape[1], int(self.exact_leaves))

    def _cut_named(self, n_clusters: int) -> tuple[Any, ...]:
        return (n_clusters, self.cost)

    def _splits(self, tree: Tree, n_clusters: int) -> Mask:
        builder = self._check_fitted().builder
        assert isinstance(builder, PerchBuilder)
        costs = cuts.node_costs(tree, self._check_fitted().by_row(builder.points()), self.cost)
        return cuts.splits_by_cost(tree, costs, n_clusters)


@entry
def insert_all(tree: Links, boxes: Boxes, rules: PerchRules, start: int, nearest: Ids) -> None:
    """Insert leaves from ``start`` on, beside those in ``nearest``."""
    for i in range(nearest.shape[0]):
        perch_moves.insert(tree, boxes, rules, start + i, nearest[i])


class PerchBuilder:
    """A PERCH tree under construction."""

    def __init__(self, rules: PerchRules, metric: str, n_features: int, exact_leaves: int, compiled: bool = True):
        self.rules, self._run = rules, insert_all if compiled else insert_all.py_func  # type: ignore[attr-defined]
        self.store = VectorSummaries(linkage_of(*METRICS[metric]), n_features)  # type: ignore[arg-type]
        # Sizes are needed for balance and for the means of collapsed nodes.
        exact_sizes = rules.balance or rules.max_leaves > 0
        self.links = new_links(0, NO_LIMIT if exact_sizes else exact_leaves)
        self._search = ExactSearch(self.store, 1)
        width = max(rules.beam_width, 1)
        self.boxes = Boxes(
            points=self.store.arrays.means,
            low=np.zeros((0, n_features), np.float32),
            high=np.zeros((0, n_features), np.float32),
            witness=np.zeros(0, np.int32),
            collapsed=np.zeros(0, np.uint8),
            ends=np.zeros(0, np.int32),
            place=np.zeros(0, np.int32),
            sample=np.zeros((3, exact_leaves), np.int32),
            beam=np.zeros(2 * width, np.int32),
            gaps=np.zeros(2 * width),
            counts=np.zeros(4, np.int64),
        )

    @property
    def n_leaves(self) -> int:
        return int(self.links.head[LEAVES])

    @property
    def stats(self) -> dict[str, int]:
        counts = self.boxes.counts
        names = {"rotations": ROTATIONS, "balance_rotations": BALANCE_ROTATIONS, "collapses": COLLAPSES}
        return {name: int(counts[i]) for name, i in names.items()}

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        start, count = self.n_leaves, count_rows(rows)
        self._reserve(start + count)
        self.store.write(start, rows)
        for first, candidates in self._neighbors(start, start + count):
            self._run(self.links, self.boxes, self.rules, first, candidates[:, 0])
            if progress is not None:
                progress(len(candidates))

    def _neighbors(self, start: int, stop: int) -> Iterator[Neighbors]:
        """Nearest neighbours found beforehand, or room for those found on the way, in the tree as it is by then."""
        if self.rules.beam_width or self.rules.max_leaves:
            return (Neighbors(lo, np.full((hi - lo, 1), -1, np.int32)) for lo, hi in batches(start, stop))
        return self._search.stream(start, stop)

    def tree(self) -> Tree:
        scores = np.full(len(self.links.table), np.nan)
        for begin in range(0, self.n_leaves, 4096):
            part = slice(begin, min(begin + 4096, self.n_leaves))
            sides = self.boxes.high[part].astype(np.float64) - self.boxes.low[part]
            at = self.store.capacity + begin
            scores[at : at + len(sides)] = -np.sqrt(np.einsum("ij,ij->i", sides, sides))
        return Tree.from_links(self.links, scores, 0.0)

    def points(self) -> npt.NDArray[np.float32]:
        """The points in the order they came."""
        return self.store.arrays.means[: self.n_leaves]

    def _reserve(self, n: int) -> None:
        if n <= self.store.capacity and self.links.table.flags.writeable:
            return
        capacity = max(n, int(1.5 * self.store.capacity)) if self.n_leaves else n
        capacity = max(capacity, self.store.capacity)
        self.links = grown(self.links, capacity)
        self._move_ends(capacity - self.store.capacity)
        self.store.grow(capacity)

        def longer(values: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
            new = np.zeros((n, *values.shape[1:]), values.dtype)
            new[: len(values)] = values
            return new

        b = self.boxes
        self.boxes = b._replace(
            points=self.store.arrays.means,
            **{name: longer(getattr(b, name), capacity) for name in ("low", "high", "witness", "collapsed")},
            **{name: getattr(b, name).copy() for name in ("sample", "beam", "gaps", "counts")},
        )

    def _move_ends(self, shift: int) -> None:
        """Collapsed nodes are internal nodes, which have new ids when there is room for more leaves."""
        old, n = self.store.capacity, int(self.boxes.counts[0])
        # At most as many as there may be leaves, and one more until two are collapsed.
        ends = np.zeros(min(self.rules.max_leaves, old + shift) + 2, np.int32)
        ends[:n] = self.boxes.ends[:n]
        ends[:n][ends[:n] >= old] += shift
        place = np.zeros(2 * (old + shift), np.int32)
        place[ends[:n]] = np.arange(n)
        self.boxes = self.boxes._replace(ends=ends, place=place)
