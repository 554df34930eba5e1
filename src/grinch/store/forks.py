"""Work in a forked process, which has the memory as it is now."""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Callable

from grinch._compile import no_compilation

CAN_FORK = hasattr(os, "fork")


def fork(work: Callable[[], None]) -> int:
    """Run ``work`` on the memory as it is now, in a forked process; return its number.

    Memory is shared with it, and a page is copied when this process writes to it. Other threads are not there, and the
    locks they hold are never released. So ``work`` may take none, and write to files and nothing else. No code is being
    compiled meanwhile: it can run what is compiled, on one core.
    """
    with warnings.catch_warnings(), no_compilation():
        # Python warns of forks beside threads, whose locks are never released in the fork; this one takes none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        gc.disable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work()
        code = 0
    finally:
        os._exit(code)
