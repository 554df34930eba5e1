"""Rows in files of numpy, and in any other where a matrix lies as it does in memory."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.estimators.checks import check_values
from grinch.files.arrays import read_header
from grinch.files.points import FileError
from grinch.files.read import read_points
from grinch.sharded.inputs.rows import Pieces, by_piece, cut_into_pieces, float_type, rows_per_piece, stamp_of_files


class ArrayFile(NamedTuple):
    """A matrix in a file."""

    path: str
    n_rows: int
    dtype: str
    offset: int
    by_column: bool
    """Whether numbers of a column, not of a row, lie side by side."""


@dataclass(frozen=True)
class ArrayRows:
    """The rows of one matrix after the other."""

    files: tuple[ArrayFile, ...]
    n_features: int
    stamp: str
    checked: bool = False
    """Whether the numbers are known to be finite."""

    @property
    def n_rows(self) -> int:
        """The number of points."""
        return sum(file.n_rows for file in self.files)

    @cached_property
    def pieces(self) -> Pieces:
        """First row and the row after the last of what is read in one go."""
        return cut_into_pieces((file.n_rows for file in self.files), rows_per_piece(self.n_features))

    def read(self, piece: int) -> npt.NDArray[Any]:
        """The rows of a piece."""
        start, stop = self.pieces[piece]
        return self._copy(start, slice(0, stop - start))

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """These rows, in ascending order."""
        parts = by_piece(self.pieces, rows, lambda piece, inside: self._copy(self.pieces[piece][0], inside))
        return np.concatenate(parts) if parts else np.empty((0, self.n_features), self._dtype)

    @property
    def _dtype(self) -> np.dtype[Any]:
        return float_type(*{file.dtype for file in self.files})

    def _copy(self, start: int, inside: slice | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Some rows from ``start`` on. The file is mapped only for this, since its pages count as the process's."""
        number = int(np.searchsorted(self._first_rows, start, side="right")) - 1
        file, first = self.files[number], start - int(self._first_rows[number])
        shape = (file.n_rows, self.n_features)
        whole = np.memmap(file.path, file.dtype, "r", file.offset, shape, "F" if file.by_column else "C")
        where = slice(first, first + inside.stop) if isinstance(inside, slice) else first + inside
        found = np.array(np.asarray(whole)[where], dtype=self._dtype, order="C")
        if not self.checked:
            _check(found, first, inside, file)
        return found

    @cached_property
    def _first_rows(self) -> npt.NDArray[np.int64]:
        return np.cumsum([0, *(file.n_rows for file in self.files[:-1])])


def _check(found: npt.NDArray[Any], first: int, inside: slice | npt.NDArray[np.int64], file: ArrayFile) -> None:
    where = f" of file {file.path!r}"
    if isinstance(inside, slice):
        check_values(found, first, where)
        return
    try:
        check_values(found)
    except ValueError:
        for row, values in zip(inside.tolist(), found, strict=True):
            check_values(values[None], first + row, where)


def npy_rows(paths: Sequence[Path]) -> ArrayRows:
    """The rows of .npy files, which must be equally wide."""
    files: list[ArrayFile] = []
    width = 0
    for path in paths:
        rows = read_points(path).vectors
        width = width or rows.shape[1]
        if rows.shape[1] != width:
            raise FileError(
                f"X must be files of equal width; {str(path)!r} has {rows.shape[1]} columns, and"
                f" {str(paths[0])!r} has {width}"
            )
        files.append(_mapped(rows, path.resolve()))
    return ArrayRows(tuple(files), width, stamp_of_files(path.resolve() for path in paths))


def memmap_rows(rows: np.memmap[Any, Any]) -> ArrayRows | None:
    """The rows of a memory map as they are in its file; None if what is in memory may differ from that."""
    base: object = rows.base
    # A part of a memory map is one too, with the place of the whole.
    is_whole = isinstance(base, mmap.mmap) and (rows.flags.c_contiguous or rows.flags.f_contiguous)
    if rows.filename is None or not is_whole or rows.mode == "c" or rows.ndim != 2 or not rows.size:
        return None
    if rows.mode != "r":
        rows.flush()
    file = _mapped(rows, Path(rows.filename).resolve())
    return ArrayRows((file,), rows.shape[1], stamp_of_files([file.path], file, rows.shape[1]))


def _mapped(rows: Any, path: Path) -> ArrayFile:
    return ArrayFile(str(path), rows.shape[0], rows.dtype.str, rows.offset, not rows.flags.c_contiguous)


def written_file(path: Path) -> tuple[ArrayFile, int]:
    """A matrix that was written here, which may have no rows, and its width."""
    with open(path, "rb") as file:
        header = read_header(path.name, file, path.stat().st_size)
        n_rows, width = header.shape
        return ArrayFile(str(path.resolve()), n_rows, header.dtype.str, file.tell(), False), width


def is_written(path: Path) -> bool:
    """Whether such a matrix is there, and whole."""
    try:
        written_file(path)
    except (OSError, ValueError):
        return False
    return True
