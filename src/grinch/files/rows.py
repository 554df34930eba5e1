"""What is known of points beside their numbers: the rows of a table as they are."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, TextIO

from grinch.errors import missing_extra
from grinch.files.points import FileError
from grinch.files.tables import STANDARD_INPUT, not_utf8, open_text

DELIMITERS = {".csv": ",", ".tsv": "\t"}
# Cells may hold whole documents.
LONGEST_CELL = 2**27


def read_rows(path: str | Path) -> list[Any]:
    r"""The rows of a .csv or .tsv (with a header), a .jsonl, a .parquet, or the lines of a .txt; gzipped or not.

    The path ``-`` is a .csv from the standard input.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "news.csv"
    >>> _ = file.write_text("title,day\nRain,Monday\n")
    >>> read_rows(file)
    [{'title': 'Rain', 'day': 'Monday'}]
    """
    path = Path(path)
    ending = ending_of(path)
    if not path.is_file() and path != STANDARD_INPUT:
        raise FileError(f"the table {str(path)!r} does not exist")
    if ending not in (*DELIMITERS, ".txt", ".jsonl", ".parquet"):
        raise FileError(f"the table {str(path)!r} must be a .csv, .tsv, .parquet, .jsonl or .txt file")
    try:
        return _parquet_rows(path) if ending == ".parquet" else _text_rows(path, ending)
    except (FileError, ImportError):
        raise
    except UnicodeDecodeError as error:
        what = "the file" if ending == ".txt" else "the table"
        raise not_utf8(f"{what} {str(path)!r}", path, error) from None
    # Whatever a damaged file makes the reader of its format raise, it is the file that is to blame.
    except Exception as error:
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise FileError(f"the table {str(path)!r} cannot be read as {ending} (truncated or damaged?): {why}") from error


def ending_of(path: Path) -> str:
    """The format that a name promises: ``.csv`` for ``news.csv.gz``, and for the standard input."""
    return ".csv" if path == STANDARD_INPUT else Path(path.name.removesuffix(".gz")).suffix.lower()


def _parquet_rows(path: Path) -> list[Any]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("reading .parquet", "pyarrow", "parquet") from None
    found: list[Any] = pyarrow.parquet.read_table(path).to_pylist()
    return found


def _text_rows(path: Path, ending: str) -> list[Any]:
    with open_text(path) as lines:
        if ending == ".txt":
            return [line.rstrip("\r\n") for line in lines]
        if ending == ".jsonl":
            return _json_rows(lines, path)
        limit = csv.field_size_limit(LONGEST_CELL)
        try:
            return _table_rows(csv.DictReader(lines, delimiter=DELIMITERS[ending], restkey=""), path)
        finally:
            csv.field_size_limit(limit)  # it is that of the whole process


def _json_rows(lines: TextIO, path: Path) -> list[Any]:
    found: list[Any] = []
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise FileError(f"the table {str(path)!r} must have JSON in each line; line {number:,}: {error}") from None
    return found


def _table_rows(reader: csv.DictReader[str], path: Path) -> list[Any]:
    names = [name for name in reader.fieldnames or () if name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise FileError(f"the table {str(path)!r} has more than one column {twice!r}; rename or delete all but one")
    return [{name: row[name] for name in names} for row in reader]
