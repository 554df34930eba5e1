"""Points out of a store."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from grinch.cli.app import app, say
from grinch.cli.changes import print_kinds
from grinch.cli.ids import as_kind, is_number, kind_of_ids
from grinch.cli.store import StorePath, count_of, open_existing
from grinch.io.read import FileError
from grinch.io.tables import STANDARD_INPUT


@app.command(short_help="Remove points from a store.")
def remove(
    store: StorePath,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="The points to remove.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="A file with an id in each line; - is the standard input."),
    ] = None,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Pass over ids that were never in the store.")
    ] = False,
) -> None:
    """Remove points from STORE, all of them or none. Points that were removed before are passed over.

    Their vectors stay in the files of the store until grinch store compact.
    """
    asked = list(dict.fromkeys([*(ids or []), *_lines(file)]))
    if not asked:
        raise FileError("give at least one ID to remove, or --file with one in each line")
    with open_existing(store) as opened:
        meant = _meant(opened, asked, ignore_missing)
        version, before, began = opened.version, len(opened), time.perf_counter()
        try:
            opened.remove(meant)
        except ValueError as error:
            raise FileError(f"{error}; --ignore-missing passes over ids that were never there") from None
        seconds, removed = time.perf_counter() - began, before - len(opened)
        passed_over = len(asked) - removed
        if opened.version == version:
            what = count_of(passed_over, "point")
            why = f"none of {what} is in the store" if ignore_missing else f"{what} had been removed before"
            say(f"Nothing changed: {why}; version {version}")
            return
        missing = f" ({passed_over:,} {'was' if passed_over == 1 else 'were'} not there)" if passed_over else ""
        say(
            f"{count_of(removed, 'point')} removed{missing} in {seconds:.2f} s, {len(opened):,} left;"
            f" version {opened.version}"
        )
        print_kinds(opened, store, version)


def _meant(opened: Any, asked: list[str], ignore_missing: bool) -> list[Any]:
    """Ids as the store has them; without those that are not there, if they are to be passed over."""
    kind = kind_of_ids(opened)
    if not ignore_missing:
        return as_kind(asked, kind, "ID")
    here = set(opened.ids)
    found = as_kind([text for text in asked if kind != "number" or is_number(text)], kind)
    return [each for each in found if each in here]


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    text = sys.stdin.read() if file == STANDARD_INPUT else file.read_text("utf-8-sig")
    return [line.strip() for line in text.splitlines() if line.strip()]
