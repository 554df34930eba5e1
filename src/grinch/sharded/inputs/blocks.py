"""Arrays and frames of dask: each block is written by the worker that has it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from grinch.errors import ShardError, cause_of
from grinch.estimators.checks import check_values
from grinch.files.digests import digest
from grinch.files.points import FileError
from grinch.files.write import replacing
from grinch.sharded.inputs.arrays import ArrayRows, is_written, written_file
from grinch.sharded.inputs.frames import frame_columns, frame_matrix, is_frame
from grinch.sharded.inputs.memory import write_header
from grinch.sharded.inputs.rows import float_type

if TYPE_CHECKING:
    from grinch.sharded.running import Workers

STAGE = "input"


def is_dask(X: Any) -> bool:
    """Whether it is a collection of dask."""
    return hasattr(X, "__dask_graph__")


def dask_rows(X: Any, folder: Path, columns: Sequence[str] | str | None, workers: Workers | None) -> ArrayRows:
    """The rows of the blocks in order. A block that is on disk from an earlier run is not computed again."""
    from dask.base import tokenize

    blocks = _delayed_blocks(X, columns)
    stamp = digest(tokenize(X, columns))
    place = folder / stamp
    place.mkdir(exist_ok=True)
    paths = [place / f"block-{number:05d}.npy" for number in range(len(blocks))]
    missing = {path: block for path, block in zip(paths, blocks, strict=True) if not is_written(path)}
    if missing:
        _write_all(missing, columns, workers, folder)
    return _joined(paths, stamp)


def _delayed_blocks(X: Any, columns: Any) -> list[Any]:
    """One for each range of rows, however many those are."""
    if hasattr(X, "chunks") and getattr(X, "ndim", 0) == 2:
        if columns is not None:
            raise ValueError("columns are of Parquet files and data frames; X is a dask array and has none")
        whole_rows = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
        return list(whole_rows.to_delayed().ravel())
    if hasattr(X, "npartitions") and hasattr(X, "columns"):
        return list(X.to_delayed())
    raise ValueError(
        f"X must be a dask array with two dimensions, or a dask dataframe; got {type(X).__name__}"
        f" with {getattr(X, 'ndim', 'no')} dimensions"
    )


def _write_all(missing: dict[Path, Any], columns: Any, workers: Workers | None, folder: Path) -> None:
    import dask

    run = secrets.token_hex(4)
    write = dask.delayed(write_block, pure=False)
    # Together, so that what blocks have in common is computed once.
    tasks = {
        path: write(block, str(path), columns, dask_key_name=f"{STAGE}-{path.stem}-{run}")
        for path, block in missing.items()
    }
    if workers is None:
        dask.compute(*tasks.values())
        return
    futures = dict(zip(workers.client.compute(list(tasks.values())), tasks, strict=True))
    try:
        _wait(futures, folder)
    finally:
        workers.client.cancel(list(futures))


def _wait(futures: dict[Any, Path], folder: Path) -> None:
    from distributed import as_completed

    for future in as_completed(futures):
        try:
            future.result()
        except Exception as error:
            raise ShardError(STAGE, futures[future].stem, cause_of(error), str(folder)) from error


def write_block(block: Any, path: str, columns: Any) -> int:
    """Write the rows of a block as .npy, when they are known to be finite; the value is their number."""
    if is_frame(block):
        rows = frame_matrix(block, frame_columns(block, columns)) if len(block) else np.empty((0, 0), np.float32)
    else:
        rows = block.toarray() if scipy.sparse.issparse(block) else np.asarray(block)
    rows = np.ascontiguousarray(rows, dtype=float_type(rows.dtype))
    check_values(rows, 0, f" of {Path(path).stem}")
    with replacing(path, "wb") as file:
        write_header(file, rows.shape, rows.dtype)
        file.write(rows.data if rows.size else b"")
    return len(rows)


def _joined(paths: Sequence[Path], stamp: str) -> ArrayRows:
    """The blocks that have rows; all must be equally wide."""
    found = [(path, *written_file(path)) for path in paths]
    full = [(path, file, width) for path, file, width in found if file.n_rows]
    if not full:
        raise ValueError(f"X must have at least one row; all of its {len(paths)} blocks are empty")
    first, _, n_features = full[0]
    for path, _, width in full:
        if width != n_features:
            raise FileError(
                f"X must be equally wide everywhere; {path.stem} has {width} columns, and {first.stem} {n_features}"
            )
    return ArrayRows(tuple(file for _, file, _ in full), n_features, stamp, checked=True)
