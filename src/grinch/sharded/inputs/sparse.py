"""Sparse rows that are handed in: written once as the arrays of a CSR matrix, and read in parts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch.estimators.checks import check_values, in_order
from grinch.estimators.sparse_checks import checked_csr
from grinch.files.write import replacing
from grinch.sharded.inputs.rows import PIECE_BYTES, Pieces, by_piece, cut_into_pieces, float_type

PARTS = ("ends", "columns", "values")


@dataclass(frozen=True)
class SparseRows:
    """The rows of a CSR matrix in three files."""

    path: str
    n_rows: int
    n_features: int
    n_entries: int
    stamp: str

    @cached_property
    def pieces(self) -> Pieces:
        """First row and the row after the last of what is read in one go."""
        longest = max(1, PIECE_BYTES * self.n_rows // (8 * max(self.n_entries, 1)))
        return cut_into_pieces([self.n_rows], longest)

    def read(self, piece: int) -> Any:
        """The rows of a piece."""
        start, stop = self.pieces[piece]
        ends, columns, values = (np.load(_file(Path(self.path), part), mmap_mode="r") for part in PARTS)
        indptr = np.array(ends[start : stop + 1])
        here = slice(int(indptr[0]), int(indptr[-1]))
        parts = np.array(values[here]), np.array(columns[here]), indptr - indptr[0]
        return scipy.sparse.csr_matrix(parts, shape=(stop - start, self.n_features))

    def take(self, rows: npt.NDArray[np.int64]) -> Any:
        """These rows, in ascending order."""
        parts = by_piece(self.pieces, rows, lambda piece, inside: self.read(piece)[inside])
        return scipy.sparse.vstack(parts, format="csr") if parts else self.read(0)[:0]


def sparse_rows(X: Any, folder: Path) -> SparseRows:
    """The rows of a sparse matrix in files that have their digest for a name."""
    rows = in_order(checked_csr(X))
    if not rows.shape[0] or not rows.shape[1]:
        raise ValueError(f"X must have at least one row and one column; got {rows.shape[0]} and {rows.shape[1]}")
    check_values(rows)
    arrays = rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(float_type(rows.dtype))
    found = hashlib.blake2b(f"sparse {rows.shape}".encode(), digest_size=16)
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    path = folder / found.hexdigest()
    for part, array in zip(PARTS, arrays, strict=True):
        if not _file(path, part).exists():
            with replacing(_file(path, part), "wb") as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    n_rows, n_features = rows.shape
    return SparseRows(str(path), int(n_rows), int(n_features), int(rows.nnz), found.hexdigest())


def _file(path: Path, part: str) -> Path:
    return path.with_name(f"{path.name}.{part}.npy")
