"""New branches: their stores, and points that are in them from the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grinch.linkage.base import VectorLinkage
from grinch.linkage.named import linkage_of
from grinch.sharded.store.branch import Branch
from grinch.sharded.store.routing import Router
from grinch.store import Store, opening


def vector_linkage(linkage: Any, metric: str | None) -> VectorLinkage:
    """The linkage of a sharded store, which knows how near two single points are."""
    found = linkage_of(linkage, metric)
    if not isinstance(found, VectorLinkage):
        raise ValueError(
            "linkage of a sharded store must be one on vectors: 'average' (metric 'cosine', 'dot' or 'sqeuclidean'),"
            f" 'cosine', 'centroid', 'ward', or a function compiled with numba.njit; got {linkage!r:.80}"
            f"{'' if metric is None else f' with metric={metric!r}'}. Without max_points any linkage can be used"
        )
    return found


def linkage_of_store(store: Store) -> VectorLinkage:
    parameters = store._now().model.get_params()
    return vector_linkage(parameters["linkage"], parameters["metric"])


def settings_of(store: Store) -> dict[str, Any]:
    """What to open another store with that is like this one."""
    parameters = store._now().model.get_params()
    settings = {name: parameters[name] for name in ("linkage", "metric", "mode", "n_neighbors", "search")}
    return {**settings, "dtype": store._db.get("dtype")}


def new_branch(folder: Path, settings: dict[str, Any], router: Router) -> Branch:
    """A branch without points; what was left in its folder by a process that died is gone."""
    # Clusters are those of the whole: a branch, which would follow a cut of its own at every change, has the cheapest.
    return Branch(opening.open(folder, **{**settings, "n_clusters": 1, "threshold": None}), router)
