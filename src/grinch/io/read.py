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
from grinch.io.points import Asked, FileError, Points, blaming, check_file, check_names, shown
from grinch.io.tables import ROW_FORMATS, read_rows, read_table

__all__ = ["FORMATS", "FileError", "Points", "Texts", "read_points", "read_texts"]

READERS = {".npy": read_npy, ".npz": read_npz, ".csv": read_table, ".tsv": read_table, ".parquet": read_parquet}
FORMATS = tuple(READERS)
# The name of the column of a file that has only one.
LINES = "text"


def read_points(
    path: str | Path,
    label: str | None = None,
    id: str | None = None,
    drop: Iterable[str] = (),
    keep: Iterable[str] = (),
    keep_option: str = "--payload",
) -> Points:
    """Read the points of a .npy, .npz, .csv, .tsv or .parquet file (.csv and .tsv also packed by gzip or xz).

    ``label``, ``id``, ``drop`` and ``keep`` name columns (in an .npz, arrays); every other column is a feature. A table
    without a header is all numbers, or ``id, label, numbers …``. The path ``-`` is a .csv from the standard input.
    ``keep_option`` is the name of ``keep`` in errors.
    """
    path = Path(path)
    ending = check_file(path, FORMATS)
    with blaming(path, ending):
        return READERS[ending](path, Asked(label, id, tuple(drop), tuple(keep), keep_option))


class Texts(NamedTuple):
    """Texts read from a file, and what the file says of each of them."""

    texts: list[str]
    ids: npt.NDArray[Any] | None
    labels: npt.NDArray[Any] | None
    kept: dict[str, list[Any]]
    """The texts and other columns that were asked for, by name."""


def read_texts(
    path: str | Path, text: str | None = None, label: str | None = None, id: str | None = None, keep: Sequence[str] = ()
) -> Texts:
    r"""Read the lines of a .txt, or the column ``text`` of a .csv, .tsv, .jsonl (packed or not) or .parquet.

    ``label``, ``id`` and ``keep`` name other columns; what is missing in one is an empty text, or None.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "news.csv"
    >>> _ = file.write_text("title,day\nRain,1\nSnow,2\n")
    >>> read_texts(file, "title", label="day").texts
    ['Rain', 'Snow']
    """
    path, asked = Path(path), Asked(label, id, (), tuple(keep))
    ending = check_file(path, (".txt", *ROW_FORMATS))
    rows = read_rows(path)
    if not rows:
        raise FileError(f"FILE {path.name!r} has no rows")
    if ending != ".txt":
        return _of_table(rows, text, asked)
    if text is not None or asked.beside:
        option = "--text" if text is not None else "--label, --id and --payload"
        raise FileError(f"FILE {path.name!r} is a text per line and has no columns; leave {option} out")
    return Texts(rows, None, None, {LINES: rows})


def _of_table(rows: list[Any], text: str | None, asked: Asked) -> Texts:
    # Lines of JSON need not have the same fields.
    names = list(dict.fromkeys(name for row in rows for name in row))
    if text is None:
        raise FileError(f"--text must name the column of FILE with the texts; it has {', '.join(map(shown, names))}")
    check_names(names, Asked(keep=(text,), keep_option="--text"))
    check_names(names, asked)
    columns = {name: [_cell(row.get(name)) for row in rows] for name in dict.fromkeys((text, *asked.beside))}
    texts = ["" if value is None else value if isinstance(value, str) else str(value) for value in columns[text]]
    for row, value in enumerate(columns[asked.id] if asked.id else (), 1):
        if value is None:
            raise FileError(f"--id {asked.id} must have an id in each row; row {row:,} has none")
    ids, labels = (None if name is None else _object_array(columns[name]) for name in (asked.id, asked.label))
    return Texts(texts, ids, labels, {text: texts, **{name: columns[name] for name in asked.keep}})


def _cell(value: Any) -> Any:
    """Return None for a value that is missing, as for an empty cell."""
    return None if value == "" or is_missing(value) else value


def _object_array(values: list[Any]) -> npt.NDArray[Any]:
    found = np.empty(len(values), object)
    found[:] = values
    return found
