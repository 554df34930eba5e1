"""The clusters of a store, as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from grinch.cli.app import app, say, screen
from grinch.cli.store import CutName, StorePath, count_of, open_existing

EXEMPLARS = 3
# What is shown of a text.
LONGEST = 40


@app.command(short_help="List the clusters of a store.")
def clusters(
    store: StorePath,
    cut: CutName = "default",
    top: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the N largest.")] = None,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="The field of the payload to show of points (default: the first that is a text)."
        ),
    ] = None,
) -> None:
    """List the clusters of STORE, the largest first: id, name, size, since which version, and a few of its points.

    The id of a cluster stays with it as the store grows; so does its name: grinch label. Points are shown by the text
    that was kept with them (grinch add --payload), or by their ids.
    """
    with open_existing(store, readonly=True) as opened:
        found, names = opened.clusters(cut), opened.names(cut)
        changes, about = opened.changes(since=0, cut=cut), opened.cuts()[cut]
        version, n = opened.version, len(opened)
        ordered = sorted(found, key=lambda cluster: (-len(found[cluster]), cluster))
        shown = ordered[:top]
        examples = _examples(opened, found, shown, changes, show)
    title = f"{count_of(n, 'point')} in {count_of(len(ordered), 'cluster')}, version {version}"
    say(title if len(shown) == len(ordered) else f"{title}; the {len(shown):,} largest:")
    if not shown:
        return
    since, has_names = _since(changes), any(cluster in names for cluster in shown)
    table = Table(box=None, pad_edge=False)
    for name in ("cluster", "name", "size", "since"):
        if name == "name" and has_names:
            table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=30)
        elif name != "name":
            table.add_column(name, justify="right", no_wrap=True)
    table.add_column("for example", overflow="ellipsis", no_wrap=True)
    for cluster in shown:
        named = [escape(one_line(names.get(cluster, "")))] if has_names else []
        few = escape(" · ".join(examples[cluster]))
        table.add_row(str(cluster), *named, f"{len(found[cluster]):,}", str(since.get(cluster, "")), few)
    say("")
    screen().print(table)
    advise_recut(store, cut, about)


def advise_recut(store: Any, cut: str, about: dict[str, Any]) -> None:
    """Say so if the clusters may be of the past."""
    if about["is_recut_advised"]:
        option = "" if cut == "default" else f" --cut {cut}"
        say("")
        say(
            f"{count_of(about['points_changed'], 'point')} came or went since these clusters were chosen. To choose them"
            f" again: grinch recut {store}{option}"
        )


def _examples(
    opened: Any, found: dict[int, list[Any]], shown: Sequence[int], changes: list[Any], field: str | None
) -> dict[int, list[str]]:
    """A few texts for each cluster."""
    last = {change.cluster: change.exemplars for change in changes if change.exemplars}
    chosen = {}
    for cluster in shown:
        members = set(found[cluster])
        some = [each for each in last.get(cluster, ()) if each in members]
        chosen[cluster] = list(dict.fromkeys([*some, *found[cluster][:EXEMPLARS]]))[:EXEMPLARS]
    ids = [each for cluster in shown for each in chosen[cluster]]
    texts = dict(zip(ids, (text_of(payload, field) for payload in opened.payload(ids)), strict=True))
    return {
        cluster: [shortened(str(each) if texts[each] is None else texts[each]) for each in some]
        for cluster, some in chosen.items()
    }


def text_of(payload: Any, field: str | None = None) -> str | None:
    """What a payload says in a line: a text, a field of it, or the first of its fields that is a text.

    >>> text_of({"year": 2026, "title": "News", "text": "..."}), text_of({"year": 2026}, "year"), text_of(None)
    ('News', '2026', None)
    """
    if isinstance(payload, dict):
        if field is not None:
            return None if payload.get(field) is None else str(payload[field])
        return next((value for value in payload.values() if isinstance(value, str) and value.strip()), None)
    return payload if isinstance(payload, str) and payload.strip() else None


def shortened(value: object) -> str:
    text = one_line(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…"


def one_line(value: object) -> str:
    """An id or a name in one line."""
    return " ".join(str(value).split())


def _since(found: list[Any]) -> dict[int, int]:
    """The version in which each cluster got its id."""
    since: dict[int, int] = {}
    for change in found:
        for cluster in (change.cluster, *change.others):
            since.setdefault(cluster, change.version)
    return since
