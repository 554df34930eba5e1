"""Calls from compiled code to an address: a compiled function of the user's own, or a callback into Python.

Compiled code does not know what is behind an address, so it is compiled once for every linkage there is. All arguments
are whole numbers (nodes, counts, addresses of rows). A linkage written in Python works on summaries of any kind; its
callbacks say by their answer that something was raised, and keep what it was.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from grinch._compile import NO_COUNTS
from grinch._types import Counts

# Entries of the addresses that a state carries.
FORMULA, SCORE, SCORE_ALL, MERGE, LEAVES_AROUND = range(5)


_NUMBER = ctypes.c_int64
_PROTOTYPES = {
    SCORE: ctypes.CFUNCTYPE(ctypes.c_double, _NUMBER, _NUMBER),
    SCORE_ALL: ctypes.CFUNCTYPE(_NUMBER, _NUMBER, _NUMBER),
    MERGE: ctypes.CFUNCTYPE(_NUMBER, _NUMBER, _NUMBER, _NUMBER),
    LEAVES_AROUND: ctypes.CFUNCTYPE(_NUMBER, _NUMBER),
}


class LinkageFailed(Exception):
    """A linkage raised, or its answer is no score; who made the call knows more."""


def call_float(address: int, numbers: tuple[int, ...]) -> float:
    """The floating-point answer of the function at an address."""
    value: float = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_int64] * len(numbers))(int(address))(*numbers)
    return value


def call_int(address: int, numbers: tuple[int, ...]) -> int:
    """The whole number that the function at an address answers."""
    value: int = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(numbers))(int(address))(*numbers)
    return value


def _intrinsic_call(answer: Any, llvm_answer: Any) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def call(typingctx: Any, address: Any, numbers: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            values = cgutils.unpack_tuple(builder, args[1], signature.args[1].count)
            function = ir.FunctionType(llvm_answer, [ir.IntType(64)] * len(values))
            return builder.call(builder.inttoptr(args[0], function.as_pointer()), values)

        return answer(types.int64, types.UniTuple(types.int64, len(numbers))), codegen

    return call


_compiled_call_float = _intrinsic_call(types.float64, ir.DoubleType())
_compiled_call_int = _intrinsic_call(types.int64, ir.IntType(64))


# numba compares the names and annotations of an overload with those of the function it returns.
@overload(call_float, jit_options=NO_COUNTS)
def _overloaded_call_float(address, numbers):  # type: ignore[no-untyped-def]
    return lambda address, numbers: _compiled_call_float(address, numbers)


@overload(call_int, jit_options=NO_COUNTS)
def _overloaded_call_int(address, numbers):  # type: ignore[no-untyped-def]
    return lambda address, numbers: _compiled_call_int(address, numbers)


class Callbacks:
    """Python functions as compiled code calls them; ``error`` is what the last failing one raised.

    Each answers 0 for failure, a score nan. ctypes itself answers 0 where an interrupt hits outside of a function.
    """

    def __init__(self, functions: dict[int, Callable[..., float]]):
        self.error: BaseException | None = None
        self._functions: dict[int, Any] = {which: _PROTOTYPES[which](function) for which, function in functions.items()}

    def addresses(self) -> Counts:
        """By the constants above; 0 where there is nothing to call."""
        found = np.zeros(LEAVES_AROUND + 1, np.int64)
        for which, function in self._functions.items():
            found[which] = ctypes.cast(function, ctypes.c_void_p).value or 0
        return found
