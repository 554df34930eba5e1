"""The files that the commands write (author ids, doubts, problems, a summary), and those of author ids read back."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from grinch.io.read import FileError
from grinch.io.write import harmless, replacing
from grinch.resolve.authors.records.record import Problem, Record
from grinch.resolve.authors.records.rows import rows


def write_records(records: Iterable[Record], path: Path) -> None:
    """Records as JSON lines, without the fields that are empty."""
    with _writing(path) as file:
        for record in records:
            known = {field: value for field, value in asdict(record).items() if value not in (None, "", ())}
            file.write(json.dumps(known, ensure_ascii=False) + "\n")


def write_authors(
    records: Iterable[Record], authors: Mapping[str, str], blocks: Mapping[str, str], folder: Path
) -> None:
    """The author of each record, as authors.csv and authors.jsonl; empty where there is none.

    ``authors`` and ``blocks`` are by record id.
    """
    found = [{"id": r.id, "author": authors.get(r.id, ""), "block": blocks[r.id], "name": r.name} for r in records]
    write_table(["id", "author", "block", "name"], found, folder / "authors.csv")
    with _writing(folder / "authors.jsonl") as file:
        for row in found:
            file.write(json.dumps({**row, "author": row["author"] or None}, ensure_ascii=False) + "\n")


def write_problems(problems: Iterable[Problem], path: Path) -> None:
    """The lines of the input that had a problem, with the reason."""
    found = [{"line": p.line, "record": "left out" if p.left_out else "kept", "reason": p.reason} for p in problems]
    write_table(["line", "record", "reason"], found, path)


def write_review(doubts: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Doubtful decisions, one per row, with an empty column for the reviewer's verdict."""
    columns = list(doubts[0]) if doubts else ["block", "decision", "score"]
    write_table([*columns, "verdict"], doubts, path)


def write_summary(facts: Mapping[str, Any], path: Path) -> None:
    """What was done, as JSON."""
    with _writing(path) as file:
        file.write(json.dumps(facts, indent=2) + "\n")


def write_table(columns: Sequence[str], found: Iterable[Mapping[str, Any]], path: Path) -> None:
    """A CSV file with these columns; cells that a spreadsheet would run as formulas are quoted."""
    with _writing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_quoted(row.get(column, "")) for column in columns] for row in found)


def read_authors(path: Path) -> dict[str, str | None]:
    """Authors by record id, from a table or JSON lines with the columns id and author (see :func:`write_authors`)."""
    is_table = any(suffix in (".csv", ".tsv") for suffix in path.suffixes)
    found: dict[str, str | None] = {}
    for row in rows(path):
        if row.complaint:
            raise FileError(f"FILE {path.name!r}, line {row.line:,} {row.complaint}")
        for column in ("id", "author"):
            if column not in row.cells:
                raise FileError(
                    f"FILE {path.name!r} must have the columns 'id' and 'author'; it has"
                    f" {', '.join(map(repr, row.cells))} in line {row.line:,}"
                )
        name, author = (_unquoted(row.cells[column]) if is_table else row.cells[column] for column in ("id", "author"))
        if str(name) in found:
            raise FileError(f"FILE {path.name!r} must have each id once; {str(name)!r} is in line {row.line:,} again")
        found[str(name)] = str(author) if author not in (None, "") else None
    return found


def _quoted(cell: Any) -> Any:
    """A cell that a spreadsheet takes as it is.

    A cell that already looks quoted gets one more quote, so that reading takes off what writing put on.
    """
    return f"'{cell}" if _needs_quote(cell) else cell


def _unquoted(cell: str) -> str:
    """What :func:`_quoted` made a cell of.

    >>> [_unquoted(_quoted(cell)) for cell in ("=1+1", "'=1+1", "'s", "-1")]
    ['=1+1', "'=1+1", "'s", '-1']
    """
    return cell[1:] if cell.startswith("'") and _needs_quote(cell) else cell


def _needs_quote(cell: Any) -> bool:
    bare = cell.lstrip("'") if isinstance(cell, str) else cell
    return harmless([bare]) != [bare]


@contextmanager
def _writing(path: Path) -> Iterator[IO[str]]:
    """A text file that takes its place when it is complete; failures name it."""
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise FileError(f"{str(path)!r} must be a file that can be written; {error.strerror or error}") from error
