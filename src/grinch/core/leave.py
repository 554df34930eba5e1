"""Points leave a tree: in what batches, and which of the places they leave are searched for a repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from grinch._types import Advance, Slots
from grinch.core import entries
from grinch.core.rules import NO_MOVES
from grinch.neighbors.base import BATCH
from grinch.tree.links import NONE, PARENT, SIZE

if TYPE_CHECKING:
    from grinch.core.engine import Engine

# Points removed at a time: enough for the search to keep its threads busy.
GROUP = 16 * BATCH
# A group of more leaves than this hardly changes when the point beside it is removed, and looks for no neighbours.
STEADY = 128


def remove_points(engine: Engine, slots: Slots, repair: bool, progress: Advance | None) -> None:
    """Take the points in these slots out; when interrupted, some are out and some not."""
    for begin in range(0, len(slots), GROUP):
        batch = slots[begin : begin + GROUP]
        # Gone first, so that none of them is a candidate in the repair of another's place.
        engine.set_gone(batch, True)
        try:
            _remove_batch(engine, batch, repair)
        finally:
            still = np.array([slot for slot in batch.tolist() if engine.has(slot)], np.intp)
            engine.set_gone(still, False)
            engine.summaries.drop(np.setdiff1d(batch, still))
        if progress is not None:
            progress(len(batch))


def _remove_batch(engine: Engine, batch: Slots, repair: bool) -> None:
    leaves_a_gap = np.array([repair and _leaves_a_gap(engine, slot) for slot in batch.tolist()], np.bool_)
    searched, others = batch[leaves_a_gap], batch[~leaves_a_gap]
    if len(others):
        nothing = np.full((len(others), 1), NONE, np.int32)
        engine.change(entries.remove_all, others, nothing, engine.rules if repair else NO_MOVES)
    with engine.explained():
        for first, candidates in engine.search.nearest(searched, engine.n_slots):
            engine.change(entries.remove_all, searched[first : first + len(candidates)], candidates)


def _leaves_a_gap(engine: Engine, slot: int) -> bool:
    """Whether grafts should repair the place of this leaf: its sibling is not large, or pull is to guarantee it."""
    rules, table = engine.rules, engine.links.table
    p = table[slot, PARENT]
    return rules.graft and p != NONE and bool(rules.pull or table[p, SIZE] - 1 <= STEADY)
