"""Everything that the moves work on, in one tuple of arrays."""

from __future__ import annotations

from typing import NamedTuple

from grinch._by_reference import by_reference
from grinch._types import Counts, Flags, Floats, Ids, Vectors32
from grinch.core.rules import EXACT, Rules
from grinch.summaries.arrays import Arrays, new_arrays
from grinch.tree.links import Links


@by_reference
class State(NamedTuple):
    """A tree, the summaries of its nodes, and the rules.

    The fields of :class:`~grinch.tree.links.Links` come first, then those of
    :class:`~grinch.summaries.arrays.Arrays`, so that functions on either of them work on a state as well.
    """

    table: Ids
    head: Counts
    marks: Flags
    log: Ids
    moved: Ids
    means: Vectors32
    moments: Floats
    row_starts: Counts
    row_sizes: Ids
    leaf_columns: Ids
    leaf_values: Vectors32
    query_columns: Ids
    query_values: Vectors32
    spread_out: Vectors32
    united_columns: Ids
    united_values: Vectors32
    united_sizes: Vectors32
    sibling_scores: Floats
    stale: Flags
    counted: Ids
    changes: Ids
    gone: Flags
    nodes: Ids
    answers: Floats
    counts: Counts
    calls: Counts
    reply: Counts
    blamed: Counts
    formula: int
    lag: int
    most_entries: int
    is_reading: bool
    origin: Vectors32
    rules: Rules


assert State._fields == (*Links._fields, *Arrays._fields, "rules")

_NO_SUMMARIES = new_arrays(0, 0)


def state_of(links: Links) -> State:
    """Return a tree as a state without summaries: functions on trees are compiled for states alone."""
    return State(*links, *_NO_SUMMARIES, EXACT)  # type: ignore[arg-type]
