"""Values and tables of JSON as arrays of bytes, so that what is large is kept beside the manifest."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from grinch.errors import NotSavable
from grinch.saving.plain import Decoder, Encoder
from grinch.saving.schema import Source, Taken

# Kinds of names that need no encoding of their own; numbers of any size are texts to JSON, and read back as they were.
_SIMPLE = {str, bool, type(None)}
_LARGEST = 2**63


def keep_json(out: Taken, name: str, data: Any) -> dict[str, str]:
    """Keep what JSON can hold as an array of bytes."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return out.keep(name, np.frombuffer(text.encode("ascii"), np.uint8))


def read_json(reference: Any, source: Source) -> Any:
    return json.loads(source.array(reference, "|u1", 1).tobytes())


def keep_value(out: Taken, name: str, value: Any, what: str, encoder: Encoder | None = None) -> dict[str, str]:
    """Keep a plain value; ``what`` says what it is, where it turns out not to be plain."""
    try:
        data = {"simple": value} if _is_simple(value) else {"value": (encoder or Encoder()).encode(value)}
    except NotSavable as error:
        raise NotSavable(f"{what} cannot be written to a file: {error}") from None
    return keep_json(out, name, data)


def read_value(reference: Any, source: Source, decoder: Decoder | None = None) -> Any:
    data = read_json(reference, source)
    return data["simple"] if "simple" in data else (decoder or Decoder()).decode(data["value"])


def _is_simple(value: Any) -> bool:
    """Whether a value is a list that JSON holds as it is, such as a million names."""
    if type(value) is not list:
        return False
    kinds = set(map(type, value))
    if kinds <= _SIMPLE:
        return True
    return kinds <= _SIMPLE | {int} and all(-_LARGEST < x < _LARGEST for x in value if type(x) is int)
