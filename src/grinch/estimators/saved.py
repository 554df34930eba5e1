"""Saving and loading models: one file for a model, opened without running anything in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from grinch.core.rules import Rules, rules_from_state, rules_to_state
from grinch.errors import NO_SENSE, NotSavable, SavedModelError
from grinch.linkage.base import linkage_from_state, linkage_to_state
from grinch.linkage.named import is_average, metric_in_full
from grinch.neighbors.scan import search_from_state, search_to_state
from grinch.saving import container
from grinch.saving.json_values import decode, encode
from grinch.saving.state import State, flatten, item, unflatten

# The kind of contents of a model file.
KIND = "model"


def classes() -> dict[str, Any]:
    """Return the estimators that can be saved, by name."""
    from grinch.estimators.registry import SYSTEMS

    return {system.estimator.__name__: system.estimator for system in SYSTEMS.values()}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a file; a file of that name is replaced when all of the new one is on disk."""
    kind = type(model)
    if classes().get(kind.__name__) is not kind:
        raise NotSavable(
            f"model must be one of {', '.join(classes())}; got {kind.__module__}.{kind.__name__}. Save what it wraps,"
            " or what it was derived from"
        )
    header, arrays = flatten(model.to_state())
    container.write(path, KIND, header, arrays)


def load(path: str | os.PathLike[str], *, linkage: Any = None, search: Any = None) -> Any:
    """Open a model that :meth:`~grinch.estimators.tree_clusterer.TreeClusterer.save` wrote; it continues where it was.

    Nothing in the file is executed or imported. A linkage or search of your own is looked up by name in the modules
    that are already imported.

    Parameters
    ----------
    path : str or path
        The file.
    linkage : optional
        The linkage of your own that the model was built with, if it has no name, or so that no name is looked up.
    search : optional
        The same for ``search``.

    Examples
    --------
    >>> import grinch, tempfile
    >>> path = tempfile.mkdtemp() + "/model.grinch"
    >>> grinch.Grinch(linkage=lambda a, b: -abs(sum(a) / len(a) - sum(b) / len(b))).fit([1, 9, 2, 8]).save(path)
    >>> grinch.load(path)
    Traceback (most recent call last):
    grinch.errors.SavedModelError: ...: the linkage is a function, which a file cannot hold. Pass ...
    >>> model = grinch.load(path, linkage=lambda a, b: -abs(sum(a) / len(a) - sum(b) / len(b)))
    >>> model.n_leaves_
    4
    """
    if os.path.isdir(path):
        raise IsADirectoryError(
            f"path must be the file of a saved model; {os.fspath(path)!r} is a folder. A store is"
            " opened with grinch.open"
        )
    content = container.read(path, KIND)
    content.verify()
    with naming(path):
        model = model_from_state(unflatten(content.header, content.arrays), linkage=linkage, search=search)
        model.validate()
    return model


def model_from_state(state: State, *, linkage: Any = None, search: Any = None) -> Any:
    """Return the model of a state, which uses its arrays as they are.

    ``linkage`` and ``search`` are what the state only names, or could not hold. Call ``validate()`` of the model unless
    you trust the state.
    """
    name = item(state, "class")
    if not isinstance(name, str) or name not in classes():
        raise SavedModelError(f"{name!r:.60} is no model that this version knows")
    return classes()[name].from_state(state, linkage=linkage, search=search)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the path to errors about a saved model."""
    try:
        yield
    except (ValueError, *NO_SENSE) as error:
        why = f"the saved model is damaged ({type(error).__name__}: {error})"
        if isinstance(error, SavedModelError) or type(error) is ValueError:
            why = str(error)
        raise SavedModelError(f"{os.fspath(path)}: {why}") from error
    except MemoryError as error:
        raise SavedModelError(f"{os.fspath(path)}: the saved model does not fit into memory ({error})") from error


# Parameters ---------------------------------------------------------------------------------------------------------

AS_NOW = {"as_now": True}


def parameters_to_state(parameters: Mapping[str, Any], now: Mapping[str, Any] | None = None) -> State:
    """Return parameters as a file holds them; those that are the same ``now`` are only said to be."""
    found = {
        name: AS_NOW if now is not None and value is now[name] else _parameter_to_state(name, value)
        for name, value in parameters.items()
    }
    if is_average(parameters.get("linkage")) and parameters["metric"] is None:
        # What is the default may change.
        found["metric"] = {"default": metric_in_full("average")}
    return found


def _parameter_to_state(name: str, value: Any) -> State:
    if name == "linkage":
        return linkage_to_state(value)
    if name == "search":
        return search_to_state(value)
    if isinstance(value, Rules):
        return {"rules": rules_to_state(value)}
    if isinstance(value, np.random.RandomState):
        return {"random_state": encode(value.get_state())}
    try:
        return {"value": encode(value)}
    except NotSavable as error:
        raise NotSavable(f"parameter {name} cannot be written to a file: {error}") from None


def parameters_from_state(
    state: Any, names: list[str], given: Mapping[str, Any], now: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the parameters of these names; ``given`` has a linkage and a search that were handed in, or None."""
    found = {}
    for name in names:
        saved = item(state, name)
        found[name] = now[name] if now is not None and saved == AS_NOW else _parameter_from_state(name, saved, given)
    if "linkage" in found and state["metric"] == {"default": metric_in_full(found["linkage"])}:
        found["metric"] = None
    return found


def _parameter_from_state(name: str, state: Any, given: Mapping[str, Any]) -> Any:
    if name == "linkage":
        return linkage_from_state(state, given["linkage"])
    if name == "search":
        return search_from_state(state, given["search"])
    if not isinstance(state, dict) or len(state) != 1:
        raise SavedModelError(f"{state!r:.60} is no parameter")
    ((kind, content),) = state.items()
    if kind == "rules":
        return rules_from_state(content)
    if kind == "random_state":
        random = np.random.RandomState()
        random.set_state(decode(content))
        return random
    if kind not in ("value", "default"):
        raise SavedModelError(f"{kind!r:.60} is no kind of parameter")
    return decode(content)
