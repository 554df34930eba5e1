"""Rows of JSON lines, tables and Parquet, one at a time, each with its line number and what is wrong with it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO, Any, AnyStr, BinaryIO, NamedTuple

from grinch.errors import missing_extra
from grinch.io.read import FileError

FORMATS = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet")
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
# Characters of a cell or a line: csv alone stops at 131,072, and a quote left open would swallow a whole file.
LONGEST_CELL = LONGEST_LINE = 2**24


class Row(NamedTuple):
    """A row of a file: its line (in Parquet its number), its cells by column, and what is wrong with it, if any."""

    line: int
    cells: dict[str, Any]
    complaint: str | None = None


def rows(path: Path) -> Generator[Row, None, None]:
    """The rows of a file, read one at a time; broken ones come with a complaint."""
    if not path.exists():
        raise FileError(f"FILE {str(path)!r} does not exist")
    if path.is_dir():
        raise FileError(f"FILE {str(path)!r} is a folder; give a file ending in {', '.join(FORMATS)}")
    packed = path.suffix in OPENERS
    ending = Path(path.stem).suffix if packed else path.suffix
    if ending not in FORMATS or (packed and ending == ".parquet"):
        raise FileError(f"FILE must end in {', '.join(FORMATS)} (text also in .gz or .xz); got {path.name!r}")
    last = 0
    try:
        for row in _parquet_rows(path) if ending == ".parquet" else _text_rows(path, ending):
            yield row
            last = row.line
    except FileError:
        raise
    except (OSError, EOFError, ValueError, csv.Error, lzma.LZMAError, zlib.error) as error:
        raise FileError(
            f"FILE {str(path)!r} cannot be read after line {last:,} (truncated or damaged?): {error}"
        ) from error


def _text_rows(path: Path, ending: str) -> Iterator[Row]:
    with OPENERS.get(path.suffix, open)(path, "rb") as file:
        if ending in (".csv", ".tsv"):
            yield from _table_rows(path, file, "," if ending == ".csv" else "\t")
        else:
            yield from _json_rows(path, file)


def _lines(path: Path, file: IO[AnyStr]) -> Iterator[AnyStr]:
    """The lines of a file, none of which may be so long that it fills the memory."""
    line = 0
    while text := file.readline(LONGEST_LINE):
        line += 1
        if len(text) == LONGEST_LINE:
            raise FileError(f"FILE {path.name!r}, line {line:,} must be shorter than {LONGEST_LINE:,} characters")
        yield text


def _json_rows(path: Path, file: BinaryIO) -> Iterator[Row]:
    for line, text in enumerate(_lines(path, file), 1):
        if line == 1 and text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
            raise FileError(
                f"FILE {path.name!r} must have one JSON object on each line; it begins with a list."
                " Write it as lines, for example with: jq -c '.[]'"
            )
        if text.strip():
            yield _json_row(line, text)


def _json_row(line: int, text: bytes) -> Row:
    try:
        cells = json.loads(text.decode("utf-8-sig" if line == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        return Row(line, {}, f"is not UTF-8: {error.reason} at byte {error.start + 1}")
    except json.JSONDecodeError as error:
        return Row(line, {}, f"is not JSON: {error.msg} at character {error.colno}")
    except RecursionError:
        return Row(line, {}, "is JSON that is nested too deep")
    except ValueError:
        return Row(line, {}, "is JSON with a number of too many digits")
    if not isinstance(cells, dict):
        return Row(line, {}, f'must be a JSON object, like {{"id": …, "name": …}}; it is a {type(cells).__name__}')
    return Row(line, cells)


def _table_rows(path: Path, file: BinaryIO, delimiter: str) -> Iterator[Row]:
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    previous = csv.field_size_limit(LONGEST_CELL)
    try:
        reader = csv.reader(_lines(path, text), delimiter=delimiter)
        columns = next(reader, [])
        if columns and len(set(columns)) < len(columns):
            twice = next(column for column in columns if columns.count(column) > 1)
            raise FileError(f"FILE {path.name!r} must name each column once; {twice!r} is there twice")
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
        text.detach()


def _table_row(line: int, columns: list[str], cells: list[str]) -> Row:
    if len(cells) != len(columns):
        return Row(line, {}, f"must have {len(columns)} cells like the header; it has {len(cells)}")
    for column, cell in zip(columns, cells, strict=True):
        if not cell.isascii() and any("\udc80" <= letter <= "\udcff" for letter in cell):
            return Row(line, {}, f"is not UTF-8 in column {column!r}")
    return Row(line, dict(zip(columns, cells, strict=True)))


def _parquet_rows(path: Path) -> Iterator[Row]:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise missing_extra("reading Parquet", "pyarrow", "parquet") from None
    with open(path, "rb") as file:
        line = 0
        for batch in parquet.ParquetFile(file).iter_batches(10_000):
            for cells in batch.to_pylist():
                line += 1
                yield Row(line, cells)
