"""A change that touches several branches is written down before it is made, and finished by whoever opens the store."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from grinch.files.write import replacing
from grinch.sharded.store.steps import Insert, Points, Remove, Step, Update
from grinch.store import DamagedStore, disk

FILE = "journal.npz"


def write(folder: Path, steps: Sequence[Step]) -> None:
    """Write steps down; they are on disk when this returns."""
    arrays: dict[str, Any] = {}
    about = [_described(i, step, arrays) for i, step in enumerate(steps)]
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with replacing(folder / FILE, "wb") as out:
        np.savez(out, **arrays)


def _described(i: int, step: Step, arrays: dict[str, Any]) -> dict[str, Any]:
    """A step as JSON; its arrays are filed by its number."""
    about: dict[str, Any] = {"kind": type(step).__name__, "branch": step.branch}
    if isinstance(step, Remove):
        return {**about, "names": step.names}
    if isinstance(step, Update):
        if step.rows is not None:
            arrays |= _rows_as_arrays(i, step.rows)
        return {**about, "names": step.names, "payload": step.payload}
    arrays |= {**_rows_as_arrays(i, step.points.rows), f"numbers{i}": step.points.numbers}
    return {**about, "names": step.points.names, "payload": step.points.payload, "columns": step.columns}


def read(folder: Path) -> list[Step]:
    """The steps of a change that was not finished; none if there is nothing to finish."""
    path = folder / FILE
    if not path.exists():
        return []
    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            return [_step(i, one, arrays) for i, one in enumerate(about)]
    except (ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise DamagedStore(f"{path} is damaged: {error!r}. Restore the sharded store from a backup") from None


def _step(i: int, about: dict[str, Any], arrays: Any) -> Step:
    branch, names = about["branch"], about["names"]
    rows = _rows_of(i, arrays)
    if about["kind"] == "Remove":
        return Remove(branch, names)
    if about["kind"] == "Update":
        return Update(branch, names, rows, about["payload"])
    if about["kind"] != "Insert" or rows is None:
        raise ValueError(f"step {i} is {about['kind']!r:.40}")
    return Insert(branch, Points(rows, names, about["payload"], arrays[f"numbers{i}"]), about["columns"])


def _rows_as_arrays(i: int, rows: Any) -> dict[str, Any]:
    if not scipy.sparse.issparse(rows):
        return {f"rows{i}": rows}
    parts = {"columns": rows.indices, "ends": rows.indptr, "width": np.array(rows.shape[1])}
    return {f"rows{i}": rows.data, **{f"{name}{i}": part for name, part in parts.items()}}


def _rows_of(i: int, arrays: Any) -> Any:
    """The rows of a step, dense or CSR; None if it has none."""
    rows = arrays.get(f"rows{i}")
    if f"ends{i}" not in arrays:
        return rows
    columns, ends, width = (arrays[f"{name}{i}"] for name in ("columns", "ends", "width"))
    return scipy.sparse.csr_matrix((rows, columns, ends), shape=(len(ends) - 1, int(width)))


def remove(folder: Path) -> None:
    """The change is made. It must not be found again after a power cut, when later changes were made, too."""
    with suppress(FileNotFoundError):
        (folder / FILE).unlink()
        disk.sync_folder(folder)
