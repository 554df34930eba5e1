"""What a file of points holds, and what is said of one that cannot be read."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy.typing as npt

from grinch.errors import unknown_name

# What a message shows of a long value, and of many names.
LONGEST_SHOWN, MOST_NAMES = 60, 20


class Points(NamedTuple):
    """Vectors read from a file, and what the file says of each of them."""

    vectors: npt.NDArray[Any]
    ids: npt.NDArray[Any] | None
    labels: npt.NDArray[Any] | None


class FileError(ValueError):
    """A file that cannot be read as points."""


def check_names(names: Collection[str], label: str | None, id: str | None, drop: Iterable[str] = ()) -> None:
    """The columns, or arrays, that are asked for must be there."""
    for option, name in (("--label", label), ("--id", id), *(("--drop", d) for d in sorted(drop))):
        if name is not None and name not in names:
            raise FileError(str(unknown_name(option, name, names)))


def choose_features(names: list[str], label: str | None, id: str | None, drop: set[str]) -> list[str]:
    """The columns that are left when label, id and what is dropped are taken away."""
    check_names(names, label, id, drop)
    features = [name for name in names if name not in {label, id, *drop}]
    if not features:
        raise FileError(
            f"FILE has no feature columns left; its columns are {', '.join(map(shown, names[:MOST_NAMES]))}"
        )
    return features


def shown(value: object) -> str:
    """A value as Python writes it, cut short."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
