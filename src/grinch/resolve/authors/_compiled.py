"""How the kernels of author coreference are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """A compiled function that releases the GIL; it may allocate arrays, and sums stay in their order."""
    made: F = njit(cache=True, nogil=True)(function)
    return made
