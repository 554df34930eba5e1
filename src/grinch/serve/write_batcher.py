"""One thread that makes all changes to a store; small inserts that wait together are made together."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from grinch.store import Store
from grinch.store.inputs import kind_of

log = logging.getLogger("grinch.serve")

Id = Any


class Full(Exception):
    """As much waits for the writer as may; try again in a moment. Nothing was changed."""


class Closed(Exception):
    """The service is ending; nothing was changed."""


class Inserted(NamedTuple):
    """Points that are on disk: the version since which, and their ids, or their numbers where they have none."""

    version: int
    ids: list[Id]


@dataclass(eq=False)
class Insert:
    """Points to be inserted, which were checked for themselves."""

    rows: Any
    ids: list[Id] | None = None
    payload: list[Any] | None = None
    done: Future[Any] = field(default_factory=Future)

    @property
    def n_points(self) -> int:
        return len(self.rows)

    @property
    def n_bytes(self) -> int:
        return int(self.rows.nbytes)

    def goes_with(self, first: Insert) -> bool:
        """Whether it can be inserted together with another one."""
        if (self.ids is None) != (first.ids is None) or self.rows.shape[1:] != first.rows.shape[1:]:
            return False
        return self.ids is None or first.ids is None or kind_of(self.ids[0]) == kind_of(first.ids[0])


@dataclass(eq=False)
class Call:
    """Any other change, of this many points."""

    change: Callable[[Store], Any]
    n_points: int = 1
    n_bytes: int = 0
    done: Future[Any] = field(default_factory=Future)


class Writer:
    """Makes changes in the order in which they come; each is answered when it is on disk.

    ``most`` changes may wait, with ``most_bytes`` in all, and inserts of up to ``most_points`` are made together: one
    transaction, one version. Where that fails each is made alone, so that one that is refused does no harm to the
    others. ``changed`` is called after each change.

    >>> import grinch, tempfile
    >>> store = grinch.open(tempfile.mkdtemp())
    >>> writer = Writer(store)
    >>> writer.submit(Insert(np.array([[1.0, 0.0]]), ["a"])).result()
    Inserted(version=1, ids=['a'])
    >>> writer.close()
    >>> store.close()
    """

    def __init__(
        self,
        store: Store,
        *,
        most: int = 256,
        most_bytes: int = 2**28,
        most_points: int = 10_000,
        changed: Callable[[], None] = lambda: None,
    ):
        self._store, self._changed = store, changed
        self._most, self._most_bytes, self._most_points = most, most_bytes, most_points
        self._waiting: deque[Insert | Call] = deque()
        self._bytes = 0
        self._something = threading.Condition()
        self._is_closed = False
        self.batches: Callable[[int, int], None] = lambda requests, points: None
        """Called with the requests and the points of each batch."""
        self._thread = threading.Thread(target=self._run, daemon=True, name="grinch-writer")
        self._thread.start()

    @property
    def depth(self) -> int:
        """How many changes wait."""
        return len(self._waiting)

    def submit(self, change: Insert | Call) -> Future[Any]:
        """Queue a change; the future has its result. Raises :class:`Full` or :class:`Closed`."""
        with self._something:
            if self._is_closed:
                raise Closed("the service is ending; try again when it is back. Nothing was changed")
            # One alone is taken however large it is: the body was limited.
            is_full = self._waiting and self._bytes + change.n_bytes > self._most_bytes
            if len(self._waiting) >= self._most or is_full:
                raise Full("too much waits to be written; try again in a moment. Nothing was changed")
            self._waiting.append(change)
            self._bytes += change.n_bytes
            self._something.notify()
        return change.done

    def close(self) -> None:
        """Make what waits, and end."""
        with self._something:
            self._is_closed = True
            self._something.notify()
        self._thread.join()

    # The thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while batch := self._next():
            taken = [change for change in batch if change.done.set_running_or_notify_cancel()]
            try:
                if taken:
                    self._do(taken)
            except Exception:
                # Without this thread nothing is written any more.
                log.exception("after a change that was made")

    def _next(self) -> list[Any]:
        """What is to be done at once; nothing at the end."""
        with self._something:
            while not self._waiting and not self._is_closed:
                self._something.wait()
            batch: list[Any] = []
            ids: set[Id] = set()
            count = 0
            while self._waiting:
                change = self._waiting[0]
                if batch and not self._fits(change, batch[0], ids, count):
                    break
                batch.append(self._waiting.popleft())
                self._bytes -= change.n_bytes
                if not isinstance(change, Insert):
                    break
                count += change.n_points
                ids.update(change.ids or ())
            return batch

    def _fits(self, change: Insert | Call, first: Insert | Call, ids: set[Id], count: int) -> bool:
        if not isinstance(change, Insert) or not isinstance(first, Insert):
            return False
        # The same id again is one for later, as if they had come one by one.
        is_new = change.ids is None or ids.isdisjoint(change.ids)
        return is_new and change.goes_with(first) and count + change.n_points <= self._most_points

    def _do(self, batch: Sequence[Any]) -> None:
        if len(batch) > 1:
            try:
                found = self._insert(batch)
            except Exception:
                # One of them is refused, or all: each finds out for itself.
                for change in batch:
                    self._do([change])
                return
        else:
            try:
                found = self._insert(batch) if isinstance(batch[0], Insert) else [batch[0].change(self._store)]
            except Exception as error:
                batch[0].done.set_exception(error)
                return
        for change, result in zip(batch, found, strict=True):
            change.done.set_result(result)
        self.batches(len(batch), sum(change.n_points for change in batch))
        self._changed()

    def _insert(self, batch: Sequence[Insert]) -> list[Inserted]:
        """Insert all of them, or none."""
        sizes = [insert.n_points for insert in batch]
        rows = batch[0].rows if len(batch) == 1 else np.concatenate([insert.rows for insert in batch])
        ids = None if batch[0].ids is None else [name for insert in batch for name in insert.ids or ()]
        payload = _joined(batch)
        # Nobody else writes, so the numbers of points without ids go on from here.
        first = self._store.n_given
        version = self._store.insert(rows, ids=ids, payload=payload)
        given = list(range(first, first + len(rows))) if ids is None else ids
        ends = np.cumsum([0, *sizes]).tolist()
        return [Inserted(version, given[begin:end]) for begin, end in pairwise(ends)]


def _joined(batch: Sequence[Insert]) -> list[Any] | None:
    """What is kept beside the points of all of them."""
    if all(insert.payload is None for insert in batch):
        return None
    return [entry for insert in batch for entry in insert.payload or [None] * insert.n_points]
