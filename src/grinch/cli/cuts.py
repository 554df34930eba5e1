"""The clusters of a store as its user wants them: names, other cuts, chosen again, improved."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from grinch.cli.app import app, say, screen
from grinch.cli.changes import print_kinds
from grinch.cli.options import LAYER_HELP, as_layer
from grinch.cli.store import CutName, StorePath, count_of, open_existing
from grinch.io.read import FileError


@app.command(short_help="Give a cluster of a store a name that stays.")
def label(
    store: StorePath,
    cluster: Annotated[int, typer.Argument(metavar="CLUSTER", help="The id of the cluster: see grinch clusters.")],
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Its name.")] = None,
    cut: CutName = "default",
    clear: Annotated[bool, typer.Option("--clear", help="Take its name away.")] = False,
) -> None:
    """Give a cluster of STORE a name. It stays with the cluster as the store grows."""
    if (name is None) != clear:
        raise FileError("give NAME, or --clear to take the name away")
    with open_existing(store) as opened:
        before = opened.version
        try:
            opened.label(cluster, name, cut)
        except ValueError as error:
            raise FileError(str(error).replace("see clusters()", f"see grinch clusters {store}")) from None
        called = "has no name" if name is None else f"is called {name!r}"
        say(f"cluster {cluster} {called}; version {opened.version}" + (" as before" * (opened.version == before)))


@app.command(short_help="Let a store choose its clusters again.")
def recut(store: StorePath, cut: CutName = "default") -> None:
    """Let an automatic cut of STORE choose its clusters again, by all points there are now.

    Between two recuts, clusters change only where points come and go. Clusters that are still the same keep their ids
    and names.
    """
    with open_existing(store) as opened:
        about, version = opened.cuts().get(cut), opened.version
        if about is not None and about["kind"] != "automatic":
            raise FileError(f"--cut {cut} is not automatic, so it has nothing to choose; it is always up to date")
        opened.recut(cut)
        now = opened.cuts()[cut]["clusters"]
        say(f"{count_of(now, 'cluster')}, {about['clusters']:,} before; version {opened.version}")
        print_kinds(opened, store, version, cut)


@app.command(short_help="Improve the tree of a store.")
def refine(
    store: StorePath,
    passes: Annotated[int, typer.Option(min=1, metavar="N", help="Passes; the first gains the most.")] = 1,
) -> None:
    """Improve the tree of STORE. It takes about as long as adding all of its points."""
    with open_existing(store) as opened:
        version, began = opened.version, time.perf_counter()
        opened.refine(passes)
        seconds = time.perf_counter() - began
        say(f"{count_of(len(opened), 'point')} refined in {seconds:.2f} s; version {opened.version}")
        print_kinds(opened, store, version)


@app.command(short_help="List the cuts of a store, add one, or drop one.")
def cuts(
    store: StorePath,
    add: Annotated[str | None, typer.Option(metavar="NAME", help="Follow another cut, and call it this.")] = None,
    clusters: Annotated[
        int | None,
        typer.Option("--clusters", "-k", min=1, metavar="N", help="With --add: cut into this many clusters."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", "-t", metavar="SCORE", help="With --add: cut where two sides score below this."),
    ] = None,
    layer: Annotated[str | None, typer.Option("--layer", metavar="LAYER", help=f"With --add: {LAYER_HELP}")] = None,
    drop: Annotated[str | None, typer.Option(metavar="NAME", help="Follow this cut no longer.")] = None,
) -> None:
    """List the cuts of STORE: the ways it is divided into clusters, each of which is followed from version to version.

    Every store has one called default; --add follows another (automatic without --clusters and --threshold), and
    grinch clusters, changes and predict take it as --cut NAME.
    """
    how = {"n_clusters": clusters, "threshold": threshold, "layer": as_layer(layer)}
    how = {name: value for name, value in how.items() if value is not None}
    if add is None and how:
        raise FileError("--clusters, --threshold and --layer are for a cut to add: give its name with --add")
    is_changing = add is not None or drop is not None
    with open_existing(store, readonly=not is_changing) as opened:
        if drop is not None:
            opened.drop_cut(drop)
        if add is not None:
            opened.add_cut(add, **how)
        found, version = opened.cuts(), opened.version
    say(f"{count_of(len(found), 'cut')}, version {version}")
    say("")
    table = Table(box=None, pad_edge=False)
    is_advised = any(about["is_recut_advised"] for about in found.values())
    for name in ("cut", "made", "clusters", *["advice"] * is_advised):
        table.add_column(name, justify="right" if name == "clusters" else "left", no_wrap=name != "advice")
    for name, about in found.items():
        option = "" if name == "default" else f" --cut {name}"
        advice = [escape(f"grinch recut {store}{option}")] if about["is_recut_advised"] else []
        table.add_row(escape(name), _how(about), f"{about['clusters']:,}", *advice)
    screen().print(table)


def _how(about: dict[str, Any]) -> str:
    if about["kind"] == "n_clusters":
        return f"into {about['n_clusters']:,}" + ", by height" * (about.get("cut") == "height")
    if about["kind"] == "threshold":
        return f"at {about['threshold']:g}"
    layer = about.get("layer", "auto")
    return "automatic" + (f", layer {layer}" if isinstance(layer, int) else f", {layer}" * (layer != "auto"))
