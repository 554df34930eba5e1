"""What makes rows of texts, in one file: settings in the header, terms and weights as arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._types import Floats
from grinch.errors import SavedModelError
from grinch.saving import container
from grinch.saving.json_values import json_bytes
from grinch.saving.state import array, item, scalar

KIND = "text vectors"
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
    arrays: container.Arrays = {
        "terms": json_bytes([saved.names[i] for i in known]),
        "columns": np.array(known, np.int64),
        "weights": saved.weights,
    }
    container.write(path, KIND, {"kind": saved.kind, "settings": saved.settings}, arrays)


def read_saved(path: str | Path) -> Saved:
    """Read a file that :func:`write_saved` wrote."""
    file = container.read(path, KIND)
    file.verify()
    with blaming(path):
        terms = json.loads(array(file.arrays, "terms", "|u1", 1).tobytes())
        columns, weights = array(file.arrays, "columns", "<i8", 1), array(file.arrays, "weights", "<f8", 1)
        _check_terms(terms, columns, len(weights))
        if len(weights) and not (weights.min() >= LEAST and weights.max() <= MOST):
            raise ValueError(f"weights must be from {LEAST} to {MOST}")
        names: list[str | None] = [None] * len(weights)
        for column, term in zip(columns.tolist(), terms, strict=True):
            names[column] = term
        return Saved(scalar(file.header, "kind", str), dict(item(file.header, "settings")), names, weights)


@contextmanager
def blaming(path: str | Path) -> Iterator[None]:
    """Whatever a damaged file makes the reader raise, it is the file that is to blame."""
    try:
        yield
    except Exception as error:
        what = f"{type(error).__name__} {error}" if isinstance(error, LookupError) else error
        raise SavedModelError(f"{path} is not what TextVectors.save wrote, or is damaged: {what}") from error


def _check_terms(terms: Any, columns: npt.NDArray[np.int64], n_columns: int) -> None:
    if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
        raise ValueError("terms must be a list of texts")
    if len(set(terms)) != len(terms):
        raise ValueError("no term may be there twice")
    if len(columns) != len(terms):
        raise ValueError(f"there are {len(columns):,} columns for {len(terms):,} terms")
    if len(columns) and not (columns[0] >= 0 and columns[-1] < n_columns and (columns[1:] > columns[:-1]).all()):
        raise ValueError(f"columns of terms must rise, from 0 to at most {n_columns - 1:,}")
