"""Steps that Ctrl-C must not interrupt halfway, or that the garbage collector would slow down."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let a first Ctrl-C wait until the step is done; a second one, during the same step, goes through at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C goes to the main thread only.
        return
    before = signal.getsignal(signal.SIGINT)
    waiting: list[tuple[int, Any]] = []

    def wait(number: int, frame: Any) -> None:
        waiting.append((number, frame))
        signal.signal(signal.SIGINT, before)

    if not callable(before):
        yield  # Ctrl-C is ignored, or not ours to handle.
        return
    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if waiting:
        before(*waiting[0])


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Leave reference cycles alone for a while: where thousands of objects are made, looking for them takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
