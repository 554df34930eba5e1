"""What is written for people and programs: author ids, doubts, problems; and what is read back."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from grinch.files.read import FileError
from grinch.resolve.authors.records.record import Problem, Record
from grinch.resolve.authors.records.rows import rows


def write_records(records: Iterable[Record], path: Path) -> None:
    """Records as JSON lines, without the fields that are empty."""
    with _replacing(path) as file:
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
    with _replacing(folder / "authors.jsonl") as file:
        for row in found:
            file.write(json.dumps({**row, "author": row["author"] or None}, ensure_ascii=False) + "\n")


def write_problems(problems: Iterable[Problem], path: Path) -> None:
    """The lines of the file that something was wrong with."""
    told = [{"line": p.line, "record": "left out" if p.left_out else "kept", "reason": p.reason} for p in problems]
    write_table(["line", "record", "reason"], told, path)


def write_review(doubts: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Doubtful decisions, one a row, with an empty column for the reviewer's verdict."""
    write_table([*_columns(doubts), "verdict"], doubts, path)


def _columns(doubts: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(doubts[0]) if doubts else ["block", "decision", "score"]


def write_table(columns: Sequence[str], found: Iterable[Mapping[str, Any]], path: Path) -> None:
    """A CSV file with these columns."""
    with _replacing(path) as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


def read_authors(path: Path) -> dict[str, str | None]:
    """Authors by record id, from a table or JSON lines with the columns id and author (see :func:`write_authors`)."""
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
        name = str(row.cells["id"])
        if name in found:
            raise FileError(
                f"FILE {path.name!r} must tell the author of a record once; {name!r} is in line {row.line:,} again"
            )
        found[name] = str(row.cells["author"]) if row.cells["author"] not in (None, "") else None
    return found


@contextmanager
def _replacing(path: Path) -> Iterator[TextIO]:
    """A file that takes its place only when it is whole."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(unfinished, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(unfinished, path)
    except OSError as error:
        raise FileError(f"{str(path)!r} must be a file that can be written; {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
