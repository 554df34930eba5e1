"""Points of a file, the columns asked for, and the checks and errors that all readers share."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._checks import available_memory
from grinch.errors import unknown_name

# What a message shows of a long value, and of many names.
LONGEST_SHOWN, MOST_NAMES = 60, 20
STANDARD_INPUT = Path("-")
# Formats of text, and how it may be packed.
TEXT, PACKED = (".csv", ".tsv", ".jsonl", ".json", ".ndjson", ".txt"), (".gz", ".xz")
# Where the system does not say how much memory is free.
USUAL_MEMORY = 8_000_000_000


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
    """A file that cannot be read."""


def ending_of(path: Path) -> str:
    """Return the format that a name promises: ``.csv`` for ``news.csv.gz``, and for the standard input."""
    name = path.with_suffix("") if path.suffix in PACKED else path
    return ".csv" if path == STANDARD_INPUT else name.suffix.lower()


def check_file(path: Path, formats: Collection[str], what: str = "FILE") -> str:
    """Return the format of a file that is there and has one of these formats."""
    listed = f"{', '.join(formats)} (text also in {' or '.join(PACKED)})"
    ending = ending_of(path)
    if path == STANDARD_INPUT:
        return ending
    if not path.exists():
        raise FileError(f"{what} {str(path)!r} does not exist")
    if path.is_dir():
        raise FileError(f"{what} {str(path)!r} is a folder; give a file ending in {listed}")
    if ending not in formats or (path.suffix in PACKED and ending not in TEXT):
        raise FileError(f"{what} must end in {listed}; got {path.name!r}")
    return ending


@contextmanager
def blaming(path: str | Path, ending: str, what: str = "FILE") -> Iterator[None]:
    """Turn whatever a damaged file makes the reader of its format raise into a FileError."""
    try:
        yield
    except (FileError, ImportError, MemoryError):
        raise
    except Exception as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise FileError(f"{what} {str(path)!r} cannot be read as {ending} (truncated or damaged?): {why}") from error


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
    """Refuse columns, or arrays, that are asked for and not there."""
    several = [*(("--drop", name) for name in sorted(asked.drop)), *((asked.keep_option, name) for name in asked.keep)]
    for option, name in (("--label", asked.label), ("--id", asked.id), *several):
        if name is not None and name not in names:
            raise FileError(str(unknown_name(option, name, names)))


def choose_features(names: list[str], asked: Asked) -> list[str]:
    """Return the columns that are left when those that are no features are taken away."""
    check_names(names, asked)
    beside = {*asked.beside, *asked.drop}
    features = [name for name in names if name not in beside]
    if not features:
        raise FileError(
            f"FILE has no feature columns left; its columns are {', '.join(map(shown, names[:MOST_NAMES]))}"
        )
    return features


def shown(value: object) -> str:
    """Return a value as Python writes it, cut short."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def check_unpacked_size(name: str, size: int) -> None:
    """Refuse what would not fit in memory once it is unpacked."""
    room = available_memory() or USUAL_MEMORY
    if size > room:
        raise FileError(
            f"FILE {name!r} would unpack to {size:,} bytes, and {room:,} are free;"
            " save a part of it, or give an .npy file, which is read piece by piece"
        )


class Bounded(io.RawIOBase):
    """A stream of unpacked bytes that ends with an error when there are more than there is memory for."""

    def __init__(self, name: str, unpacked: BinaryIO):
        self.name, self.unpacked, self.size = name, unpacked, 0
        self.room = available_memory() or USUAL_MEMORY

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        piece = self.unpacked.read(len(buffer))
        self.size += len(piece)
        if self.size > self.room:
            raise FileError(
                f"FILE {self.name!r} unpacks to more than {self.room:,} bytes, all the memory that is free;"
                " unpack it yourself and save a part of it"
            )
        buffer[: len(piece)] = piece
        return len(piece)


def float_type(*dtypes: npt.DTypeLike) -> np.dtype[Any]:
    """Return float32 if it holds all values of these types, else float64.

    >>> float_type("uint8", "float16"), float_type("int64")
    (dtype('float32'), dtype('float64'))
    """
    found = np.result_type(np.float32, *dtypes)
    return found if found == np.float32 else np.dtype(np.float64)
