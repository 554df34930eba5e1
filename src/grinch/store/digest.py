"""News: what became of the clusters of a store between two versions, in words, the most important first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grinch._checks import check_count
from grinch.store.change_summary import ChangeSummary
from grinch.text import keywords

# From what a reader wants to know first; the rest is only counted.
KINDS = ("new", "grew", "merged", "split", "gone", "renamed")
# What a change is called in a digest, where that is another word.
NEWS = {"born": "new", "dissolved": "gone"}
# A topic that grew by this share of its points is news.
GROWTH = 0.5
# A split or a merge of less than this share of the topic is none.
NOTABLE = 0.1
# Topics of fewer points are counted only, unless they have a name.
FEW_POINTS = 3
# Of the clusters of an event, at most this many are named.
MAX_NAMED = 3
N_WORDS, MAX_TEXT = 3, 40

Titles = Mapping[int, str]


@dataclass(frozen=True)
class Event:
    """Something that happened to a cluster.

    ``kind``: one of :data:`KINDS`; ``cluster``: its id; ``others``: the other clusters involved; ``size``: the number
    of its points now, ``before``: at the earlier version; ``title``: its name, its keywords or the text of one of its
    points; ``text``: a sentence.
    """

    kind: str
    cluster: int
    others: tuple[int, ...]
    size: int
    before: int
    title: str
    text: str


@dataclass(frozen=True)
class Digest:
    """The news of a store from version ``since`` to ``version``.

    ``n_new``: the number of points that came; ``events``: the most important ones; ``rest``: the number of all others
    by kind, which can also be "shrank" and "exchanged" (as many points as before, some of them others).
    """

    since: int
    version: int
    n_new: int
    events: tuple[Event, ...]
    rest: dict[str, int]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the news line by line."""
        lines = [event.text for event in self.events]
        if self.rest:
            lines.append(f"{'Other clusters' if lines else 'Clusters'}: {self.counts}")
        return lines or ["The clusters are the same"]

    @property
    def counts(self) -> str:
        """The events that are only counted."""
        words = {"renamed": "got a name", "exchanged": "exchanged points"}
        return ", ".join(f"{count:,} {words.get(kind, kind)}" for kind, count in self.rest.items())


def make_digest(
    net: ChangeSummary,
    names: Mapping[int, str],
    describe: Callable[[Sequence[int]], Titles],
    span: tuple[int, int],
    n_new: int,
    typical: float,
    limit: int,
) -> Digest:
    """Return the digest of net changes.

    ``names`` are given by people; ``describe`` returns the titles of clusters; ``span`` is the earlier and the later
    version; from ``typical`` points on, a cluster counts as large.
    """
    check_count("limit", limit, 0)
    told = [(NEWS.get(change.kind, change.kind), change) for change in net.changes]

    def is_named(kind: str, change: Any) -> bool:
        # Where many parts go, a few points of each are no news of all of these clusters.
        others = change.others[: MAX_NAMED if kind in ("split", "merged") else 1]
        return any(cluster in names for cluster in (change.cluster, *others))

    def is_news(kind: str, change: Any) -> bool:
        size, before = change.size, net.before.get(change.cluster, 0)
        if kind == "renamed" or (is_named(kind, change) and kind in KINDS):
            return kind != "grew" or size >= (1 + GROWTH) * before
        if kind in ("split", "merged"):
            return max(size, before) >= max(typical, FEW_POINTS) and change.count >= NOTABLE * max(size, before)
        if kind == "grew":
            return size >= (1 + GROWTH) * before and size >= FEW_POINTS
        return kind in ("new", "gone") and max(size, before, change.count) >= FEW_POINTS

    news = [(kind, change) for kind, change in told if is_news(kind, change)]
    news.sort(key=lambda one: (not is_named(*one), KINDS.index(one[0]), -max(one[1].count, one[1].size)))
    chosen = _some_of_each(news, limit)
    clusters = dict.fromkeys(
        cluster for _, change in chosen for cluster in (change.cluster, *change.others[:MAX_NAMED])
    )
    titles = dict(describe(list(clusters)))
    events = tuple(_event(kind, change, net, titles) for kind, change in chosen)
    left = Counter(kind for kind, _ in told)
    left.subtract(event.kind for event in events)
    rest = {kind: left[kind] for kind in (*KINDS, "shrank", "exchanged") if left[kind]}
    return Digest(*span, n_new, events, rest)


def _some_of_each(news: list[Any], limit: int) -> list[Any]:
    """Return at most ``limit`` events; those of one kind are at most half of them while there are others."""
    most, counts, chosen, later = max((limit + 1) // 2, 1), Counter[str](), list[int](), list[int]()
    for i, (kind, _) in enumerate(news):
        counts[kind] += 1
        (chosen if counts[kind] <= most else later).append(i)
    kept = sorted([*chosen[:limit], *later[: max(limit - len(chosen), 0)]])
    return [news[i] for i in kept]


def _event(kind: str, change: Any, net: ChangeSummary, titles: Titles) -> Event:
    me, size, before = change.cluster, change.size, net.before.get(change.cluster, 0)
    size, before = (0, change.count) if kind == "gone" else (size, before)
    # Sizes are said of clusters that are parts of this one as a whole.
    others = [
        _sized(other, titles, net) if kind in ("split", "merged") else f"“{titles[other]}”"
        for other in change.others[:MAX_NAMED]
    ]
    if len(change.others) > MAX_NAMED:
        others.append(f"{len(change.others) - MAX_NAMED:,} more")
    which, title = listed(others), titles[me]
    match kind:
        case "new":
            said = f"new, {_points(size)}" + (f", from {which}" if others else "")
        case "grew":
            said = f"grew from {before:,} to {_points(size)}"
        case "merged":
            said = f"absorbed {which}; {_points(size)} now"
        case "split":
            said = f"split; {which} left, {_points(size)} stayed"
        case "gone":
            its, were = ("only point", "was") if before == 1 else (_points(before), "were")
            said = f"gone; its {its} " + (f"went to {which}" if others else f"{were} removed")
        case _:
            said = f"the name of cluster {me} now, {_points(size)}"
    return Event(kind, me, change.others, size, before, title, f"{title}: {said}")


def _sized(cluster: int, titles: Titles, net: ChangeSummary) -> str:
    size = net.sizes.get(cluster, net.before.get(cluster))
    return f"“{titles[cluster]}”" + ("" if size is None else f" ({size:,})")


def _points(n: int) -> str:
    return f"{n:,} point{'' if n == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


# Titles ---------------------------------------------------------------------------------------------------------------


def titles_of(
    clusters: Sequence[int], names: Mapping[int, str], payloads: Mapping[int, Sequence[Any]], others: Iterable[Any]
) -> dict[int, str]:
    """Return a title for each cluster: its name, its keywords, a text of one of its points, or its number.

    ``payloads`` are those of some points of each cluster, ``others`` those of some of all points.

    >>> titles_of([3, 4, 5], {5: "News"}, {3: ["a cat", "my cat"], 4: [None]}, ["a dog", "it rains"])
    {3: 'cat', 4: 'cluster 4', 5: 'News'}
    """
    texts = [(number, text_of(payload)) for number, some in payloads.items() for payload in some]
    where = {cluster: i for i, cluster in enumerate(clusters)}
    background = [text_of(payload) for payload in others]
    numbers = [where[cluster] for cluster, _ in texts] + [len(where)] * len(background)
    words = keywords([text for _, text in texts] + background, numbers, n=N_WORDS) if numbers else []
    titles = {}
    for cluster in clusters:
        own = words[where[cluster]] if where[cluster] < len(words) else []
        example = next((text for number, text in texts if number == cluster and text), None)
        found = names.get(cluster) or ", ".join(own) or example or f"cluster {cluster}"
        titles[cluster] = shortened(found, MAX_TEXT)
    return titles


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
    text = " ".join(str(value).split())
    return text if len(text) <= longest else f"{text[: longest - 1].rstrip()}…"
