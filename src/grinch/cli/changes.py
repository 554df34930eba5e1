"""The clusters of a store, and what became of them, as a person reads it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.markup import escape
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
        named = [escape(_text(names.get(cluster, "")))] if names else []
        members = set(found[cluster])
        some = [each for each in exemplars.get(cluster, ()) if each in members] or found[cluster]
        few = escape(", ".join(_text(each) for each in some[:EXEMPLARS]))
        table.add_row(str(cluster), *named, f"{len(found[cluster]):,}", str(since.get(cluster, "")), few)
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
        names, times, version = opened.names(cut), opened.times(), opened.version
    if not found:
        console.print(f"No cluster changed after version {since}; the store is at version {version}")
        return
    for number, group in groupby(found, key=lambda change: change.version):
        when = f", {datetime.fromtimestamp(times[number]):%A %d %B %Y, %H:%M}" if number in times else ""
        console.print(f"Version {number}{when}")
        _print_version(list(group), names, top)


def _print_version(found: list[Any], names: dict[int, str], top: int) -> None:
    told = telling(found)
    ordered = sorted(told, key=lambda change: (KINDS.index(change.kind), -change.count, change.cluster))
    sizes = {change.cluster: change.size for change in found}
    for change in ordered[:top]:
        console.print(f"  {sentence(change, names, sizes)}", markup=False)
    left = ordered[top:]
    for kind in KINDS:
        same = [change for change in left if change.kind == kind]
        if same:
            by = f" by {sum(change.count for change in same):,} in all" if kind in ("grew", "shrank") else ""
            were = {"grew": "grew", "shrank": "shrank", "renamed": "got a name"}.get(kind, f"were {kind}")
            more = "more cluster" if any(change.kind == kind for change in ordered[:top]) else "cluster"
            console.print(f"  … and {count_of(len(same), more)} {were}{by}")
    console.print()


def telling(found: list[Any]) -> list[Any]:
    """The changes of a version without those that follow from others: of a split, what was born and what shrank."""
    split = {change.cluster: change for change in found if change.kind == "split"}
    merged = {change.cluster: change for change in found if change.kind == "merged"}
    parts = {other for change in split.values() for other in change.others}
    gone = {other for change in merged.values() for other in change.others}

    def is_known(change: Any) -> bool:
        if change.kind == "born":
            return change.cluster in parts or change.cluster in merged
        if change.kind == "dissolved":
            return change.cluster in gone
        why = {"shrank": split, "grew": merged}.get(change.kind, {}).get(change.cluster)
        return why is not None and why.count == change.count

    return [change for change in found if not is_known(change)]


def sentence(change: Any, names: dict[int, str], sizes: dict[int, int]) -> str:
    """What became of a cluster, in a sentence; ``sizes`` are those of other clusters that changed."""

    def called(cluster: int) -> str:
        return f"{cluster} {names[cluster]!r}" if cluster in names else str(cluster)

    def sized(cluster: int) -> str:
        return f"{called(cluster)} ({count_of(sizes[cluster], 'point')})" if cluster in sizes else called(cluster)

    me, who, others = change.cluster, f"cluster {called(change.cluster)}", [called(other) for other in change.others]
    where = f"cluster{'s' * (len(others) > 1)} {_listed(others)}"
    match change.kind:
        case "born":
            few = [_text(each) for each in change.exemplars[:EXEMPLARS]]
            some = f" ({', '.join(few)}{', …' * (change.size > len(few))})" if few else ""
            return f"{who} was born with {count_of(change.size, 'point')}{some}" + (f", of {where}" if others else "")
        case "grew" | "shrank":
            return f"{who} {change.kind} by {change.count:,} to {change.size:,}"
        case "split":
            return f"{who} was split into {_listed([sized(each) for each in (me, *change.others)])}"
        case "merged":
            merged = others if change.count == change.size else [called(me), *others]
            return f"clusters {_listed(merged)} were merged into {sized(me)}"
        case "dissolved":
            its = f"its {count_of(change.count, 'point')}"
            return f"{who} was dissolved: {its} went to {where}" if others else f"{who} was dissolved with {its}"
        case "renamed":
            return f"cluster {me} was named {names[me]!r}" if me in names else f"cluster {me} lost its name"
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


def _text(value: object) -> str:
    """An id or a name in one line."""
    return " ".join(str(value).split())
