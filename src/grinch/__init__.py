"""grinch: incremental hierarchical clustering under any linkage function.

>>> from grinch import Grinch
>>> Grinch(linkage="average", n_clusters=2).fit_predict([[1, 0], [0, 1], [2, 0.1]]).tolist()
[0, 1, 0]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grinch.estimators import Grinch
    from grinch.linkage import Linkage
    from grinch.tree import Tree

__version__ = "0.1.0"
__all__ = ["Grinch", "Linkage", "Tree", "__version__"]

# Imported when first asked for: scikit-learn alone takes a second.
_HOMES = {"Grinch": "grinch.estimators", "Linkage": "grinch.linkage", "Tree": "grinch.tree"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'grinch' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
