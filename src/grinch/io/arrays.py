"""Points in numpy's files, .npy and .npz. Headers are checked before a byte of the data is read; nothing is pickled."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from grinch.io.points import MOST_NAMES, Asked, FileError, Points, check_names, check_unpacked_size, shown

# The third version is for records with field names beyond Latin-1: no matrix has one.
HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


# The arrays that scipy keeps sparse matrices in, whatever their format.
SPARSE_ARRAYS = {"format", "shape", "data", "indices", "indptr", "row", "col", "offsets", "_is_array"}


class Header(NamedTuple):
    """Shape and type of an array, from its header, and whether numbers of a column lie side by side."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_column: bool = False


def read_npy(path: Path, asked: Asked) -> Points:
    """Read the matrix of an .npy file, left on disk until it is used."""
    if asked.beside:
        raise FileError(
            f"FILE {path.name!r} is a single array and has no columns; --label and --id need .npz or a table"
        )
    with open(path, "rb") as file:
        header = read_header(f"FILE {path.name!r}", file, path.stat().st_size)
    check_matrix(f"FILE {path.name!r}", header)
    return Points(np.load(path, mmap_mode="r", allow_pickle=False), None, None)


def read_npz(path: Path, asked: Asked) -> Points:
    """Read the points of an .npz file and their names and classes; other arrays in it are not touched."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        check_names(names, asked._replace(drop=()))
        if asked.label is None and "y" in names:
            asked = asked._replace(label="y")
        is_sparse = "X" not in names and all(name in names for name in ("format", "shape", "data"))
        others = [name for name in names if name not in asked.beside]
        read = SPARSE_ARRAYS & set(names) if is_sparse else {_find_points(archive, path.name, others)}
        headers = {name: _member_header(archive, name) for name in {*read, *asked.beside}}
        check_unpacked_size(path.name, sum(archive.getinfo(f"{name}.npy").file_size for name in headers))
        beside = {name: _member(archive, name) for name in asked.beside}
        if is_sparse:
            vectors = _read_sparse(path)
        else:
            main = _member(archive, *read)
            vectors = main.reshape(len(main), -1)
    for name in beside:
        check_list(name, headers[name], vectors.shape[0])
    ids, labels = (beside[name] if name else None for name in (asked.id, asked.label))
    return Points(vectors, ids, labels, {name: beside[name].tolist() for name in asked.keep})


def _read_sparse(path: Path) -> Any:
    """Read a matrix that ``scipy.sparse.save_npz`` wrote, as CSR; no index in it is out of range."""
    import scipy.sparse  # late: most files have none

    matrix = scipy.sparse.load_npz(path)
    check_matrix(f"FILE {path.name!r}", Header(matrix.shape, matrix.dtype))
    # As CSR, there is a number for each row, also for those that are empty.
    check_unpacked_size(path.name, 8 * (matrix.shape[0] + 1))
    if matrix.format in ("csr", "csc", "bsr"):
        # Compiled code would write past the end of an array for an index that is out of range.
        matrix.check_format(full_check=True)
    return matrix.tocsr()


def read_header(what: str, file: IO[bytes], size: int) -> Header:
    """Return the header of an array in a file of ``size`` bytes, if they can hold it; errors begin with ``what``."""
    if file.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
        raise FileError(f"{what} is no array of numpy; save one with numpy.save")
    version = (file.read(1) + file.read(1)).ljust(2, b"\0")
    reader = HEADER_READERS.get((version[0], version[1]))
    if reader is None:
        raise FileError(f"{what} must be .npy version 1.0 or 2.0; got {version[0]}.{version[1]}")
    shape, by_column, dtype = reader(file)
    if any(type(length) is not int or length < 0 for length in shape):
        raise FileError(f"{what} must have a shape of whole numbers from 0 on; its header says {str(shape)[:60]}")
    if dtype.hasobject:
        raise FileError(f"{what} holds Python objects, which are not read; save numbers or text")
    needed, there = math.prod(shape) * dtype.itemsize, size - file.tell()
    if needed > there:
        raise FileError(
            f"{what} must hold {needed:,} bytes of data for shape {shape}; it has {there:,} (truncated or damaged?)"
        )
    return Header(shape, dtype, by_column)


def check_matrix(what: str, header: Header) -> None:
    """Refuse what is no matrix of numbers, points x features."""
    if len(header.shape) != 2 or 0 in header.shape:
        raise FileError(f"{what} must hold a matrix (points x features); got shape {header.shape}")
    if header.dtype.kind not in "fiub":
        raise FileError(f"{what} must hold real numbers; got {header.dtype}")


def check_list(name: str, header: Header, n: int) -> None:
    """Refuse an array without one entry for each point."""
    if len(header.shape) != 1 or header.shape[0] != n:
        raise FileError(f"array {name!r} must have one entry for each of the {n} points; got shape {header.shape}")


def _find_points(archive: zipfile.ZipFile, file_name: str, names: list[str]) -> str:
    """Return the name of the points: ``X``, or the only matrix; of images, which are rows of pixels, only ``X``."""
    matrices = ["X"] if "X" in names else [name for name in names if _is_matrix(archive, name)]
    if len(matrices) != 1:
        there = ", ".join(map(shown, names[:MOST_NAMES])) or "no array"
        raise FileError(f"FILE {file_name!r} must hold the points as array 'X'; it has {there}")
    shape, dtype, _ = _member_header(archive, matrices[0])
    pixels = (shape[0], math.prod(shape[1:])) if len(shape) > 2 else shape
    check_matrix(f"array {matrices[0]!r}", Header(pixels, dtype))
    return matrices[0]


def _is_matrix(archive: zipfile.ZipFile, name: str) -> bool:
    try:
        return len(_member_header(archive, name).shape) == 2
    except ValueError:
        return False  # not ours to read


def _member_header(archive: zipfile.ZipFile, name: str) -> Header:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file:
        return read_header(f"FILE '{Path(archive.filename or '').name}: {name}'", file, info.file_size)


def _member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    with archive.open(f"{name}.npy") as file:
        return np.asarray(npy.read_array(file, allow_pickle=False))
