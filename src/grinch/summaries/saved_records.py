"""Summaries of records, which are Python objects, in files.

The list of members of a node, which is what a plain function is given, is not written again for every node above:
a list that is that of the two children, one after the other, is put together from them. Groups of
:class:`~grinch.linkage.Pairwise` refer to the groups they were made of, and so they are written.
"""

from __future__ import annotations

import json
import operator
from typing import Any

import numpy as np

from grinch._checks import available_memory
from grinch._types import Counts, Flags
from grinch.errors import NotSavable, SavedModelError
from grinch.linkage.pairwise import Pairwise
from grinch.linkage.rules import WithRules
from grinch.linkage.saved_groups import GroupsIn, GroupsOut
from grinch.linkage.weighted import WeightedSum
from grinch.saving.json_values import Decoder, Encoder, json_bytes
from grinch.saving.state import USUAL_MEMORY, State, array, item
from grinch.summaries.arrays import LARGE, STALE
from grinch.tree import walks
from grinch.tree.links import LEAVES, LEFT, OFFSET, RIGHT, ROOT, USED, Links, nodes_in

# How the summary of a node is written: not at all, for it is computed when it is next asked for; as a value; as the
# members of the two children.
NOTHING, VALUE, JOINED = 0, 1, 2


def items_to_state(items: list[Any], stale: Flags, linkage: Any, links: Links | None) -> State:
    """Return all summaries that are up to date; ``links`` is the tree, if they are those of one."""
    capacity = len(items) // 2
    n = capacity if links is None else int(links.head[USED])
    how = np.zeros((2, n), np.uint8)
    joined = np.zeros((0, 3), np.int64)
    if links is None:
        how[0] = [item is not None for item in items[:n]]
        how[1] = [item is not None for item in items[capacity : capacity + n]]
    else:
        leaves, internal = nodes_in(links)
        how[0, leaves] = VALUE
        marks = stale[internal]
        how[1, internal - capacity] = np.where((marks & STALE != 0) & (marks & LARGE == 0), NOTHING, VALUE)
        joined = _joined(items, links, how)
    groups = GroupsOut()
    encoder, written = Encoder(groups.reference), []
    for side, first in enumerate((0, capacity)):
        for node in np.flatnonzero(how[side] == VALUE).tolist():
            try:
                written.append(encoder.encode(items[first + node]))
            except NotSavable as error:
                which = f"record {node} (in order of arrival)" if side == 0 else "a group of records"
                raise NotSavable(f"what the linkage keeps of {which} cannot be written to a file: {error}") from None
    return {
        "how": how,
        "joined": joined,
        "values": json_bytes(written),
        "groups": groups.to_state(),
        "measured": [pairwise.measured_to_state() for pairwise in pairwise_in(linkage)],
    }


def items_from_state(state: Any, linkage: Any, capacity: int) -> list[Any]:
    """Return the summaries by node; what ``linkage`` had measured becomes known to it."""
    how = array(state, "how", "|u1", 2)
    values, n = json.loads(array(state, "values", "|u1", 1).tobytes()), how.shape[1]
    if len(how) != 2 or n > capacity or (how > JOINED).any() or not isinstance(values, list):
        raise SavedModelError(f"summaries of {n} records do not fit into room for {capacity}")
    groups = GroupsIn(item(state, "groups"))
    decoder, items = Decoder(groups.at), [None] * (2 * capacity)
    places = [first + i for first, side in ((0, how[0]), (capacity, how[1])) for i in np.flatnonzero(side == VALUE)]
    if len(places) != len(values):
        raise SavedModelError(f"{len(values)} summaries are there for {len(places)} nodes")
    for place, value in zip(places, values, strict=True):
        items[place] = decoder.decode(value)
    _join(items, array(state, "joined", "<i8", 2), how, capacity)
    measured, pairs = item(state, "measured"), pairwise_in(linkage)
    if not isinstance(measured, list) or len(measured) != len(pairs):
        raise SavedModelError("the linkage is not made of the same parts as the one that was saved")
    for pairwise, each in zip(pairs, measured, strict=True):
        pairwise.remember_measured(each)
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


def pairwise_in(linkage: Any) -> list[Pairwise]:
    """The pairwise linkages in one of ours, which remember what they measured."""
    if isinstance(linkage, Pairwise):
        return [linkage]
    if isinstance(linkage, WithRules):
        return pairwise_in(linkage.linkage)
    if isinstance(linkage, WeightedSum):
        return [each for part in linkage.parts for each in pairwise_in(part.linkage)]
    return []
