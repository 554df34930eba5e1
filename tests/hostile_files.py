"""Saved models with something wrong in them, and all checksums right."""

from __future__ import annotations

import copy
import json
import struct
import zlib
from typing import Any, NamedTuple

from grinch.estimators.saved import KIND
from grinch.saving import container
from grinch.saving.state import flatten


class Parts(NamedTuple):
    """What the file of a model holds, free to be changed."""

    header: dict[str, Any]
    arrays: dict[str, Any]


def parts_of(model) -> Parts:
    header, arrays = flatten(model.to_state())
    return Parts(copy.deepcopy(header), {name: array.copy() for name, array in arrays.items()})


def written(path, parts: Parts) -> None:
    """Write parts as ``save`` does, whatever they are."""
    container.write(path, KIND, *parts)


def with_header(path, change, number=container.FORMAT) -> None:
    """Give a file another header, with right checksums: one changed in place, a new one, or bytes."""
    content = path.read_bytes()
    start, length, _ = struct.unpack("<QQI", content[-32:-12])
    head = json.loads(content[start : start + length])
    new = change(head) if callable(change) else change
    text = new if isinstance(new, bytes) else json.dumps(head if new is None else new).encode()
    body = text + struct.pack("<QQI", start, len(text), number)
    path.write_bytes(content[:start] + body + struct.pack("<I8s", zlib.crc32(body), container.MAGIC))
