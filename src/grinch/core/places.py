"""Where points would go: the answer, and where they are written to meanwhile."""

from __future__ import annotations

from typing import NamedTuple

from grinch._types import Floats, Ids

# The last leaf slots, which no point ever takes: for points that are looked up but not inserted.
SPARE = 256
# Points that are looked up at a time: by the engine in the first half of these slots, by its views in the second.
AT_ONCE = SPARE // 2


class Nearest(NamedTuple):
    """For points: the nearest leaves, best first, padded with -1, and the score of the first (-inf if none)."""

    slots: Ids
    score: Floats


class Places(NamedTuple):
    """For points that are looked up: the nearest leaf, the node each would join as a sibling, and the score of that."""

    nearest: Ids
    sibling: Ids
    score: Floats
