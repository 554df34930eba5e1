"""Share of each move in the time of an insert: a clock put around them from outside, before they are compiled.

Called by bench.py in a process of its own, with a compile cache of its own, for what is compiled here is timed:
python benchmarks/stages.py POINTS.npy MODE N_NEIGHBORS
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from grinch._compile import jitable
from grinch.core import moves
from grinch.core.engine import Engine
from grinch.core.moves import insert_all
from grinch.core.rules import MODES
from grinch.linkage.named import linkage_of
from grinch.summaries import arrays
from grinch.summaries.arrays import COUNTERS

# Graft contains restructure; none of the others contains upkeep, which is counted by itself.
STAGES = ("rotate", "pull", "graft", "restructure", "upkeep")
FIRST, UPKEEP = len(COUNTERS), len(COUNTERS) + STAGES.index("upkeep")


@intrinsic  # type: ignore[untyped-decorator]
def ticks(typingctx: Any) -> Any:
    """The processor's cycle counter: a clock that compiled code can read in a few nanoseconds."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        name = "llvm.readcyclecounter"
        function = builder.module.globals.get(name) or ir.Function(
            builder.module, ir.FunctionType(ir.IntType(64), []), name
        )
        return builder.call(function, [])

    return types.int64(), codegen


def with_clock(function: Callable[..., Any], stage: str) -> Callable[..., Any]:
    """The same function of a state and two more arguments, whose time is added up behind the counters."""
    at = FIRST + STAGES.index(stage)

    def timed(state, a, b):  # type: ignore[no-untyped-def]
        # On a clock that stands still during upkeep.
        began = ticks() - state.counts[UPKEEP]
        result = function(state, a, b)
        state.counts[at] += ticks() - state.counts[UPKEEP] - began
        return result

    return jitable(timed)


def with_upkeep_clock(function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(state, v):  # type: ignore[no-untyped-def]
        began = ticks()
        function(state, v)
        state.counts[UPKEEP] += ticks() - began

    return jitable(timed)


@njit
def clock():  # type: ignore[no-untyped-def]
    return ticks()


def ticks_per_second() -> float:
    clock()
    first, began = clock(), time.perf_counter()
    time.sleep(0.2)
    return float((clock() - first) / (time.perf_counter() - began))


def measure(X: np.ndarray, mode: str, k: int) -> dict[str, float]:
    """Microseconds an insert spends in each stage."""
    for name in ("rotate", "graft", "restructure"):
        setattr(moves, name, with_clock(getattr(moves, name), name))
    arrays.refresh = with_upkeep_clock(arrays.refresh)
    engine = Engine(linkage_of("average", "cosine"), MODES[mode], "exact", k, X.shape[1])
    engine.reserve(len(X))
    engine.summaries.write(0, X)
    engine.summaries.arrays = engine.summaries.arrays._replace(counts=np.zeros(FIRST + len(STAGES), np.int64))
    batches = list(engine.search.stream(0, len(X)))
    for first, found in batches:
        engine.change(insert_all, np.arange(first, first + len(found)), found)
    spent = engine.summaries.arrays.counts[FIRST:] / ticks_per_second() / len(X) * 1e6
    stages = dict(zip(STAGES, spent.tolist(), strict=True))
    stages["graft"] -= stages["restructure"]
    return stages


if __name__ == "__main__":
    print(json.dumps(measure(np.load(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
