"""Numbers on their way to the page: a header in JSON, and arrays as they are in memory.

Four bytes say how long the header is; header and arrays are each filled up to a multiple of eight bytes.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

MEDIA_TYPE = "application/x-grinch-arrays"
KINDS = {"u1", "u2", "u4", "i4", "f4", "f8"}


def pack_arrays(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """One message of a header and some arrays.

    >>> message = pack_arrays({"version": 3}, {"size": np.array([5, 7], np.int32)})
    >>> unpack_arrays(message)[0]["version"], unpack_arrays(message)[1]["size"].tolist()
    (3, [5, 7])
    """
    listed = [[name, array.dtype.str[1:], len(array)] for name, array in arrays.items()]
    assert all(kind in KINDS for _, kind, _ in listed), listed
    text = json.dumps({**header, "arrays": listed}, ensure_ascii=False, allow_nan=False, default=_plain).encode()
    text += b" " * (-(4 + len(text)) % 8)
    parts = [np.uint32(len(text)).astype("<u4").tobytes(), text]
    for array in arrays.values():
        content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        parts += [content, b"\0" * (-len(content) % 8)]
    return b"".join(parts)


def unpack_arrays(message: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The header and the arrays of a message."""
    length = int(np.frombuffer(message, "<u4", 1)[0])
    header: dict[str, Any] = json.loads(message[4 : 4 + length])
    arrays, at = {}, 4 + length
    for name, kind, count in header["arrays"]:
        arrays[name] = np.frombuffer(message, f"<{kind}", count, at)
        at += -(-arrays[name].nbytes // 8) * 8
    return header, arrays


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
