"""What became of the clusters of a store, as a person reads it, and for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from grinch.cli.app import app, say
from grinch.cli.clusters import EXEMPLARS, one_line, shortened, text_of
from grinch.cli.store import CutName, StorePath, count_of, open_existing
from grinch.cli.when import version_at, written
from grinch.io.write import harmless
from grinch.store.net import Net, net_changes

FormatName = Literal["text", "json", "csv"]
# From what a reader must know to what happens every day.
KINDS = ("dissolved", "merged", "split", "born", "renamed", "grew", "shrank", "moved")
# Changes of fewer points than this come last: among texts, there are many clusters of one or two.
FEW_POINTS = 3
# What is shown of the text of a point.
LONGEST = 28
SAID = {"grew": "grew", "shrank": "shrank", "renamed": "got a name", "moved": "exchanged points"}


@app.command(short_help="Tell what became of the clusters of a store.")
def changes(
    store: StorePath,
    since: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help='A version (3), a date (2026-11-15), today, yesterday, or as in "1 day" (default: all).',
        ),
    ] = "0",
    each: Annotated[bool, typer.Option("--each", help="Version by version, instead of all in one.")] = False,
    cut: CutName = "default",
    top: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Changes to write out (with --each, of a version); others are counted."),
    ] = 20,
    format: Annotated[FormatName, typer.Option(help="json and csv are for programs, and have all changes.")] = "text",
) -> None:
    """Tell what became of the clusters of STORE: born, grown, split, merged, dissolved.

    The clusters there were at the version of --since are compared with those of now; what came and went in between is
    left out. With --each, what happened in every version is told. Each batch that was added or removed is a version;
    the store says its version after every change. A date or a time stands for the last version before it.

    Clusters that have a name come first, and if one of them was dissolved, that is always shown. Changes of one or two
    points come last.
    """
    with open_existing(store, readonly=True) as opened:
        times, version = opened.times(), opened.version
        start = version_at(since, times, datetime.now())
        found, names = opened.changes(since=start, cut=cut), opened.names(cut, gone=True)
        net = net_changes(found)
        if format == "text" and found:
            found, net = _with_texts(opened, found, net, each)
    if format != "text":
        _write(format, found if each else net.changes, None if each else net.before, names, start, version, cut)
    elif not found:
        say(f"No cluster changed after version {start}; the store is at version {version}")
    elif each:
        for number, group in groupby(found, key=lambda change: change.version):
            when = written(times.get(number))
            say(f"Version {number}" + (f", {when}" if when else ""))
            group_found = list(group)
            sizes = {change.cluster: change.size for change in group_found}
            _print(telling(group_found), names, sizes, top)
            say("")
    else:
        _print_net(net, names, start, version, times, top)


def print_kinds(opened: Any, store: Path, version: int, cut: str = "default") -> None:
    """What became of clusters since a version, in one line, and how to see more."""
    kinds = Counter(change.kind for change in net_changes(opened.changes(since=version, cut=cut)).changes)
    if kinds:
        say("Clusters: " + ", ".join(f"{kinds[kind]:,} {SAID.get(kind, kind)}" for kind in KINDS if kinds[kind]))
        option = "" if cut == "default" else f" --cut {cut}"
        say(f"See them with: grinch changes {store} --since {version}{option}")


def _print_net(net: Net, names: dict[int, str], start: int, version: int, times: dict[int, float], top: int) -> None:
    when = written(times.get(start))
    since = f"version {start}" + (f" ({when})" if when else "") if start else "the beginning"
    say(f"From {since} to version {version} ({written(times.get(version))})")
    _print(net.changes, names, net.sizes, top, net.before)
    if net.passing:
        was = "was" if net.passing == 1 else "were"
        say(f"{count_of(net.passing, 'cluster')} {was} born and dissolved in between", "  ")
    if not net.changes and not net.passing:
        say("the clusters are the same", "  ")


def _print(
    told: list[Any],
    names: dict[int, str],
    sizes: dict[int, int],
    top: int,
    before: Mapping[int, int] | None = None,
) -> None:
    def rank(change: Any) -> tuple[bool, bool, int, int, int]:
        is_named = _is_named(change, names)
        is_small = not is_named and change.count < FEW_POINTS
        return (not is_named, is_small, KINDS.index(change.kind), -change.count, change.cluster)

    ordered = sorted(told, key=rank)
    shown = [c for i, c in enumerate(ordered) if i < top or (_is_named(c, names) and c.kind in ("dissolved", "merged"))]
    for change in shown:
        say(sentence(change, names, sizes, before), "  ")
    left = ordered[len(shown) :]
    for kind in KINDS:
        same = [change for change in left if change.kind == kind]
        if same:
            by = f" by {sum(change.count for change in same):,} in all" if kind in ("grew", "shrank") else ""
            were = SAID.get(kind, f"{'was' if len(same) == 1 else 'were'} {kind}")
            more = "more cluster" if any(change.kind == kind for change in shown) else "cluster"
            say(f"… and {count_of(len(same), more)} {were}{by}", "  ")


def _is_named(change: Any, names: Mapping[int, str]) -> bool:
    return change.cluster in names or (change.kind == "merged" and any(other in names for other in change.others))


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


def sentence(
    change: Any, names: Mapping[int, str], sizes: Mapping[int, int], before: Mapping[int, int] | None = None
) -> str:
    """What became of a cluster, in a sentence.

    ``sizes`` are those of other clusters that changed; ``before``, of a net change, those that there were then.
    """

    def called(cluster: int) -> str:
        return f"{cluster} {one_line(names[cluster])!r}" if cluster in names else str(cluster)

    def sized(cluster: int) -> str:
        return f"{called(cluster)} ({count_of(sizes[cluster], 'point')})" if cluster in sizes else called(cluster)

    me, who, others = change.cluster, f"cluster {called(change.cluster)}", [called(other) for other in change.others]
    where = f"cluster{'s' * (len(others) > 1)} {_listed(others)}"
    few = [shortened(each, LONGEST) for each in change.exemplars[:EXEMPLARS]]
    some = f" ({' · '.join(few)}{' · …' * (change.size > len(few))})" if few else ""
    match change.kind:
        case "born":
            return f"{who} was born with {count_of(change.size, 'point')}" + (f" of {where}" if others else "") + some
        case "grew" | "shrank":
            return f"{who} {change.kind} by {change.count:,} to {change.size:,}"
        case "moved":
            return f"{who} has {count_of(change.size, 'point')} as before, {change.count:,} of them others"
        case "split":
            had = f" ({count_of(before[me], 'point')} then)" if before and me in before else ""
            return f"{who}{had} was split into {_listed([sized(each) for each in (me, *change.others)])}"
        case "merged":
            is_new = change.count == change.size if before is None else me not in before
            return f"clusters {_listed(others if is_new else [called(me), *others])} were merged into {sized(me)}"
        case "dissolved":
            its = f"its {count_of(change.count, 'point')}"
            return f"{who} was dissolved: {its} went to {where}" if others else f"{who} was dissolved with {its}"
        case "renamed":
            return f"cluster {me} was named {one_line(names[me])!r}" if me in names else f"cluster {me} lost its name"
    return f"{who}: {change.kind}"


def _with_texts(opened: Any, found: list[Any], net: Net, each: bool) -> tuple[list[Any], Net]:
    """The exemplars of clusters that were born as texts, where the points have any."""
    told = found if each else net.changes
    ids = list(dict.fromkeys(one for change in told if change.kind == "born" for one in change.exemplars[:EXEMPLARS]))
    texts = dict(zip(ids, map(text_of, opened.payload(ids)), strict=True)) if ids else {}

    def read(change: Any) -> Any:
        if change.kind != "born":
            return change
        return replace(change, exemplars=tuple(texts.get(one) or one for one in change.exemplars[:EXEMPLARS]))

    told = [read(change) for change in told]
    return (told, net) if each else (found, net._replace(changes=told))


def _write(
    format: str,
    told: Sequence[Any],
    before: Mapping[int, int] | None,
    names: Mapping[int, str],
    start: int,
    version: int,
    cut: str,
) -> None:
    """All changes for programs; ``before`` is None for those of every version."""
    rows = [
        {
            **({"version": change.version} if before is None else {}),
            "kind": change.kind,
            "cluster": change.cluster,
            "name": names.get(change.cluster),
            "others": list(change.others),
            **({} if before is None else {"size_before": before.get(change.cluster, 0)}),
            "size": change.size,
            "count": change.count,
            "exemplars": list(change.exemplars),
        }
        for change in told
    ]
    if format == "json":
        json.dump({"since": start, "version": version, "cut": cut, "changes": rows}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    columns = ["version"] if before is None else []
    columns += ["kind", "cluster", "name", "others"] + ([] if before is None else ["size_before"])
    columns += ["size", "count", "exemplars"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = [row[name] for name in columns]
        writer.writerow(harmless(json.dumps(cell) if isinstance(cell, list) else cell for cell in cells))


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
