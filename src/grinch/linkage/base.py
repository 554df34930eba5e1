"""Linkages of any kind of records, and linkages in files.

In a file a linkage is what it is made of, or a name. Nothing is imported or run when it is read: a function or linkage
of the user's own is written as ``module:name``. That is looked up among the modules that the program has imported
already, and what is found must be what could have been saved under that name.

>>> from grinch.linkage import Pairwise
>>> linkage_to_state(Pairwise("single", distance="cityblock"))
{'pairwise': {'kind': 'single', 'similarity': None, 'distance': {'name': 'cityblock'}, 'remember': 1000000}}
>>> linkage_to_state(lambda a, b: 0.0)
{'hand_in': 'a function'}
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numba.core.dispatcher import Dispatcher

from grinch._types import Floats
from grinch.errors import SavedModelError
from grinch.saving.state import State

Similarity = Callable[[list[Any], list[Any]], float]


@runtime_checkable
class Linkage(Protocol):
    """A similarity of two groups of records of any kind, in three small parts.

    A summary holds whatever the linkage needs to know about a group: a vector, a counter of words, a list of members.
    Higher scores are closer. ``score`` should be symmetric, and ``merge`` must not change its arguments.

    Two more are optional: ``scores(a, others)``, the scores of one summary with many in one call, and ``ceiling``, the
    score of two identical records, from which the heights of the tree are measured.
    """

    def leaf(self, record: Any) -> Any:
        """Return the summary of a single record."""

    def merge(self, a: Any, b: Any) -> Any:
        """Return the summary of two groups taken together."""

    def score(self, a: Any, b: Any) -> float:
        """Return the similarity of two groups."""


def scores_of(linkage: Any, a: Any, others: Sequence[Any]) -> Floats:
    """Return the scores of a summary with many, in one call if the linkage has ``scores``."""
    if hasattr(linkage, "scores"):
        return np.asarray(linkage.scores(a, others), np.float64)
    return np.array([linkage.score(a, b) for b in others])


@dataclass(frozen=True)
class FunctionLinkage:
    """A plain function of two lists of records as a linkage; a summary is the list of members."""

    function: Similarity

    def leaf(self, record: Any) -> list[Any]:
        return [record]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return a + b

    def score(self, a: list[Any], b: list[Any]) -> float:
        return self.function(a, b)

    def to_state(self) -> dict[str, Any]:
        return function_to_state(self.function)

    @classmethod
    def from_state(cls, state: Any) -> FunctionLinkage:
        return cls(function_from_state(state))


Kind = TypeVar("Kind", bound=type)
# Classes of linkages that say themselves what they are made of, by the name that they have in a file.
_KINDS: dict[str, Any] = {"function": FunctionLinkage}


class Unnamed(Exception):
    """A function or linkage that a file cannot hold, and that has to be handed in when the file is read."""


def saved_as(name: str) -> Callable[[Kind], Kind]:
    """Let a linkage with ``to_state`` and ``from_state`` be part of files."""

    def register(kind: Kind) -> Kind:
        _KINDS[name] = kind
        return kind

    return register


# Linkages -----------------------------------------------------------------------------------------------------------


def linkage_to_state(linkage: Any) -> State:
    """Return the state of a linkage; ``{"hand_in": what it is}`` if a file cannot hold it."""
    try:
        return part_to_state(linkage)
    except Unnamed:
        return hand_in(linkage)


def linkage_from_state(state: Any, given: Any) -> Any:
    """Return the linkage that is meant; ``given`` was handed in, or is None."""
    kind, content = only_entry(state)
    if given is not None:
        if kind == "name":
            raise ValueError(
                f"linkage is {content!r} in the saved model, and cannot be another one; got {given!r}. Leave it out"
            )
        now = linkage_to_state(given)
        if kind != "hand_in" and "hand_in" not in now and now != state:
            warnings.warn(
                f"the model was built with the linkage {content!r}, and continues with {given!r}. Unless it is the same"
                " under another name, its tree is of two kinds from now on",
                UserWarning,
                stacklevel=2,
            )
        return given
    if kind == "hand_in":
        raise SavedModelError(
            f"the linkage is {content}, which a file cannot hold. Pass the one that the model was built with:"
            " with linkage=..."
        )
    return part_from_state(state)


def part_to_state(linkage: Any) -> State:
    """Return the state of a linkage or a part of one; raises :class:`Unnamed` if a file cannot hold it."""
    if isinstance(linkage, str):
        return {"name": linkage}
    for name, kind in _KINDS.items():
        if type(linkage) is kind:
            try:
                return {name: linkage.to_state()}
            except Unnamed:
                break  # it may have a name as a whole
    return function_to_state(linkage)


def part_from_state(state: Any) -> Any:
    kind, content = only_entry(state)
    if kind == "name":
        return content
    if kind == "named":
        return find(content, "linkage")
    if kind not in _KINDS:
        raise SavedModelError(f"{kind!r:.60} is no kind of linkage that this version knows")
    return _KINDS[kind].from_state(content)


def function_to_state(function: Any) -> State:
    """Return the name of a function, or of a linkage, that has one."""
    name = name_of(function)
    if name is None:
        raise Unnamed
    return {"named": name}


def function_from_state(state: Any, hand_in: str = "linkage") -> Any:
    kind, content = only_entry(state)
    if kind != "named":
        raise SavedModelError(f"{state!r:.60} is no function")
    return find(content, hand_in)


def only_entry(state: Any) -> tuple[str, Any]:
    """Return the one name of a state, and what is under it."""
    if not isinstance(state, dict) or len(state) != 1:
        raise SavedModelError(f"{state!r:.60} is no linkage and no search")
    ((kind, content),) = state.items()
    return kind, content


def hand_in(thing: Any) -> State:
    """Return the state of what a file cannot hold."""
    kind = type(thing)
    if kind.__name__ == "function":
        return {"hand_in": "a function"}
    return {"hand_in": f"an object of {kind.__module__}.{kind.__qualname__}"}


# Names --------------------------------------------------------------------------------------------------------------

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
    """Return ``module:name`` of a function or of an object at the top of a module; None if it has none."""
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
    """Return what a name in a file stands for; ``hand_in`` is the parameter of load that takes it instead."""
    found = _found(name) if isinstance(name, str) else None
    if found is None:
        module = str(name).partition(":")[0]
        if not _may_be_named(module):
            raise SavedModelError(
                f"the saved model names {name!r:.100}, and no linkage or search is taken from {module!r}. If you trust"
                f" the file, pass it with {hand_in}=..."
            )
        raise SavedModelError(
            f"the saved model needs {name!r:.100}, which is not there. Import {module} first (a saved model imports"
            f" nothing by itself), or pass it with {hand_in}=..."
        )
    return found


def _may_be_named(module: str) -> bool:
    return module.partition(".")[0] not in REFUSED


def _found(name: str) -> Any:
    """Return a function under its own name, or a linkage, in a module that is there; None if there is no such thing."""
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
