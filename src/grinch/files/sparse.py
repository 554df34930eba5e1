"""Points in sparse matrices: .npz files that ``scipy.sparse.save_npz`` wrote."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.files.points import FileError, shown
from grinch.files.sizes import check_unpacked_size

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
