"""The points of a fit in the order of its tree's leaves."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from grinch.core.engine import Engine
from grinch.estimators.builder import Keeping
from grinch.estimators.fit import Fit
from grinch.summaries import RecordSummaries
from grinch.summaries.kept import Kept, is_over_vectors, kept_vectors


def kept_points(fitted: Fit) -> Kept:
    """Return the points of a fit; they may change afterwards."""
    builder = fitted.builder
    if isinstance(builder, Engine):
        kept = _kept_by_engine(builder)
    else:
        assert isinstance(builder, Keeping)
        kept = builder.kept()
    return kept if fitted.ids.is_in_order else kept.taken(fitted.by_row(np.arange(fitted.n_leaves)))


def asking(fitted: Fit) -> AbstractContextManager[None]:
    """While the linkage of a fit is asked: it must not use the model meanwhile."""
    return fitted.builder.busy() if isinstance(fitted.builder, Engine) else nullcontext()


def _kept_by_engine(engine: Engine) -> Kept:
    slots, summaries = engine.slots(), engine.summaries
    if not isinstance(summaries, RecordSummaries):
        return kept_vectors(summaries, slots)
    rows = [summaries.items[slot] for slot in slots.tolist()]
    # What such a linkage makes of a single vector is a group whose block is a matrix of one row.
    return Kept(_stacked(rows) if is_over_vectors(summaries.linkage) else rows, summaries.linkage)


def _stacked(groups: list[object]) -> np.ndarray:
    return np.concatenate([group.block for group in groups]) if groups else np.empty((0, 0))  # type: ignore[attr-defined]
