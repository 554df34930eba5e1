"""What makes rows of texts, in one file: settings as JSON, terms and weights as arrays. Nothing is pickled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from grinch._types import Floats
from grinch.errors import SavedModelError
from grinch.files.write import replacing

FORMAT = 1


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
    """Read a file that :func:`write_saved` wrote."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            about, terms = (json.loads(arrays[name].tobytes()) for name in ("about", "terms"))
            columns, weights = arrays["columns"], arrays["weights"]
        if about["format"] > FORMAT:
            raise SavedModelError(f"{path} was written by a later version of grinch; upgrade grinch")
        names: list[str | None] = [None] * about["n_columns"]
        for column, term in zip(columns.tolist(), terms, strict=True):
            names[column] = term
        if weights.shape != (len(names),) or weights.dtype != np.float64:
            raise ValueError(f"there are weights of shape {weights.shape} for {len(names):,} columns")
        return Saved(str(about["kind"]), dict(about["settings"]), names, weights)
    except (SavedModelError, FileNotFoundError):
        raise
    # Whatever a damaged file makes the reader raise, it is the file that is to blame.
    except Exception as error:
        raise SavedModelError(f"{path} is not what TextVectors.save wrote, or is damaged: {error}") from error


def _as_bytes(data: Any) -> Any:
    return np.frombuffer(json.dumps(data, allow_nan=False).encode("ascii"), np.uint8)
