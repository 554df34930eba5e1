"""What an engine did, observed from outside: counters, and optionally the time spent in each move.

The watch is off by default: ``spent`` is then empty and nothing is timed.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload

from grinch._compile import jitable

COUNTERS = (
    "rotations",
    "pulls",
    "grafts_tried",
    "grafts",
    "restructurings",
    "swaps",
    "scores",
    "merges",
)
ROTATIONS, PULLS, GRAFTS_TRIED, GRAFTS, RESTRUCTURINGS, SWAPS, SCORES, MERGES = range(len(COUNTERS))

# Graft contains restructure; none of the others contains upkeep, which is counted by itself.
STAGES = ("rotate", "pull", "graft", "restructure", "upkeep")
IN_ROTATE, IN_PULL, IN_GRAFT, IN_RESTRUCTURE, IN_UPKEEP = range(len(STAGES))


class Tally(NamedTuple):
    """``counts`` by COUNTERS; ``spent`` by STAGES in clock ticks, empty when nobody is timing."""

    counts: npt.NDArray[np.int64]
    spent: npt.NDArray[np.int64]


def new_tally(timed: bool = False) -> Tally:
    return Tally(np.zeros(len(COUNTERS), np.int64), np.zeros(len(STAGES) if timed else 0, np.int64))


@intrinsic
def _cycles(typingctx):
    """The processor's cycle counter: a clock that compiled code can read in a few nanoseconds."""

    def codegen(context, builder, signature, args):
        function_type = ir.FunctionType(ir.IntType(64), [])
        name = "llvm.readcyclecounter"
        function = builder.module.globals.get(name) or ir.Function(builder.module, function_type, name)
        return builder.call(function, [])

    return types.int64(), codegen


def now() -> int:
    return time.perf_counter_ns()


@overload(now)
def _compiled_now():
    return lambda: _cycles()


@njit
def _compiled_clock():
    return now()


def clock_rate() -> float:
    """Ticks of the compiled clock per second."""
    _compiled_clock()
    ticks, began = _compiled_clock(), time.perf_counter()
    time.sleep(0.2)
    return float((_compiled_clock() - ticks) / (time.perf_counter() - began))


@jitable
def start_watch(tally):
    """The time, on a clock that stands still during upkeep."""
    return now() - tally.spent[IN_UPKEEP] if len(tally.spent) > 0 else 0


@jitable
def stop_watch(tally, stage, began):
    if len(tally.spent) > 0:
        tally.spent[stage] += now() - tally.spent[IN_UPKEEP] - began
