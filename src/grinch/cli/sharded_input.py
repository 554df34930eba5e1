"""What many workers are to read, without reading it: the features, and columns beside them if they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch.errors import missing_extra
from grinch.io.inputs import SUFFIXES, found_paths, open_rows
from grinch.io.parquet import choose_columns
from grinch.io.points import Asked, FileError, check_names
from grinch.io.read import read_points
from grinch.io.rows import Pieces, Rows, open_parquet

# Names of features that are shown.
MOST_SHOWN = 4


class HeldRows(NamedTuple):
    """A sparse matrix in memory, as rows are looked at here; a run writes it to its folder."""

    matrix: Any
    stamp: str = ""

    @property
    def n_rows(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def pieces(self) -> Pieces:
        return [(0, self.n_rows)]

    def read(self, piece: int) -> Any:
        return self.matrix

    def take(self, rows: npt.NDArray[np.int64]) -> Any:
        return self.matrix[rows]


class Input(NamedTuple):
    """What workers are given, its rows, the columns that they are in, and what is known of each point beside them."""

    given: Any
    rows: Rows
    columns: list[str] | str | None
    ids: npt.NDArray[Any] | None = None
    labels: npt.NDArray[Any] | None = None
    kept: dict[str, list[Any]] = {}  # noqa: RUF012 (nobody writes to it)

    def shown(self) -> str:
        """What the features are called, if they have names."""
        names = self.columns
        if names is None or isinstance(names, str):
            return "" if names is None else f" (the lists of column {names})"
        shown = names if len(names) <= MOST_SHOWN else [*names[: MOST_SHOWN - 1], "…", names[-1]]
        return f" ({', '.join(shown)})"


def find_input(file: Path, columns: str | None, asked: Asked) -> Input:
    """The rows of a .npy or Parquet file, or of all in a folder or a glob, or of a sparse matrix (.npz).

    Of the rows only the heads of files are read, and of the columns beside them those that are asked for; a sparse
    matrix is read whole.
    """
    if file.suffix.lower() == ".npz" and file.is_file():
        return _sparse_input(file, columns, asked)
    paths = _paths(file)
    if paths[0].suffix.lower() != ".parquet":
        _refuse_columns(paths[0], columns, asked)
        return Input(file, open_rows(file, "."), None)
    chosen = _features(paths[0], columns, asked)
    rows = open_rows(file, ".", columns=chosen)
    ids, labels = (None if name is None else _column(paths, name) for name in (asked.id, asked.label))
    return Input(file, rows, chosen, ids, labels, {name: _values(paths, name).to_pylist() for name in asked.keep})


def _sparse_input(file: Path, columns: str | None, asked: Asked) -> Input:
    points = read_points(file, asked.label, asked.id, asked.drop, asked.keep)
    if not scipy.sparse.issparse(points.vectors):
        raise FileError(
            f"FILE {file.name!r} holds a dense matrix, which --workers and --dask read from .npy or Parquet: save it"
            " with numpy.save, or cluster it in one process: leave --workers and --dask out"
        )
    if columns is not None:
        raise FileError(f"--columns names columns, and FILE {file.name!r} has none; Parquet files have")
    return Input(points.vectors, HeldRows(points.vectors), None, points.ids, points.labels, points.kept)


def _paths(file: Path) -> list[Path]:
    paths = found_paths(file)
    if not paths[0].exists() and str(paths[0]) != "-":
        raise FileError(f"FILE {str(file)!r} does not exist")
    if any(path.suffix.lower() not in SUFFIXES for path in paths):
        raise FileError(
            "FILE must be .npy or Parquet with --workers and --dask (one, a folder of them, or a glob in quotes), which"
            f" workers read in parts, or a sparse matrix in .npz; got {str(file)!r}. Save it as Parquet, or"
            " cluster it in one process: leave --workers and --dask out"
        )
    return paths


def _refuse_columns(path: Path, columns: str | None, asked: Asked) -> None:
    options = {"--columns": columns, "--label": asked.label, "--id": asked.id, asked.keep_option: asked.keep}
    for option, value in {**options, "--drop": asked.drop}.items():
        if value:
            raise FileError(f"{option} names columns, and FILE {path.name!r} has none; Parquet files have")


def _features(path: Path, columns: str | None, asked: Asked) -> list[str] | str:
    """Those of --columns, or all of numbers (or the only one of lists) that are nothing else."""
    import pyarrow

    try:
        with open_parquet(str(path)) as file:
            schema = file.schema_arrow
    except ImportError:
        raise
    # Whatever a damaged file makes the reader raise, it is the file that is to blame.
    except Exception as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise FileError(f"FILE {str(path)!r} cannot be read as .parquet (truncated or damaged?): {why}") from error
    check_names(schema.names, asked)
    if columns is not None:
        names = [columns] if columns in schema.names else [name.strip() for name in columns.split(",")]
        found = choose_columns(schema, names, str(path))
    else:
        beside = {*asked.beside, *asked.drop}
        left = pyarrow.schema([field for field in schema if field.name not in beside])
        found = choose_columns(left, None, str(path))
    return found.names[0] if found.is_list else list(found.names)


def _column(paths: list[Path], name: str) -> npt.NDArray[Any]:
    return np.asarray(_values(paths, name).to_numpy())


def _values(paths: list[Path], name: str) -> Any:
    """One column of all files, in their order; nothing else of them is read."""
    try:
        import pyarrow
    except ImportError:
        raise missing_extra("reading .parquet", "pyarrow", "parquet") from None
    chunks: list[Any] = []
    for path in paths:
        with open_parquet(str(path)) as file:
            if name not in file.schema_arrow.names:
                raise FileError(f"FILE must be files with the same columns; {str(path)!r} has no column {name!r}")
            chunks += file.read([name]).column(name).chunks
    return pyarrow.chunked_array(chunks)
