"""Points in numpy's files, .npy and .npz. Headers are checked before a byte of the data is read; nothing is pickled."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from grinch.io.points import MOST_NAMES, Asked, FileError, Points, check_names, check_unpacked_size, shown

# The third version is for records with field names beyond Latin-1: no matrix has one.
HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class Header(NamedTuple):
    """What an array says of itself."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def read_npy(path: Path, asked: Asked) -> Points:
    """The matrix of an .npy file, left on disk until it is used."""
    if asked.beside:
        raise FileError(
            f"FILE {path.name!r} is a single array and has no columns; --label and --id need .npz or a table"
        )
    with open(path, "rb") as file:
        header = read_header(path.name, file, path.stat().st_size)
    check_matrix(f"FILE {path.name!r}", header)
    return Points(np.load(path, mmap_mode="r", allow_pickle=False), None, None)


def read_npz(path: Path, asked: Asked) -> Points:
    """The points of an .npz file and their names and classes; other arrays in it are not touched."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        check_names(names, asked._replace(drop=()))
        if is_sparse_archive(names) and "X" not in names:
            return _read_sparse(archive, path.name, names, asked)
        main = _find_points(archive, path.name, [name for name in names if name not in asked.beside])
        if asked.label is None and "y" in names:
            asked = asked._replace(label="y")
        n = _member_header(archive, main).shape[0]
        arrays = _members(archive, path.name, {main, *asked.beside})
    return _with_lists(arrays[main].reshape(n, -1), arrays, asked)


def _read_sparse(archive: zipfile.ZipFile, file_name: str, names: list[str], asked: Asked) -> Points:
    """A sparse matrix of scipy's, which stays one, and arrays that were saved with it."""
    if asked.label is None and "y" in names:
        asked = asked._replace(label="y")
    arrays = _members(archive, file_name, {*arrays_of(names), *asked.beside})
    matrix = sparse_matrix(file_name, {name: arrays[name] for name in arrays_of(names)})
    return _with_lists(matrix, arrays, asked)


def _members(archive: zipfile.ZipFile, file_name: str, names: set[str]) -> dict[str, npt.NDArray[Any]]:
    for name in names:
        _member_header(archive, name)
    check_unpacked_size(file_name, sum(archive.getinfo(f"{name}.npy").file_size for name in names))
    return {name: _member(archive, name) for name in names}


def _with_lists(vectors: Any, arrays: dict[str, npt.NDArray[Any]], asked: Asked) -> Points:
    for name in asked.beside:
        check_list(name, Header(arrays[name].shape, arrays[name].dtype), vectors.shape[0])
    ids, labels = (arrays[name] if name else None for name in (asked.id, asked.label))
    return Points(vectors, ids, labels, {name: arrays[name].tolist() for name in asked.keep})


def read_header(name: str, file: IO[bytes], size: int) -> Header:
    """The shape and type of the array that ``file`` holds in ``size`` bytes, if there can be one in so few."""
    if file.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
        raise FileError(f"FILE {name!r} is no array of numpy; save one with numpy.save")
    version = (file.read(1) + file.read(1)).ljust(2, b"\0")
    reader = HEADER_READERS.get((version[0], version[1]))
    if reader is None:
        raise FileError(f"FILE {name!r} must be .npy version 1.0 or 2.0; got {version[0]}.{version[1]}")
    shape, _, dtype = reader(file)
    if any(length < 0 for length in shape):
        raise FileError(f"FILE {name!r} must have a shape of whole numbers from 0 on; its header says {shape}")
    if dtype.hasobject:
        raise FileError(f"FILE {name!r} holds Python objects, which are not read; save numbers or text")
    needed, there = math.prod(shape) * dtype.itemsize, size - file.tell()
    if needed > there:
        raise FileError(
            f"FILE {name!r} must hold {needed:,} bytes of data for shape {shape}; it has {there:,}"
            " (truncated or damaged?)"
        )
    return Header(shape, dtype)


def check_matrix(what: str, header: Header) -> None:
    """Points x features, of numbers."""
    if len(header.shape) != 2 or 0 in header.shape:
        raise FileError(f"{what} must hold a matrix (points x features); got shape {header.shape}")
    if header.dtype.kind not in "fiub":
        raise FileError(f"{what} must hold real numbers; got {header.dtype}")


def check_list(name: str, header: Header, n: int) -> None:
    """One entry for each point."""
    if len(header.shape) != 1 or header.shape[0] != n:
        raise FileError(f"array {name!r} must have one entry for each of the {n} points; got shape {header.shape}")


def _find_points(archive: zipfile.ZipFile, file_name: str, names: list[str]) -> str:
    """``X``, or the only matrix there is; of images, which are rows of pixels, only ``X``."""
    matrices = ["X"] if "X" in names else [name for name in names if _is_matrix(archive, name)]
    if len(matrices) != 1:
        there = ", ".join(map(shown, names[:MOST_NAMES])) or "no array"
        raise FileError(f"FILE {file_name!r} must hold the points as array 'X'; it has {there}")
    shape, dtype = _member_header(archive, matrices[0])
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
        return read_header(f"{Path(archive.filename or '').name}: {name}", file, info.file_size)


def _member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    with archive.open(f"{name}.npy") as file:
        return np.asarray(npy.read_array(file, allow_pickle=False))


# The arrays of each format beside its data, shape and format.
ARRAYS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}
ALWAYS = ("format", "shape", "data")


def is_sparse_archive(names: Collection[str]) -> bool:
    """Whether arrays of these names are a sparse matrix."""
    return all(name in names for name in ALWAYS)


def arrays_of(names: Collection[str]) -> list[str]:
    """Those that the sparse matrix is in; others may stand beside it."""
    return [name for name in names if name in ALWAYS or any(name in arrays for arrays in ARRAYS.values())]


def sparse_matrix(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """The CSR matrix that the arrays of a file hold; no index in it is out of range."""
    kind = _format(arrays["format"])
    parts = [arrays[part] for part in ARRAYS.get(kind, ()) if part in arrays]
    if kind not in ARRAYS or len(parts) < len(ARRAYS[kind]):
        raise FileError(
            f"FILE {name!r} must hold a sparse matrix of the format {', '.join(ARRAYS)}, with all its arrays; got"
            f" {shown(kind)} with {', '.join(map(shown, arrays))}"
        )
    shape = _shape(name, arrays["shape"])
    data = arrays["data"]
    if data.dtype.kind not in "fiub":
        raise FileError(f"FILE {name!r} must hold real numbers; got {data.dtype}")
    # As CSR, there is a number for each row, also for those that are empty.
    check_unpacked_size(name, 8 * (shape[0] + 1))
    inside = (data, tuple(parts) if kind != "dia" else parts[0]) if kind in ("coo", "dia") else (data, *parts)
    import scipy.sparse  # late: most files have none

    matrix = getattr(scipy.sparse, f"{kind}_matrix")(inside, shape=shape)
    if kind in ("csr", "csc", "bsr"):
        # Compiled code would write past the end of an array for an index that is out of range.
        matrix.check_format(full_check=True)
    return matrix.tocsr()


def _format(value: npt.NDArray[Any]) -> str:
    kind = value.item() if value.size == 1 else ""
    return kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)


def _shape(name: str, value: npt.NDArray[Any]) -> tuple[int, int]:
    lengths = value.tolist() if value.shape == (2,) and value.dtype.kind in "iu" else []
    if not lengths or min(lengths) < 1 or math.prod(lengths) > np.iinfo(np.int64).max:
        raise FileError(f"FILE {name!r} must hold a matrix (points x features); its shape is {shown(value.tolist())}")
    return int(lengths[0]), int(lengths[1])
