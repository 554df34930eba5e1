"""Points into a store, and out of it."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from grinch import Grinch
from grinch._interrupts import uninterrupted
from grinch._types import Advance
from grinch.cli.app import FILE_HELP, LINKAGE_HELP, LinkageName, app, console, title_of
from grinch.cli.store import StorePath, count_of, open_existing, open_or_create
from grinch.estimators.checks import check_ids, check_vectors
from grinch.files.read import FileError, Points, read_points
from grinch.files.tables import STANDARD_INPUT
from grinch.progress import progress_bar

# Points that are written at once: many enough for speed, few enough for Ctrl-C to be answered in seconds.
BATCH = 10_000


class Batch(NamedTuple):
    """Points that come in together, or not at all."""

    rows: Any
    ids: list[Any] | None
    payload: list[Any] | None


@app.command(short_help="Add the points of a file to a store.")
def add(
    store: StorePath,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP)],
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Column (or .npz array) with a name for each point (default: a number).",
        ),
    ] = None,
    payload: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to keep with each point; it is no feature. May be repeated."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with classes; it is no feature, and is kept with each point."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column that is not a feature; may be repeated.")
    ] = None,
    linkage: Annotated[
        LinkageName | None, typer.Option(metavar="NAME", help=f"{LINKAGE_HELP} For a new store; average by default.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For a new store: what the linkage measures with (see grinch cluster)."),
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="Points that are written at once; each batch is a version.")
    ] = BATCH,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Add the points of FILE to STORE, which is made if it is not there.

    A batch is on disk when the progress bar counts it, and is there as a whole or not at all. Ctrl-C ends the adding
    after the batch at work. With --id, points that are there already are left alone: the same command can be given
    again, and goes on where it was interrupted.
    """
    points = read_points(file, label, id, drop or (), payload or ())
    n, d = points.vectors.shape
    # The whole file, before the first batch of it is in the store.
    check_vectors(Grinch(), points.vectors, reset=True)
    check_ids(points.ids if points.ids is None else points.ids.tolist(), n, (), None)
    kept = _payload(points, label)
    with open_or_create(store, linkage=linkage, metric=metric) as opened:
        console.print(f"{title_of(file)}: {count_of(n, 'point')}, {count_of(d, 'feature')}", markup=False)
        version, before, began = opened.version, len(opened), time.perf_counter()
        try:
            done = 0
            with _progress(n, quiet) as advance:
                for each in _batches(points, kept, batch):
                    # All of a batch, or none of it.
                    with uninterrupted():
                        opened.insert(each.rows, ids=each.ids, payload=each.payload)
                        done += len(each.rows)
                        advance(len(each.rows))
        except KeyboardInterrupt:
            go_on = "The same command goes on from there." if points.ids is not None else ""
            console.print(f"\n[yellow]Interrupted after {done:,} of {n:,} points.[/yellow] {go_on}".rstrip())
            if done:
                _report(opened, store, done, before, version, time.perf_counter() - began)
            raise typer.Exit(130) from None
        except Exception:
            if done:
                console.print(f"{done:,} of {n:,} points are in the store; the rest is not.")
            raise
        _report(opened, store, n, before, version, time.perf_counter() - began)


@app.command(short_help="Remove points from a store.")
def remove(
    store: StorePath,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="The points to remove.")] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="A file with an id in each line; - is the standard input."),
    ] = None,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="Pass over ids that are not in the store.")
    ] = False,
) -> None:
    """Remove points from STORE, all of them or none.

    Their vectors stay in the files of the store until grinch store compact.
    """
    asked = list(dict.fromkeys([*(ids or []), *_lines(file)]))
    if not asked:
        raise FileError("give at least one ID to remove, or --file with one in each line")
    with open_existing(store) as opened:
        found = _known(opened, asked, ignore_missing)
        version, before, began = opened.version, len(opened), time.perf_counter()
        if found:
            opened.remove(found)
        seconds = time.perf_counter() - began
        missing = f" ({len(asked) - len(found):,} were not there)" if len(found) < len(asked) else ""
        console.print(
            f"{count_of(before - len(opened), 'point')} removed{missing} in {seconds:.2f} s,"
            f" {len(opened):,} left; version {opened.version}"
        )
        _print_kinds(opened, store, version)


def _progress(n: int, quiet: bool) -> AbstractContextManager[Advance]:
    return nullcontext(lambda steps: None) if quiet else progress_bar("adding", n)


def _payload(points: Points, label: str | None) -> list[Any] | None:
    """An object of JSON for each point, with the columns to keep; None if there are none."""
    columns = {name: list(map(_plain, values)) for name, values in points.kept.items()}
    if points.labels is not None:
        columns[label or "label"] = list(map(_plain, points.labels.tolist()))
    if not columns:
        return None
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    """A value as JSON has it: dates, decimals and the like as text, nan as nothing."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value


def _batches(points: Points, payload: list[Any] | None, size: int) -> Iterator[Batch]:
    ids = None if points.ids is None else points.ids.tolist()
    for first in range(0, len(points.vectors), size):
        part = slice(first, first + size)
        yield Batch(points.vectors[part], ids and ids[part], payload and payload[part])


def _report(opened: Any, store: Path, done: int, before: int, version: int, seconds: float) -> None:
    added = len(opened) - before
    if opened.version == version:
        console.print(f"Nothing changed: all {done:,} points were there already; version {version}")
        return
    there = f", {done - added:,} were there already" if done > added else ""
    console.print(
        f"{count_of(added, 'point')} added in {seconds:.2f} s{there}; {len(opened):,} in all, version {opened.version}"
    )
    _print_kinds(opened, store, version)


def _print_kinds(opened: Any, store: Path, version: int) -> None:
    """What became of clusters since a version, in one line, and how to see more."""
    kinds = Counter(change.kind for change in opened.changes(since=version))
    if kinds:
        console.print("Clusters: " + ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()))
        console.print(f"See them with: grinch changes {store} --since {version}", markup=False, soft_wrap=True)


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    text = sys.stdin.read() if file == STANDARD_INPUT else file.read_text("utf-8-sig")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _known(opened: Any, asked: list[str], ignore_missing: bool) -> list[Any]:
    """The ids of a store that are written like this; a whole number may be the id 7 or the text "7"."""
    by_text: dict[str, Any] = {}
    for each in opened.ids:
        by_text.setdefault(str(each), each)
    missing = [text for text in asked if text not in by_text]
    if missing and not ignore_missing:
        named = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5:,} more" if len(missing) > 5 else "")
        raise FileError(
            f"ID must be in the store; it has no {named}. Nothing was removed; --ignore-missing passes over such ids"
        )
    return [by_text[text] for text in asked if text in by_text]
