"""Points into a store."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from grinch import Grinch
from grinch._checks import count_rows
from grinch._interrupts import uninterrupted
from grinch._types import Advance
from grinch.cli.app import FILE_HELP, app, console, say, title_of
from grinch.cli.changes import print_kinds
from grinch.cli.columns import check_columns
from grinch.cli.ids import as_kind, check_different
from grinch.cli.options import DtypeName, NewClusters, NewLayer, NewLinkage, NewMetric, NewThreshold, as_layer
from grinch.cli.store import StorePath, count_of, open_or_create
from grinch.cli.texts import (
    Characters,
    Embed,
    Hashing,
    Ngrams,
    Rows,
    Text,
    TextOptions,
    as_points,
    is_of_texts,
    metric_of_texts,
    note_on_unknown,
    note_on_words,
    said_of,
)
from grinch.estimators.checks import check_ids, check_vectors
from grinch.io.read import FileError, Points, read_points, read_texts
from grinch.progress import progress_bar
from grinch.store.inputs import TEXT_FILE
from grinch.store.opening import is_store
from grinch.text import TextVectors

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
    text: Text = None,
    ngrams: Ngrams = None,
    characters: Characters = None,
    hashing: Hashing = False,
    embed: Embed = None,
    linkage: NewLinkage = None,
    metric: NewMetric = None,
    clusters: NewClusters = None,
    threshold: NewThreshold = None,
    layer: NewLayer = None,
    dtype: Annotated[
        DtypeName | None,
        typer.Option(
            help="For a new store: how numbers are kept (default: float32 for .csv and .tsv, otherwise as the file has"
            " them)."
        ),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--update", help="Give points that are there already the row and payload that FILE has for them."),
    ] = False,
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="Points that are written at once; each batch is a version.")
    ] = BATCH,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Add the points of FILE to STORE, which is made if it is not there.

    A batch is on disk when the progress bar counts it, and is there as a whole or not at all. Ctrl-C ends the adding
    after the batch at work.

    With --id, a point that is there already with the same row and payload is left alone: the same command can be given
    again, and goes on where it was interrupted. An id that is there with another row or payload is an error; with
    --update, the point gets what FILE has for it. Without --id, points are numbered, and a file that is added twice is
    there twice.

    The ids of a store are texts or whole numbers; those of later files are converted. Columns with names must be those
    of the first file, in the same order.

    Texts (a .txt with a text per line, or --text) are kept with the points, and added by their words (TF-IDF). The
    terms and their weights are those of the first file, for good; with --hashing, words that are new count, too.
    """
    texts = TextOptions(text, ngrams, characters, hashing, embed)
    points, made_by, note = _read(store, file, texts, label, id, drop or [], payload or [])
    n, d = points.vectors.shape
    if update and points.ids is None:
        raise FileError("--update needs --id: without ids, no point of FILE is in the store")
    # The whole file, before the first batch of it is in the store; whether rows stay sparse is the store's to decide.
    check_vectors(Grinch(), points.vectors, reset=True, stays_sparse=True)
    check_different(points.ids, id)
    check_ids(points.ids if points.ids is None else points.ids.tolist(), n, (), None)
    kept = _payload(points, label)
    is_new = not is_store(store)
    if is_new and dtype is None and points.is_text:
        dtype = "float32"
    if is_new and made_by is not None:
        metric = metric_of_texts(linkage, metric)
    if dtype == "float32":
        _check_range(points)
    cut = {"n_clusters": clusters, "threshold": threshold, "layer": as_layer(layer)}
    settings = {"linkage": linkage, "metric": metric, **cut, "dtype": dtype}
    with open_or_create(store, **settings) as opened:
        ids = None if points.ids is None else as_kind(points.ids.tolist(), opened.id_kind)
        check_columns(opened, points)
        how = f", kept as {dtype}" if is_new and dtype else ""
        said_of_points = count_of(d, "feature") if made_by is None else said_of(points.vectors, made_by)
        say(f"{title_of(file)}: {count_of(n, 'point' if made_by is None else 'text')}, {said_of_points}{how}")
        if note is not None:
            say(note)
        if made_by is not None:
            _keep_rows(opened, store, made_by)
        version, before, began = opened.version, len(opened), time.perf_counter()
        there = set(opened.ids) if update else set()
        try:
            done = 0
            with _progress(n, quiet) as advance:
                for each in _batches(points, ids, kept, batch):
                    # All of a batch, or none of it.
                    with uninterrupted():
                        _put(opened, each, there, points.columns)
                        done += count_rows(each.rows)
                        advance(count_rows(each.rows))
        except KeyboardInterrupt:
            console.print(f"\n[yellow]Interrupted after {done:,} of {n:,} points.[/yellow]")
            _say_how_to_go_on(done, ids is not None)
            if done:
                _report(opened, store, done, before, version, time.perf_counter() - began, update)
            raise typer.Exit(130) from None
        except Exception as error:
            if done:
                say(f"{done:,} of {n:,} points are in the store; the rest is not.")
                if ids is None:
                    _say_how_to_go_on(done, has_ids=False)
            if isinstance(error, ValueError) and "use update" in str(error):
                raise FileError(f"{str(error).partition('; use update')[0]}; --update changes such points") from None
            raise
        _report(opened, store, n, before, version, time.perf_counter() - began, update)


def _read(
    store: Path, file: Path, texts: TextOptions, label: str | None, id: str | None, drop: list[str], keep: list[str]
) -> tuple[Points, Rows | None, str | None]:
    """The points of a file; if they are texts, also what makes rows of them, and what does not count."""
    if not texts.are_for(file):
        if is_of_texts(store):
            raise FileError(f"STORE {str(store)!r} is of texts: name the column of FILE that has them with --text")
        return read_points(file, label, id, drop, keep), None, None
    found = read_texts(file, texts.text, label, id, keep)
    if is_of_texts(store):
        made_by = texts.kept_rows(store / TEXT_FILE)
        rows = made_by.transform(found.texts)
        return as_points(found, rows), made_by, note_on_unknown(found, rows, made_by)
    made_by = texts.new_rows()
    rows = made_by.fit_transform(found.texts)
    return as_points(found, rows), made_by, note_on_words(rows, made_by)


def _keep_rows(opened: Any, store: Path, made_by: Rows) -> None:
    """Before the first points come in, so that there are never texts in a store without what made rows of them."""
    if not is_of_texts(store):
        if len(opened):
            raise FileError(f"STORE {str(store)!r} is of vectors, and FILE has texts; give another folder for texts")
        made_by.save(store / TEXT_FILE)
    elif isinstance(made_by, TextVectors) and made_by.hashing:
        made_by.save(store / TEXT_FILE)  # columns have names now that had none


def _put(opened: Any, batch: Batch, there: set[Any], columns: list[str] | None) -> None:
    """Insert the points of a batch, or update those that are there."""
    known = [i for i, each in enumerate(batch.ids or ()) if each in there]
    if known:
        old = _taken(batch, known)
        opened.update(old.ids, old.rows, old.payload)
        batch = _taken(batch, sorted({*range(count_rows(batch.rows))} - {*known}))
    if count_rows(batch.rows):
        opened.insert(batch.rows, ids=batch.ids, payload=batch.payload, columns=columns)


def _taken(batch: Batch, places: list[int]) -> Batch:
    ids, payload = (None if values is None else [values[i] for i in places] for values in (batch.ids, batch.payload))
    return Batch(batch.rows[places], ids, payload)


def _say_how_to_go_on(done: int, has_ids: bool) -> None:
    if has_ids:
        say("The same command goes on from there.")
    elif done:
        say(
            f"Do not give the same command again: without --id, the first {done:,} points would be inserted once more."
            " Add the rest of the file alone."
        )


def _check_range(points: Points) -> None:
    """Numbers too large for float32 would become infinite."""
    lowest, highest = float(points.vectors.min()), float(points.vectors.max())
    if max(-lowest, highest) > np.finfo(np.float32).max:
        raise FileError("FILE has numbers that are too large for float32; keep them as float64: --dtype float64")


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


def _batches(points: Points, ids: list[Any] | None, payload: list[Any] | None, size: int) -> Iterator[Batch]:
    for first in range(0, points.vectors.shape[0], size):
        part = slice(first, first + size)
        yield Batch(points.vectors[part], ids and ids[part], payload and payload[part])


def _report(opened: Any, store: Path, done: int, before: int, version: int, seconds: float, update: bool) -> None:
    added = len(opened) - before
    if opened.version == version:
        say(f"Nothing changed: all {count_of(done, 'point')} were there already; version {version}")
        return
    was = "was" if done - added == 1 else "were"
    there = f", {done - added:,} {was} there already{' (updated)' if update else ''}" if done > added else ""
    say(f"{count_of(added, 'point')} added in {seconds:.2f} s{there}; {len(opened):,} in all, version {opened.version}")
    print_kinds(opened, store, version)
