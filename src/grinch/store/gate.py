"""Threads that share a store: one of them changes it, and the others read what was there before meanwhile."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

View = TypeVar("View")


class Gate(Generic[View]):
    """Admits one thread at a time to what changes, in the order in which they come.

    Whoever is inside can publish a view. As long as it is there, readers are given it and do not wait.

    >>> gate = Gate[str]()
    >>> def read() -> None:
    ...     with gate.reading() as view:
    ...         print(view)
    >>> with gate.inside():
    ...     gate.publish("what was there before")
    ...     reader = threading.Thread(target=read)
    ...     reader.start()
    ...     reader.join()
    what was there before
    >>> read()
    None
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()
        self._owner: int | None = None
        self._writer: int | None = None
        self._view: View | None = None
        self._is_asked = False

    @property
    def is_ours(self) -> bool:
        """Whether this thread is inside."""
        return self._owner == threading.get_ident()

    @property
    def is_asked(self) -> bool:
        """Whether another thread than the one that writes has read since somebody last wrote."""
        return self._is_asked

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be alone inside, as a writer; a thread that is inside already stays there."""
        if self.is_ours:
            yield
            return
        self._enter(None)
        try:
            self._writer = self._owner
            yield
        finally:
            self._leave()

    def publish(self, view: View) -> None:
        """Let readers use this view until whoever is inside leaves."""
        with self._changed:
            self._view, self._is_asked = view, False
            self._changed.notify_all()

    @contextmanager
    def reading(self, accepts: Callable[[View], bool] = lambda view: True) -> Iterator[View | None]:
        """Yield the view that is published, if the reader accepts it; otherwise None, alone inside."""
        if self.is_ours:
            yield None
            return
        view = self._enter(accepts)
        if view is not None:
            yield view
            return
        try:
            yield None
        finally:
            self._leave()

    def withdraw(self) -> None:
        """Publish nothing any more; readers that have the view keep it."""
        self._view = None

    def _enter(self, accepts: Callable[[View], bool] | None) -> View | None:
        """Wait to be alone inside; a reader, who says which view it accepts, is given that instead if there is one."""
        me, ticket = threading.get_ident(), object()

        def offered() -> View | None:
            view = self._view
            return view if accepts is not None and view is not None and accepts(view) else None

        with self._changed:
            if accepts is not None and me != self._writer:
                self._is_asked = True
            self._queue.append(ticket)
            try:
                self._changed.wait_for(
                    lambda: offered() is not None or (self._owner is None and self._queue[0] is ticket)
                )
                view = offered()
                if view is None:
                    self._owner = me
                return view
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def _leave(self) -> None:
        with self._changed:
            self._owner = self._view = None
            self._changed.notify_all()
