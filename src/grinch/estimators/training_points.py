"""The points of a fit in the order of its tree's leaves."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

from grinch.core.engine import Engine
from grinch.estimators.builder import Keeping
from grinch.estimators.fit import Fit
from grinch.summaries.arrays import StoredPoints


def kept_points(fitted: Fit) -> StoredPoints:
    """Return the points of a fit; they may change afterwards."""
    builder = fitted.builder
    if isinstance(builder, Engine):
        kept = builder.summaries.points(builder.slots())
    else:
        assert isinstance(builder, Keeping)
        kept = builder.kept()
    return kept if fitted.ids.is_in_order else kept.taken(fitted.by_row(np.arange(fitted.n_leaves)))


def asking(fitted: Fit) -> AbstractContextManager[None]:
    """While the linkage of a fit is asked: it must not use the model meanwhile."""
    return fitted.builder.busy() if isinstance(fitted.builder, Engine) else nullcontext()
