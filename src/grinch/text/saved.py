"""What makes rows of texts, in one file: settings as JSON, terms and weights as arrays. Nothing is pickled."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._types import Floats
from grinch.errors import SavedModelError
from grinch.files.arrays import read_header
from grinch.files.sizes import check_unpacked_size
from grinch.files.write import replacing

FORMAT = 1
PARTS = {"about": np.uint8, "terms": np.uint8, "columns": np.int64, "weights": np.float64}
# Weights are squared.
LEAST, MOST = 1e-100, 1e100


class Saved(NamedTuple):
    """Of which kind it is, its settings, what its columns are called and what they weigh."""

    kind: str
    settings: dict[str, Any]
    names: list[str | None]
    weights: Floats


def write_saved(path: str | Path, saved: Saved) -> None:
    """Write a file, which takes the place of one of that name when all of it is on disk."""
    known = [i for i, name in enumerate(saved.names) if name is not None]
    about = {"format": FORMAT, "kind": saved.kind, "n_columns": len(saved.names), "settings": saved.settings}
    with replacing(path, "wb") as out:
        np.savez_compressed(
            out,
            about=_as_bytes(about),
            terms=_as_bytes([saved.names[i] for i in known]),
            columns=np.array(known, np.int64),
            weights=saved.weights,
        )


def read_saved(path: str | Path) -> Saved:
    """Read a file that :func:`write_saved` wrote. Sizes are compared before anything is unpacked."""
    with blaming(path), zipfile.ZipFile(path) as archive:
        n_weights = _check_headers(archive, Path(path).name)
        about, terms = (json.loads(_array(archive, name).tobytes()) for name in ("about", "terms"))
        if type(about["format"]) is not int or type(about["n_columns"]) is not int:
            raise ValueError("its format and its number of columns must be whole numbers")
        if about["format"] > FORMAT:
            raise SavedModelError(f"{path} was written by a later version of grinch; upgrade grinch")
        if about["n_columns"] != n_weights:
            raise ValueError(f"there are {n_weights:,} weights for {about['n_columns']:,} columns")
        columns, weights = _array(archive, "columns"), _array(archive, "weights")
        _check_terms(terms, columns, n_weights)
        if n_weights and not (weights.min() >= LEAST and weights.max() <= MOST):
            raise ValueError(f"weights must be from {LEAST} to {MOST}")
        names: list[str | None] = [None] * n_weights
        for column, term in zip(columns.tolist(), terms, strict=True):
            names[column] = term
        return Saved(str(about["kind"]), dict(about["settings"]), names, weights)


@contextmanager
def blaming(path: str | Path) -> Iterator[None]:
    """Whatever a damaged file makes the reader raise, it is the file that is to blame."""
    try:
        yield
    except (SavedModelError, FileNotFoundError):
        raise
    except Exception as error:
        what = f"{type(error).__name__} {error}" if isinstance(error, LookupError) else error
        raise SavedModelError(f"{path} is not what TextVectors.save wrote, or is damaged: {what}") from error


def _check_headers(archive: zipfile.ZipFile, name: str) -> int:
    """Arrays of one dimension, of their types, that fit in memory; how many weights there are."""
    size, n = 0, 0
    for part, dtype in PARTS.items():
        info = archive.getinfo(f"{part}.npy")
        with archive.open(info) as file:
            header = read_header(info.filename, file, info.file_size)
        if len(header.shape) != 1 or header.dtype != dtype:
            raise ValueError(f"{part} must be a list of {np.dtype(dtype)}; got {header.dtype} of shape {header.shape}")
        n, size = header.shape[0], size + info.file_size
    # A name for each of the weights, which are the last.
    check_unpacked_size(name, size + 8 * n)
    return n


def _array(archive: zipfile.ZipFile, part: str) -> npt.NDArray[Any]:
    with archive.open(f"{part}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _check_terms(terms: Any, columns: npt.NDArray[np.int64], n_columns: int) -> None:
    if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
        raise ValueError("terms must be a list of texts")
    if len(set(terms)) != len(terms):
        raise ValueError("no term may be there twice")
    if len(columns) != len(terms):
        raise ValueError(f"there are {len(columns):,} columns for {len(terms):,} terms")
    if len(columns) and not (columns[0] >= 0 and columns[-1] < n_columns and (columns[1:] > columns[:-1]).all()):
        raise ValueError(f"columns of terms must rise, from 0 to at most {n_columns - 1:,}")


def _as_bytes(data: Any) -> Any:
    return np.frombuffer(json.dumps(data, allow_nan=False).encode("ascii"), np.uint8)
