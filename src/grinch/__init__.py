"""grinch: incremental hierarchical clustering under any linkage function.

>>> from grinch import Grinch
>>> Grinch(linkage="average", n_clusters=2).fit_predict([[1, 0], [0, 1], [2, 0.1]]).tolist()
[0, 1, 0]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grinch.core.rules import Rules
    from grinch.estimators.birch import Birch
    from grinch.estimators.grinch import Grinch, Online, Rotate
    from grinch.estimators.hac import HAC
    from grinch.estimators.minibatch import MiniBatchHAC
    from grinch.estimators.perch import Perch
    from grinch.estimators.registry import cluster_with
    from grinch.estimators.saved import load
    from grinch.linkage import Linkage
    from grinch.serve.client import connect
    from grinch.serve.notebook import explore as explore
    from grinch.store import Store, open
    from grinch.tree import Tree

__version__ = "0.1.0"
__all__ = [
    "HAC",
    "Birch",
    "Grinch",
    "Linkage",
    "MiniBatchHAC",
    "Online",
    "Perch",
    "Rotate",
    "Rules",
    "Store",
    "Tree",
    "__version__",
    "cluster_with",
    "connect",
    "load",
    "open",
]

# Imported when first asked for: scikit-learn alone takes a second.
_HOMES = {
    "Birch": "grinch.estimators.birch",
    "Grinch": "grinch.estimators.grinch",
    "HAC": "grinch.estimators.hac",
    "Linkage": "grinch.linkage",
    "MiniBatchHAC": "grinch.estimators.minibatch",
    "Online": "grinch.estimators.grinch",
    "Perch": "grinch.estimators.perch",
    "Rules": "grinch.core.rules",
    "Rotate": "grinch.estimators.grinch",
    "Store": "grinch.store",
    "Tree": "grinch.tree",
    "cluster_with": "grinch.estimators.registry",
    "connect": "grinch.serve.client",
    "explore": "grinch.serve.notebook",
    "load": "grinch.estimators.saved",
    "open": "grinch.store",
}


# Rooms that `import grinch; grinch.metrics` finds without an import of their own.
_ROOMS = (
    "compare",
    "cuts",
    "datasets",
    "estimators",
    "export",
    "files",
    "hints",
    "linkage",
    "metrics",
    "neighbors",
    "plots",
    "resolve",
    "saving",
    "store",
    "tree",
)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"grinch.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'grinch' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
