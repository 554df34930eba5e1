"""The clusters of a store, as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from grinch.cli.app import app, say, screen, screen_width
from grinch.cli.store import CutName, StorePath, count_of, open_existing

EXEMPLARS = 3
# What is shown of a name, and of the texts of points; where there is less room for each than LEAST, fewer are shown.
LONGEST_NAME, LONGEST, LEAST = 30, 40, 20


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
    columns = {
        "cluster": [str(cluster) for cluster in shown],
        "name": [shortened(names.get(cluster, ""), LONGEST_NAME) for cluster in shown],
        "size": [f"{len(found[cluster]):,}" for cluster in shown],
        "since": [str(since.get(cluster, "")) for cluster in shown],
    }
    if not has_names:
        del columns["name"]
    table, width = Table(box=None, pad_edge=False), screen_width()
    for name, cells in columns.items():
        widest = max(map(cell_len, [name, *cells]))
        width = None if width is None else width - widest - 2
        table.add_column(name, justify="left" if name == "name" else "right", no_wrap=True, min_width=widest)
    table.add_column("for example", overflow="ellipsis", no_wrap=True)
    for *cells, cluster in zip(*columns.values(), shown, strict=True):
        table.add_row(*map(escape, map(str, cells)), escape(fitted(examples[int(cluster)], width)))
    say("")
    screen().print(table)
    advise_recut(store, cut, about)


def advise_recut(store: Any, cut: str, about: dict[str, Any]) -> None:
    """Say so if the clusters may be of the past."""
    if about["is_recut_advised"]:
        option = "" if cut == "default" else f" --cut {cut}"
        say("")
        say(
            f"{count_of(about['points_changed'], 'point')} came or went since these clusters were chosen. To choose"
            f" them again: grinch recut {store}{option}"
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
        cluster: [one_line(each if texts[each] is None else texts[each]) for each in some]
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


def fitted(texts: list[str], width: int | None) -> str:
    """As many of some texts as fit into a line, cut short; ``width`` is None where any line fits.

    >>> fitted(["one", "two", "three"], 20), fitted(["once upon a time there was", "another one"], 24)
    ('one · two · three', 'once upon a time there…')
    """
    texts = list(dict.fromkeys(texts))
    for count in range(len(texts), 0, -1):
        if width is not None and len(" · ".join(texts[:count])) <= width:
            return " · ".join(texts[:count])
        room = LONGEST if width is None else max((width - 3 * (count - 1)) // count, 1)
        if room >= LEAST or count == 1:
            return " · ".join(shortened(text, room) for text in texts[:count])
    return ""


def shortened(value: object, longest: int) -> str:
    text = one_line(value)
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"


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
