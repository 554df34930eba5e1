"""Calls from compiled code to an address: a compiled function of the user's own, or a callback into Python.

Compiled code does not know what is behind an address, so it is compiled once for every linkage there is. All arguments
are whole numbers (nodes, counts, addresses of rows). A linkage written in Python works on summaries of any kind; its
callbacks keep what was raised. They answer in arrays that compiled code wipes before it calls, and not by what they
return: an interrupt hits a Python function as it is entered, before any ``try``, and what ctypes returns then is
whatever was in memory.

At the end is memory beside numpy's, for what compiled code makes as it goes: it can ask for more in the middle of a
move. A block has the columns of a sparse row, and after them their values: four bytes for each.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global
from numba.extending import lower_builtin, type_callable
from numba.np.arrayobj import populate_array

from grinch._by_reference import read_item
from grinch._compile import addressed
from grinch._types import Counts, Ids, Vectors32

F = TypeVar("F", bound=Callable[..., Any])
# Entries of the addresses that a state carries.
FORMULA, SCORE, SCORE_ALL, MERGE, LEAVES_AROUND, ALLOCATE, RELEASE, SPARSE_SCORE, SPARSE_SCORE_ALL, SPARSE_MERGE = (
    range(10)
)
N_CALLS = SPARSE_MERGE + 1


_NUMBER = ctypes.c_int64
_PROTOTYPES = {
    SCORE: ctypes.CFUNCTYPE(None, _NUMBER, _NUMBER),
    SCORE_ALL: ctypes.CFUNCTYPE(None, _NUMBER, _NUMBER),
    MERGE: ctypes.CFUNCTYPE(None, _NUMBER, _NUMBER, _NUMBER),
    LEAVES_AROUND: ctypes.CFUNCTYPE(None, _NUMBER),
}


class LinkageFailed(Exception):
    """A linkage raised, or its answer is no score; who made the call knows more."""


def call_float(address: int, numbers: tuple[int, ...]) -> float:
    """Return the floating-point answer of the function at an address."""
    value: float = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_int64] * len(numbers))(int(address))(*numbers)
    return value


def call_int(address: int, numbers: tuple[int, ...]) -> int:
    """Return the answer of the function at an address, a whole number."""
    value: int = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(numbers))(int(address))(*numbers)
    return value


def call(address: int, numbers: tuple[int, ...]) -> None:
    """Call the function at an address, which answers in arrays."""
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(numbers))(int(address))(*numbers)


def _lower(function: Callable[..., Any], answer: Any, llvm_answer: Any) -> None:
    """Let compiled code call addresses by this function."""

    @type_callable(function)  # type: ignore[untyped-decorator]
    def typed(context: Any) -> Any:
        return lambda address, numbers: answer(types.int64, types.UniTuple(types.int64, len(numbers)))

    @lower_builtin(function, types.int64, types.UniTuple)  # type: ignore[untyped-decorator]
    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = cgutils.unpack_tuple(builder, args[1], signature.args[1].count)
        kind = ir.FunctionType(llvm_answer, [ir.IntType(64)] * len(values))
        found = builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)
        return context.get_dummy_value() if answer is types.void else found


_lower(call_float, types.float64, ir.DoubleType())
_lower(call_int, types.int64, ir.IntType(64))
_lower(call, types.void, ir.VoidType())


_outlined: dict[int, Callable[[], int]] = {}


def outlined(which: int, signature: Any) -> Callable[[F], F]:
    """Let compiled code call a function on arrays by the address in their ``calls``: it is no part of its callers.

    It is compiled when its address is asked for (:func:`outlined_addresses`). It must not raise.
    """

    def decorate(function: F) -> F:
        _outlined[which] = addressed(function, signature)

        template = type(function.__name__, (ConcreteTemplate,), {"key": function, "cases": [signature]})
        infer_global(function, types.Function(template))

        @lower_builtin(function, *signature.args)  # type: ignore[untyped-decorator]
        def lowered(context: Any, builder: Any, _: Any, args: Any) -> Any:
            address = read_item(context, builder, signature.args[0], args[0], "calls", which)
            answer, *kinds = (context.get_value_type(kind) for kind in (signature.return_type, *signature.args))
            return builder.call(builder.inttoptr(address, ir.FunctionType(answer, kinds).as_pointer()), args)

        return function

    return decorate


def outlined_addresses() -> dict[int, int]:
    """Return the addresses of these functions, which are compiled now if they have not been before."""
    return {which: address() for which, address in _outlined.items()}


class Callbacks:
    """Python functions as compiled code calls them; ``error`` is what the first failing one raised."""

    def __init__(self, functions: dict[int, Callable[..., None]]):
        self.error: BaseException | None = None
        self._python_functions = list(functions.values())
        self._functions: dict[int, Any] = {which: _PROTOTYPES[which](function) for which, function in functions.items()}

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Keep what is raised where a callback is entered while compiled code runs; ctypes would only print it.

        Signals are handled in the main thread alone, so no other one needs this.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before, functions = sys.unraisablehook, self._python_functions

        def hear(unraisable: Any) -> None:
            if unraisable.object in functions:
                self.error = self.error or unraisable.exc_value
            else:
                before(unraisable)

        sys.unraisablehook = hear
        try:
            yield
        finally:
            sys.unraisablehook = before

    def addresses(self) -> Counts:
        """Return the addresses by the constants above; 0 where there is nothing to call."""
        found = np.zeros(N_CALLS, np.int64)
        for which, function in self._functions.items():
            found[which] = ctypes.cast(function, ctypes.c_void_p).value or 0
        return found


# Memory beside numpy's ------------------------------------------------------------------------------------------------


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
    """Return the n numbers at an address, as an array that owns nothing."""
    return np.ctypeslib.as_array((ctypes.c_int32 * int(n)).from_address(int(address)))


def float32_at(address: int, n: int) -> Vectors32:
    """Return the n numbers at an address, as an array that owns nothing."""
    return np.ctypeslib.as_array((ctypes.c_float * int(n)).from_address(int(address)))


# Not overloads: a compiled function must not return an array that it was not given.
def _lower_array(function: Any, kind: Any) -> None:
    @type_callable(function)  # type: ignore[untyped-decorator]
    def typed(context: Any) -> Any:
        return lambda address, n: types.Array(kind, 1, "C")

    @lower_builtin(function, types.int64, types.int64)  # type: ignore[untyped-decorator]
    def lowered(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.return_type)(context, builder)
        data, width = builder.inttoptr(args[0], array.data.type), context.get_constant(types.intp, 4)
        populate_array(array, data, [args[1]], [width], width, meminfo=None)
        return array._getvalue()


_lower_array(int32_at, types.int32)
_lower_array(float32_at, types.float32)


def new_block(columns: Ids, values: Vectors32) -> int:
    """Return the address of a block with a row; nothing is kept of an empty one (0)."""
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
        """Own the addresses in this array from now on."""
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
