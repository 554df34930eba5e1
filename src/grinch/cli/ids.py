"""Ids as a store has them: texts or whole numbers, whatever a file or the command line gives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy.typing as npt

from grinch.io.points import shown
from grinch.io.read import FileError

WHOLE = re.compile(r"0|-?[1-9][0-9]*")


def as_kind(ids: Sequence[Any], kind: str | None, what: str = "--id") -> list[Any]:
    """Ids as texts or as numbers (``kind`` is "text" or "number"), or as they are (None).

    >>> as_kind([1, "x"], "text"), as_kind(["1", 2], "number"), as_kind(["1", 2], None)
    (['1', 'x'], [1, 2], ['1', 2])
    """
    if kind == "text":
        return [str(each) if type(each) is int else each for each in ids]
    if kind == "number":
        return [_number(each, what) if isinstance(each, str) else each for each in ids]
    return list(ids)


def is_number(text: str) -> bool:
    """Whether a text is exactly how a whole number is written."""
    return WHOLE.fullmatch(text) is not None


def _number(text: str, what: str) -> int:
    if not is_number(text):
        raise FileError(f"{what} must be a whole number, like the other ids in the store; got {text!r:.80}")
    return int(text)


def kind_of_ids(store: Any) -> str | None:
    """What the ids of a store are: "text", "number", or None if there are none yet."""
    if store.info()["is_named"] is False:
        return "number"  # points are numbered as they come
    found = store.id_kind
    return None if found is None else str(found)


def check_different(ids: npt.NDArray[Any] | None, column: str | None) -> None:
    """Points that share an id would be one point."""
    names = [] if ids is None else [name for name in ids.tolist() if isinstance(name, Hashable)]
    twice, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        what = "the ids of FILE" if column is None else f"--id {column}"
        raise FileError(
            f"{what} must be different for every point; {shown(twice)} is there {times:,} times. Name another column"
            " with --id, or leave it out: points are numbered then"
        )
