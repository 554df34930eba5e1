"""BIRCH by scikit-learn, as a binary tree of all points."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from grinch._checks import check_count, check_name
from grinch.baselines.birch import BirchBuilder
from grinch.baselines.perch import METRICS
from grinch.estimators.checks import check_vectors
from grinch.estimators.tree_clusterer import IncrementalClusterer, Prepared
from grinch.linkage.named import linkage_of


@dataclass(eq=False, repr=False, kw_only=True)
class Birch(IncrementalClusterer):
    """scikit-learn's BIRCH, with the tree behind it: a tree of cluster features that every point descends.

    The nodes of that tree have up to ``branching_factor`` children; they are joined into a binary tree by Ward's
    linkage of their means, and so are the points of each of the finest clusters.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}, default="euclidean"
        Euclidean distance of the points, or of their directions.
    radius : float or "auto", default="auto"
        The largest radius of the finest clusters (scikit-learn calls it ``threshold``); ``"auto"`` is half the median
        distance to the nearest neighbour among the first points.
    branching_factor : int, default=50
        The most children of a node.
    n_clusters, threshold, cut, layer, min_cluster_size, noise, shuffle, random_state, verbose
        As in :class:`~grinch.Grinch`; so are ``tree_``, ``labels_``, ``ids_``, ``clusters_`` and ``stats_``. A score is
        minus the height at which Ward's linkage joins two nodes.

    Examples
    --------
    >>> from grinch import Birch
    >>> Birch(n_clusters=2).fit_predict([[0.0, 0], [9, 9], [0, 1], [9, 8], [1, 1]]).tolist()
    [0, 1, 0, 1, 0]
    """

    metric: str = "euclidean"
    radius: float | str = "auto"
    branching_factor: int = 50
    cut: str = "sizeable"

    _own_parts = ()

    def prepare(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted."""
        check_name("metric", self.metric, METRICS)
        radius: Any = self.radius
        is_number = isinstance(radius, Real) and not isinstance(radius, bool)
        if radius != "auto" and not (is_number and 0 < float(radius) < np.inf):
            raise ValueError(f"radius must be a positive number, or 'auto'; got {self.radius!r}")
        check_count("branching_factor", self.branching_factor, 2)
        self._choice()
        rows = check_vectors(self, X, reset)
        linkage = linkage_of(*METRICS[self.metric])
        return Prepared(
            rows, lambda: BirchBuilder(self.radius, self.branching_factor, self.metric == "cosine"), linkage
        )

    @classmethod
    def _builder_from_state(cls, state: Any, parameters: dict[str, Any]) -> BirchBuilder:
        return BirchBuilder.from_state(state)
