"""How this package is compiled: once per machine, kept in numba's cache, and said so to the user."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit
from numba.extending import register_jitable

F = TypeVar("F", bound=Callable[..., Any])

# Where compiled code comes from; a change anywhere else need not compile anything anew.
COMPILED = ("_compile.py", "baselines/", "core/", "neighbors/", "refine/", "linkage/", "summaries/", "tree/")
# Nothing compiled here allocates, so arrays need no reference counts. Counting them made an insert six times slower.
NO_COUNTS: dict[str, bool] = {"_nrt": False}


def jitable(function: F) -> F:
    """A plain Python function that compiled code can call too; it must not allocate arrays."""
    jittable: F = register_jitable(**NO_COUNTS)(function)
    return jittable


def kernel(function: F) -> F:
    """A compiled function on arrays that releases the GIL and allocates nothing; sums may be reordered into lanes."""
    compiled: F = njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, **NO_COUNTS)(function)
    return compiled


@cache
def source_digest() -> str:
    """A digest of the sources that anything compiled comes from.

    numba keys its cache by the file of the entry point alone, and would go on using it after a change in a module that
    is compiled into it. An entry point that holds this digest in its closure is keyed by all of them.
    """
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for place in COMPILED:
        for path in sorted((here / place).rglob("*.py")) if place.endswith("/") else [here / place]:
            digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def compile_notice(seconds: float = 1.5) -> Iterator[None]:
    """Say in one line that compiling is what takes so long; silent when the cache answers."""
    message = "grinch: compiling for this machine; this takes about 40 s, once (the result is cached)"
    timer = threading.Timer(seconds, print, [message], {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
