"""Points in .parquet files: a column for each feature, or one column of lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.errors import missing_extra
from grinch.files.points import Asked, FileError, Points, choose_features, shown
from grinch.files.sizes import check_unpacked_size


def read_parquet(path: Path, asked: Asked) -> Points:
    """The points of a .parquet file; columns that are dropped are not read."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("reading .parquet", "pyarrow", "parquet") from None
    with pyarrow.parquet.ParquetFile(path) as file:
        features = choose_features(list(file.schema_arrow.names), asked)
        columns = [*features, *asked.beside]
        check_unpacked_size(path.name, file.metadata.num_rows * len(columns) * 8)
        table = file.read(columns)

    def column(name: str) -> npt.NDArray[Any]:
        return np.asarray(table.column(name).to_numpy())

    if table.num_rows == 0:
        raise FileError(f"FILE {path.name!r} has no rows")
    vectors = _vectors([column(name) for name in features], features)
    ids, labels = (column(name) if name else None for name in (asked.id, asked.label))
    kept = {name: table.column(name).to_pylist() for name in asked.keep}
    return Points(vectors, ids, labels, kept, features if vectors.shape[1] == len(features) else None)


def _vectors(columns: list[npt.NDArray[Any]], names: list[str]) -> npt.NDArray[Any]:
    first = columns[0]
    if len(columns) == 1 and first.dtype == object and isinstance(first[0], (list, np.ndarray)):
        # One column of lists: an embedding per row.
        return np.stack(first.tolist())
    for name, values in zip(names, columns, strict=True):
        if values.dtype.kind not in "fiub":
            raise FileError(
                f"column {shown(name)} must be numeric, but row 1 holds {shown(values[0])}."
                " If it is no feature, say so with --label, --id or --drop (kept beside: --payload; a text to cluster"
                " by: --text)"
            )
    return np.column_stack(columns)
