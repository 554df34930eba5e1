"""PERCH as an estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grinch import cuts
from grinch._checks import check_count, check_flag, check_name
from grinch._types import Mask
from grinch.baselines.perch import METRICS, PerchBuilder
from grinch.baselines.perch_moves import PerchRules
from grinch.cuts.costs import COSTS
from grinch.estimators.checks import check_vectors
from grinch.estimators.fit import Fit
from grinch.estimators.tree_clusterer import IncrementalClusterer, Prepared
from grinch.linkage.named import linkage_of
from grinch.tree import Tree

SEARCHES = ("exact", "beam")


@dataclass(eq=False, repr=False, kw_only=True)
class Perch(IncrementalClusterer):
    """PERCH: points go beside their nearest neighbour, and nodes rotate where one is masked (Kobren et al., KDD 2017).

    If every point is closer to all of its own cluster than to any other point, every cluster is a node of the tree, in
    any order of arrival; with ``balance`` large clusters may be torn, as distances of large nodes are estimates.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}, default="euclidean"
        Euclidean distance of the points, or of their directions.
    search : {"exact", "beam"}, default="exact"
        Look for the nearest neighbour among all leaves, or down the tree along the boxes nearest to the point.
    beam_width : int, default=10
        The number of boxes that the beam search keeps.
    balance : bool, default=False
        Also rotate where that makes the tree more balanced and, by the same distances, masks nothing (PERCH-B).
    max_leaves : int, optional
        Collapse mode (PERCH-C; with ``balance`` PERCH-BC): past this many leaves, the two sibling leaves that are
        closest, by the bound that their boxes give, become one, which is compared by its mean from then on. The tree
        still has all points.
    exact_leaves : int, default=16
        Distances are measured to the points of nodes with up to this many leaves, and to the boxes of larger ones.
    n_clusters : int, optional
        Cut the tree into this many flat clusters instead of the automatic cut, by splitting the node of the
        greatest ``cost`` again and again.
    cost : {"half_diameter_times_n", "diameter", "n", "kmeans"}, default="half_diameter_times_n"
        The cost of a node: see :func:`grinch.cuts.node_costs`.
    threshold : float, optional
        Cut the tree from the top at the first nodes that score at least this; a node's score is minus the diameter of
        its bounding box.
    layer, min_cluster_size, noise, shuffle, random_state, verbose
        As in :class:`~grinch.Grinch`; so are ``tree_``, ``labels_``, ``ids_``, ``clusters_`` and ``stats_``.

    Examples
    --------
    >>> from grinch import Perch
    >>> Perch(n_clusters=2).fit_predict([[0.0, 0], [9, 9], [0, 1], [9, 8], [1, 1]]).tolist()
    [0, 1, 0, 1, 0]
    """

    metric: str = "euclidean"
    search: str = "exact"
    beam_width: int = 10
    balance: bool = False
    max_leaves: int | None = None
    exact_leaves: int = 16
    cost: str = "half_diameter_times_n"

    _own_parts = ()
    _free = (*IncrementalClusterer._free, "cost")

    def prepare(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted."""
        for name, accepted in (("metric", METRICS), ("search", SEARCHES), ("cost", COSTS)):
            check_name(name, getattr(self, name), accepted)
        check_flag("balance", self.balance)
        check_count("beam_width", self.beam_width, 1)
        check_count("exact_leaves", self.exact_leaves, 1)
        if self.max_leaves is not None:
            check_count("max_leaves", self.max_leaves, 2)
        self._choice()
        rows = check_vectors(self, X, reset)
        rules = PerchRules(
            balance=bool(self.balance),
            max_leaves=int(self.max_leaves or 0),
            beam_width=int(self.beam_width) if self.search == "beam" else 0,
        )
        linkage = linkage_of(*METRICS[self.metric])
        return Prepared(rows, lambda: PerchBuilder(rules, self.metric, rows.shape[1], int(self.exact_leaves)), linkage)

    @classmethod
    def _builder_from_state(cls, state: Any, parameters: dict[str, Any]) -> PerchBuilder:
        return PerchBuilder.from_state(state, parameters["metric"])

    def _cut_besides(self) -> tuple[Any, ...]:
        return (self.cost,)

    def _splits(self, fitted: Fit, tree: Tree, n_clusters: int) -> Mask:
        assert isinstance(fitted.builder, PerchBuilder)
        costs = cuts.node_costs(tree, fitted.by_row(fitted.builder.points()), self.cost)
        return cuts.splits_by_cost(tree, costs, n_clusters)
