"""Points and texts from files: arrays, tables, and the id-label-vector lists of this field's older tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._labels import is_missing
from grinch.io.arrays import read_npy, read_npz
from grinch.io.parquet import read_parquet
from grinch.io.points import Asked, FileError, Points, check_names, shown
from grinch.io.tables import STANDARD_INPUT, ending_of, read_rows, read_table

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


# What the column of a file is called that has only one.
LINES = "text"
TEXT_FORMATS = (".txt", ".csv", ".tsv", ".jsonl", ".parquet")


class Texts(NamedTuple):
    """Texts read from a file, and what the file says of each of them."""

    texts: list[str]
    ids: npt.NDArray[Any] | None
    labels: npt.NDArray[Any] | None
    kept: dict[str, list[Any]]
    """The texts and other columns that were asked for, by name."""


def is_lines(path: str | Path) -> bool:
    """Whether a file is a text per line."""
    return ending_of(Path(path)) == ".txt"


def read_texts(
    path: str | Path,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,
    keep: Sequence[str] = (),
) -> Texts:
    r"""Read the lines of a .txt, or the column ``text`` of a .csv, .tsv, .jsonl (gzipped or not) or .parquet.

    ``label``, ``id`` and ``keep`` name other columns; what is missing in one is an empty text, or None.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "news.csv"
    >>> _ = file.write_text("title,day\nRain,1\nSnow,2\n")
    >>> read_texts(file, "title", label="day").texts
    ['Rain', 'Snow']
    """
    path, asked = Path(path), Asked(label, id, (), tuple(keep))
    _check_file(path)
    rows = read_rows(path)
    if not rows:
        raise FileError(f"FILE {path.name!r} has no rows")
    if is_lines(path):
        if text is not None or asked.beside:
            option = "--text" if text is not None else "--label, --id and --payload"
            raise FileError(f"FILE {path.name!r} is a text per line and has no columns; leave {option} out")
        return Texts(rows, None, None, {LINES: rows})
    return _of_table(path, rows, text, asked)


def _check_file(path: Path) -> None:
    if path == STANDARD_INPUT:
        return
    if not path.exists():
        raise FileError(f"FILE {str(path)!r} does not exist")
    if path.is_dir() or ending_of(path) not in TEXT_FORMATS:
        raise FileError(f"FILE must be texts in a file that ends in {', '.join(TEXT_FORMATS)}; got {path.name!r}")


def _of_table(path: Path, rows: list[Any], text: str | None, asked: Asked) -> Texts:
    odd = next((i for i, row in enumerate(rows) if not isinstance(row, dict)), None)
    if odd is not None:
        raise FileError(f"FILE {path.name!r} must have an object in each line; row {odd + 1:,} is {shown(rows[odd])}")
    # Lines of JSON need not have the same fields.
    names = list(dict.fromkeys(name for row in rows for name in row))
    if text is None:
        raise FileError(f"--text must name the column of FILE with the texts; it has {', '.join(map(shown, names))}")
    check_names(names, Asked(keep=(text,), keep_option="--text"))
    check_names(names, asked)
    columns = {name: [_cell(row.get(name)) for row in rows] for name in dict.fromkeys((text, *asked.beside))}
    texts = ["" if value is None else value if isinstance(value, str) else str(value) for value in columns[text]]
    ids, labels = (None if name is None else _object_array(columns[name]) for name in (asked.id, asked.label))
    _check_ids(ids, asked.id)
    return Texts(texts, ids, labels, {text: texts, **{name: columns[name] for name in asked.keep}})


def _cell(value: Any) -> Any:
    """None for what is missing, as an empty cell is."""
    return None if value == "" or is_missing(value) else value


def _check_ids(ids: npt.NDArray[Any] | None, name: str | None) -> None:
    for row, value in enumerate(() if ids is None else ids.tolist(), 1):
        if value is None:
            raise FileError(f"--id {name} must have an id in each row; row {row:,} has none")


def _object_array(values: list[Any]) -> npt.NDArray[Any]:
    found = np.empty(len(values), object)
    found[:] = values
    return found
