"""Tables of text: .csv, .tsv and .jsonl, plain or gzipped, or a .csv from the standard input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import shlex
import sys
from array import array
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, cast

import numpy as np
import numpy.typing as npt

from grinch.errors import missing_extra
from grinch.io.points import Asked, Bounded, FileError, Points, choose_features, shown

STANDARD_INPUT = Path("-")

# A line number and the cells of a row that ends there.
NumberedRow = tuple[int, list[str]]


class Columns(NamedTuple):
    """The names of all columns, which of them are no features, and whether the first line holds the names."""

    names: list[str]
    asked: Asked
    has_header: bool


def read_table(path: Path, delimiter: str, asked: Asked) -> Points:
    """The points of a table, one a row, as float64."""
    with open_text(path) as text:
        reader = csv.reader(text, delimiter=delimiter)
        try:
            return _read_rows(((reader.line_num, cells) for cells in reader), path.name, asked)
        except csv.Error as error:
            raise FileError(f"line {reader.line_num:,} cannot be read: {error}; is a quote not closed?") from error
        except UnicodeDecodeError as error:
            raise not_utf8(f"FILE {path.name!r}", path, error, f"after line {reader.line_num:,}") from None


def not_utf8(what: str, path: Path, error: UnicodeDecodeError, where: str = "") -> FileError:
    """A file in another encoding, and the command that converts it."""
    guess = "UTF-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "LATIN1"
    name = path.name.removesuffix(".gz")
    into = f"{Path(name).stem}-utf8{Path(name).suffix}"
    command = f"iconv -f {guess} -t UTF-8" + ("" if path == STANDARD_INPUT else f" {shlex.quote(name)} > {into}")
    place = f"{where}, " if where else ""
    return FileError(
        f"{what} must be text in UTF-8, which was tried: {place}byte 0x{error.object[error.start]:02x} is none"
        f" ({error.reason}). If it is {guess}, convert it: {command}"
    )


@contextmanager
def open_text(path: Path) -> Iterator[TextIO]:
    """A file of text, gzipped or not, or the standard input."""
    if path == STANDARD_INPUT:
        text = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
        try:
            yield text
        finally:
            text.detach()  # the stream is not ours to close
    elif path.suffix == ".gz":
        with gzip.open(path) as unpacked:
            bounded = io.BufferedReader(Bounded(path.name, cast(BinaryIO, unpacked)))
            yield io.TextIOWrapper(bounded, encoding="utf-8-sig", newline="")
    else:
        with open(path, encoding="utf-8-sig", newline="") as text:
            yield text


def _read_rows(rows: Iterator[NumberedRow], name: str, asked: Asked) -> Points:
    first = next(rows, (0, []))
    columns = _columns(name, first[1], asked)
    asked, features = columns.asked, choose_features(columns.names, columns.asked)
    place = {column: i for i, column in enumerate(columns.names)}
    where = [place[column] for column in features]
    kept: dict[str, list[str]] = {column: [] for column in asked.beside}
    numbers = array("d")
    for line, cells in rows if columns.has_header else chain([first], rows):
        if not cells:
            continue  # an empty line
        if len(cells) != len(place):
            raise FileError(_wrong_length(line, len(cells), len(place)))
        values = [cells[i] for i in where]
        try:
            numbers.extend(_numbers(values))
        except ValueError:
            raise FileError(_not_a_number(features, values, line)) from None
        for column, texts in kept.items():
            texts.append(cells[place[column]])
    if not numbers:
        raise FileError(f"FILE {name!r} has a header and no rows")
    ids, labels = (kept.get(column) if column else None for column in (asked.id, asked.label))
    beside: dict[str, list[Any]] = {column: [text or None for text in kept[column]] for column in asked.keep}
    # np.frombuffer copies nothing.
    vectors = np.frombuffer(numbers).reshape(-1, len(features))
    names = features if columns.has_header else None
    return Points(vectors, _as_array(ids), _as_array(labels, missing=""), beside, names, is_text=True)


def _columns(name: str, first: list[str], asked: Asked) -> Columns:
    if not first:
        raise FileError(f"FILE {name!r} is empty, or its first line is")
    if first[0].lstrip()[:1] in ("{", "["):
        raise FileError(f"FILE {name!r} seems to be JSON; a table of rows and columns is expected")
    if len(first) == 1 and ";" in first[0]:
        raise FileError(f"FILE {name!r} seems to be separated by ';'; .csv is read by ',' and .tsv by tabs")
    if all(map(_is_number, first)):
        return Columns([str(i) for i in range(len(first))], asked, False)
    if len(first) > 2 and all(map(_is_number, first[2:])) and not (asked.beside or asked.drop):
        # The list of id, label, vector that PERCH and the authors' code read.
        return Columns(["id", "label", *map(str, range(len(first) - 2))], Asked("label", "id"), False)
    twice, times = Counter(first).most_common(1)[0]
    if times > 1:
        raise FileError(f"FILE {name!r} has more than one column {shown(twice)}; rename or delete all but one")
    return Columns(first, asked, True)


def _numbers(texts: list[str]) -> Iterator[float]:
    """As Python reads them, but for the underscores of 1_000, which are more often those of an id."""
    if "_" in "".join(texts):
        raise ValueError("an underscore")
    return map(float, texts)


def _is_number(text: str) -> bool:
    try:
        next(_numbers([text]))
    except ValueError:
        return False
    return True


def _as_array(texts: list[str] | None, missing: str | None = None) -> npt.NDArray[Any] | None:
    """An array of strings, each as long as it is; None for those that are ``missing``."""
    if texts is None:
        return None
    return np.array([None if text == missing else text for text in texts], dtype=object)


def _wrong_length(line: int, there: int, expected: int) -> str:
    why = "truncated?" if there < expected else "a separator in a cell without quotes?"
    return f"line {line:,} must have {expected:,} cells like the first line; it has {there:,} ({why})"


def _not_a_number(features: list[str], values: list[str], line: int) -> str:
    column, value = next(pair for pair in zip(features, values, strict=True) if not _is_number(pair[1]))
    named = shown(column).strip("'\"")
    if value == "":
        return (
            f"column {shown(column)} has no value in line {line:,}; fill it in, or leave the column out: --drop {named}"
        )
    return (
        f"column {shown(column)} must be numeric, but line {line:,} holds {shown(value)}."
        f" If it is no feature, say what it is: --label {named}, --id {named} or --drop {named}"
        f" (kept beside: --payload {named}; a text to cluster by: --text {named})"
    )


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
