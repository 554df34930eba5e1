"""Rows and arrays in the files of a run: whole or not there at all, and read in parts."""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import taken
from grinch.io.points import FileError
from grinch.io.write import replacing

ARRAY, SPARSE, RECORDS = ".npy", ".csr.npz", ".pickle"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file that is not what was written."""
    try:
        yield
    except FileNotFoundError:
        raise FileError(f"{str(path)!r}, a file of the run, is gone. Fit again; the rest is kept") from None
    # Of records, what they are may not be known here: no fault of the file's.
    except (OSError, MemoryError, ImportError, AttributeError):
        raise
    # Whatever a damaged file makes the reader raise.
    except Exception as error:
        raise FileError(
            f"{str(path)!r}, a file of the run, is damaged ({type(error).__name__}: {error}). Remove it and fit again;"
            " the rest is kept"
        ) from error


def write_rows(path: Path, rows: Any) -> int:
    """Write a matrix, or a list of records, to ``path`` with an ending of its own; return the bytes."""
    is_array, is_sparse = isinstance(rows, np.ndarray), scipy.sparse.issparse(rows)
    target = path.with_name(path.name + (ARRAY if is_array else SPARSE if is_sparse else RECORDS))
    with replacing(target, "wb") as out:
        if is_array:
            np.lib.format.write_array(out, np.ascontiguousarray(rows), allow_pickle=False)
        elif is_sparse:
            scipy.sparse.save_npz(out, rows, compressed=False)
        else:
            pickle.dump(rows, out, protocol=pickle.HIGHEST_PROTOCOL)
    return target.stat().st_size


def read_rows(path: Path, part: slice | npt.NDArray[np.int64] = slice(None), is_mapped: bool = False) -> Any:
    """Read some of the rows that were written to ``path``: a range, or those at ascending positions.

    With ``is_mapped``, all of a matrix, which is then read from disk on access.
    """
    array, sparse, records = (path.with_name(path.name + ending) for ending in (ARRAY, SPARSE, RECORDS))
    if array.exists():
        # What is mapped counts as memory of the process, so it is mapped no longer than it takes to copy.
        with _reading(array):
            rows = np.load(array, mmap_mode="r")
            return rows if is_mapped else np.array(rows[part])
    if sparse.exists():
        with _reading(sparse), open(sparse, "rb") as file:
            return scipy.sparse.load_npz(file)[part]
    with _reading(records), open(records, "rb") as file:
        found = pickle.load(file)
    return found[part] if isinstance(part, slice) else taken(found, part)


def write_arrays(path: Path, **arrays: npt.NDArray[Any]) -> int:
    """Write arrays under their names; return the bytes."""
    with replacing(path, "wb") as out:
        np.savez(out, **arrays)  # type: ignore[arg-type]
    return path.stat().st_size


def read_arrays(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """Read the arrays of these names."""
    # numpy would leave the file open if it is damaged.
    with _reading(path), open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
        return [found[name] for name in names]


def read_part(path: Path, starts: str, i: int, *names: str) -> tuple[int, list[npt.NDArray[Any]]]:
    """Read of the arrays of these names what belongs to ``i``, from ``starts[i]`` on, and nothing else of the file.

    Returns where that begins, and the parts.
    """
    # With a small buffer: the parts are, and each is at another place.
    with _reading(path), open(path, "rb", buffering=512) as file, zipfile.ZipFile(file) as archive:
        first, last = _read_range(archive, file, starts, i, 2).tolist()
        return first, [_read_range(archive, file, name, first, last - first) for name in names]


def _read_range(archive: zipfile.ZipFile, file: BinaryIO, name: str, first: int, count: int) -> npt.NDArray[Any]:
    """Read some of an array of one dimension, which is stored as it is, so that values are found by their place."""
    info = archive.getinfo(f"{name}.npy")
    file.seek(info.header_offset + 26)
    file.seek(sum(struct.unpack("<HH", file.read(4))), 1)  # the lengths of its name and of what else is there
    np.lib.format.read_magic(file)
    (length,), _, dtype = np.lib.format.read_array_header_1_0(file)
    if not 0 <= first <= first + count <= length:
        raise ValueError(f"{name} has no values from {first} to {first + count}")
    file.seek(first * dtype.itemsize, 1)
    return np.frombuffer(file.read(count * dtype.itemsize), dtype)
