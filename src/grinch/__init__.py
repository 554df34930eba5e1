"""grinch: incremental hierarchical clustering under any linkage function.

>>> from grinch import Grinch
>>> Grinch(linkage="average", n_clusters=2).fit_predict([[1, 0], [0, 1], [2, 0.1]]).tolist()
[0, 1, 0]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grinch.core.rules import Rules as Rules
    from grinch.estimators.birch import Birch as Birch
    from grinch.estimators.grinch import Grinch as Grinch
    from grinch.estimators.grinch import Online as Online
    from grinch.estimators.grinch import Rotate as Rotate
    from grinch.estimators.hac import HAC as HAC
    from grinch.estimators.hac import MiniBatchHAC as MiniBatchHAC
    from grinch.estimators.perch import Perch as Perch
    from grinch.estimators.registry import cluster_with as cluster_with
    from grinch.estimators.saved import load as load
    from grinch.estimators.scc import SCC as SCC
    from grinch.linkage import Linkage as Linkage
    from grinch.serve.client import connect as connect
    from grinch.serve.notebook import explore as explore
    from grinch.store import Store as Store
    from grinch.store import open as open
    from grinch.tree import Tree as Tree

__version__ = "0.1.0"

# Where the public names are, each imported when it is first used: scikit-learn alone takes a second.
_HOMES = {
    "Birch": "estimators.birch",
    "Grinch": "estimators.grinch",
    "HAC": "estimators.hac",
    "Linkage": "linkage",
    "MiniBatchHAC": "estimators.hac",
    "Online": "estimators.grinch",
    "Perch": "estimators.perch",
    "Rotate": "estimators.grinch",
    "Rules": "core.rules",
    "SCC": "estimators.scc",
    "Store": "store",
    "Tree": "tree",
    "cluster_with": "estimators.registry",
    "connect": "serve.client",
    "explore": "serve.notebook",
    "load": "estimators.saved",
    "open": "store",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = globals()[name] = getattr(import_module(f"grinch.{_HOMES[name]}"), name)
        return found
    if name in _rooms():
        return import_module(f"grinch.{name}")
    raise AttributeError(f"module 'grinch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_rooms()])


def _rooms() -> list[str]:
    """Return the rooms and modules, which `import grinch; grinch.metrics` finds without an import of their own."""
    from pkgutil import iter_modules

    return [module.name for module in iter_modules(__path__) if not module.name.startswith("_")]
