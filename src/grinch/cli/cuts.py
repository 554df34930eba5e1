"""Names, cuts and refinement of the clusters of a store."""

from __future__ import annotations

import time
from typing import Annotated, Any

from typer import Argument, Option

from grinch.cli.app import print_table, say
from grinch.cli.clusters import print_kinds
from grinch.cli.options import LAYER_HELP, StoreCut, StorePath, cut_settings
from grinch.cli.store import open_existing
from grinch.io.read import FileError
from grinch.plots.style import counted


def label(
    store: StorePath,
    cluster: Annotated[int, Argument(metavar="CLUSTER", help="The id of the cluster: see grinch clusters.")],
    name: Annotated[str | None, Argument(metavar="NAME", help="Its name.")] = None,
    cut: StoreCut = "default",
    clear: Annotated[bool, Option("--clear", help="Remove its name.")] = False,
) -> None:
    """Name a cluster of STORE.

    The name stays with the cluster as the store grows.
    """
    if (name is None) != clear:
        raise FileError("give NAME, or --clear to remove the name")
    with open_existing(store) as opened:
        before = opened.version
        try:
            opened.label(cluster, name, cut)
        except ValueError as error:
            raise FileError(str(error).replace("see clusters()", f"see grinch clusters {store}")) from None
        called = "has no name" if name is None else f"is called {name!r}"
        say(f"cluster {cluster} {called}; version {opened.version}" + (" as before" * (opened.version == before)))


def recut(store: StorePath, cut: StoreCut = "default") -> None:
    """Choose the clusters of an automatic cut again.

    They are chosen by all points in STORE, which also happens by itself when a quarter of them came, left or moved. In
    between, clusters change only where points come and go. Clusters that are still the same keep their ids and names.
    """
    with open_existing(store) as opened:
        about, version = opened.cuts().get(cut), opened.version
        if about is not None and about["kind"] != "automatic":
            raise FileError(f"--cut {cut} is not automatic, so it has nothing to choose; it is always up to date")
        opened.recut(cut)
        now = opened.cuts()[cut]["clusters"]
        say(f"{counted(now, 'cluster')}, {about['clusters']:,} before; version {opened.version}")
        print_kinds(opened, store, version, cut)


def refine(
    store: StorePath, passes: Annotated[int, Option(min=1, metavar="N", help="Passes; the first gains the most.")] = 1
) -> None:
    """Improve the tree of STORE.

    It takes about as long as adding all of its points.
    """
    with open_existing(store) as opened:
        version, began = opened.version, time.perf_counter()
        opened.refine(passes)
        seconds = time.perf_counter() - began
        say(f"{counted(len(opened), 'point')} refined in {seconds:.2f} s; version {opened.version}")
    with open_existing(store, readonly=True) as closed:
        print_kinds(closed, store, version)


def cuts(
    store: StorePath,
    add: Annotated[str | None, Option(metavar="NAME", help="Add a cut with this name.")] = None,
    clusters: Annotated[
        int | None, Option("--clusters", "-k", min=1, metavar="N", help="With --add: number of clusters.")
    ] = None,
    threshold: Annotated[
        float | None, Option("--threshold", "-t", metavar="SCORE", help="With --add: score to cut at.")
    ] = None,
    layer: Annotated[str | None, Option("--layer", metavar="LAYER", help=f"With --add: {LAYER_HELP}")] = None,
    drop: Annotated[str | None, Option(metavar="NAME", help="Drop this cut.")] = None,
) -> None:
    """List the cuts of STORE, add or drop one.

    A cut is a way to divide the tree into clusters, which are tracked from version to version.

    Every store has one called default; --add adds another (automatic without --clusters and --threshold), and
    grinch clusters, changes and predict take it as --cut NAME.
    """
    how = cut_settings(clusters, threshold, layer)
    if add is None and how:
        raise FileError("--clusters, --threshold and --layer are for a cut to add: give its name with --add")
    is_changing = add is not None or drop is not None
    with open_existing(store, readonly=not is_changing) as opened:
        if drop is not None:
            opened.drop_cut(drop)
        if add is not None:
            opened.add_cut(add, **how)
        found, version = opened.cuts(), opened.version
    say(f"{counted(len(found), 'cut')}, version {version}")
    say("")
    rows = [(name, _how(about), f"{about['clusters']:,}") for name, about in found.items()]
    print_table(("cut", "made", "clusters"), rows, left=("cut", "made"))


def _how(about: dict[str, Any]) -> str:
    if about["kind"] == "n_clusters":
        return f"into {about['n_clusters']:,}" + ", by height" * (about.get("cut") == "height")
    if about["kind"] == "threshold":
        return f"at {about['threshold']:g}"
    layer = about.get("layer", "auto")
    return "automatic" + (f", layer {layer}" if isinstance(layer, int) else f", {layer}" * (layer != "auto"))
