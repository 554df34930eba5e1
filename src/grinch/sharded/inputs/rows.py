"""What all inputs have in common: rows that are read piece by piece."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from grinch.files.digests import digest

# A piece is read in one go; of float32.
PIECE_BYTES = 32 * 2**20

Pieces = list[tuple[int, int]]


class Rows(Protocol):
    """Points on disk. Small, so that it goes to every worker."""

    @property
    def n_rows(self) -> int:
        """The number of points."""

    @property
    def n_features(self) -> int:
        """The number of columns; 0 for records."""

    @property
    def pieces(self) -> Pieces:
        """First row and the row after the last of what is read in one go, in order."""

    @property
    def stamp(self) -> str:
        """The same for the same content, as far as can be told without reading all of it."""

    def read(self, piece: int) -> Any:
        """The rows of a piece: a matrix of float32 or float64, all of them finite, or a list of records."""

    def take(self, rows: npt.NDArray[np.int64]) -> Any:
        """These rows, in ascending order."""


def rows_per_piece(n_features: int) -> int:
    """As many rows as a piece may have."""
    return max(1, PIECE_BYTES // (4 * n_features))


def cut_into_pieces(lengths: Iterable[int], longest: int) -> Pieces:
    """Pieces of parts that follow each other; no piece is in two parts.

    >>> cut_into_pieces([5, 2], 3)
    [(0, 3), (3, 5), (5, 7)]
    """
    pieces, start = [], 0
    for length in lengths:
        stop = start + length
        pieces += [(first, min(first + longest, stop)) for first in range(start, stop, longest)]
        start = stop
    return pieces


def by_piece(
    pieces: Pieces, rows: npt.NDArray[np.int64], take: Callable[[int, npt.NDArray[np.int64]], Any]
) -> list[Any]:
    """What ``take`` returns for each piece that has some of the rows; it is given their positions in the piece."""
    wanted = np.asarray(rows, dtype=np.int64)
    n_rows = pieces[-1][1] if pieces else 0
    if len(wanted) and (wanted[0] < 0 or wanted[-1] >= n_rows or (np.diff(wanted) < 0).any()):
        raise ValueError(f"rows must be in ascending order, from 0 to {n_rows - 1}; got {wanted!r:.80}")
    starts = np.array([start for start, _ in pieces])
    bounds = np.searchsorted(wanted, [*starts, n_rows])
    return [
        take(piece, wanted[bounds[piece] : bounds[piece + 1]] - starts[piece])
        for piece in np.flatnonzero(np.diff(bounds)).tolist()
    ]


def float_type(*dtypes: npt.DTypeLike) -> np.dtype[Any]:
    """float32 if it holds all values of these types, else float64.

    >>> float_type("uint8", "float16"), float_type("int64")
    (dtype('float32'), dtype('float64'))
    """
    found = np.result_type(np.float32, *dtypes)
    return found if found == np.float32 else np.dtype(np.float64)


def stamp_of_files(paths: Iterable[str | Path], *more: object) -> str:
    """By path, size and time of the last change of each; ``more`` is what else is to be the same."""
    files = [(os.fspath(path), (state := os.stat(path)).st_size, state.st_mtime_ns) for path in paths]
    return digest(json.dumps([files, [repr(thing) for thing in more]]))
