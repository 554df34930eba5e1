"""grinch: incremental hierarchical clustering under any linkage function.

>>> from grinch import Grinch
>>> Grinch(linkage="average", n_clusters=2).fit_predict([[1, 0], [0, 1], [2, 0.1]]).tolist()
[0, 1, 0]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grinch.baselines.birch import Birch
    from grinch.baselines.hac import HAC
    from grinch.baselines.minibatch import MiniBatchHAC
    from grinch.baselines.perch import Perch
    from grinch.estimators import Grinch, Online, Rotate
    from grinch.linkage import Linkage
    from grinch.systems import cluster_with
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
    "Tree",
    "__version__",
    "cluster_with",
]

# Imported when first asked for: scikit-learn alone takes a second.
_HOMES = {
    "Birch": "grinch.baselines.birch",
    "Grinch": "grinch.estimators",
    "HAC": "grinch.baselines.hac",
    "Linkage": "grinch.linkage",
    "MiniBatchHAC": "grinch.baselines.minibatch",
    "Online": "grinch.estimators",
    "Perch": "grinch.baselines.perch",
    "Rotate": "grinch.estimators",
    "Tree": "grinch.tree",
    "cluster_with": "grinch.systems",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'grinch' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
