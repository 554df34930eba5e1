"""View a tree in the browser, or serve it over HTTP."""

from __future__ import annotations

import ipaddress
import os
import webbrowser
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from grinch.cli import options
from grinch.cli.app import say, size_of
from grinch.cli.options import cut_settings
from grinch.cli.store import open_existing, open_or_create
from grinch.io.read import FileError
from grinch.io.tables import read_rows
from grinch.io.write import harmless
from grinch.store.opening import is_store

EXPLORE_PORT, SERVE_PORT = 8764, 8765
# What grinch cluster writes beside a model.
CLUSTERS = "clusters.csv"
TOKEN_VARIABLE = "GRINCH_TOKEN"
MAKE_TOKEN = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"


def explore(
    path: Annotated[
        Path,
        Argument(
            metavar="PATH",
            help="A store (a folder), the work folder of a run by many workers, a model written by save() or grinch"
            " cluster, a linkage matrix of scipy (.npy), or a tree in Newick.",
        ),
    ],
    port: Annotated[int | None, Option(min=0, max=65535, metavar="N", help=f"Port (default {EXPLORE_PORT}).")] = None,
    browser: Annotated[bool, Option(help="Open the browser.")] = True,
    export: Annotated[Path | None, Option(metavar="HTML", help="Write a page that needs no server, instead.")] = None,
    table: Annotated[Path | None, Option(metavar="FILE", help="Table with a row per point of a model or tree.")] = None,
    id: Annotated[str | None, Option("--id", metavar="COLUMN", help="Column of --table with the ids.")] = None,
    text: options.TextField = None,
    label: options.LabelField = None,
    image: options.ImageField = None,
    images: options.ImageFolder = None,
    x: Annotated[str | None, Option(metavar="FIELD", help="Place on the map, with --y (default: neighbours).")] = None,
    y: Annotated[str | None, Option(metavar="FIELD", help="Place on the map, with --x.")] = None,
) -> None:
    """View a store, a model or a tree in the browser.

    The page shows the tree, a map of the points, the contents of every node, and what changed.

    For a model that grinch cluster wrote, the clusters.csv beside it describes the points, unless --table does.

    Points that another process adds to a store appear. Names given to nodes are kept.

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
    with closing(source):
        if table is not None:
            # First, because a store cannot be described, which this says.
            rows = _payload(table, id, source)
            source.describe(rows)
        else:
            text, label = _describe_by_results(path, source, text, label)
        viewer = Viewer(source, text=text, label=label, image=image, images=images, x=x, y=y)
        if export is not None:
            _export(viewer, export)
        else:
            _show(viewer, path, port, browser)


def _describe_by_results(path: Path, source: Any, text: str | None, label: str | None) -> tuple[str | None, str | None]:
    """Describe a model by what grinch cluster wrote beside it, and return the fields of the text and the label."""
    table = path.parent / CLUSTERS
    if source.kind != "model" or not table.is_file():
        return text, label
    try:
        rows = read_rows(table)
    except FileError:
        return text, label
    columns = list(rows[0]) if rows else []
    # It may be that of another run, with other ids; they are those of a table for spreadsheets.
    ids = [str(name) for name in harmless(map(str, source.read(lambda view: view.ids)))]
    if columns[:2] != ["id", "cluster"] or len(columns) == 2 or ids != [row["id"] for row in rows]:
        return text, label
    source.describe(rows)
    say(f"the points are described by {table} ({', '.join(columns[2:])}); --table gives another table")
    text_there, label_there = (name if name in columns else None for name in ("text", "label"))
    return text or text_there, label or label_there


def _payload(table: Path, id: str | None, source: Any) -> list[Any]:
    """Return a row of a table for each point, in the order of the leaves."""
    if source.kind == "store":
        raise ValueError("--table is for models and trees; the points of a store have what was added with them")
    rows, ids = read_rows(table), source.read(lambda view: view.ids)
    if id is None:
        if len(rows) != len(ids):
            raise FileError(
                f"--table must have a row for each of the {len(ids):,} points; {table.name!r} has {len(rows):,}. With"
                " --id, rows are found by their ids"
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
    size = size_of(path.stat().st_size)
    say(f"{viewer.n:,} points, written to {path} ({size}): it opens in any browser, offline")


def _show(viewer: Any, path: Path, port: int | None, browser: bool) -> None:
    from grinch.serve.api.app import listen, make_app, run

    try:
        listening = listen("127.0.0.1", EXPLORE_PORT if port is None else port)
    except OSError:
        if port is not None:
            raise
        listening = listen("127.0.0.1", 0)
    url = _address("127.0.0.1", listening)

    def ready() -> None:
        say(f"{path.name or path}: {viewer.n:,} points at {url} (Ctrl-C to end)")
        if browser:
            webbrowser.open(url)

    run(make_app(viewer), listening, ready=ready)


def serve(
    path: Annotated[
        Path,
        Argument(
            metavar="PATH",
            help="A store (a folder; created if it does not exist), the work folder of a run by many workers, a saved"
            " model, a linkage matrix of scipy (.npy), or a tree in Newick.",
        ),
    ],
    host: Annotated[str, Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, metavar="N", help="Port, or 0 for a free one.")] = SERVE_PORT,
    token_file: Annotated[
        Path | None, Option(metavar="FILE", help=f"File with the token (or {TOKEN_VARIABLE}).")
    ] = None,
    allow_host: Annotated[list[str] | None, Option(metavar="NAME", help="Another host name. May be repeated.")] = None,
    max_body: Annotated[int, Option(min=1, max=4096, metavar="MB", help="Largest body of a request.")] = 64,
    read_only: Annotated[bool, Option("--read-only", help="Change nothing; another process may write.")] = False,
    linkage: options.NewLinkage = None,
    metric: options.NewMetric = None,
    clusters: options.NewClusters = None,
    threshold: options.NewThreshold = None,
    layer: options.NewLayer = None,
    dtype: options.NewDtype = None,
    text: options.TextField = None,
    label: options.LabelField = None,
    image: options.ImageField = None,
    images: options.ImageFolder = None,
) -> None:
    """Serve a store, a model or a tree over HTTP.

    Requests insert, remove, update, predict, and read clusters and changes; the page of grinch explore is there, too.
    Acknowledged changes are on disk. Small inserts that arrive together are written together, and readers do not wait
    for them. /openapi.json describes all routes; in Python, grinch.connect(url) has the methods of a store.

    It listens on this machine only. Any other --host needs a token.

    \b
    For example:
      grinch serve news
      grinch serve news --host 0.0.0.0 --token-file token.txt --allow-host a.org
      grinch serve model.grinch --port 0
    """  # noqa: D301 (\b is for the help page)
    settings = _settings(host, token_file, allow_host or [], max_body, read_only)
    new = {"linkage": linkage, "metric": metric, **cut_settings(clusters, threshold, layer), "dtype": dtype}
    from grinch.serve.api.app import listen, make_app, run
    from grinch.serve.api.service import Service, warm_up
    from grinch.serve.views.viewer import Viewer

    with listen(host, port) as listening, closing(Service(served := _open(path, read_only, new), settings)) as service:
        if service.writer is not None:
            warm_up(served)
        viewer = Viewer(service.backend, text=text, label=label, image=image, images=images)
        what = "read-only" if service.writer is None else "open for writing"
        line = f"{path.name or path}: {viewer.n:,} points, {what}, at {_address(host, listening)} (Ctrl-C to end)"
        run(make_app(viewer, service=service), listening, ready=lambda: say(line))


def _settings(host: str, token_file: Path | None, names: list[str], max_body: int, read_only: bool) -> Any:
    from grinch.serve.api.guard import LOOPBACK_NAMES, MEGABYTE, Settings

    token = _token(token_file)
    if token is None and not is_loopback(host):
        raise ValueError(
            f"--host {host} can be reached from other machines, so a token is needed. Make one with: {MAKE_TOKEN} >"
            f" token.txt and give it with --token-file token.txt, or in the variable {TOKEN_VARIABLE}"
        )
    own = [] if host in ("0.0.0.0", "::", "localhost") else [_in_url(host)]
    return Settings(
        token=token,
        hosts=(*LOOPBACK_NAMES, *own, *(name.lower() for name in names)),
        max_body=max_body * MEGABYTE,
        max_waiting=4 * max_body * MEGABYTE,
        is_read_only=read_only,
    )


def _token(file: Path | None) -> str | None:
    """Return the token from a file or the environment; on the command line everybody on the machine would see it."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        found = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"--token-file must be a file with a token; {str(file)!r} cannot be read: {error}") from None
    if not found:
        raise FileError(
            f"--token-file must be a file with a token; {str(file)!r} is empty. Make one with: {MAKE_TOKEN}"
        )
    return found


def is_loopback(host: str) -> bool:
    """Return whether an address is of this machine alone.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.168.1.5", "example.org")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _address(host: str, listening: Any) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{_in_url(shown)}:{listening.getsockname()[1]}/"


def _open(path: Path, read_only: bool, new: dict[str, Any]) -> Any:
    """Open a store to write or to read, or a model or a tree."""
    from grinch.serve.model_backend import is_run, open_backend

    if path.is_file() or (not is_store(path) and is_run(path)):
        return open_backend(path)
    if read_only:
        return open_existing(path, readonly=True)
    if not is_store(path):
        say(f"{path} does not exist; a new store is created")
    return open_or_create(path, **new)
