"""Rows and arrays in the files of a run: whole or not there at all, and read in parts."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.files.write import replacing

ARRAY, RECORDS = ".npy", ".pickle"


def write_rows(path: Path, rows: Any) -> int:
    """Write a matrix, or a list of records, to ``path`` with an ending of its own; how many bytes that were."""
    is_array = isinstance(rows, np.ndarray)
    target = path.with_name(path.name + (ARRAY if is_array else RECORDS))
    with replacing(target, "wb") as out:
        if is_array:
            np.lib.format.write_array(out, np.ascontiguousarray(rows), allow_pickle=False)
        else:
            pickle.dump(rows, out, protocol=pickle.HIGHEST_PROTOCOL)
    return target.stat().st_size


def read_rows(path: Path, part: slice | npt.NDArray[np.int64] = slice(None)) -> Any:
    """Some of the rows that were written to ``path``: a range, or those at ascending positions."""
    array = path.with_name(path.name + ARRAY)
    if array.exists():
        # What is mapped counts as memory of the process, so it is mapped no longer than it takes to copy.
        return np.array(np.load(array, mmap_mode="r")[part])
    with open(path.with_name(path.name + RECORDS), "rb") as file:
        records = pickle.load(file)
    return records[part] if isinstance(part, slice) else [records[i] for i in part.tolist()]


def joined(parts: Sequence[Any]) -> Any:
    """Rows one after the other."""
    if not parts:
        return []
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [record for part in parts for record in part]


def taken(rows: Any, positions: npt.NDArray[np.integer]) -> Any:
    """The rows at these positions."""
    return rows[positions] if isinstance(rows, np.ndarray) else [rows[i] for i in positions.tolist()]


def write_arrays(path: Path, **arrays: npt.NDArray[Any]) -> int:
    """Write arrays under their names; how many bytes that were."""
    with replacing(path, "wb") as out:
        np.savez(out, **arrays)  # type: ignore[arg-type]
    return path.stat().st_size


def read_arrays(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """The arrays of these names."""
    with np.load(path, allow_pickle=False) as found:
        return [found[name] for name in names]


def n_bytes(rows: Any) -> int:
    """The bytes of rows, as far as they are known."""
    return int(rows.nbytes) if isinstance(rows, np.ndarray) else 0
