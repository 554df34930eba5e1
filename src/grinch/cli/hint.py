"""Suggest a linkage for the points of a file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from grinch.cli.app import FILE_HELP, app, console, title_of
from grinch.hints.suggest import suggest_linkage
from grinch.io.read import read_points


@app.command(short_help="Suggest a linkage for the points of a file.")
def hint(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=FILE_HELP),
    ],
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column (or .npz array) with classes; it is no feature, and is not looked at."
        ),
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Column that names the points; it is no feature.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column that is not a feature; may be repeated.")
    ] = None,
    orders: Annotated[
        int, typer.Option(min=2, metavar="N", help="Random orders that each linkage clusters the points in.")
    ] = 3,
    sample: Annotated[
        int, typer.Option(min=3, metavar="N", help="Points to look at, drawn at random if there are more.")
    ] = 2000,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sample and of the orders.")] = 0,
) -> None:
    """Suggest a linkage for the points of FILE, in seconds and without labels.

    Each linkage clusters a sample of the points in several orders. Suggested is the one that keeps neighbours together
    in the smallest groups (cost: their share of the points); agreement is how often trees of two orders agree which two
    of three points belong together.
    """
    points = read_points(file, label, id, drop or ())
    found = suggest_linkage(points.vectors, n_orders=orders, sample=sample, random_state=seed)
    n, d = points.vectors.shape
    console.print(
        f"{title_of(file)}: {n:,} points, {d:,} features; {found.n_points:,} of them looked at\n", markup=False
    )
    console.print(str(found), markup=False, soft_wrap=True)
    options = [("--label", label), ("--id", id), *(("--drop", column) for column in drop or [])]
    columns = [word for name, value in options if value is not None for word in (name, value)]
    chosen = ["--linkage", found.linkage, "--metric", found.metric]
    # Ready to be copied, so never broken into lines.
    command = shlex.join(["grinch", "cluster", str(file), *columns, *chosen])
    console.print(f"\nGo on with: {command}", markup=False, soft_wrap=True)
