"""Which clusters of a store points would join."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from grinch.cli.app import FILE_HELP, app, say, title_of
from grinch.cli.columns import check_columns
from grinch.cli.store import CutName, StorePath, count_of, open_existing
from grinch.cli.texts import Embed, Text, TextOptions, are_wordless, as_points, is_of_texts, note_on_unknown
from grinch.io.read import FileError, Points, read_points, read_texts
from grinch.io.trees import write_clusters
from grinch.io.write import harmless
from grinch.store.inputs import TEXT_FILE


@app.command(short_help="Say which clusters of a store points would join.")
def predict(
    store: StorePath,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=FILE_HELP)],
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="Column with a name for each point (default: its row, from 0 on)."),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column that is not a feature; may be repeated.")
    ] = None,
    text: Text = None,
    embed: Embed = None,
    cut: CutName = "default",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="CSV", help="File to write to (default: standard output).")
    ] = None,
) -> None:
    """Say which cluster of STORE each point of FILE would join, as CSV: id, cluster. Nothing is added.

    The cluster of a point that would join none is -1, also of a text without a word that the store knows. Texts become
    rows as those of the store did.
    """
    points = _read(store, file, TextOptions(text, embed=embed), id, drop or [])
    ids = range(points.vectors.shape[0]) if points.ids is None else points.ids.tolist()
    with open_existing(store, readonly=True) as opened:
        check_columns(opened, points)
        found = opened.predict(points.vectors, cut)
    if is_of_texts(store):
        found = np.where(are_wordless(points.vectors), -1, found)
    if out is not None:
        write_clusters(out, found, ids)
        say(f"{title_of(file)}: {count_of(len(found), 'point')}, written to {out}")
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["id", "cluster"])
    writer.writerows(harmless(row) for row in zip(ids, found.tolist(), strict=True))


def _read(store: Path, file: Path, texts: TextOptions, id: str | None, drop: list[str]) -> Points:
    if texts.are_for(file) != is_of_texts(store):
        if is_of_texts(store):
            raise FileError(f"STORE {str(store)!r} is of texts: name the column of FILE that has them with --text")
        open_existing(store, readonly=True).close()
        raise FileError(f"STORE {str(store)!r} is of vectors, and FILE has texts")
    if not is_of_texts(store):
        return read_points(file, None, id, drop)
    found = read_texts(file, texts.text, None, id)
    made_by = texts.kept_rows(store / TEXT_FILE)
    rows = made_by.transform(found.texts)
    note = note_on_unknown(found, rows, made_by)
    if note is not None:
        print(note, file=sys.stderr)  # the standard output is a table
    return as_points(found, rows)
