"""Rows in Parquet files: a column for each feature, or one column of lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.errors import missing_extra
from grinch.estimators.checks import check_values
from grinch.files.points import FileError
from grinch.sharded.inputs.parquet_columns import (
    Columns,
    choose_columns,
    fill_from_columns,
    fill_from_lists,
    list_width,
)
from grinch.sharded.inputs.rows import PIECE_BYTES, Pieces, by_piece, rows_per_piece, stamp_of_files

# A row group is decoded from its beginning: one that is cut into too many pieces is read too often, and pieces that are
# too large take too much memory.
MOST_CUTS, LARGEST_CUT = 8, 4 * PIECE_BYTES
# Rows are decoded in batches of about this many bytes.
BATCH_BYTES = 4 * 2**20
# A column that is being read takes some MB, of pages and values that repeat.
COLUMNS_AT_A_TIME = 64


class Part(NamedTuple):
    """Rows of a file that are read in one go: row groups from ``first`` to ``last``, or a part of one."""

    file: int
    first: int
    last: int
    skip: int
    """Rows of the first group that come before."""
    n_rows: int


@dataclass(frozen=True)
class ParquetRows:
    """The rows of one Parquet file after the other."""

    paths: tuple[str, ...]
    parts: tuple[Part, ...]
    columns: Columns
    n_features: int
    stamp: str

    @property
    def n_rows(self) -> int:
        """The number of points."""
        return sum(part.n_rows for part in self.parts)

    @cached_property
    def pieces(self) -> Pieces:
        """First row and the row after the last of what is read in one go."""
        stops = np.cumsum([part.n_rows for part in self.parts]).tolist()
        return list(zip([0, *stops], stops, strict=False))

    def read(self, piece: int) -> npt.NDArray[Any]:
        """The rows of a piece."""
        part = self.parts[piece]
        rows = np.empty((part.n_rows, self.n_features), self.columns.dtype)
        path, row = self.paths[part.file], self.pieces[piece][0] - self._first_rows[part.file]
        for left in range(0, len(self.columns.names), COLUMNS_AT_A_TIME):
            names = self.columns.names[left : left + COLUMNS_AT_A_TIME]
            where = slice(None) if self.columns.is_list else slice(left, left + len(names))
            self._fill(rows[:, where], part, names, row)
        check_values(rows, row, f" of file {path!r}")
        return rows

    def take(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """These rows, in ascending order. Every piece that has one of them is read."""
        parts = by_piece(self.pieces, rows, lambda piece, inside: self.read(piece)[inside])
        return np.concatenate(parts) if parts else np.empty((0, self.n_features), self.columns.dtype)

    def _fill(self, rows: npt.NDArray[Any], part: Part, names: tuple[str, ...], row: int) -> None:
        """Put the values of some columns where they belong."""
        done = 0
        for batch in self._batches(part, names):
            target = rows[done : done + batch.num_rows]
            if self.columns.is_list:
                fill_from_lists(target, batch, names[0], self.paths[part.file], row + done)
            else:
                fill_from_columns(target, batch, names, self.paths[part.file], row + done)
            done += batch.num_rows

    def _batches(self, part: Part, names: tuple[str, ...]) -> Iterator[Any]:
        """The rows of a part, in batches."""
        size = min(max(1, BATCH_BYTES // (4 * self.n_features)), part.n_rows)
        before, left = part.skip, part.n_rows
        with open_parquet(self.paths[part.file]) as file:
            groups = range(part.first, part.last + 1)
            for batch in file.iter_batches(size, groups, list(names), use_threads=False):
                rows = batch.slice(before, left)
                before, left = max(0, before - batch.num_rows), left - rows.num_rows
                if rows.num_rows:
                    yield rows
                if not left:
                    return

    @cached_property
    def _first_rows(self) -> list[int]:
        """The number of the first row of each file."""
        counts = np.zeros(len(self.paths) + 1, dtype=np.int64)
        for part in self.parts:
            counts[part.file + 1] += part.n_rows
        return list(np.cumsum(counts).tolist())


def open_parquet(path: str) -> Any:
    """A Parquet file; its columns are read through small buffers, since there may be many of them."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("reading .parquet", "pyarrow", "parquet") from None
    return pyarrow.parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False)


def parquet_rows(paths: Sequence[Path], columns: Sequence[str] | str | None) -> ParquetRows:
    """The rows of Parquet files with the same columns; only the heads of the files are read."""
    resolved = tuple(str(path.resolve()) for path in paths)
    chosen: Columns | None = None
    n_features, groups = 0, []
    for path in resolved:
        try:
            with open_parquet(path) as file:
                found = choose_columns(file.schema_arrow, columns, path)
                _check_same(found, chosen or found, path, resolved[0])
                chosen = chosen or found
                n_features = n_features or (list_width(file, found) if found.is_list else len(found.names))
                groups.append([file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)])
        except (FileError, ImportError):
            raise
        # Whatever a damaged file makes the reader raise, it is the file that is to blame.
        except Exception as error:
            raise FileError(f"X: {path!r} cannot be read as .parquet (truncated or damaged?): {error}") from error
    if chosen is None or not n_features:
        raise FileError(f"X must have rows; there are none in {resolved[0]!r}" + " and the others" * (len(paths) > 1))
    parts = [part for number, sizes in enumerate(groups) for part in _parts(number, sizes, n_features)]
    return ParquetRows(resolved, tuple(parts), chosen, n_features, stamp_of_files(resolved, chosen))


def _check_same(found: Columns, first: Columns, path: str, first_path: str) -> None:
    if found != first:
        raise FileError(
            f"X must be files with the same columns; those of {path!r} are {found.shown()}, and those of"
            f" {first_path!r} are {first.shown()}"
        )


def _parts(file: int, sizes: list[int], n_features: int) -> list[Part]:
    """Small row groups together, and large ones cut."""
    longest, parts = rows_per_piece(n_features), list[Part]()
    for group, size in enumerate(sizes):
        last = parts[-1] if parts else None
        if not size:
            continue
        if last is not None and last.last == group - 1 and last.skip == 0 and last.n_rows + size <= longest:
            parts[-1] = last._replace(last=group, n_rows=last.n_rows + size)
            continue
        most = max(longest, min(-(-size // MOST_CUTS), LARGEST_CUT // (4 * n_features)))
        parts += [Part(file, group, group, skip, min(most, size - skip)) for skip in range(0, size, most)]
    return parts
