"""Where to look: a search finds, for each arriving point, the nearest points that came before it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any, NamedTuple, Protocol

from grinch._types import Ids, Slots
from grinch.saving.state import State
from grinch.summaries.arrays import Arrays

# Points searched for at a time: large enough for a fast matrix product, small enough for a lively progress bar.
BATCH = 256


class Neighbors(NamedTuple):
    """Candidates of the points ``start, start + 1, …``: node ids, best first, padded with -1."""

    start: int
    candidates: Ids


class Search(Protocol):
    """A strategy to find the nearest earlier points of each point in a range, or those of any points among all.

    What is gone from the summaries is never found. ``k`` is how many are found.
    """

    k: int

    def write(self, at: int, rows: Any) -> None:
        """Points to come, from slot ``at`` on, as they were given."""
        ...

    def stream(self, start: int, stop: int, limit: int | None = None) -> Iterator[Neighbors]:
        """Neighbours of points start to stop, in order; each among the points before it, or before ``limit``."""
        ...

    def nearest(self, leaves: Slots, limit: int) -> Iterator[Neighbors]:
        """Neighbours of these points among all others before ``limit``; ``start`` counts along ``leaves``."""
        ...

    def catch_up(self, count: int) -> None:
        """The first ``count`` points were written and no stream was asked for; they are to be found from now on."""
        ...

    def changed(self, leaves: Slots) -> None:
        """These points are gone from the summaries, or back in it."""
        ...

    def rewritten(self) -> None:
        """All points have other vectors than before, in the same slots."""
        ...

    def compacted(self, leaves: Slots) -> None:
        """The summaries was compacted: only these points are left, counted from 0."""
        ...

    def to_state(self) -> State:
        """Return what a file holds of it."""
        ...

    def validate(self) -> None:
        """Refuse a state that compiled code could not use."""
        ...


class VectorSearch(Search, Protocol):
    """A search on vectors, which can be asked about points that are looked up and stays as it is for a view."""

    def find(self, arrays: Arrays, slots: Slots, limit: int) -> Ids:
        """Neighbours of what was written to these slots of ``arrays``, among the points before ``limit``.

        The slots are behind all points, one after the other.
        """
        ...

    def frozen(self, summaries: Any, limit: int) -> VectorSearch:
        """Return a search whose :meth:`find` goes on as this one does now, whatever is written or taken out here.

        ``summaries`` is a frozen twin of those that this one searches; ``limit`` is how many points there are.
        """
        ...


class Guard:
    """Has a lock, and can be saved and copied: the copy's lock is open.

    Say ``with guard.lock``: no Ctrl-C comes between taking a lock and the ``with`` that gives it back.
    """

    def __init__(self) -> None:
        self.lock = Lock()

    def __reduce__(self) -> tuple[type[Guard], tuple[()]]:
        return Guard, ()


def batches(start: int, stop: int, size: int = BATCH) -> Iterator[tuple[int, int]]:
    """Cut a range where positions are multiples of ``size``, whatever the range: the same cuts for any chunking."""
    while start < stop:
        end = min(stop, (start // size + 1) * size)
        yield start, end
        start = end
