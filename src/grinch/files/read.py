"""Reading points from files: arrays, tables, and the id-label-vector lists of this field's older tools."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from grinch.files.arrays import read_npy, read_npz
from grinch.files.parquet import read_parquet
from grinch.files.points import Asked, FileError, Points
from grinch.files.tables import STANDARD_INPUT, read_table

__all__ = ["FORMATS", "FileError", "Points", "read_points"]

FORMATS = (".npy", ".npz", ".csv", ".tsv", ".parquet")
TABLES = {".csv": ",", ".tsv": "\t"}


def read_points(
    path: str | Path,
    label: str | None = None,
    id: str | None = None,
    drop: Iterable[str] = (),
    keep: Iterable[str] = (),
    keep_option: str = "--payload",
) -> Points:
    """Read the points of a .npy, .npz, .csv, .tsv or .parquet file (.csv and .tsv also gzipped).

    ``label``, ``id``, ``drop`` and ``keep`` name columns (in an .npz, arrays); every other column is a feature. A table
    without a header is all numbers, or ``id, label, numbers …``. The path ``-`` is a .csv from the standard input.
    ``keep_option`` is what an error calls ``keep``.
    """
    path = Path(path)
    suffix, asked = _format(path), Asked(label, id, tuple(drop), tuple(keep), keep_option)
    try:
        if suffix == ".npy":
            return read_npy(path, asked)
        if suffix == ".npz":
            return read_npz(path, asked)
        if suffix == ".parquet":
            return read_parquet(path, asked)
        return read_table(path, TABLES[suffix], asked)
    except (FileError, ImportError):
        raise
    # Whatever a damaged file makes the reader of its format raise, it is the file that is to blame.
    except Exception as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise FileError(f"FILE {str(path)!r} cannot be read as {suffix} (truncated or damaged?): {why}") from error


def _format(path: Path) -> str:
    """The format that a file's name promises, if there is such a file."""
    if path == STANDARD_INPUT:
        return ".csv"
    if not path.exists():
        raise FileError(f"FILE {str(path)!r} does not exist")
    if path.is_dir():
        raise FileError(f"FILE {str(path)!r} is a folder; give a file ending in {', '.join(FORMATS)}")
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix not in FORMATS:
        raise FileError(f"FILE must end in {', '.join(FORMATS)}; got {path.name!r}")
    if path.suffix == ".gz" and suffix not in TABLES:
        raise FileError(f"FILE {path.name!r} is read only when it is unpacked; gzip is for .csv and .tsv")
    return suffix
