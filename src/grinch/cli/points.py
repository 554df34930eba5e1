"""Points into a store and out of it, and the clusters that points would join."""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import typer
from typer import Argument, Option

from grinch import Grinch
from grinch._checks import count_rows
from grinch._interrupts import uninterrupted
from grinch.cli import options
from grinch.cli.app import console, say, title_of
from grinch.cli.clusters import print_kinds
from grinch.cli.options import StorePath, cut_settings
from grinch.cli.store import open_existing, open_or_create
from grinch.cli.texts import Rows, TextOptions, are_wordless, is_of_texts, metric_of_texts, read_input
from grinch.estimators.checks import check_ids, check_vectors
from grinch.io.points import MOST_NAMES, STANDARD_INPUT, Asked, shown
from grinch.io.read import FileError, Points
from grinch.io.trees import write_clusters
from grinch.io.write import write_table
from grinch.plots.style import counted
from grinch.progress import progress_bar
from grinch.store.inputs import TEXT_FILE
from grinch.store.opening import is_store
from grinch.text import TextVectors

# Points that are written at once: many enough for speed, few enough for Ctrl-C to be answered in seconds.
BATCH = 10_000
WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]*")


class Batch(NamedTuple):
    """Points that come in together, or not at all."""

    rows: Any
    ids: list[Any] | None
    payload: list[Any] | None

    def take(self, places: slice | list[int]) -> Batch:
        """Return the points at these places."""

        def taken(values: list[Any] | None) -> list[Any] | None:
            return values and (values[places] if isinstance(places, slice) else [values[i] for i in places])

        return Batch(self.rows[places], taken(self.ids), taken(self.payload))


def add(
    store: StorePath,
    file: options.PointsFile,
    id: options.IdColumn = None,
    payload: options.PayloadColumns = None,
    label: Annotated[str | None, Option(metavar="COLUMN", help="Column with classes, kept with each point.")] = None,
    drop: options.DropColumns = None,
    text: options.Text = None,
    ngrams: options.Ngrams = None,
    characters: options.Characters = None,
    hashing: options.Hashing = False,
    embed: options.Embed = None,
    linkage: options.NewLinkage = None,
    metric: options.NewMetric = None,
    clusters: options.NewClusters = None,
    threshold: options.NewThreshold = None,
    layer: options.NewLayer = None,
    dtype: options.NewDtype = None,
    update: Annotated[bool, Option("--update", help="Replace points that are in the store already.")] = False,
    batch: Annotated[int, Option(min=1, metavar="N", help="Points per write; each batch is a version.")] = BATCH,
    quiet: options.Quiet = False,
) -> None:
    """Add the points of FILE to STORE, creating it if needed.

    Batches are atomic, and on disk when the progress bar counts them. Ctrl-C stops after the current batch.

    With --id, points that are already in the store with the same row and payload are skipped, so the same command
    resumes after an interruption. An existing id with another row or payload is an error; with --update, the point gets
    the row and payload of FILE. Without --id, points are numbered, and a file that is added twice is inserted twice.

    The ids of a store are texts or whole numbers; those of later files are converted. Columns with names must be those
    of the first file, in the same order.

    Texts (a .txt with a text per line, or --text) are kept with the points, and added by their words (TF-IDF). The
    terms and their weights stay those of the first file; with --hashing, new words count, too.
    """
    texts = TextOptions(text, ngrams, characters, hashing, embed)
    given = read_input(file, texts, Asked(label, id, tuple(drop or ()), tuple(payload or ())), store)
    points, made_by, note = given
    n = points.vectors.shape[0]
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
    cut = cut_settings(clusters, threshold, layer)
    with open_or_create(store, linkage=linkage, metric=metric, **cut, dtype=dtype) as opened:
        ids = None if points.ids is None else as_kind(points.ids.tolist(), opened.id_kind)
        check_columns(opened, points)
        say(given.describe(file) + (f", kept as {dtype}" if is_new and dtype else ""))
        if note is not None:
            say(note)
        if made_by is not None:
            _save_rows(opened, store, made_by)
        version, before, began = opened.version, len(opened), time.perf_counter()
        there = set(opened.ids) if update else set()
        done = 0
        try:
            with nullcontext(lambda steps: None) if quiet else progress_bar("adding", n) as advance:
                for each in _batches(Batch(points.vectors, ids, kept), batch):
                    # All of a batch, or none of it.
                    with uninterrupted():
                        _put(opened, each, there, points.columns)
                        done += count_rows(each.rows)
                        advance(count_rows(each.rows))
        except KeyboardInterrupt:
            console.print(f"\n[yellow]Interrupted after {done:,} of {n:,} points.[/yellow]")
            _say_how_to_resume(done, ids is not None)
            if done:
                _report(opened, store, done, before, version, time.perf_counter() - began, update)
            raise typer.Exit(130) from None
        except Exception as error:
            if done:
                say(f"{done:,} of {n:,} points are in the store; the rest is not.")
                if ids is None:
                    _say_how_to_resume(done, has_ids=False)
            if isinstance(error, ValueError) and "use update" in str(error):
                raise FileError(f"{str(error).partition('; use update')[0]}; --update changes such points") from None
            raise
        _report(opened, store, n, before, version, time.perf_counter() - began, update)


def _save_rows(opened: Any, store: Path, made_by: Rows) -> None:
    """Save what makes rows of texts before the first of them is in the store."""
    if not is_of_texts(store):
        if len(opened):
            raise FileError(f"STORE {str(store)!r} is of vectors, and FILE has texts; give another folder for texts")
        made_by.save(store / TEXT_FILE)
    elif isinstance(made_by, TextVectors) and made_by.hashing:
        made_by.save(store / TEXT_FILE)  # columns have names now that had none


def _batches(points: Batch, size: int) -> Iterator[Batch]:
    for first in range(0, points.rows.shape[0], size):
        yield points.take(slice(first, first + size))


def _put(opened: Any, batch: Batch, there: set[Any], columns: list[str] | None) -> None:
    """Insert the points of a batch, or update those that are there."""
    known = [i for i, each in enumerate(batch.ids or ()) if each in there]
    if known:
        old = batch.take(known)
        opened.update(old.ids, old.rows, old.payload)
        batch = batch.take(sorted({*range(count_rows(batch.rows))} - {*known}))
    if count_rows(batch.rows):
        opened.insert(batch.rows, ids=batch.ids, payload=batch.payload, columns=columns)


def _say_how_to_resume(done: int, has_ids: bool) -> None:
    if has_ids:
        say("The same command resumes from there.")
    elif done:
        say(
            f"Do not give the same command again: without --id, the first {done:,} points would be inserted once more."
            " Add the rest of the file alone."
        )


def _check_range(points: Points) -> None:
    """Refuse numbers that would become infinite in float32."""
    lowest, highest = float(points.vectors.min()), float(points.vectors.max())
    if max(-lowest, highest) > np.finfo(np.float32).max:
        raise FileError("FILE has numbers that are too large for float32; keep them as float64: --dtype float64")


def _payload(points: Points, label: str | None) -> list[Any] | None:
    """Return an object of JSON for each point with the columns to keep, or None if there are none."""
    columns = {name: list(map(json_value, values)) for name, values in points.kept.items()}
    if points.labels is not None:
        columns[label or "label"] = list(map(json_value, points.labels.tolist()))
    if not columns:
        return None
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def json_value(value: Any) -> Any:
    """Return a value as JSON has it: dates, decimals and the like as text, nan as None."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value


def _report(opened: Any, store: Path, done: int, before: int, version: int, seconds: float, update: bool) -> None:
    added = len(opened) - before
    if opened.version == version:
        say(f"Nothing changed: all {counted(done, 'point')} were there already; version {version}")
        return
    was = "was" if done - added == 1 else "were"
    there = f", {done - added:,} {was} there already{' (updated)' if update else ''}" if done > added else ""
    say(f"{counted(added, 'point')} added in {seconds:.2f} s{there}; {len(opened):,} in all, version {opened.version}")
    # Automatic cuts that are due are made when it is closed.
    opened.close()
    with open_existing(store, readonly=True) as closed:
        print_kinds(closed, store, version)


def remove(
    store: StorePath,
    ids: Annotated[list[str] | None, Argument(metavar="ID", help="The points to remove.")] = None,
    file: Annotated[
        Path | None, Option("--file", "-f", metavar="FILE", help="A file with one id per line, or -.")
    ] = None,
    ignore_missing: Annotated[bool, Option("--ignore-missing", help="Ignore unknown ids.")] = False,
) -> None:
    """Remove points from STORE.

    All of them are removed or none. Points that were removed before are ignored. Vectors stay in the files of the store
    until grinch store compact.
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
            raise FileError(f"{error}; --ignore-missing ignores ids that were never there") from None
        seconds, removed = time.perf_counter() - began, before - len(opened)
        ignored = len(asked) - removed
        if opened.version == version:
            what = counted(ignored, "point")
            why = f"none of {what} is in the store" if ignore_missing else f"{what} had been removed before"
            say(f"Nothing changed: {why}; version {version}")
            return
        missing = f" ({ignored:,} {'was' if ignored == 1 else 'were'} not there)" if ignored else ""
        removed_in = f"{counted(removed, 'point')} removed{missing} in {seconds:.2f} s"
        say(f"{removed_in}, {len(opened):,} left; version {opened.version}")
    with open_existing(store, readonly=True) as closed:
        print_kinds(closed, store, version)


def _meant(opened: Any, asked: list[str], ignore_missing: bool) -> list[Any]:
    """Return ids as the store has them; with ``ignore_missing``, without those that it does not have."""
    # Points without ids are numbered as they come.
    kind = "number" if opened.info()["is_named"] is False else opened.id_kind
    if not ignore_missing:
        return as_kind(asked, kind, "ID")
    here = set(opened.ids)
    found = as_kind([text for text in asked if kind != "number" or WHOLE_NUMBER.fullmatch(text)], kind)
    return [each for each in found if each in here]


def _lines(file: Path | None) -> list[str]:
    if file is None:
        return []
    text = sys.stdin.read() if file == STANDARD_INPUT else file.read_text("utf-8-sig")
    return [line.strip() for line in text.splitlines() if line.strip()]


def predict(
    store: StorePath,
    file: options.PointsFile,
    id: Annotated[str | None, Option("--id", metavar="COLUMN", help="Column with ids (default: row numbers).")] = None,
    drop: options.DropColumns = None,
    text: options.Text = None,
    embed: options.Embed = None,
    cut: options.StoreCut = "default",
    out: Annotated[Path | None, Option("--out", "-o", metavar="CSV", help="Output (default: standard output).")] = None,
) -> None:
    """Print the clusters of STORE that points would join.

    The output is CSV: id, cluster. Nothing is added. A point that would join no cluster gets -1, and so does a text
    without a word that the store knows. Texts are encoded as those of the store.
    """
    texts, is_text = TextOptions(text, embed=embed), is_of_texts(store)
    if texts.are_for(file) and not is_text:
        open_existing(store, readonly=True).close()
        raise FileError(f"STORE {str(store)!r} is of vectors, and FILE has texts")
    points, _, note = read_input(file, texts, Asked(None, id, tuple(drop or ())), store)
    if note is not None:
        print(note, file=sys.stderr)  # the standard output is a table
    ids = range(points.vectors.shape[0]) if points.ids is None else points.ids.tolist()
    with open_existing(store, readonly=True) as opened:
        check_columns(opened, points)
        found = opened.predict(points.vectors, cut)
    if is_text:
        found = np.where(are_wordless(points.vectors), -1, found)
    if out is not None:
        write_clusters(out, found, ids)
        say(f"{title_of(file)}: {counted(len(found), 'point')}, written to {out}")
        return
    write_table(sys.stdout, ["id", "cluster"], zip(ids, found.tolist(), strict=True))


def as_kind(ids: Sequence[Any], kind: str | None, what: str = "--id") -> list[Any]:
    """Return ids as texts or as numbers (``kind`` is "text" or "number"), or as they are (None).

    >>> as_kind([1, "x"], "text"), as_kind(["1", 2], "number"), as_kind(["1", 2], None)
    (['1', 'x'], [1, 2], ['1', 2])
    """
    if kind == "text":
        return [str(each) if type(each) is int else each for each in ids]
    if kind == "number":
        return [_number(each, what) if isinstance(each, str) else each for each in ids]
    return list(ids)


def _number(text: str, what: str) -> int:
    if not WHOLE_NUMBER.fullmatch(text):
        raise FileError(f"{what} must be a whole number, like the other ids in the store; got {text!r:.80}")
    return int(text)


def check_different(ids: npt.NDArray[Any] | None, column: str | None) -> None:
    """Refuse ids that several points share."""
    names = [] if ids is None else [name for name in ids.tolist() if isinstance(name, Hashable)]
    twice, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        what = "the ids of FILE" if column is None else f"--id {column}"
        raise FileError(
            f"{what} must be different for every point; {shown(twice)} is there {times:,} times. Name another column"
            " with --id, or leave it out: points are numbered then"
        )


def check_columns(opened: Any, points: Points) -> None:
    """Refuse columns that are not those of the store, in the same order, where both have names for them."""
    known, given = opened.info()["columns"], points.columns
    if known is None or given is None or known == given:
        return
    if sorted(known) == sorted(given):
        raise FileError(
            f"FILE must have its columns in the order of the store, {_listed(known)}; it has {_listed(given)}"
        )
    lacking, more = ([name for name in a if name not in b] for a, b in ((known, given), (given, known)))
    problems = [f"lacks {_listed(lacking)}"] * bool(lacking) + [f"has {_listed(more)} as well"] * bool(more)
    option = f". Columns that are not features are left out with --drop, as in --drop {more[0]}" if more else ""
    raise FileError(f"FILE must have the columns of the store, {_listed(known)}; it {' and '.join(problems)}{option}")


def _listed(names: list[str]) -> str:
    return ", ".join(map(shown, names[:MOST_NAMES])) + (" and more" if len(names) > MOST_NAMES else "")
