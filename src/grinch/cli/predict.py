"""Which clusters of a store points would join."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from grinch.cli.app import FILE_HELP, app, say, title_of
from grinch.cli.columns import check_columns
from grinch.cli.store import CutName, StorePath, count_of, open_existing
from grinch.export.writers import write_clusters
from grinch.files.read import read_points
from grinch.files.write import harmless


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
    cut: CutName = "default",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="CSV", help="File to write to (default: standard output).")
    ] = None,
) -> None:
    """Say which cluster of STORE each point of FILE would join, as CSV: id, cluster. Nothing is added.

    The cluster of a point that would join none is -1.
    """
    points = read_points(file, None, id, drop or ())
    ids = range(len(points.vectors)) if points.ids is None else points.ids.tolist()
    with open_existing(store, readonly=True) as opened:
        check_columns(opened, points)
        found = opened.predict(points.vectors, cut)
    if out is not None:
        write_clusters(out, found, ids)
        say(f"{title_of(file)}: {count_of(len(found), 'point')}, written to {out}")
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["id", "cluster"])
    writer.writerows(harmless(row) for row in zip(ids, found.tolist(), strict=True))
