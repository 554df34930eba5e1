"""Look at a tree in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from grinch.cli.app import app, say
from grinch.cli.options import ImageField, ImageFolder, LabelField, TextField
from grinch.io.read import FileError
from grinch.io.write import harmless

PORT = 8764
# What grinch cluster writes beside a model.
CLUSTERS = "clusters.csv"


@app.command(short_help="Look at a store, a model or a tree in the browser.")
def explore(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A store (a folder), the work folder of a run by many workers, a model written by save() or grinch"
            " cluster, scipy's linkage matrix (.npy), or a tree in Newick.",
        ),
    ],
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, metavar="N", help=f"Port to listen on (default {PORT}, or a free one)."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the browser.")] = True,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="HTML", help="Write one page that needs no server, instead; for up to some 50,000 points."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="For models and trees: what is known of the points, a row each (.csv, .tsv, .parquet, or .txt).",
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="COLUMN", help="Column of --table with the points' ids (default: rows are in their order)."
        ),
    ] = None,
    text: TextField = None,
    label: LabelField = None,
    image: ImageField = None,
    images: ImageFolder = None,
    x: Annotated[str | None, typer.Option(metavar="FIELD", help="Place on the map, with --y (default: PCA).")] = None,
    y: Annotated[str | None, typer.Option(metavar="FIELD", help="Place on the map, with --x.")] = None,
) -> None:
    """Look at PATH in the browser: the tree, a map of the points, what is in every node, and what changed.

    Beside a model that grinch cluster wrote, its clusters.csv says what the points are, unless --table does.

    Another process may go on adding points to a store meanwhile: they appear. Names that are given to nodes stay.

    \b
    For example:
      grinch explore news
      grinch explore out/model.grinch
      grinch explore linkage.npy --table points.csv --text title
      grinch explore out/work --table points.csv --text title
      grinch explore news --export news.html
    """  # noqa: D301 (\b is for the help page)
    from grinch.serve.model_backend import open_backend
    from grinch.serve.views.viewer import Viewer

    if table is None and id is not None:
        raise ValueError("--id names a column of --table; give --table, too")
    source: Any = open_backend(path)
    try:
        if table is not None:
            # A store cannot be described, which this says.
            rows = _payload(table, id, source)
            source.describe(rows)
        else:
            text, label = _describe_by_results(path, source, text, label)
        viewer = Viewer(source, text=text, label=label, image=image, images=images, x=x, y=y)
        if export is not None:
            _export(viewer, export)
        else:
            _serve(viewer, path, port, browser)
    finally:
        source.close()


def _describe_by_results(path: Path, source: Any, text: str | None, label: str | None) -> tuple[str | None, str | None]:
    """Describe the points of a model by what grinch cluster wrote beside it; the fields of text and label then."""
    from grinch.io.tables import read_rows

    table = path.parent / CLUSTERS
    if source.kind != "model" or not table.is_file():
        return text, label
    try:
        rows = read_rows(table)
    except FileError:
        return text, label
    columns = list(rows[0]) if rows else []
    # It may be that of another run.
    if columns[:2] != ["id", "cluster"] or len(columns) == 2 or not _are_ids(source, [row["id"] for row in rows]):
        return text, label
    source.describe(rows)
    say(f"what is known of the points is from {table} ({', '.join(columns[2:])}); another table is given by --table")
    return text or _if_there("text", columns), label or _if_there("label", columns)


def _are_ids(source: Any, ids: list[str]) -> bool:
    """Whether these are the ids of all points in their order, as a table for spreadsheets has them."""
    return [str(name) for name in harmless(map(str, source.read(lambda view: view.ids)))] == ids


def _if_there(field: str, columns: list[str]) -> str | None:
    return field if field in columns else None


def _payload(table: Path, id: str | None, source: Any) -> list[Any]:
    """A row of a table for each point, in the order of the leaves."""
    from grinch.io.tables import read_rows

    if source.kind == "store":
        raise ValueError("--table is for models and trees; the points of a store have what was added with them")
    rows, ids = read_rows(table), source.read(lambda view: view.ids)
    if id is None:
        n = len(ids)
        if len(rows) != n:
            raise FileError(
                f"--table must have a row for each of the {n:,} points; {table.name!r} has {len(rows):,}. With --id,"
                " rows are found by their ids"
            )
        return rows
    columns = list(rows[0]) if rows and isinstance(rows[0], dict) else []
    if id not in columns:
        there = ", ".join(columns) or "none"
        raise FileError(f"--id must name a column of {table.name!r}; got {id!r}. There are: {there}")
    by_id = {str(row[id]): row for row in rows}
    found = [by_id.get(str(name)) for name in ids]
    if not any(row is not None for row in found):
        raise FileError(f"no id in column {id!r} of {table.name!r} is the id of a point")
    return found


def _export(viewer: Any, path: Path) -> None:
    from grinch.serve.export import write_page

    write_page(viewer, path)
    say(
        f"{viewer.n:,} points, written to {path} ({path.stat().st_size / 1e6:.1f} MB): it opens in any browser, offline"
    )


def _serve(viewer: Any, path: Path, port: int | None, browser: bool) -> None:
    from grinch.serve.api.app import listen, make_app, run

    try:
        listening = listen("127.0.0.1", PORT if port is None else port)
    except OSError:
        if port is not None:
            raise
        listening = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"

    def ready() -> None:
        say(f"{path.name or path}: {viewer.n:,} points at {url} (Ctrl-C to end)")
        if browser:
            import webbrowser

            webbrowser.open(url)

    run(make_app(viewer), listening, ready=ready)
