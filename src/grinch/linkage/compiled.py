"""A linkage of the user's own, compiled: it runs inside the compiled engine like the built-in ones.

A function that numba compiled cannot be inlined into an engine that was compiled earlier, and compiling the engine for
each would take 20 s in every process. So it is handed over as a pointer: the engine is compiled (and cached) once for
all of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import jit, types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError

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
SIGNATURE = types.float64(_GROUP, _GROUP)


class Formula(types.WrapperAddressProtocol):  # type: ignore[misc]
    """A compiled function of two groups as numba passes functions around: an address with a signature."""

    def __init__(self, function: Dispatcher):
        self.function = function
        # Division by zero gives inf or nan, which the engine notices, and not an exception, which it could not.
        self._compiled = jit(**{**function.targetoptions, "error_model": "numpy"})(function.py_func)
        try:
            self._compiled.compile(SIGNATURE)
        except NumbaError as error:
            raise TypeError(
                f"linkage {function.py_func.__name__!r} must compile as f(a, b) of two VectorGroup(mean, size, spread,"
                f" length) returning a float; numba says: {error}"
            ) from None
        self._result = self._compiled.overloads[SIGNATURE.args]

    def __wrapper_address__(self) -> int:
        address: int = self._result.library.get_pointer_to_function(self._result.fndesc.llvm_cfunc_wrapper_name)
        return address

    def signature(self) -> Any:
        return SIGNATURE

    def __call__(self, a: VectorGroup, b: VectorGroup) -> float:
        return float(self._compiled(a, b))

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
