"""Memory beside numpy's, for what compiled code makes as it goes: it can ask for more in the middle of a move.

A block has the columns of a sparse row, and after them their values: four bytes for each.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import Any

import numpy as np
from numba import types
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import populate_array

from grinch._types import Counts, Ids, Vectors32
from grinch.summaries.callbacks import ALLOCATE, N_CALLS, RELEASE, outlined_addresses

_library = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
_allocate, _release = _library.malloc, _library.free
_allocate.restype, _allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
_release.restype, _release.argtypes = None, [ctypes.c_void_p]


def addresses() -> Counts:
    """Return the addresses that compiled code calls for sparse rows and memory, among those of all that it may call."""
    found = np.zeros(N_CALLS, np.int64)
    for which, address in outlined_addresses().items():
        found[which] = address
    found[ALLOCATE] = ctypes.cast(_allocate, ctypes.c_void_p).value or 0
    found[RELEASE] = ctypes.cast(_release, ctypes.c_void_p).value or 0
    return found


def int32_at(address: int, n: int) -> Ids:
    """The n numbers at an address, as an array that owns nothing."""
    return np.ctypeslib.as_array((ctypes.c_int32 * int(n)).from_address(int(address)))


def float32_at(address: int, n: int) -> Vectors32:
    """The n numbers at an address, as an array that owns nothing."""
    return np.ctypeslib.as_array((ctypes.c_float * int(n)).from_address(int(address)))


# Not overloads: a compiled function must not return an array that it was not given.
def _lower(function: Any, kind: Any) -> None:
    @type_callable(function)  # type: ignore[untyped-decorator]
    def typed(context: Any) -> Any:
        return lambda address, n: types.Array(kind, 1, "C")

    @lower_builtin(function, types.int64, types.int64)  # type: ignore[untyped-decorator]
    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        data, width = builder.inttoptr(args[0], array.data.type), context.get_constant(types.intp, 4)
        populate_array(array, data, [args[1]], [width], width, meminfo=None)
        return array._getvalue()


_lower(int32_at, types.int32)
_lower(float32_at, types.float32)


def new_block(columns: Ids, values: Vectors32) -> int:
    """The address of a block with a row; nothing is kept of an empty one (0)."""
    n = len(columns)
    if n == 0:
        return 0
    address = _allocate(8 * n)
    if not address:
        raise MemoryError(f"no memory for a summary of {n:,} entries")
    int32_at(address, n)[:], float32_at(address + 4 * n, n)[:] = columns, values
    return int(address)


class OwnedBlocks:
    """Owns the blocks whose addresses are in an array, but for those in its first part; frees them in the end."""

    def __init__(self) -> None:
        self.held: list[tuple[Counts, int]] = []
        """The array, and how many addresses at its front are no blocks."""
        # Not when the process ends: a thread that goes on until then would find its rows gone.
        weakref.finalize(self, release_all, self.held).atexit = False

    def hold(self, addresses: Counts, first: int) -> None:
        """From now on, the addresses are in this array."""
        self.held[:] = [(addresses, first)]


def release(addresses: Counts) -> None:
    """Free the blocks at these addresses and forget them."""
    for i in np.flatnonzero(addresses).tolist():
        _release(int(addresses[i]))
    addresses[:] = 0


def release_all(held: list[tuple[Counts, int]]) -> None:
    for found, first in held:
        release(found[first:])
    held.clear()
