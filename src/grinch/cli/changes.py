"""The clusters of a store, and what became of them, as a person reads it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.table import Table

from grinch.cli.app import app, console
from grinch.cli.store import CutName, StorePath, count_of, open_existing

# From what a reader must know to what happens every day.
KINDS = ("split", "merged", "born", "dissolved", "renamed", "grew", "shrank")
EXEMPLARS = 3


@app.command(short_help="List the clusters of a store.")
def clusters(
    store: StorePath,
    cut: CutName = "default",
    top: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the N largest.")] = None,
) -> None:
    """List the clusters of STORE, the largest first: id, name, size, a few of its points, and since which version.

    The id of a cluster stays with it as the store grows. Names are given with store.label in Python.
    """
    with open_existing(store, readonly=True) as opened:
        found, names = opened.clusters(cut), opened.names(cut)
        changes = opened.changes(since=0, cut=cut)
        version, n = opened.version, len(opened)
    ordered = sorted(found, key=lambda cluster: (-len(found[cluster]), cluster))
    shown = ordered[:top]
    title = f"{count_of(n, 'point')} in {count_of(len(ordered), 'cluster')}, version {version}"
    console.print(title if len(shown) == len(ordered) else f"{title}; the {len(shown):,} largest:")
    if not shown:
        return
    since, exemplars = _since(changes), {change.cluster: change.exemplars for change in changes if change.exemplars}
    table = Table(box=None, pad_edge=False)
    for name, justify in (("cluster", "right"), ("name", "left"), ("size", "right"), ("since", "right")):
        if name != "name" or names:
            table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=name != "name")
    table.add_column("for example", overflow="ellipsis", no_wrap=True)
    for cluster in shown:
        cells = [str(cluster), *([_text(names.get(cluster, ""))] if names else []), f"{len(found[cluster]):,}"]
        members = set(found[cluster])
        some = [each for each in exemplars.get(cluster, ()) if each in members] or found[cluster]
        table.add_row(*cells, str(since.get(cluster, "")), ", ".join(_text(each) for each in some[:EXEMPLARS]))
    console.print()
    console.print(table)


@app.command(short_help="Tell what became of the clusters of a store.")
def changes(
    store: StorePath,
    since: Annotated[
        int, typer.Option(min=0, metavar="VERSION", help="Only what happened after this version (default: all).")
    ] = 0,
    cut: CutName = "default",
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="Changes to write out for each version; the others are counted.")
    ] = 20,
) -> None:
    """Tell what became of the clusters of STORE, version by version: born, grown, split, merged, dissolved.

    Each batch that was added or removed is a version. The store says its version after every change, and grinch store
    info shows it; what is new today is what happened since yesterday's.
    """
    with open_existing(store, readonly=True) as opened:
        found = opened.changes(since=since, cut=cut)
        names, times, version = opened.names(cut), _times(opened), opened.version
    if not found:
        console.print(f"No cluster changed after version {since}; the store is at version {version}")
        return
    for number, group in groupby(found, key=lambda change: change.version):
        when = f", {datetime.fromtimestamp(times[number]):%A %d %B %Y, %H:%M}" if number in times else ""
        console.print(f"Version {number}{when}")
        _print_version(list(group), names, top)


def _print_version(found: list[Any], names: dict[int, str], top: int) -> None:
    ordered = sorted(found, key=lambda change: (KINDS.index(change.kind), -change.count, change.cluster))
    for change in ordered[:top]:
        console.print(f"  {sentence(change, names)}", markup=False)
    left = ordered[top:]
    for kind in KINDS:
        same = [change for change in left if change.kind == kind]
        if same:
            by = f" by {sum(change.count for change in same):,} in all" if kind in ("grew", "shrank") else ""
            were = {"grew": "grew", "shrank": "shrank", "renamed": "got names"}.get(kind, f"were {kind}")
            more = "more cluster" if any(change.kind == kind for change in ordered[:top]) else "cluster"
            console.print(f"  … and {count_of(len(same), more)} {were}{by}")
    console.print()


def sentence(change: Any, names: dict[int, str]) -> str:
    """What became of a cluster, in a sentence."""

    def called(cluster: int) -> str:
        return f"{cluster} {names[cluster]!r}" if cluster in names else str(cluster)

    who, others = f"cluster {called(change.cluster)}", _listed([called(other) for other in change.others])
    few = f" ({', '.join(_text(each) for each in change.exemplars[:EXEMPLARS])}{', …' * (change.size > EXEMPLARS)})"
    match change.kind:
        case "born":
            return f"{who} was born with {count_of(change.size, 'point')}{few if change.exemplars else ''}"
        case "grew":
            return f"{who} grew by {change.count:,} to {change.size:,}"
        case "shrank":
            return f"{who} shrank by {change.count:,} to {change.size:,}"
        case "split":
            return f"{who} was split into {others}"
        case "merged":
            return f"clusters {others} were merged into {called(change.cluster)}, now {count_of(change.size, 'point')}"
        case "dissolved":
            return f"{who} was dissolved" + (f" into {others}" if others else "")
        case "renamed":
            return (
                f"cluster {change.cluster} was named {names[change.cluster]!r}"
                if change.cluster in names
                else (f"cluster {change.cluster} lost its name")
            )
    return f"{who}: {change.kind}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _since(found: list[Any]) -> dict[int, int]:
    """The version in which each cluster got its id."""
    since: dict[int, int] = {}
    for change in found:
        for cluster in (change.cluster, *change.others):
            since.setdefault(cluster, change.version)
    return since


def _times(opened: Any) -> dict[int, float]:
    """When each version was written."""
    return dict(opened.history())


def _text(value: object) -> str:
    """An id or a name in one line."""
    return " ".join(str(value).split())
