"""All clustering systems by name, created and run in one way."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from grinch._checks import check_name
from grinch.core.rules import Rules, rules_of
from grinch.estimators.birch import Birch
from grinch.estimators.grinch import Grinch, Online, Rotate
from grinch.estimators.hac import HAC, MiniBatchHAC
from grinch.estimators.perch import Perch
from grinch.estimators.scc import SCC
from grinch.estimators.tree_clusterer import TreeClusterer
from grinch.linkage.named import VectorLinkage, linkage_of


class System(NamedTuple):
    """A way to build a tree: a description, the estimator, its settings, and whether it takes a linkage."""

    what: str
    estimator: Callable[..., TreeClusterer]
    settings: dict[str, Any]
    takes_linkage: bool = True


# PERCH's authors collapse to thousands of leaves.
COLLAPSED = {"max_leaves": 5000}

SYSTEMS: dict[str, System] = {
    "grinch": System("incremental, with grafts", Grinch, {}),
    "rotate": System("incremental, rotations only", Rotate, {}),
    "online": System("incremental, beside the nearest neighbour", Online, {}),
    "perch": System("incremental, masking rotations", Perch, {}, False),
    "perch-b": System("PERCH with balance rotations", Perch, {"balance": True}, False),
    "perch-c": System("PERCH, collapsed to 5,000 leaves", Perch, COLLAPSED, False),
    "perch-bc": System("PERCH, balanced and collapsed", Perch, {"balance": True, **COLLAPSED}, False),
    "mb-hac": System("HAC on a buffer", MiniBatchHAC, {}),
    "hac": System("all points at once", HAC, {}),
    "birch": System("a tree of cluster features", Birch, {}, False),
    "scc": System("rounds on a graph of neighbours, by falling thresholds", SCC, {}, False),
    "affinity": System("rounds on a graph of neighbours", SCC, {"rule": "affinity"}, False),
    "rnn": System("reciprocal nearest neighbours on that graph", SCC, {"rule": "rnn"}, False),
}


def make_system(name: str, *, linkage: Any = "average", metric: str | None = None, **settings: Any) -> TreeClusterer:
    """Return an estimator by the name of its method, not fitted yet.

    Parameters
    ----------
    name : str
        One of ``SYSTEMS``: "grinch", "rotate", "online", "perch", "perch-b", "perch-c", "perch-bc", "mb-hac", "hac",
        "birch", "scc", "affinity", "rnn".
    linkage, metric
        As in :class:`~grinch.Grinch`, the same for all systems: average linkage of squared Euclidean distances if
        nothing is said. PERCH, BIRCH, SCC, Affinity and RNN know no linkage; they go by the Euclidean distance of the
        points, or of their directions under a linkage of cosines.
    **settings
        Parameters of the estimator; for "grinch" also single rules of its mode, such as ``cap=100``.

    Examples
    --------
    >>> make_system("mb-hac", buffer_size=50)
    MiniBatchHAC(buffer_size=50)
    >>> make_system("perch-b", metric="cosine")
    Perch(balance=True, metric='cosine')
    >>> make_system("grinch", mode="exact", pull=False).mode == Rules.exact(pull=False)
    True
    """
    check_name("method", name, SYSTEMS)
    system = SYSTEMS[name]
    if system.estimator is Grinch:
        settings = _with_rules(settings)
    accepted = [each for each in inspect.signature(system.estimator).parameters if each not in ("linkage", "metric")]
    for setting in settings:
        check_name(f"a setting of method {name!r}", setting, accepted)
    if linkage in ("ward", "centroid") and metric == "euclidean":
        metric = "sqeuclidean"  # scipy's name for the only one they have
    resolved = linkage_of(linkage, metric)
    kind: dict[str, Any]
    if system.takes_linkage:
        kind = {"linkage": linkage, "metric": metric}
    elif isinstance(resolved, VectorLinkage):
        kind = {"metric": "euclidean" if resolved.is_euclidean else "cosine"}
    elif isinstance(linkage, str):
        kind = {"metric": "cosine" if metric == "cosine" else "euclidean"}
    else:
        raise ValueError(
            f"method {name!r} works on vectors and takes no linkage of your own; got linkage={linkage!r}."
            f" Methods that do: {', '.join(n for n, s in SYSTEMS.items() if s.takes_linkage)}"
        )
    return system.estimator(**kind, **{**system.settings, **settings})


def _with_rules(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with single rules gathered into the mode."""
    rules = {key: value for key, value in settings.items() if key in (*Rules._fields, "cap")}
    if not rules:
        return settings
    mode = rules_of(settings.get("mode", "fast")).changed(**rules)
    return {**{key: value for key, value in settings.items() if key not in rules}, "mode": mode}


def cluster_with(
    name: str, X: Any, *, linkage: Any = "average", metric: str | None = None, ids: Any = None, **settings: Any
) -> TreeClusterer:
    """Cluster X by the method of that name, and return the fitted estimator.

    Parameters are those of :func:`~grinch.estimators.registry.make_system`; ``ids`` name the points.

    Examples
    --------
    >>> from grinch import cluster_with
    >>> X = [[1, 0], [0, 9], [2, 0.1], [0.1, 8]]
    >>> for method in ("grinch", "hac", "perch"):
    ...     cluster_with(method, X, n_clusters=2).labels_.tolist()
    [0, 1, 0, 1]
    [0, 1, 0, 1]
    [0, 1, 0, 1]
    """
    return make_system(name, linkage=linkage, metric=metric, **settings).fit(X, ids=ids)
