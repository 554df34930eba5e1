"""Sparse rows on disk: the entries of all rows one after the other in a file, and in another where each row ends."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._types import Counts
from grinch.store.disk import RowFile, checksum

ENDS = ".ends"


def sparse_matrix(rows: Any, dtype: np.dtype[Any]) -> Any:
    """Rows, sparse or dense, as the store keeps them sparse."""
    rows = scipy.sparse.csr_matrix(rows)
    parts = rows.data.astype(dtype, copy=False), rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int64)
    return _matrix(*parts, rows.shape[1])


def _matrix(values: Any, columns: Any, ends: Any, width: int) -> Any:
    found = scipy.sparse.csr_matrix((len(ends) - 1, width), dtype=values.dtype)
    # Not by the constructor, which looks at every column to find a smaller type for it.
    found.data, found.indices, found.indptr = values, columns, ends
    return found


def stacked(pieces: list[Any], dtype: np.dtype[Any], width: int) -> Any:
    """Rows of several matrices, one after the other."""
    if not pieces:
        return sparse_matrix(scipy.sparse.csr_matrix((0, width)), dtype)
    return sparse_matrix(scipy.sparse.vstack(pieces, format="csr"), dtype)


def checksum_rows(pieces: Iterable[Any]) -> int:
    """A number that changes with any bit of some rows, the same in whatever pieces they come."""
    of_dense = of_columns = of_values = 0
    sizes: list[Counts] = []
    for piece in pieces:
        if scipy.sparse.issparse(piece):
            of_columns = checksum(piece.indices.astype("<i4", copy=False), of_columns)
            of_values = checksum(piece.data, of_values)
            sizes.append(np.diff(piece.indptr))
        else:
            of_dense = checksum(piece, of_dense)
    return checksum(np.concatenate([[of_columns, of_values], *sizes])) if sizes else of_dense


class SparseRowFile:
    """Sparse rows in two files, to which rows are added at the end; used as :class:`~grinch.store.disk.RowFile`.

    >>> import tempfile
    >>> file = SparseRowFile(Path(tempfile.mkdtemp()) / "rows.bin", np.dtype("float32"), 9)
    >>> file.append(0, sparse_matrix([[0, 0, 5, 0, 0, 0, 0, 0, 1], [0] * 9, [7] + [0] * 8], np.dtype("float32")))
    >>> file.at(np.array([2, 0])).toarray()[:, [0, 2, 8]].tolist()
    [[7.0, 0.0, 0.0], [0.0, 5.0, 1.0]]
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], width: int):
        self.path, self.dtype, self.width = path, dtype.newbyteorder("<"), width
        self._entry = np.dtype([("column", "<i4"), ("value", self.dtype)])
        self._entries = RowFile(path, np.dtype(np.uint8), self._entry.itemsize)
        self._ends = RowFile(path.with_name(path.name + ENDS), np.dtype("<i8"), 1)

    @property
    def row_bytes(self) -> int:
        """About how much a row takes: so many are read at a time as take little memory."""
        return 64 * self._entries.row_bytes

    def append(self, at: int, rows: Any, *, is_kept: bool = False) -> None:
        """Let these be the rows from number ``at`` on; on disk when this returns, unless they are kept elsewhere."""
        start = int(self._ends.rows(at)[at - 1, 0]) if at else 0
        self._entries.append(start, self._as_entries(rows), is_kept=is_kept)
        self._ends.append(at, start + rows.indptr[1:, None] - rows.indptr[0], is_kept=is_kept)

    def _as_entries(self, rows: Any) -> npt.NDArray[Any]:
        entries = np.empty(rows.nnz, self._entry)
        entries["column"], entries["value"] = rows.indices, rows.data
        return entries.view(np.uint8).reshape(rows.nnz, self._entry.itemsize)

    def at(self, rows: Counts) -> Any:
        """Some of the rows, by number."""
        ends = self._ends.rows(int(rows.max(initial=-1)) + 1)[:, 0]
        starts = np.zeros(len(rows), np.int64)
        starts[rows > 0] = ends[rows[rows > 0] - 1]
        sizes = ends[rows] - starts
        if len(sizes) and (sizes.min() < 0 or sizes.max() > self.width or starts.min() < 0):
            raise ValueError("it does not say where rows end")
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        where = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], sizes)
        entries = self._entries.rows(int((starts + sizes).max(initial=0)))[where].view(self._entry)[:, 0]
        columns = np.ascontiguousarray(entries["column"])
        if len(columns) and not (columns.min() >= 0 and columns.max() < self.width):
            raise ValueError("it has entries in columns that are not there")
        return _matrix(np.ascontiguousarray(entries["value"]), columns, indptr, self.width)

    # As bytes -----------------------------------------------------------------------------------------------------

    def packed(self, rows: Any) -> bytes:
        """Rows as they are put into the log."""
        sizes, columns = np.diff(rows.indptr).astype("<i8"), rows.indices.astype("<i4")
        return b"".join(part.tobytes() for part in (sizes, columns, rows.data.astype(self.dtype)))

    def unpacked(self, content: bytes, n: int) -> Any:
        """The rows that :meth:`packed` was given."""
        sizes = np.frombuffer(content, "<i8", n)
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        n_entries = int(ends[-1])
        if (sizes < 0).any() or len(content) != 8 * n + (4 + self.dtype.itemsize) * n_entries:
            raise ValueError("rows in the log do not have as many entries as they say")
        columns = np.frombuffer(content, "<i4", n_entries, 8 * n)
        return _matrix(np.frombuffer(content, self.dtype, n_entries, 8 * n + 4 * n_entries), columns, ends, self.width)

    def stacked(self, pieces: list[Any]) -> Any:
        """Rows of several matrices, one after the other."""
        return stacked(pieces, self.dtype, self.width)

    def empty(self, n: int) -> Any:
        """So many rows without entries."""
        return sparse_matrix(scipy.sparse.csr_matrix((n, self.width)), self.dtype)

    # The files ----------------------------------------------------------------------------------------------------

    def count(self) -> int:
        """How many rows there may be, those that mean nothing among them."""
        return self._ends.count()

    def hold(self) -> None:
        """Keep the files at hand, to read them also when they have lost their names."""
        self._entries.hold()
        self._ends.hold()

    def sync(self) -> None:
        """All rows are on disk, also those that came before the files were opened."""
        self._entries.sync()
        self._ends.sync()

    def close(self) -> None:
        self._entries.close()
        self._ends.close()
