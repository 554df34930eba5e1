"""Plain values as JSON and back: nothing but data, so that nothing can be run by reading it.

JSON has no tuples, sets, bytes, infinities or arrays; these are written as an object with a single key that says what
it is, so that an object in JSON is never a dict of the user's.

>>> decode(encode({"a": (1, 2.5), "b": {3}}))
{'a': (1, 2.5), 'b': {3}}
>>> encode((1, float("inf")))
{'tuple': [1, {'float': 'inf'}]}
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch.errors import NotSavable, SavedModelError
from grinch.saving.state import number_in, number_out

Tuple = TypeVar("Tuple", bound=tuple[Any, ...])

# Values within values; deeper ones would need recursion that Python does not allow.
DEEPEST = 100
# A text longer than this is written once, and then referred to.
LONG_TEXT = 16
# What an array may hold: numbers, flags, texts of fixed length, times. No objects.
ARRAY_KINDS = "biufcSUmM"
# Named tuples that are written by name (:func:`saved_tuple`).
TUPLES: dict[str, type] = {}
_TUPLE_NAMES: dict[type, str] = {}


def saved_tuple(name: str) -> Callable[[type[Tuple]], type[Tuple]]:
    """Let values hold tuples of a class of ours."""

    def register(kind: type[Tuple]) -> type[Tuple]:
        TUPLES[name], _TUPLE_NAMES[kind] = kind, name
        return kind

    return register


def encode(value: Any, own: Callable[[Any], Any] | None = None) -> Any:
    """Return a plain value as JSON; see :class:`Encoder`."""
    return Encoder(own).encode(value)


def decode(data: Any, own: Callable[[str, Any], Any] | None = None) -> Any:
    """Return the value that :func:`encode` wrote."""
    return Decoder(own).decode(data)


class Encoder:
    """A writer of values as JSON. What occurs twice is written once, over all calls of one encoder.

    ``own`` may take values that are not plain: it returns what is to be written, or None.
    """

    def __init__(self, own: Callable[[Any], Any] | None = None):
        self._own = own
        # By identity: which of the values written it is; the values, so that no other gets the same identity.
        self._index: dict[int, int] = {}
        self._kept: list[Any] = []

    def encode(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, float) or (kind is str and len(value) <= LONG_TEXT):
            return number_out(value)
        if id(value) in self._index:
            return {"same": self._index[id(value)]}
        if depth > DEEPEST:
            raise NotSavable(f"values are nested more than {DEEPEST} deep, or hold themselves")
        found = self._compound(value, kind, depth + 1)
        self._index[id(value)] = len(self._kept)
        self._kept.append(value)
        return found

    def _compound(self, value: Any, kind: type, depth: int) -> Any:
        def each(values: Any) -> list[Any]:
            return [self.encode(x, depth) for x in values]

        if kind is str:
            return value
        if kind is list:
            return each(value)
        if kind in (dict, Counter):
            return {kind.__name__.lower(): [each(pair) for pair in value.items()]}
        if kind is np.ndarray and value.dtype.kind in ARRAY_KINDS:
            return {"ndarray": [value.dtype.str, list(value.shape), _text_of(np.ascontiguousarray(value).tobytes())]}
        if isinstance(value, np.generic) and value.dtype.kind in ARRAY_KINDS:
            return {"scalar": [value.dtype.str, _text_of(value.tobytes())]}
        if kind in _TUPLE_NAMES:
            return {_TUPLE_NAMES[kind]: each(value)}
        if kind in _PARTS:
            tag, parts_of, _ = _PARTS[kind]
            return {tag: each(parts_of(value))}
        if kind in _TEXTS and (kind is not datetime.datetime or type(value.tzinfo) in (type(None), datetime.timezone)):
            tag, text_of, _ = _TEXTS[kind]
            return {tag: text_of(value)}
        if scipy.sparse.issparse(value) and value.format == "csr":
            is_matrix = isinstance(value, scipy.sparse.spmatrix)
            return {"csr": [is_matrix, list(value.shape), *each((value.data, value.indices, value.indptr))]}
        found = None if self._own is None else self._own(value)
        if found is None:
            raise NotSavable(
                f"{value!r:.60} is a {kind.__module__}.{kind.__qualname__}, and a file holds plain values only: None,"
                " numbers, texts, bytes, lists, tuples, sets, dicts, dates and numpy arrays. Use one of these instead"
            )
        return found


class Decoder:
    """A reader of what an :class:`Encoder` wrote, in the same order; ``own(tag, data)`` inverts its ``own``."""

    def __init__(self, own: Callable[[str, Any], Any] | None = None):
        self._own = own
        self._kept: list[Any] = []

    def decode(self, data: Any, depth: int = 0) -> Any:
        if data is None or isinstance(data, (bool, int, float)):
            return data
        if isinstance(data, str) and len(data) <= LONG_TEXT:
            return data
        if depth > DEEPEST:
            raise SavedModelError(f"values are nested more than {DEEPEST} deep")
        if isinstance(data, str):
            found: Any = data
        elif isinstance(data, list):
            found = [self.decode(x, depth + 1) for x in data]
        elif isinstance(data, dict) and len(data) == 1:
            ((tag, content),) = data.items()
            if tag in ("float", "int"):
                return number_in(data)
            if tag == "same":
                if not isinstance(content, int) or not 0 <= content < len(self._kept):
                    raise SavedModelError(f"a value is referred to that is not there ({content!r:.60})")
                return self._kept[content]
            found = self._compound(tag, content, depth + 1)
        else:
            raise SavedModelError(f"{data!r:.60} is no value")
        self._kept.append(found)
        return found

    def _compound(self, tag: str, content: Any, depth: int) -> Any:
        def each(values: Any) -> list[Any]:
            if not isinstance(values, list):
                raise SavedModelError(f"{tag} must have a list; it has {values!r:.60}")
            return [self.decode(x, depth) for x in values]

        if tag in _PARTS_BY_TAG:
            return _PARTS_BY_TAG[tag](each(content))
        if tag in _TEXTS_BY_TAG:
            return _TEXTS_BY_TAG[tag](content)
        if tag in ("dict", "counter"):
            found: dict[Any, Any] = Counter() if tag == "counter" else {}
            for key, value in map(each, content):
                found[key] = value
            return found
        if tag == "ndarray":
            return _array(*content)
        if tag == "scalar":
            return _array(content[0], [1], content[1])[0]
        if tag in TUPLES:
            return TUPLES[tag](*each(content))
        if tag == "csr":
            return csr_of(content[0], content[1], *each(content[2:]))
        if self._own is None:
            raise SavedModelError(f"{tag!r} is no kind of value that this version knows")
        return self._own(tag, content)


def _text_of(content: bytes | bytearray) -> str:
    return base64.b64encode(content).decode("ascii")


def _bytes_of(text: Any) -> bytes:
    return base64.b64decode(text, validate=True)


# By type: the tag, the parts of a value, and the value of parts.
_PARTS: dict[type, tuple[str, Callable[[Any], Any], Callable[[list[Any]], Any]]] = {
    tuple: ("tuple", list, tuple),
    set: ("set", list, set),
    frozenset: ("frozenset", list, frozenset),
    complex: ("complex", lambda value: (value.real, value.imag), lambda parts: complex(*parts)),
    Fraction: ("fraction", Fraction.as_integer_ratio, lambda parts: Fraction(*parts)),
}
# By type: the tag, the text of a value, and the value of a text.
_TEXTS: dict[type, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    bytes: ("bytes", _text_of, _bytes_of),
    bytearray: ("bytearray", _text_of, lambda text: bytearray(_bytes_of(text))),
    Decimal: ("decimal", str, Decimal),
    datetime.date: ("date", datetime.date.isoformat, datetime.date.fromisoformat),
    datetime.datetime: ("datetime", datetime.datetime.isoformat, datetime.datetime.fromisoformat),
}
_PARTS_BY_TAG = {tag: read for tag, _, read in _PARTS.values()}
_TEXTS_BY_TAG = {tag: read for tag, _, read in _TEXTS.values()}


def array_type(text: Any) -> np.dtype[Any]:
    """Return the dtype of an array in a file: numbers and the like, never objects."""
    dtype = np.dtype(text) if isinstance(text, str) else np.dtype(object)
    if dtype.kind not in ARRAY_KINDS or dtype.names is not None or dtype.subdtype is not None:
        raise SavedModelError(f"an array may hold numbers, flags, texts and times; this one is of {text!r:.60}")
    return dtype


def array_shape(shape: Any) -> tuple[int, ...]:
    """Return the shape of an array in a file."""
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape) or len(shape) > 32:
        raise SavedModelError(f"{shape!r:.60} is no shape of an array")
    return tuple(shape)


def _array(dtype: Any, shape: Any, text: Any) -> Any:
    kind, sides, content = array_type(dtype), array_shape(shape), _bytes_of(text)
    count: int = math.prod(sides)
    if kind.itemsize * count != len(content) or (kind.itemsize == 0 and count):
        raise SavedModelError(f"an array of shape {sides} has {len(content)} bytes")
    return np.frombuffer(content, kind).reshape(sides).copy()


def csr_of(is_matrix: Any, shape: Any, data: Any, indices: Any, indptr: Any) -> Any:
    """Return a sparse matrix after a check of its indices, which scipy's own routines trust."""
    sides = array_shape(shape)
    whole = all(isinstance(part, np.ndarray) and part.ndim == 1 for part in (data, indices, indptr))
    if len(sides) != 2 or not whole or indices.dtype.kind != "i" or indptr.dtype.kind != "i":
        raise SavedModelError("a sparse matrix is not one")
    if len(indptr) != sides[0] + 1 or indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
        raise SavedModelError("the rows of a sparse matrix do not follow each other")
    if len(indices) != len(data) or (len(indices) and not (indices.min() >= 0 and indices.max() < sides[1])):
        raise SavedModelError("a column of a sparse matrix is outside it")
    kind = scipy.sparse.csr_matrix if is_matrix is True else scipy.sparse.csr_array
    return kind((data, indices, indptr), shape=sides)


# As arrays of bytes -------------------------------------------------------------------------------------------------

# Lists of these need no encoding: JSON holds a million names as they are.
_SIMPLE = {str, bool, type(None)}
_LARGEST = 2**63


def json_bytes(data: Any) -> npt.NDArray[np.uint8]:
    """Return what JSON can hold as an array of bytes, to be kept beside the header of a file."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return np.frombuffer(text.encode("ascii"), np.uint8)


def value_bytes(value: Any, what: str) -> npt.NDArray[np.uint8]:
    """Return a plain value as an array of bytes; ``what`` says what it is, where it turns out not to be plain."""
    try:
        return json_bytes({"simple": value} if _is_simple(value) else {"value": encode(value)})
    except NotSavable as error:
        raise NotSavable(f"{what} cannot be written to a file: {error}") from None


def value_of(content: npt.NDArray[Any]) -> Any:
    """Return the value that :func:`value_bytes` was given."""
    data = json.loads(content.tobytes())
    return data["simple"] if "simple" in data else decode(data["value"])


def _is_simple(value: Any) -> bool:
    if type(value) is not list:
        return False
    kinds = set(map(type, value))
    if kinds <= _SIMPLE:
        return True
    return kinds <= _SIMPLE | {int} and all(-_LARGEST < x < _LARGEST for x in value if type(x) is int)
