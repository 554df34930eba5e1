"""SCC, Affinity clustering and reciprocal nearest neighbours as one estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grinch._checks import check_count
from grinch._types import Floats
from grinch.baselines.perch import METRICS
from grinch.baselines.scc import RULES, THRESHOLDS, SCCBuilder
from grinch.errors import unknown_name
from grinch.estimators.checks import check_vectors
from grinch.estimators.tree_clusterer import Prepared, TreeClusterer
from grinch.linkage.named import linkage_of


@dataclass(eq=False, repr=False, kw_only=True)
class SCC(TreeClusterer):
    """Sub-cluster components (Monath et al., KDD 2021): in rounds, clusters join those that are most similar to them.

    It sees all points at once. They and their nearest neighbours are a graph; in each round every cluster points at
    the one most similar to it, by average linkage over the edges of that graph, and what arrows connect joins.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}, default="euclidean"
        The similarity of two neighbours: exp(-d² / m) of their Euclidean distance d, with m the geometric mean of
        d² over all neighbours; or the cosine, where it is positive.
    rule : {"scc", "affinity", "rnn"}, default="scc"
        Which arrows count. ``"scc"``: those of at least the round's threshold. ``"affinity"``: all of them (Affinity
        clustering, Bateni et al., NeurIPS 2017). ``"rnn"``: those of two clusters that point at each other (reciprocal
        nearest neighbours).
    n_neighbors : int, default=25
        Neighbours of each point.
    thresholds : array-like, optional
        The thresholds of SCC's rounds, falling; by default ``numpy.geomspace(1, 1e-6, 200)``. After them, what is left
        joins as in Affinity clustering.
    n_clusters : int, optional
        Cut the tree into this many flat clusters instead of the automatic cut.
    threshold : float, optional
        Cut the tree from the top at the first nodes that score at least this. The score of a round is the lowest
        similarity by which something joined in it, and less than the scores before.
    cut, layer, min_cluster_size, noise, verbose
        As in :class:`~grinch.Grinch`; so are ``tree_``, ``labels_``, ``ids_``, ``clusters_`` and ``stats_``.

    Notes
    -----
    More than two clusters may join in a round. The tree is binary: they are paired in order, and the pairs again, by
    nodes of one score. ``dendrogram_purity(tree, labels, ties="join")`` counts these as the one node that they are.

    Examples
    --------
    >>> from grinch import SCC
    >>> SCC(n_clusters=2).fit_predict([[1.0, 0], [0, 9], [2, 0.1], [0.1, 8], [3, 0.2]]).tolist()
    [0, 1, 0, 1, 0]
    """

    metric: str = "euclidean"
    rule: str = "scc"
    n_neighbors: int = 25
    thresholds: Any = None
    cut: str = "sizeable"

    purity_ties = "join"
    _own_parts = ()

    def prepare(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted."""
        for name, accepted in (("metric", METRICS), ("rule", RULES)):
            if getattr(self, name) not in accepted:
                raise unknown_name(name, getattr(self, name), accepted)
        n_neighbors = check_count("n_neighbors", self.n_neighbors, 1)
        thresholds = self._check_thresholds()
        self._choice()
        rows = check_vectors(self, X, reset)
        linkage = linkage_of(*METRICS[self.metric])
        return Prepared(rows, lambda: SCCBuilder(self.rule, linkage, "", n_neighbors, thresholds), linkage)

    def _check_thresholds(self) -> Floats:
        if self.thresholds is None:
            return THRESHOLDS
        try:
            thresholds = np.asarray(self.thresholds, np.float64)
        except (TypeError, ValueError):
            thresholds = np.full(1, np.nan)
        if thresholds.ndim != 1 or not np.isfinite(thresholds).all() or (np.diff(thresholds) > 0).any():
            raise ValueError(
                "thresholds must be falling numbers, such as numpy.geomspace(1, 1e-6, 200);"
                f" got {self.thresholds!r:.200}"
            )
        return thresholds

    @classmethod
    def _builder_from_state(cls, state: Any, parameters: dict[str, Any]) -> SCCBuilder:
        return SCCBuilder.from_state(state, linkage_of(*METRICS[parameters["metric"]]))
