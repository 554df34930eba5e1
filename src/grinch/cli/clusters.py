"""The clusters of a store and what became of them, as a person reads it and for programs."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from grinch.cli.app import count_of, print_table, say
from grinch.cli.options import StoreCut, StorePath
from grinch.cli.store import open_existing
from grinch.io.read import FileError
from grinch.io.write import harmless
from grinch.store.change_summary import ChangeSummary, summarize_changes

N_EXEMPLARS = 3
# Characters that are shown of a name, of the text of a point in a table, and in a sentence.
MAX_NAME, MAX_TEXT, MAX_IN_SENTENCE = 30, 40, 28
# From what a reader must know to what happens every day.
KINDS = ("dissolved", "merged", "split", "born", "renamed", "grew", "shrank", "moved")
VERBS = {"grew": "grew", "shrank": "shrank", "renamed": "got a name", "moved": "exchanged points"}
# Changes of fewer points than this come last: among texts, there are many clusters of one or two.
FEW_POINTS = 3
AGO = re.compile(r"(\d+)\s*(minute|hour|day|week)s?(\s+ago)?")
SINCE = 'a version (3), a date (2026-11-15, or "2026-11-15 08:30"), today, yesterday, or as in "1 day" and "2 hours"'


def clusters(
    store: StorePath,
    cut: StoreCut = "default",
    top: Annotated[int | None, Option(min=1, metavar="N", help="Only the N largest.")] = None,
    show: Annotated[str | None, Option(metavar="FIELD", help="Field to show (default: the first text).")] = None,
) -> None:
    """List the clusters of STORE, the largest first.

    Shown are the id, the name, the size, the version that a cluster was born in, and some of its points.

    The id of a cluster stays with it as the store grows; so does its name (grinch label). Points are shown by the text
    that was kept with them (grinch add --payload), or by their ids.
    """
    with open_existing(store, readonly=True) as opened:
        found, names = opened.clusters(cut), opened.names(cut)
        history, about = opened.changes(since=0, cut=cut), opened.cuts()[cut]
        version, n = opened.version, len(opened)
        ordered = sorted(found, key=lambda cluster: (-len(found[cluster]), cluster))
        shown = ordered[:top]
        examples = _examples(opened, found, shown, history, show)
    title = f"{count_of(n, 'point')} in {count_of(len(ordered), 'cluster')}, version {version}"
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
    if about["is_recut_advised"]:
        say("")
        say(
            f"{count_of(about['points_changed'], 'point')} came or went since these clusters were chosen. To choose"
            f" them again: grinch recut {store}{cut_option(cut)}"
        )


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


def text_of(payload: Any, field: str | None = None) -> str | None:
    """Return what a payload says in a line: a text, a field of it, or the first of its fields that is a text.

    >>> text_of({"year": 2026, "title": "News", "text": "..."}), text_of({"year": 2026}, "year"), text_of(None)
    ('News', '2026', None)
    """
    if isinstance(payload, dict):
        if field is not None:
            return None if payload.get(field) is None else str(payload[field])
        return next((value for value in payload.values() if isinstance(value, str) and value.strip()), None)
    return payload if isinstance(payload, str) and payload.strip() else None


def shortened(value: object, longest: int) -> str:
    """Return a value in one line of at most ``longest`` characters."""
    text = one_line(value)
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


def one_line(value: object) -> str:
    """Return an id or a name in one line."""
    return " ".join(str(value).split())


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
    top: Annotated[int, Option(min=1, metavar="N", help="Changes to write out (with --each, per version).")] = 20,
    format: Annotated[Literal["text", "json", "csv"], Option(help="json and csv have all changes.")] = "text",
) -> None:
    """Show what changed in the clusters of STORE.

    Clusters are born, grow, shrink, split, merge and dissolve. Those at the version of --since are compared with those
    of now; what came and went in between is left out. With --each, the changes of every version are shown. Each batch
    that was added or removed is a version. A date or a time stands for the last version before it.

    Clusters with a name come first, and if one of them was dissolved, that is always shown. Changes of one or two
    points come last.
    """
    with open_existing(store, readonly=True) as opened:
        times, version = opened.times(), opened.version
        start = version_at(since, times, datetime.now())
        found, names = opened.changes(since=start, cut=cut), opened.names(cut, gone=True)
        net = summarize_changes(found)
        if format == "text":
            found, net = _with_texts(opened, found), net._replace(changes=_with_texts(opened, net.changes))
    if format != "text":
        _write(format, found if each else net.changes, None if each else net.before, names, start, version, cut)
    elif not found:
        say(f"No cluster changed after version {start}; the store is at version {version}")
    elif each:
        for number, group in groupby(found, key=lambda change: change.version):
            say(f"Version {number}" + _time(times.get(number), ", {}"))
            print_changes(summarize_changes(list(group)), names, top)
            say("")
    else:
        _print_net(net, names, start, version, times, top)


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
    kinds = Counter(change.kind for change in summarize_changes(opened.changes(since=version, cut=cut)).changes)
    if kinds:
        say("Clusters: " + ", ".join(f"{kinds[kind]:,} {VERBS.get(kind, kind)}" for kind in KINDS if kinds[kind]))
        say(f"See them with: grinch changes {store} --since {version}{cut_option(cut)}")


def _print_net(
    net: ChangeSummary, names: dict[int, str], start: int, version: int, times: dict[int, float], top: int
) -> None:
    since = f"version {start}{_time(times.get(start), ' ({})')}" if start else "the beginning"
    say(f"From {since} to version {version}{_time(times.get(version), ' ({})')}")
    print_changes(net, names, top)
    if net.passing:
        was = "was" if net.passing == 1 else "were"
        say(f"{count_of(net.passing, 'cluster')} {was} born and dissolved in between", "  ")
    if not net.changes and not net.passing:
        say("the clusters are the same", "  ")


def print_changes(net: ChangeSummary, names: dict[int, str], top: int) -> None:
    """Print the ``top`` changes, those of named clusters first, and count the others."""

    def rank(change: Any) -> tuple[bool, bool, int, int, int]:
        is_named = _is_named(change, names)
        is_small = not is_named and change.count < FEW_POINTS
        return (not is_named, is_small, KINDS.index(change.kind), -change.count, change.cluster)

    ordered = sorted(net.changes, key=rank)
    shown = [c for i, c in enumerate(ordered) if i < top or (_is_named(c, names) and c.kind in ("dissolved", "merged"))]
    for change in shown:
        say(sentence(change, names, net), "  ")
    left = ordered[len(shown) :]
    for kind in KINDS:
        same = [change for change in left if change.kind == kind]
        if same:
            by = f" by {sum(change.count for change in same):,} in all" if kind in ("grew", "shrank") else ""
            were = VERBS.get(kind, f"{'was' if len(same) == 1 else 'were'} {kind}")
            more = "more cluster" if any(change.kind == kind for change in shown) else "cluster"
            say(f"… and {count_of(len(same), more)} {were}{by}", "  ")


def _is_named(change: Any, names: Mapping[int, str]) -> bool:
    return change.cluster in names or (change.kind == "merged" and any(other in names for other in change.others))


def sentence(change: Any, names: Mapping[int, str], net: ChangeSummary) -> str:
    """Return what became of a cluster, in a sentence."""
    sizes, before = net.sizes, net.before

    def called(cluster: int) -> str:
        return f"{cluster} {one_line(names[cluster])!r}" if cluster in names else str(cluster)

    def sized(cluster: int) -> str:
        return f"{called(cluster)} ({count_of(sizes[cluster], 'point')})" if cluster in sizes else called(cluster)

    me, who, others = change.cluster, f"cluster {called(change.cluster)}", [called(other) for other in change.others]
    where = f"cluster{'s' * (len(others) > 1)} {_listed(others)}"
    few = [shortened(each, MAX_IN_SENTENCE) for each in change.exemplars[:N_EXEMPLARS]]
    some = f" ({' · '.join(few)}{' · …' * (change.size > len(few))})" if few else ""
    match change.kind:
        case "born":
            return f"{who} was born with {count_of(change.size, 'point')}" + (f" of {where}" if others else "") + some
        case "grew" | "shrank":
            return f"{who} {change.kind} by {change.count:,} to {change.size:,}"
        case "moved":
            return f"{who} has {count_of(change.size, 'point')} as before, {change.count:,} of them others"
        case "split":
            had = f" ({count_of(before[me], 'point')} then)" if me in before else ""
            return f"{who}{had} was split into {_listed([sized(each) for each in (me, *change.others)])}"
        case "merged":
            return f"clusters {_listed([called(me), *others] if me in before else others)} were merged into {sized(me)}"
        case "dissolved":
            its = f"its {count_of(change.count, 'point')}"
            return f"{who} was dissolved: {its} went to {where}" if others else f"{who} was dissolved with {its}"
        case "renamed":
            return f"cluster {me} was named {one_line(names[me])!r}" if me in names else f"cluster {me} lost its name"
    return f"{who}: {change.kind}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _with_texts(opened: Any, found: Sequence[Any]) -> list[Any]:
    """Return changes with the exemplars of new clusters as texts, where the points have any."""
    ids = list(
        dict.fromkeys(one for change in found if change.kind == "born" for one in change.exemplars[:N_EXEMPLARS])
    )
    texts = dict(zip(ids, map(text_of, opened.payload(ids)), strict=True)) if ids else {}
    return [
        replace(change, exemplars=tuple(texts.get(one) or one for one in change.exemplars[:N_EXEMPLARS]))
        if change.kind == "born"
        else change
        for change in found
    ]


def _write(
    format: str,
    found: Sequence[Any],
    before: Mapping[int, int] | None,
    names: Mapping[int, str],
    start: int,
    version: int,
    cut: str,
) -> None:
    """Write all changes for programs; ``before`` is None for those of every version."""
    first, middle = ([], ["size_before"]) if before is not None else (["version"], [])
    columns = [*first, "kind", "cluster", "name", "others", *middle, "size", "count", "exemplars"]
    rows = []
    for change in found:
        sizes = {"size_before": (before or {}).get(change.cluster, 0)}
        known = {**asdict(change), "name": names.get(change.cluster), **sizes}
        rows.append({column: known[column] for column in columns})
    if format == "json":
        json.dump({"since": start, "version": version, "cut": cut, "changes": rows}, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(harmless(json.dumps(cell) if isinstance(cell, tuple) else cell for cell in row.values()))
