"""The clusters of a store and what became of them, as a person reads it and for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from grinch.cli.app import print_table, say
from grinch.cli.options import StoreCut, StorePath
from grinch.cli.store import open_existing
from grinch.io.read import FileError
from grinch.io.write import write_table
from grinch.plots.style import counted
from grinch.store.digest import shortened, text_of

N_EXEMPLARS = 3
# Characters that are shown of a name, and of the text of a point.
MAX_NAME, MAX_TEXT = 30, 40
AGO = re.compile(r"(\d+)\s*(minute|hour|day|week)s?(\s+ago)?")
SINCE = 'a version (3), a date (2026-11-15, or "2026-11-15 08:30"), today, yesterday, or as in "1 day" and "2 hours"'


def clusters(
    store: StorePath,
    cut: StoreCut = "default",
    top: Annotated[int | None, Option(min=1, metavar="N", help="Only the N largest.")] = None,
    show: Annotated[str | None, Option(metavar="FIELD", help="Field to show (default: the first text).")] = None,
) -> None:
    """List the clusters of STORE, the largest first.

    For each cluster: its id, name and size, the version in which it was born, and some of its points.

    A cluster keeps its id and its name (grinch label) as the store grows. Points are shown by the text that is kept
    with them (grinch add --payload), or by their ids.
    """
    with open_existing(store, readonly=True) as opened:
        found, names = opened.clusters(cut), opened.names(cut)
        history = opened.changes(since=0, cut=cut)
        version, n = opened.version, len(opened)
        ordered = sorted(found, key=lambda cluster: (-len(found[cluster]), cluster))
        shown = ordered[:top]
        examples = _examples(opened, found, shown, history, show)
    title = f"{counted(n, 'point')} in {counted(len(ordered), 'cluster')}, version {version}"
    say(title if len(shown) == len(ordered) else f"{title}; the {len(shown):,} largest:")
    if not shown:
        return
    born: dict[int, int] = {}
    for change in history:
        for cluster in (change.cluster, *change.others):
            born.setdefault(cluster, change.version)
    columns = {
        "cluster": [str(cluster) for cluster in shown],
        "name": [shortened(names.get(cluster, ""), MAX_NAME) for cluster in shown],
        "size": [f"{len(found[cluster]):,}" for cluster in shown],
        "since": [str(born.get(cluster, "")) for cluster in shown],
    }
    if not any(columns["name"]):
        del columns["name"]
    columns["for example"] = [" · ".join(dict.fromkeys(examples[cluster])) for cluster in shown]
    say("")
    rows = zip(*columns.values(), strict=True)
    print_table(list(columns), rows, left=["name", "for example"], last="for example")


def cut_option(cut: str) -> str:
    """Return the option for a cut that is not the default one, as it follows a command."""
    return "" if cut == "default" else f" --cut {cut}"


def _examples(
    opened: Any, found: dict[int, list[Any]], shown: Sequence[int], history: list[Any], field: str | None
) -> dict[int, list[str]]:
    """Return a few texts for each cluster."""
    last = {change.cluster: change.exemplars for change in history if change.exemplars}
    chosen = {}
    for cluster in shown:
        members = set(found[cluster])
        some = [each for each in last.get(cluster, ()) if each in members]
        chosen[cluster] = list(dict.fromkeys([*some, *found[cluster][:N_EXEMPLARS]]))[:N_EXEMPLARS]
    ids = [each for cluster in shown for each in chosen[cluster]]
    texts = dict(zip(ids, (text_of(payload, field) for payload in opened.payload(ids)), strict=True))
    return {
        cluster: [shortened(each if texts[each] is None else texts[each], MAX_TEXT) for each in some]
        for cluster, some in chosen.items()
    }


def changes(
    store: StorePath,
    since: Annotated[
        str,
        Option(
            metavar="WHEN",
            help='A version (3), a date (2026-11-15), today, yesterday, or as in "1 day" (default: all).',
        ),
    ] = "0",
    each: Annotated[bool, Option("--each", help="Version by version, instead of all in one.")] = False,
    cut: StoreCut = "default",
    top: Annotated[int, Option(min=1, metavar="N", help="Largest number of events (with --each, per version).")] = 10,
    format: Annotated[Literal["text", "json", "csv"], Option(help="json and csv have all changes.")] = "text",
) -> None:
    """Show what became of the clusters of STORE, in sentences.

    The most important come first: new topics, topics that grew by half or more, splits and merges of large
    ones, and topics that went; first of all those that have a name (grinch label). All others are counted.
    Clusters at the version of --since are compared with those of now: what came and went in between is left
    out. With --each, every version is shown by itself. Each batch that was added or removed is a version. A date
    or a time stands for the last version before it.
    """
    with open_existing(store, readonly=True) as opened:
        times, version = opened.times(), opened.version
        start = version_at(since, times, datetime.now())
        if format != "text":
            return _write(format, opened, each, start, cut)
        spans = [(each_version - 1, each_version) for each_version in range(start + 1, version + 1)]
        for first, last in spans if each else [(start, version)]:
            digest = opened.digest(first, top, cut, until=last)
            if each and not digest.events and not digest.rest:
                continue
            origin = f"From version {first}{_time(times.get(first), ' ({})')}" if first else "From the beginning"
            title = f"Version {last}" if each else f"{origin} to version {last}"
            came = f": {counted(digest.n_new, 'new point')}" if digest.n_new else ""
            say(f"{title}{_time(times.get(last), ' ({})')}{came}")
            for line in digest.lines():
                say(line, "  ")


def version_at(text: str, times: dict[int, float], now: datetime) -> int:
    """Return the last version before a time; a number is a version.

    >>> times = {1: datetime(2026, 11, 14, 12).timestamp(), 2: datetime(2026, 11, 15, 12).timestamp()}
    >>> [version_at(text, times, datetime(2026, 11, 16, 9)) for text in ("1", "2026-11-15", "yesterday", "2 days")]
    [1, 1, 1, 0]
    >>> version_at("today", times, datetime(2026, 11, 16, 9))
    2
    """
    text = text.strip().lower()
    if text.isascii() and text.isdigit():
        return int(text)
    moment = _moment(text, now).timestamp()
    return max((version for version, at in times.items() if at < moment), default=0)


def _moment(text: str, now: datetime) -> datetime:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return midnight - timedelta(days=text == "yesterday")
    ago = AGO.fullmatch(text)
    try:
        if ago:
            return now - timedelta(**{f"{ago[2]}s": int(ago[1])})
        return datetime.fromisoformat(text.upper())
    except (ValueError, OverflowError):
        raise FileError(f"--since must be {SINCE}; got {text!r:.60}") from None


def _time(seconds: float | None, form: str) -> str:
    return "" if seconds is None else form.format(f"{datetime.fromtimestamp(seconds):%d %b %Y, %H:%M}")


def print_kinds(opened: Any, store: Path, version: int, cut: str = "default") -> None:
    """Print what became of clusters since a version in one line, and how to see more."""
    if counts := opened.digest(version, 0, cut).counts:
        say(f"Clusters: {counts}")
        say(f"See them with: grinch changes {store} --since {version}{cut_option(cut)}")


def _write(format: str, opened: Any, each: bool, start: int, cut: str) -> None:
    """Write all changes for programs: those of every version, or net of what came and went in between."""
    net, names = opened.net_changes(start, cut), opened.names(cut, gone=True)
    first, middle = (["version"], []) if each else ([], ["size_before"])
    columns = [*first, "kind", "cluster", "name", "others", *middle, "size", "count", "exemplars"]
    rows = []
    for change in opened.changes(start, cut) if each else net.changes:
        points = opened.points_at(change.exemplars) if not each else ()
        exemplars = change.exemplars if each else tuple(name for name, _ in points if name is not None)
        known = {**asdict(change), "name": names.get(change.cluster), "exemplars": exemplars}
        known["size_before"] = net.before.get(change.cluster, 0)
        rows.append({column: known[column] for column in columns})
    if format == "json":
        json.dump({"since": start, "version": opened.version, "cut": cut, "changes": rows}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    cells = ((json.dumps(cell) if isinstance(cell, tuple) else cell for cell in row.values()) for row in rows)
    write_table(sys.stdout, columns, cells)
