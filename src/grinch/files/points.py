"""What a file of points holds, and what is said of one that cannot be read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy.typing as npt

from grinch.errors import unknown_name

# What a message shows of a long value, and of many names.
LONGEST_SHOWN, MOST_NAMES = 60, 20


class Points(NamedTuple):
    """Vectors read from a file, and what the file says of each of them."""

    vectors: Any
    """An array, or a CSR matrix if the file holds a sparse one."""
    ids: npt.NDArray[Any] | None
    labels: npt.NDArray[Any] | None
    kept: dict[str, list[Any]] = {}  # noqa: RUF012 (nobody writes to it)
    """Other columns that were asked for, by name; None where a cell is empty."""
    columns: list[str] | None = None
    """The names of the features, where the file has them."""
    is_text: bool = False
    """Whether numbers are written out, so that the file says nothing of how exact they are."""


class FileError(ValueError):
    """A file that cannot be read as points."""


class Asked(NamedTuple):
    """The columns, or arrays, that are no features: classes, ids, those to leave out, and those to keep beside."""

    label: str | None = None
    id: str | None = None
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    keep_option: str = "--payload"

    @property
    def beside(self) -> list[str]:
        """Those to read beside the features."""
        return list(dict.fromkeys(name for name in (self.label, self.id, *self.keep) if name is not None))


def check_names(names: Collection[str], asked: Asked) -> None:
    """The columns, or arrays, that are asked for must be there."""
    several = [*(("--drop", name) for name in sorted(asked.drop)), *((asked.keep_option, name) for name in asked.keep)]
    for option, name in (("--label", asked.label), ("--id", asked.id), *several):
        if name is not None and name not in names:
            raise FileError(str(unknown_name(option, name, names)))


def choose_features(names: list[str], asked: Asked) -> list[str]:
    """The columns that are left when those that are no features are taken away."""
    check_names(names, asked)
    beside = {*asked.beside, *asked.drop}
    features = [name for name in names if name not in beside]
    if not features:
        raise FileError(
            f"FILE has no feature columns left; its columns are {', '.join(map(shown, names[:MOST_NAMES]))}"
        )
    return features


def shown(value: object) -> str:
    """A value as Python writes it, cut short."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
