"""A store over HTTP."""

from __future__ import annotations

import ipaddress
import os
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from grinch.cli.app import app, say
from grinch.cli.options import (
    DtypeName,
    ImageField,
    ImageFolder,
    LabelField,
    NewClusters,
    NewLayer,
    NewLinkage,
    NewMetric,
    NewThreshold,
    TextField,
    as_layer,
)
from grinch.cli.store import open_existing, open_or_create
from grinch.io.read import FileError
from grinch.store.opening import is_store

PORT, VARIABLE = 8765, "GRINCH_TOKEN"
MAKE_TOKEN = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"


@app.command(short_help="Serve a store, a model or a tree over HTTP.")
def serve(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A store (a folder; made if it is not there), the work folder of a run by many workers, a saved model,"
            " scipy's linkage matrix (.npy), or a tree in Newick.",
        ),
    ],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="Port to listen on; 0 is a free one.")
    ] = PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"File with the token that requests must bring (or the variable {VARIABLE})."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further name by which the service is called. May be repeated."),
    ] = None,
    max_body: Annotated[int, typer.Option(min=1, max=4096, metavar="MB", help="Largest body of a request.")] = 64,
    read_only: Annotated[bool, typer.Option("--read-only", help="Change nothing; another process may write.")] = False,
    linkage: NewLinkage = None,
    metric: NewMetric = None,
    clusters: NewClusters = None,
    threshold: NewThreshold = None,
    layer: NewLayer = None,
    dtype: Annotated[DtypeName | None, typer.Option(help="For a new store: how numbers are kept.")] = None,
    text: TextField = None,
    label: LabelField = None,
    image: ImageField = None,
    images: ImageFolder = None,
) -> None:
    """Serve PATH over HTTP: insert, remove, update, predict, clusters, what changed; and the page of grinch explore.

    What is acknowledged is on disk. Small inserts that come together are written together, and readers are answered
    meanwhile. The description of all routes is at /openapi.json; in Python, grinch.connect(url) has the face of a
    store.

    It listens on this machine alone unless --host says otherwise; then a token is needed.

    \b
    For example:
      grinch serve news
      grinch serve news --host 0.0.0.0 --token-file token.txt --allow-host news.example.org
      grinch serve model.grinch --port 0
    """  # noqa: D301 (\b is for the help page)
    settings = _settings(host, token_file, allow_host or [], max_body, read_only)
    cut = {"n_clusters": clusters, "threshold": threshold, "layer": as_layer(layer)}
    new = {"linkage": linkage, "metric": metric, **cut, "dtype": dtype}
    from grinch.serve.api.app import listen, make_app, run
    from grinch.serve.api.service import Service, warm_up
    from grinch.serve.views.viewer import Viewer

    with listen(host, port) as listening, closing(Service(served := _open(path, read_only, new), settings)) as service:
        if service.writer is not None:
            warm_up(served)
        viewer = Viewer(service.backend, text=text, label=label, image=image, images=images)
        where = _address(host, listening.getsockname()[1])
        what = "read-only" if service.writer is None else "open for writing"
        run(
            make_app(viewer, service=service),
            listening,
            ready=lambda: say(f"{path.name or path}: {viewer.n:,} points, {what}, at {where} (Ctrl-C to end)"),
        )


def _settings(host: str, token_file: Path | None, names: list[str], max_body: int, read_only: bool) -> Any:
    from grinch.serve.api.guard import LOOPBACK_NAMES, MEGABYTE, Settings

    token = _token(token_file)
    if token is None and not is_loopback(host):
        raise ValueError(
            f"--host {host} can be reached from other machines, so a token is needed. Make one with: {MAKE_TOKEN} >"
            f" token.txt and give it with --token-file token.txt, or in the variable {VARIABLE}"
        )
    own = [] if host in ("0.0.0.0", "::", "localhost") else [f"[{host}]" if ":" in host else host]
    hosts = (*LOOPBACK_NAMES, *own, *(name.lower() for name in names))
    return Settings(
        token=token,
        hosts=hosts,
        max_body=max_body * MEGABYTE,
        max_waiting=4 * max_body * MEGABYTE,
        is_read_only=read_only,
    )


def _token(file: Path | None) -> str | None:
    """The token from a file or the environment; on the command line everybody on the machine would see it."""
    if file is None:
        return os.environ.get(VARIABLE) or None
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
    """Whether an address is of this machine alone.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.168.1.5", "example.org")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _address(host: str, port: int) -> str:
    shown = "127.0.0.1" if host == "0.0.0.0" else "[::1]" if host == "::" else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"


def _open(path: Path, read_only: bool, new: dict[str, Any]) -> Any:
    """A store to write or to read, or a model or a tree."""
    from grinch.serve.model_backend import is_run, open_backend

    if path.is_file() or (not is_store(path) and is_run(path)):
        return open_backend(path)
    if read_only:
        return open_existing(path, readonly=True)
    if is_store(path):
        return open_or_create(path, **new)
    say(f"{path} is not there; a new store is made")
    return open_or_create(path, **new)
