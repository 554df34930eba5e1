"""Tables, row by row or whole: .csv, .tsv, lines of JSON, Parquet; text also packed or from the standard input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import re
import shlex
import sys
from array import array
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, cast

import numpy as np
import numpy.typing as npt

from grinch.io.parquet import open_parquet
from grinch.io.points import (
    STANDARD_INPUT,
    Asked,
    Bounded,
    FileError,
    Points,
    blaming,
    check_file,
    choose_features,
    ending_of,
    shown,
)

DELIMITERS = {".csv": ",", ".tsv": "\t"}
ROW_FORMATS = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet")
# Characters of a cell or a line, which may hold a whole document: csv alone stops at 131,072.
LONGEST_LINE = 2**24
# Bytes that are not UTF-8, as surrogateescape decodes them.
NOT_UTF8 = re.compile("[\udc80-\udcff]")

# A line number and the cells of a row that ends there.
NumberedRow = tuple[int, list[str]]


@contextmanager
def open_text(path: Path, errors: str = "strict") -> Iterator[TextIO]:
    """Open a file of text, packed or not, or the standard input."""
    options: dict[str, Any] = {"encoding": "utf-8-sig", "newline": "", "errors": errors}
    if path == STANDARD_INPUT:
        text = io.TextIOWrapper(sys.stdin.buffer, **options)
        try:
            yield text
        finally:
            text.detach()  # the stream is not ours to close
    elif path.suffix in (".gz", ".xz"):
        with gzip.open(path) if path.suffix == ".gz" else lzma.open(path) as unpacked:
            bounded = io.BufferedReader(Bounded(path.name, cast(BinaryIO, unpacked)))
            yield io.TextIOWrapper(bounded, **options)
    else:
        with open(path, **options) as text:
            yield text


def not_utf8(what: str, path: Path, error: UnicodeDecodeError, where: str = "") -> FileError:
    """Return the error of a file in another encoding, with the command that converts it."""
    guess = "UTF-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "LATIN1"
    name = path.name.removesuffix(".gz")
    into = f"{Path(name).stem}-utf8{Path(name).suffix}"
    command = f"iconv -f {guess} -t UTF-8" + ("" if path == STANDARD_INPUT else f" {shlex.quote(name)} > {into}")
    place = f"{where}, " if where else ""
    return FileError(
        f"{what} must be text in UTF-8, which was tried: {place}byte 0x{error.object[error.start]:02x} is none"
        f" ({error.reason}). If it is {guess}, convert it: {command}"
    )


def _check_columns(names: list[str], file: str) -> None:
    twice, times = Counter(names or [""]).most_common(1)[0]
    if times > 1:
        raise FileError(f"FILE {file!r} has more than one column {shown(twice)}; rename or delete the others")


# Rows -----------------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of a file: its line (in Parquet its number), its cells by column, and what is wrong with it, if any."""

    line: int
    cells: dict[str, Any]
    complaint: str | None = None


def read_rows(path: str | Path) -> list[Any]:
    r"""Return the rows of a table with a header (.csv, .tsv, .parquet), of lines of JSON, or the lines of a .txt.

    The path ``-`` is a .csv from the standard input. Cells that a row of text lacks are None.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "news.csv"
    >>> _ = file.write_text("title,day\nRain,Monday\n")
    >>> read_rows(file)
    [{'title': 'Rain', 'day': 'Monday'}]
    """
    path = Path(path)
    ending = check_file(path, (*ROW_FORMATS, ".txt"), "the table")
    with blaming(path, ending, "the table"):
        try:
            if ending == ".txt":
                with open_text(path) as lines:
                    return [line.rstrip("\r\n") for line in lines]
            with closing(_rows(path, ending, "strict")) as rows:
                return [_whole(row, path) for row in rows]
        except UnicodeDecodeError as error:
            raise not_utf8(f"the table {str(path)!r}", path, error) from None


def _whole(row: Row, path: Path) -> dict[str, Any]:
    if row.complaint and not row.cells:
        raise FileError(f"the table {str(path)!r}, line {row.line:,} {row.complaint}")
    return row.cells


def iter_rows(path: Path) -> Generator[Row, None, None]:
    """Yield the rows of a table with a header, or of lines of JSON, one at a time; broken ones with a complaint."""
    ending, last = check_file(path, ROW_FORMATS), 0
    try:
        for row in _rows(path, ending, "surrogateescape"):
            yield row
            last = row.line
    except (FileError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise FileError(
            f"FILE {str(path)!r} cannot be read after line {last:,} (truncated or damaged?): {error}"
        ) from error


def _rows(path: Path, ending: str, errors: str) -> Generator[Row, None, None]:
    if ending == ".parquet":
        with open_parquet(path) as file:
            cells = (row for batch in file.iter_batches(10_000) for row in batch.to_pylist())
            yield from (Row(line, found) for line, found in enumerate(cells, 1))
        return
    with open_text(path, errors) as text:
        lines = _lines(path, text)
        yield from _table_rows(path, lines, DELIMITERS[ending]) if ending in DELIMITERS else _json_rows(path, lines)


def _lines(path: Path, file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, none of which may be so long that it fills the memory."""
    line = 0
    while text := file.readline(LONGEST_LINE):
        line += 1
        if len(text) == LONGEST_LINE:
            raise FileError(f"FILE {path.name!r}, line {line:,} must be shorter than {LONGEST_LINE:,} characters")
        yield text


def _json_rows(path: Path, lines: Iterator[str]) -> Iterator[Row]:
    for line, text in enumerate(lines, 1):
        if line == 1 and text.lstrip().startswith("["):
            raise FileError(
                f"FILE {path.name!r} must have one JSON object on each line; it begins with a list."
                " Write it as lines, for example with: jq -c '.[]'"
            )
        if text.strip():
            yield _json_row(line, text)


def _json_row(line: int, text: str) -> Row:
    wrong = NOT_UTF8.search(text)
    if wrong is not None:
        return Row(line, {}, f"is not UTF-8 at character {wrong.start() + 1}")
    try:
        cells = json.loads(text)
    except json.JSONDecodeError as error:
        return Row(line, {}, f"is not JSON: {error.msg} at character {error.colno}")
    except RecursionError:
        return Row(line, {}, "is JSON that is nested too deep")
    except ValueError:
        return Row(line, {}, "is JSON with a number of too many digits")
    if not isinstance(cells, dict):
        return Row(line, {}, f'must be a JSON object, like {{"id": …, "name": …}}; it is a {type(cells).__name__}')
    return Row(line, cells)


def _table_rows(path: Path, lines: Iterator[str], delimiter: str) -> Iterator[Row]:
    previous = csv.field_size_limit(LONGEST_LINE)  # it is that of the whole process
    try:
        reader = csv.reader(lines, delimiter=delimiter)
        columns = next(reader, [])
        _check_columns([name for name in columns if name], path.name)
        while True:
            line = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield Row(line, {}, f"is not a row of a table: {error}")
                continue
            if cells:
                yield _table_row(line, columns, cells)
    finally:
        csv.field_size_limit(previous)


def _table_row(line: int, columns: list[str], cells: list[str]) -> Row:
    for column, cell in zip(columns, cells, strict=False):
        if not cell.isascii() and NOT_UTF8.search(cell):
            return Row(line, {}, f"is not UTF-8 in column {column!r}")
    n = len(columns)
    by_column = {column: cell for column, cell in zip_longest(columns, cells[:n]) if column}
    return Row(
        line, by_column, f"must have {n} cells like the header; it has {len(cells)}" if len(cells) != n else None
    )


# Points ---------------------------------------------------------------------------------------------------------------


class TextColumns(NamedTuple):
    """The names of all columns, which of them are no features, and whether the first line holds the names."""

    names: list[str]
    asked: Asked
    has_header: bool


def read_table(path: Path, asked: Asked) -> Points:
    """Return the points of a .csv or .tsv, one a row, as float64."""
    with open_text(path) as text:
        reader = csv.reader(text, delimiter=DELIMITERS[ending_of(path)])
        try:
            return _read_points(((reader.line_num, cells) for cells in reader), path.name, asked)
        except csv.Error as error:
            raise FileError(f"line {reader.line_num:,} cannot be read: {error}; is a quote not closed?") from error
        except UnicodeDecodeError as error:
            raise not_utf8(f"FILE {path.name!r}", path, error, f"after line {reader.line_num:,}") from None


def _read_points(rows: Iterator[NumberedRow], name: str, asked: Asked) -> Points:
    first = next(rows, (0, []))
    columns = _columns(name, first[1], asked)
    asked, features = columns.asked, choose_features(columns.names, columns.asked)
    place = {column: i for i, column in enumerate(columns.names)}
    where = [place[column] for column in features]
    beside: dict[str, list[str]] = {column: [] for column in asked.beside}
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
        for column, texts in beside.items():
            texts.append(cells[place[column]])
    if not numbers:
        raise FileError(f"FILE {name!r} has a header and no rows")
    ids, labels = (beside.get(column) if column else None for column in (asked.id, asked.label))
    kept: dict[str, list[Any]] = {column: [text or None for text in beside[column]] for column in asked.keep}
    # np.frombuffer copies nothing.
    vectors = np.frombuffer(numbers).reshape(-1, len(features))
    names = features if columns.has_header else None
    return Points(vectors, _as_array(ids), _as_array(labels, missing=""), kept, names, is_text=True)


def _columns(name: str, first: list[str], asked: Asked) -> TextColumns:
    if not first:
        raise FileError(f"FILE {name!r} is empty, or its first line is")
    if first[0].lstrip()[:1] in ("{", "["):
        raise FileError(f"FILE {name!r} seems to be JSON; a table of rows and columns is expected")
    if len(first) == 1 and ";" in first[0]:
        raise FileError(f"FILE {name!r} seems to be separated by ';'; .csv is read by ',' and .tsv by tabs")
    if all(map(_is_number, first)):
        return TextColumns([str(i) for i in range(len(first))], asked, False)
    if len(first) > 2 and all(map(_is_number, first[2:])) and not (asked.beside or asked.drop):
        # The list of id, label, vector that PERCH and the authors' code read.
        return TextColumns(["id", "label", *map(str, range(len(first) - 2))], Asked("label", "id"), False)
    _check_columns(first, name)
    return TextColumns(first, asked, True)


def _numbers(texts: list[str]) -> Iterator[float]:
    """Yield numbers as Python reads them, but for the underscores of 1_000, which are more often those of an id."""
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
    """Return an array of strings, each as long as it is; None for those that are ``missing``."""
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
