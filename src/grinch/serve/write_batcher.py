"""One thread makes all changes to a store; small inserts that wait together are written together."""

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
    """The queue of the writer is full; try again in a moment. Nothing was changed."""


class Closed(Exception):
    """The service is ending; nothing was changed."""


class Inserted(NamedTuple):
    """Points that are on disk: the version of their insert, and their ids, or numbers where they have none."""

    version: int
    ids: list[Id]


@dataclass(eq=False)
class Insert:
    """Points to be inserted, which were checked by themselves."""

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
        """Return whether it can be inserted together with another one."""
        if (self.ids is None) != (first.ids is None) or self.rows.shape[1:] != first.rows.shape[1:]:
            return False
        return self.ids is None or first.ids is None or kind_of(self.ids[0]) == kind_of(first.ids[0])


@dataclass(eq=False)
class Call:
    """Any other change, of a number of points."""

    change: Callable[[Store], Any]
    n_points: int = 1
    n_bytes: int = 0
    done: Future[Any] = field(default_factory=Future)


class Writer:
    """Makes changes in the order in which they come; each is answered when it is on disk.

    Up to ``max_waiting`` changes wait, with ``max_bytes`` in all; inserts of up to ``max_points`` are made at once: one
    transaction, one version. If that fails, each is made alone, so that one that is refused does no harm to the
    others. ``changed`` is called after each batch, ``written`` with its number of requests and of points.

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
        max_waiting: int = 256,
        max_bytes: int = 2**28,
        max_points: int = 10_000,
        changed: Callable[[], None] = lambda: None,
        written: Callable[[int, int], None] = lambda requests, points: None,
    ):
        self._store, self._changed, self._written = store, changed, written
        self._max_waiting, self._max_bytes, self._max_points = max_waiting, max_bytes, max_points
        self._waiting: deque[Insert | Call] = deque()
        self._bytes = 0
        self._condition = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="grinch-writer")
        self._thread.start()

    @property
    def depth(self) -> int:
        """The number of changes that wait."""
        return len(self._waiting)

    def submit(self, change: Insert | Call) -> Future[Any]:
        """Queue a change and return a future of its result; raises :class:`Full` or :class:`Closed`."""
        with self._condition:
            if self._is_closed:
                raise Closed("the service is ending; try again when it is back. Nothing was changed")
            # A single change is taken however large it is: its body was limited.
            is_full = self._waiting and self._bytes + change.n_bytes > self._max_bytes
            if len(self._waiting) >= self._max_waiting or is_full:
                raise Full("too much waits to be written; try again in a moment. Nothing was changed")
            self._waiting.append(change)
            self._bytes += change.n_bytes
            self._condition.notify()
        return change.done

    def close(self) -> None:
        """Make the changes that wait, and end."""
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        self._thread.join()

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
        """Return the changes to be made together; none at the end."""
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._is_closed)
            batch: list[Any] = []
            ids: set[Id] = set()
            n_points = 0
            while self._waiting:
                change = self._waiting[0]
                if batch and not self._fits(change, batch[0], ids, n_points):
                    break
                batch.append(self._waiting.popleft())
                self._bytes -= change.n_bytes
                if not isinstance(change, Insert):
                    break
                n_points += change.n_points
                ids.update(change.ids or ())
            return batch

    def _fits(self, change: Insert | Call, first: Insert | Call, ids: set[Id], n_points: int) -> bool:
        if not isinstance(change, Insert) or not isinstance(first, Insert):
            return False
        # The same id again waits for the next batch, as if they had come one by one.
        is_new = change.ids is None or ids.isdisjoint(change.ids)
        return is_new and change.goes_with(first) and n_points + change.n_points <= self._max_points

    def _do(self, batch: Sequence[Any]) -> None:
        try:
            results = self._insert(batch) if isinstance(batch[0], Insert) else [batch[0].change(self._store)]
        except Exception as error:
            if len(batch) == 1:
                batch[0].done.set_exception(error)
            else:
                # One of them is refused, or all: each is tried alone.
                for change in batch:
                    self._do([change])
            return
        for change, result in zip(batch, results, strict=True):
            change.done.set_result(result)
        self._written(len(batch), sum(change.n_points for change in batch))
        self._changed()

    def _insert(self, batch: Sequence[Insert]) -> list[Inserted]:
        """Insert all of them, or none."""
        rows = batch[0].rows if len(batch) == 1 else np.concatenate([insert.rows for insert in batch])
        ids = None if batch[0].ids is None else [name for insert in batch for name in insert.ids or ()]
        payload = None
        if any(insert.payload is not None for insert in batch):
            payload = [entry for insert in batch for entry in insert.payload or [None] * insert.n_points]
        # Nobody else writes, so the numbers of points without ids go on from here.
        first = self._store.n_given
        version = self._store.insert(rows, ids=ids, payload=payload)
        given = list(range(first, first + len(rows))) if ids is None else ids
        ends = np.cumsum([0, *(insert.n_points for insert in batch)]).tolist()
        return [Inserted(version, given[begin:end]) for begin, end in pairwise(ends)]
