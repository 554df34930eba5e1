"""Ctrl-C at a moment that does not depend on the clock."""

from __future__ import annotations

import signal
from contextlib import contextmanager


def press_here() -> None:
    signal.raise_signal(signal.SIGINT)


def interrupting(after, press=press_here):
    """A progress bar that presses Ctrl-C, once, when this much has been done."""
    done = [0.0]

    @contextmanager
    def bar(what, total, unit="points"):
        def advance(steps):
            is_before = done[0] < after
            done[0] += steps
            if is_before and done[0] >= after:
                press()

        yield advance

    return bar
