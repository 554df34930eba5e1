"""Arrays as bytes in a file: as they are, or packed where that makes them smaller.

Numbers that are alike have alike bytes in the same places: the first bytes of all numbers are written first, then the
second, and so on; zlib finds what repeats. Numbers of 64 bits that 32 bits hold just as well are written so.

>>> coded = code_array(np.zeros(1000))
>>> coded.steps, len(coded.content) < 60
(['f4', 'zlib'], True)
>>> decode_array(coded.content, "<f8", [1000], coded.steps, "zeros").sum()
np.float64(0.0)
"""

from __future__ import annotations

import math
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.errors import SavedModelError
from grinch.saving.plain import array_shape, array_type

# No packed byte of zlib stands for more than this many.
MOST_PER_BYTE = 1032
# Arrays are packed if a part of them, some blocks from all over, gets this much smaller.
BLOCKS, BLOCK, WORTH_IT = 32, 2048, 0.85


class Coded(NamedTuple):
    """The bytes of an array, and the steps that made them."""

    content: Any
    steps: list[str]


def code_array(array: npt.NDArray[Any]) -> Coded:
    array, steps = np.ascontiguousarray(array), []
    if array.dtype == np.float64 and _fits_in_half(array):
        array, steps = array.astype(np.float32), ["f4"]
    content = array.reshape(-1).view(np.uint8).data
    if array.nbytes < 64 or not _is_worth_it(array):
        return Coded(content, steps)
    return Coded(zlib.compress(_shuffled(array), 1), [*steps, "zlib"])


def decode_array(content: memoryview, dtype: Any, shape: Any, steps: Any, name: str) -> npt.NDArray[Any]:
    """The array of some bytes; it takes no more memory than these allow."""
    kind, sides = array_type(dtype), array_shape(shape)
    if steps not in ([], ["f4"], ["zlib"], ["f4", "zlib"]) or ("f4" in steps and kind != np.float64):
        raise SavedModelError(f"array {name!r} is coded by {steps!r:.60}, which this version does not know")
    stored = np.dtype(np.float32) if "f4" in steps else kind
    size = stored.itemsize * math.prod(sides)
    if "zlib" in steps:
        if size > MOST_PER_BYTE * len(content):
            raise SavedModelError(f"array {name!r} cannot have shape {sides}: it is only {len(content)} bytes packed")
        array = _unshuffled(_unpacked(content, size, name), stored)
    elif size != len(content):
        raise SavedModelError(f"array {name!r} of shape {sides} must have {size} bytes; it has {len(content)}")
    else:
        # A copy: arrays start where the processor likes it, and can be written to.
        array = np.frombuffer(content, stored).copy() if size else np.empty(0, stored)
    return array.astype(kind, copy=False).reshape(sides)


def unpacked_size(dtype: Any, shape: Any) -> int:
    return array_type(dtype).itemsize * math.prod(array_shape(shape))


def _fits_in_half(array: npt.NDArray[Any]) -> bool:
    """Whether float32 holds the very same numbers, nan as it is."""
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(array), 4096):
            part = np.ascontiguousarray(array[start : start + 4096])
            if not np.array_equal(part.astype(np.float32).astype(np.float64).view(np.int64), part.view(np.int64)):
                return False
    return True


def _is_worth_it(array: npt.NDArray[Any]) -> bool:
    flat = array.reshape(-1)
    if array.nbytes <= BLOCKS * BLOCK:
        some = flat
    else:
        block = BLOCK // array.itemsize
        starts = np.linspace(0, len(flat) - block, BLOCKS).astype(np.intp)
        some = flat[(starts[:, None] + np.arange(block)).ravel()]
    return len(zlib.compress(_shuffled(some), 1)) < WORTH_IT * some.nbytes


def _shuffled(array: npt.NDArray[Any]) -> bytes:
    """The first bytes of all numbers, then the second bytes, and so on."""
    width = array.dtype.itemsize
    return array.reshape(-1).view(np.uint8).reshape(-1, width).T.tobytes() if width > 1 else array.tobytes()


def _unshuffled(content: bytes, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    width = dtype.itemsize
    columns = np.frombuffer(content, np.uint8).reshape(max(width, 1), -1)
    return columns.T.copy().view(dtype).reshape(-1)


def _unpacked(content: memoryview, size: int, name: str) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(content, size + 1)
    except zlib.error as error:
        raise SavedModelError(f"array {name!r} cannot be unpacked: {error}") from None
    if len(found) != size or not unpacker.eof or unpacker.unused_data:
        raise SavedModelError(f"array {name!r} must unpack to {size} bytes; it does not")
    return found
