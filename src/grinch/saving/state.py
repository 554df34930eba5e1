"""The state of an object, as a file holds it: nested dicts and lists of plain values and arrays.

Every class that is part of a model has ``to_state()``, which copies no array, and ``from_state()``, which uses the
arrays it is given and checks the type of everything else. Whether the numbers make sense together is checked by
``validate()``: compiled code trusts its arrays, and right checksums are no reason to trust a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from grinch.errors import SavedModelError

State = dict[str, Any]
Array = npt.NDArray[Any]
Thing = TypeVar("Thing")
# JSON numbers beyond this are not read alike by everyone.
LARGEST_INT = 2**53
# Numbers that decide how much room is set aside.
MANY = 2**20
# Where the system does not say how much memory is free.
USUAL_MEMORY = 8_000_000_000


# Between states and files -------------------------------------------------------------------------------------------


def flatten(state: State) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return a state as JSON, in which ``{"array": name}`` stands for an array, and the arrays by name.

    >>> flatten({"a": {"b": np.array([1, 2]), "c": float("inf")}})
    ({'a': {'b': {'array': 'a.b'}, 'c': {'float': 'inf'}}}, {'a.b': array([1, 2])})
    """
    arrays: dict[str, Array] = {}

    def flat(value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[path] = value
            return {"array": path}
        if isinstance(value, dict):
            return {name: flat(each, f"{path}.{name}" if path else name) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [flat(each, f"{path}.{i}") for i, each in enumerate(value)]
        return number_out(value)

    return flat(state, ""), arrays


def unflatten(header: Any, arrays: Mapping[str, Array]) -> State:
    """Return the state that :func:`flatten` was given."""
    left = dict(arrays)

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(each) for each in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1 and isinstance(value.get("array"), str):
            if value["array"] not in left:
                raise SavedModelError(f"array {value['array']!r:.60} is not there, or is used twice")
            return left.pop(value["array"])
        number = number_in(value)
        return {name: whole(each) for name, each in value.items()} if number is value else number

    found = whole(header)
    if not isinstance(found, dict):
        raise SavedModelError(f"{found!r:.60} is no state")
    return found


def number_out(value: Any) -> Any:
    """Return a number, flag or text as JSON has it."""
    if type(value) is float and not math.isfinite(value):
        return {"float": repr(value)}
    if type(value) is int and abs(value) > LARGEST_INT:
        return {"int": hex(value)}
    return value


def number_in(data: Any) -> Any:
    """Return the number that :func:`number_out` was given, and anything else as it is."""
    if isinstance(data, dict) and len(data) == 1:
        if data.get("float") in ("nan", "inf", "-inf"):
            return float(data["float"])
        if isinstance(data.get("int"), str):
            return int(data["int"], 16)
    return data


# Reading a state ----------------------------------------------------------------------------------------------------


def item(state: Any, name: str) -> Any:
    """Return what a state has under a name."""
    if not isinstance(state, dict) or name not in state:
        raise SavedModelError(f"{name!r} is missing")
    return state[name]


def scalar(state: Any, name: str, kind: type) -> Any:
    """Return a number, flag or text of a state."""
    value = item(state, name)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise SavedModelError(f"{name!r} must be of type {kind.__name__}; it is {value!r:.60}")
    return value


def array(state: Any, name: str, dtype: str | None, ndim: int) -> Array:
    """Return an array of a state if it is of this dtype (None: any number) and in one piece."""
    found = item(state, name)
    if not isinstance(found, np.ndarray):
        raise SavedModelError(f"{name!r} must be an array; it is {found!r:.60}")
    if found.ndim != ndim or (dtype is not None and found.dtype != np.dtype(dtype)):
        raise SavedModelError(
            f"array {name!r} must have {ndim} dimensions of {dtype or 'numbers'}; it has {found.ndim} of"
            f" {found.dtype.str}"
        )
    if not found.flags.c_contiguous:
        raise SavedModelError(f"array {name!r} must be in one piece")
    return found


def optional_vector(state: Any, name: str, length: int) -> Array | None:
    """Return a vector of float64, or None."""
    if item(state, name) is None:
        return None
    vector = array(state, name, "<f8", 1)
    if len(vector) != length:
        raise SavedModelError(f"{name!r} must have {length} numbers; it has {len(vector)}")
    return vector


class Fields:
    """The attributes of a class that its state holds as they are: numbers, flags and texts by type, arrays by
    (dtype, dimensions). In a state they have no leading underscore.

    >>> class Point:
    ...     def __init__(self, x, _y): self.x, self._y = x, _y
    >>> fields = Fields(x=int, _y=float)
    >>> fields.take(Point(1, 2.0))
    {'x': 1, 'y': 2.0}
    >>> fields.new(Point, {"x": 3, "y": "4"})
    Traceback (most recent call last):
    grinch.errors.SavedModelError: 'y' must be of type float; it is '4'
    """

    def __init__(self, **kinds: type | tuple[str, int]):
        self._kinds = kinds

    def take(self, thing: Any) -> State:
        """Return the state of these fields."""
        return {
            name.lstrip("_"): kind(getattr(thing, name))
            if isinstance(kind, type)
            else np.asarray(getattr(thing, name)).astype(kind[0], copy=False)
            for name, kind in self._kinds.items()
        }

    def read(self, state: Any) -> dict[str, Any]:
        """Return these fields of a state, by the names of the attributes."""
        return {
            name: scalar(state, name.lstrip("_"), kind)
            if isinstance(kind, type)
            else array(state, name.lstrip("_"), *kind)
            for name, kind in self._kinds.items()
        }

    def new(self, kind: type[Thing], state: Any) -> Thing:
        """Return an object without calling its constructor, with these fields set."""
        thing = object.__new__(kind)
        for name, value in self.read(state).items():
            setattr(thing, name, value)
        return thing


# Refusing a state ---------------------------------------------------------------------------------------------------


def require(is_so: Any, problem: str) -> None:
    """Refuse a saved model unless something is so."""
    if not bool(is_so):
        raise SavedModelError(f"the saved model is damaged: {problem}")


def are_within(values: Any, low: int, high: int) -> bool:
    """Return whether all of these are from ``low`` up to, not including, ``high``."""
    return not np.size(values) or bool(low <= np.min(values) and np.max(values) < high)
