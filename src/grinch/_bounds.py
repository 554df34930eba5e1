"""Bounds checks of all indices in compiled code, for tests: switched on by ``GRINCH_BOUNDS_CHECK=1``.

numba's own checks let a negative index count from the end, which hides a ``NONE`` that nobody has tested. Here it is
out of bounds as well, in arrays and in slices of them. Code that numba compiles for others is left as it is.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from numba import types
from numba.core import cgutils
from numba.cpython import slicing
from numba.np import arrayobj

IS_CHECKED = os.environ.get("GRINCH_BOUNDS_CHECK", "0") not in ("", "0")
CHECKS: dict[str, bool] = {"boundscheck": True} if IS_CHECKED else {}
# The exit code of a process that could only print the error, in a function that C calls.
EXIT_CODE = 70


class OutOfBounds(BaseException):
    """An index out of bounds. Not an ``Exception``, so that nobody takes it for an error of a file or a request."""


def refuse_what_is_out_of_bounds() -> None:
    """Let numba's checks raise :class:`OutOfBounds`, also where an index, or an end of a slice, is negative."""
    fix_integer_index, guard_invalid_slice = arrayobj.fix_integer_index, slicing.guard_invalid_slice

    def fix(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        if kind.signed:
            refuse_negative(context, builder, context.cast(builder, index, kind, types.intp))
        return fix_integer_index(context, builder, kind, index, size)

    def guard(context: Any, builder: Any, kind: Any, part: Any) -> None:
        guard_invalid_slice(context, builder, kind, part)
        if not kind.has_step:
            refuse_negative(context, builder, part.start)
            refuse_negative(context, builder, part.stop)

    def refuse_negative(context: Any, builder: Any, index: Any) -> None:
        if context.enable_boundscheck:
            refuse_if(cgutils.is_neg_int(builder, index), context, builder, "negative")

    def check(context: Any, builder: Any, index: Any, size: Any, axis: int | None = None) -> None:
        refuse_if(builder.icmp_unsigned(">=", index, size), context, builder, "out of bounds")

    def refuse_if(condition: Any, context: Any, builder: Any, why: str) -> None:
        with cgutils.if_unlikely(builder, condition):
            message = f"index is {why} in {context.fndesc.qualname}"
            context.call_conv.return_user_exc(builder, OutOfBounds, (message,))

    arrayobj.fix_integer_index, slicing.guard_invalid_slice, cgutils.do_boundscheck = fix, guard, check


def end_where_errors_are_printed() -> None:
    """End the process where :class:`OutOfBounds` can only be printed; pytest puts a hook of its own in the place."""
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        before(unraisable)
        if isinstance(unraisable.exc_value, OutOfBounds):
            sys.stderr.flush()
            os._exit(EXIT_CODE)

    sys.unraisablehook = hook


if IS_CHECKED:
    refuse_what_is_out_of_bounds()
    end_where_errors_are_printed()
