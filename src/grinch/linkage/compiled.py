"""A linkage of the user's own, compiled: it runs inside the compiled engine like the built-in ones.

A function that numba compiled cannot be inlined into an engine that was compiled earlier, and compiling the engine for
each would take seconds in every process. So it is handed over as an address: the engine is compiled (and cached) once
for all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import carray, cfunc, jit, types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

from grinch._bounds import CHECKS
from grinch.errors import unknown_name
from grinch.linkage.base import VectorLinkage

LEAF_METRICS = ("cosine", "dot", "sqeuclidean")


class VectorGroup(NamedTuple):
    """What a compiled linkage sees of a group of vectors.

    ``mean`` of the vectors (float32), their number ``size``, their ``spread`` (mean squared distance to the mean) and
    the ``length`` of the mean.
    """

    mean: npt.NDArray[np.float32]
    size: float
    spread: float
    length: float


_GROUP = types.NamedTuple((types.float32[::1], types.float64, types.float64, types.float64), VectorGroup)
_ROW = (types.CPointer(types.float32), types.CPointer(types.float64))
# As it is called: mean and moments of two groups, and the number of columns.
_BY_ADDRESS = types.float64(*_ROW, *_ROW, types.int64)


class Formula:
    """A compiled function of two groups, with the address of a version that takes rows of a table."""

    def __init__(self, function: Dispatcher):
        self.function = function
        # Division by zero gives inf or nan, which the engine notices, and not an exception, which it could not.
        compiled = jit(**{**function.targetoptions, "error_model": "numpy", **CHECKS})(function.py_func)
        try:
            compiled.compile(types.float64(_GROUP, _GROUP))

            @cfunc(_BY_ADDRESS, error_model="numpy", **CHECKS)
            def of_rows(mean_a, moments_a, mean_b, moments_b, n):  # type: ignore[no-untyped-def]
                a = VectorGroup(carray(mean_a, n), moments_a[0], moments_a[1], moments_a[2])
                b = VectorGroup(carray(mean_b, n), moments_b[0], moments_b[1], moments_b[2])
                return compiled(a, b)

        except NumbaError as error:
            raise TypeError(
                f"linkage {function.py_func.__name__!r} must compile as f(a, b) of two VectorGroup(mean, size, spread,"
                f" length) returning a float; numba says: {error}"
            ) from None
        self._of_rows = of_rows

    @property
    def address(self) -> int:
        return int(self._of_rows.address)

    def __reduce__(self) -> tuple[Any, ...]:
        return Formula, (self.function,)


@lru_cache(maxsize=64)
def compiled_linkage(function: Dispatcher, metric: str | None = None) -> VectorLinkage:
    """A linkage on vectors from a ``numba.njit`` function of two groups.

    ``metric`` says by what the candidates of a point are found among the leaves; they are then ranked by the function.

    >>> import numpy as np
    >>> from numba import njit
    >>> from grinch import Grinch
    >>> @njit
    ... def mean_dot(a, b):
    ...     return np.dot(a.mean, b.mean)
    >>> Grinch(linkage=mean_dot, metric="dot", n_clusters=2).fit_predict([[1.0, 0], [0, 1], [2, 0.1]]).tolist()
    [0, 1, 0]
    """
    metric = metric or "cosine"
    if metric not in LEAF_METRICS:
        raise unknown_name("metric", metric, LEAF_METRICS, " for a compiled linkage")
    return VectorLinkage(function.py_func.__name__, metric, Formula(function), metric, None)
