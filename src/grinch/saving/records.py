"""Summaries of records, which are Python objects, as they are kept in a saved model.

The list of members of a node, which is what a plain function is given, is not written again for every node above:
a list that is that of the two children, one after the other, is put together from them. Groups of
:class:`~grinch.linkage.Pairwise` refer to the groups they were made of, and so they are written.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from grinch._checks import available_memory
from grinch._types import Counts, Floats
from grinch.errors import NotSavable, SavedModelError
from grinch.linkage.pairwise import Group, Member, Pairwise
from grinch.linkage.rules import WithRules
from grinch.linkage.weighted import WeightedSum
from grinch.saving.plain import Decoder, Encoder
from grinch.saving.schema import Source, Taken, check_part, entry
from grinch.saving.texts import keep_json, keep_value, read_json, read_value
from grinch.summaries.arrays import LARGE, STALE
from grinch.summaries.records import RecordSummaries
from grinch.tree import walks
from grinch.tree.links import LEAVES, LEFT, OFFSET, RIGHT, ROOT, USED, Links, nodes_in

# How the summary of a node is written: not at all, for it is computed when it is next asked for; as a value; as the
# members of the two children.
NOTHING, VALUE, JOINED = 0, 1, 2
# Where the system does not say how much memory is free.
USUAL_MEMORY = 8_000_000_000


def take_records(summaries: RecordSummaries, links: Links | None, out: Taken, prefix: str) -> dict[str, Any]:
    """All summaries that are up to date; ``links`` is the tree, if they are those of one."""
    items, capacity = summaries.items, summaries.capacity
    n = capacity if links is None else int(links.head[USED])
    how = np.zeros((2, n), np.uint8)
    joined = np.zeros((0, 3), np.int64)
    if links is None:
        how[0] = [item is not None for item in items[:n]]
        how[1] = [item is not None for item in items[capacity : capacity + n]]
    else:
        leaves, internal = nodes_in(links)
        how[0, leaves] = VALUE
        marks = summaries.arrays.stale[internal]
        how[1, internal - capacity] = np.where((marks & STALE != 0) & (marks & LARGE == 0), NOTHING, VALUE)
        joined = _joined(items, links, how)
    groups = _GroupsOut()
    encoder, written = Encoder(groups.index), []
    for side, first in enumerate((0, capacity)):
        for node in np.flatnonzero(how[side] == VALUE).tolist():
            try:
                written.append(encoder.encode(items[first + node]))
            except NotSavable as error:
                which = f"record {node} (in order of arrival)" if side == 0 else "a group of records"
                raise NotSavable(f"what the linkage keeps of {which} cannot be written to a file: {error}") from None
    return {
        "part": "records",
        "how": out.keep(f"{prefix}.how", how),
        "joined": out.keep(f"{prefix}.joined", joined),
        "values": keep_json(out, f"{prefix}.values", written),
        "groups": groups.take(out, f"{prefix}.groups"),
        "measured": [
            _take_measured(pairwise, out, f"{prefix}.measured.{i}")
            for i, pairwise in enumerate(pairwise_in(summaries.linkage))
        ],
    }


def put_records(data: Any, source: Source, linkage: Any, capacity: int) -> list[Any]:
    """The summaries by node."""
    check_part("records", data)
    how = source.array(entry(data, "how"), "|u1", 2)
    values, n = read_json(entry(data, "values"), source), how.shape[1]
    if len(how) != 2 or n > capacity or (how > JOINED).any() or not isinstance(values, list):
        raise SavedModelError(f"summaries of {n} records do not fit into room for {capacity}")
    groups = _put_groups(entry(data, "groups"), source)
    decoder, items = Decoder(groups.at), [None] * (2 * capacity)
    places = [first + i for first, side in ((0, how[0]), (capacity, how[1])) for i in np.flatnonzero(side == VALUE)]
    if len(places) != len(values):
        raise SavedModelError(f"{len(values)} summaries are there for {len(places)} nodes")
    for place, value in zip(places, values, strict=True):
        items[place] = decoder.decode(value)
    _join(items, source.array(entry(data, "joined"), "<i8", 2), how, capacity)
    measured, pairs = entry(data, "measured"), pairwise_in(linkage)
    if not isinstance(measured, list) or len(measured) != len(pairs):
        raise SavedModelError("the linkage is not made of the same parts as the one that was saved")
    for pairwise, each in zip(pairs, measured, strict=True):
        _put_measured(pairwise, each, source)
    return items


# Lists of members -----------------------------------------------------------------------------------------------------


def _joined(items: list[Any], links: Links, how: Any) -> Counts:
    """Nodes whose members are those of their children, and these: children first, leaf i as 2i, others as 2i + 1."""
    offset, n_leaves = int(links.head[OFFSET]), int(links.head[LEAVES])
    if n_leaves < 2:
        return np.zeros((0, 3), np.int64)
    preorder = walks.no_nodes(2 * n_leaves - 1)
    walks.fill_preorder(links.table, int(links.head[ROOT]), offset, preorder)
    found, sides = [], links.table[:, [LEFT, RIGHT]].tolist()

    def number(node: int) -> int:
        return 2 * node if node < offset else 2 * (node - offset) + 1

    for node in preorder[::-1].tolist():
        if node < offset or how[1, node - offset] == NOTHING or type(items[node]) is not list:
            continue
        left, right = sides[node]
        if any(how[int(child >= offset), child - offset * (child >= offset)] == NOTHING for child in (left, right)):
            continue
        if _is_union(items[node], items[left], items[right]):
            how[1, node - offset] = JOINED
            found.append((number(node), number(left), number(right)))
    return np.array(found, np.int64).reshape(-1, 3)


def _is_union(whole: list[Any], a: Any, b: Any) -> bool:
    if type(a) is not list or type(b) is not list or len(a) + len(b) != len(whole):
        return False
    return all(map(operator.is_, whole, a)) and all(map(operator.is_, whole[len(a) :], b))


def _join(items: list[Any], joined: Counts, how: Any, capacity: int) -> None:
    if joined.shape[1:] != (3,) or len(joined) != int((how == JOINED).sum()):
        raise SavedModelError("the members of some groups are missing")
    if len(joined) and not (joined.min() >= 0 and joined.max() < 2 * how.shape[1]):
        raise SavedModelError("members are those of a node that is not there")
    room, used = (available_memory() or USUAL_MEMORY) // 8, 0
    for node, left, right in (joined // 2 + joined % 2 * capacity).tolist():
        a, b = items[left], items[right]
        if type(a) is not list or type(b) is not list or items[node] is not None:
            raise SavedModelError("members are those of a node that has none")
        used += len(a) + len(b)
        if used > room:
            raise SavedModelError(f"the lists of members would take more than the {8 * room:,} bytes that are free")
        items[node] = a + b
    if any(items[capacity + i] is None for i in np.flatnonzero(how[1] == JOINED).tolist()) or (how[0] == JOINED).any():
        raise SavedModelError("the members of a group are missing")


# Groups of Pairwise ---------------------------------------------------------------------------------------------------


class _GroupsOut:
    """Groups in the order they are written: each after the two it was made of."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._groups: list[Group] = []

    def index(self, value: Any) -> Any:
        if type(value) is not Group:
            return None
        waiting = [value]
        while waiting:
            group = waiting[-1]
            parts = [part for part in group.parts or () if id(part) not in self._index]
            waiting += parts
            if not parts:
                waiting.pop()
                if id(group) not in self._index:
                    self._index[id(group)] = len(self._groups)
                    self._groups.append(group)
        return {"group": self._index[id(value)]}

    def take(self, out: Taken, prefix: str) -> dict[str, Any]:
        groups = self._groups
        parts = [[self._index[id(part)] for part in group.parts] if group.parts else [-1, -1] for group in groups]
        single = [group.block for group in groups if not group.parts]
        found: dict[str, Any] = {
            "part": "groups",
            "parts": out.keep(f"{prefix}.parts", np.array(parts, np.int32).reshape(-1, 2)),
            "numbers": out.keep(f"{prefix}.numbers", _words([group.number for group in groups])),
        }
        if all(isinstance(block, np.ndarray) for block in single):
            width = single[0].shape[1] if single else 0
            rows = np.concatenate(single).astype(np.float64, copy=False) if single else np.zeros((0, width))
            return found | {"rows": out.keep(f"{prefix}.rows", rows), "records": None}
        records = [block[0].record for block in single]
        return found | {"rows": None, "records": keep_value(out, f"{prefix}.records", records, "a record")}


class _Groups:
    def __init__(self, groups: list[Group]):
        self.groups = groups

    def at(self, tag: str, index: Any) -> Group:
        if tag != "group" or type(index) is not int or not 0 <= index < len(self.groups):
            raise SavedModelError(f"{tag!r} {index!r:.60} is no value that this version knows")
        return self.groups[index]


def _put_groups(data: Any, source: Source) -> _Groups:
    check_part("groups", data)
    parts = source.array(entry(data, "parts"), "<i4", 2)
    numbers = _numbers(source.array(entry(data, "numbers"), "<u8", 2))
    if parts.shape != (len(numbers), 2) or (parts >= np.arange(len(parts))[:, None]).any() or (parts < -1).any():
        raise SavedModelError("groups of records are not made of earlier ones")
    is_single = (parts == -1).all(axis=1)
    if (parts[~is_single] == -1).any():
        raise SavedModelError("a group of records is made of one other")
    single = iter(_blocks(data, source, [numbers[i] for i in np.flatnonzero(is_single)]))
    groups: list[Group] = []
    for number, (a, b) in zip(numbers, parts.tolist(), strict=True):
        groups.append(Group(next(single), None, number) if a < 0 else Group(None, (groups[a], groups[b]), number))
    return _Groups(groups)


def _blocks(data: Any, source: Source, numbers: list[int]) -> list[Any]:
    """What single records are: rows of a matrix, or records with their numbers."""
    if entry(data, "rows") is not None:
        rows = source.array(data["rows"], "<f8", 2)
        found: list[Any] = [rows[i : i + 1] for i in range(len(rows))]
    else:
        records = read_value(entry(data, "records"), source)
        found = [[Member(number, record)] for number, record in zip(numbers, records, strict=True)]
    if len(found) != len(numbers):
        raise SavedModelError(f"{len(found)} records are there for {len(numbers)} groups of one")
    return found


def pairwise_in(linkage: Any) -> list[Pairwise]:
    """The pairwise linkages in one of ours, which remember what they measured."""
    if isinstance(linkage, Pairwise):
        return [linkage]
    if isinstance(linkage, WithRules):
        return pairwise_in(linkage.linkage)
    if isinstance(linkage, WeightedSum):
        return [each for part in linkage.parts for each in pairwise_in(part.linkage)]
    return []


def _take_measured(pairwise: Pairwise, out: Taken, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {"part": "measured", "pairs_computed": int(pairwise.pairs_computed)}
    for name, scores in (("groups", pairwise._known), ("pairs", pairwise._measured)):
        values: Floats = np.fromiter((float(value) for value in scores.values()), np.float64, len(scores))
        found[f"{name}_keys"] = out.keep(f"{prefix}.{name}_keys", _words([n for key in scores for n in key]))
        found[f"{name}_values"] = out.keep(f"{prefix}.{name}_values", values)
    return found


def _put_measured(pairwise: Pairwise, data: Any, source: Source) -> None:
    """What was measured; numbers are random, so in a linkage that is in use elsewhere it is beside what is there."""
    check_part("measured", data)
    if not pairwise._known and not pairwise._measured:
        pairwise.pairs_computed = int(entry(data, "pairs_computed"))
    for name, scores in (("groups", pairwise._known), ("pairs", pairwise._measured)):
        numbers = _numbers(source.array(entry(data, f"{name}_keys"), "<u8", 2))
        values = source.array(entry(data, f"{name}_values"), "<f8", 1).tolist()
        scores.update(zip(zip(numbers[::2], numbers[1::2], strict=True), values, strict=True))


def _words(numbers: list[int]) -> Any:
    """Numbers of up to 128 bits as two words each."""
    low = 2**64 - 1
    return np.array([(n >> 64, n & low) for n in numbers], np.uint64).reshape(-1, 2)


def _numbers(words: Any) -> list[int]:
    if words.shape[1:] != (2,):
        raise SavedModelError("the numbers of groups must be of two words")
    return [(high << 64) | low for high, low in words.tolist()]
