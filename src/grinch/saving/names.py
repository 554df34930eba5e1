"""Functions and objects of the user's own by name, and how they are found again without running anything.

A file says ``module:name``. That is looked up among the modules that the program has imported already: no file makes
anything be imported. What is found must be what could have been saved under that name.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from numba.core.dispatcher import Dispatcher

from grinch.errors import SavedModelError
from grinch.linkage.base import Linkage

# A linkage lives in none of these; functions of theirs read files and run commands.
REFUSED = frozenset(
    {
        *sys.stdlib_module_names,
        *("numpy", "scipy", "sklearn", "numba", "llvmlite", "joblib", "pandas", "pyarrow", "polars", "matplotlib"),
        *("dask", "distributed", "fsspec", "cloudpickle", "pip", "setuptools", "pkg_resources", "_pytest", "pytest"),
        *("torch", "tensorflow", "jax", "yaml", "requests", "IPython", "ipykernel", "typer", "click", "rich", "grinch"),
    }
) - {"__main__", "this"}


def name_of(thing: Any) -> str | None:
    """``module:name`` of a function or of an object at the top of a module; None if it has none."""
    function = thing.py_func if isinstance(thing, Dispatcher) else thing
    if isinstance(function, types.FunctionType):
        name = f"{function.__module__}:{function.__qualname__}"
        return name if _found(name) is thing else None
    if not isinstance(thing, Linkage) or isinstance(thing, type):
        return None
    modules = [type(thing).__module__, "__main__", *sys.modules]
    for module in dict.fromkeys(modules):
        if not _may_be_named(module):
            continue
        # No getattr: modules that import others when asked are not asked.
        for name, value in list(vars(sys.modules[module]).items()) if module in sys.modules else ():
            if value is thing:
                return f"{module}:{name}"
    return None


def find(name: Any, hand_in: str) -> Any:
    """What a name in a file stands for; ``hand_in`` is the parameter of load that takes it instead."""
    found = _found(name) if isinstance(name, str) else None
    if found is None:
        module = str(name).partition(":")[0]
        if not _may_be_named(module):
            raise SavedModelError(
                f"the saved model names {name!r:.100}, and no linkage or search is taken from {module!r}. If you trust"
                f" the file, hand it in with {hand_in}=..."
            )
        raise SavedModelError(
            f"the saved model needs {name!r:.100}, which is not there. Import {module} first (a saved model imports"
            f" nothing by itself), or hand it in with {hand_in}=..."
        )
    return found


def _may_be_named(module: str) -> bool:
    return module.partition(".")[0] not in REFUSED


def _found(name: str) -> Any:
    """A function under its own name, or a linkage, in a module that is there; None if there is no such thing."""
    module, _, path = name.partition(":")
    if not _may_be_named(module) or not isinstance(sys.modules.get(module), types.ModuleType):
        return None
    found: Any = sys.modules[module]
    for part in path.split("."):
        # Classes and modules have their attributes in a dict; nothing of theirs is run.
        found = vars(found).get(part) if isinstance(found, (types.ModuleType, type)) else None
        if isinstance(found, types.ModuleType):
            return None
    if isinstance(found, staticmethod):
        found = found.__func__
    function = found.py_func if isinstance(found, Dispatcher) else found
    if isinstance(function, types.FunctionType):
        return found if (function.__module__, function.__qualname__) == (module, path) else None
    return found if isinstance(found, Linkage) and not isinstance(found, type) else None
