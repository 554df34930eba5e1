"""Content keys: one number per leaf id, drawn from the id alone, so that sums of them tell sets of leaves apart.

The numbers are the same in every process, on every machine and in every version: keys are stored with what they key.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from grinch.tree.tree import Tree

Keys = npt.NDArray[np.uint64]

# Of splitmix64: Steele, Lea, Flood, Fast splittable pseudorandom number generators (2014).
GAMMA, FIRST, SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
# Whole numbers from 2^63 on have the bits of negative ones; this tells the two apart.
UPPER_HALF = np.uint64(0xD6E8FEB86659FD93)
ACCEPTED = "whole numbers, text, bytes, floats, True, False, None, UUIDs, or tuples of these"


def keys(tree: Tree, ids: Sequence[Any] | npt.NDArray[Any] | None) -> Keys:
    """Return, by node id, the sum of the numbers of the leaves at or below the node, modulo 2^64."""
    given = tree.names if ids is None else ids
    given = np.arange(tree.n_leaves) if given is None else given
    shape = given.shape if isinstance(given, np.ndarray) else (len(given),)
    if shape != (tree.n_leaves,):
        raise ValueError(f"ids must have one entry for each of the {tree.n_leaves} leaves; got shape {shape}")
    numbers = np.zeros(tree.n_ids, dtype=np.uint64)
    numbers[: tree.n_leaves] = leaf_keys(given)
    return tree.sum_upward(numbers)


def leaf_keys(ids: Sequence[Any] | npt.NDArray[Any]) -> Keys:
    """Return a pseudo-random number for each id.

    The same whole number in any type has the same key; otherwise ids of different types have different ones.

    >>> leaf_keys([1, 2]).tolist() == leaf_keys(np.array([1, 2], dtype=np.uint8)).tolist()
    True
    >>> len({int(key) for key in leaf_keys([1, 1.5, "1", b"1", ("1",), True, None])})
    7
    """
    whole = _whole_numbers(ids)
    if whole is not None:
        return _mixed(whole)
    values = ids.tolist() if isinstance(ids, np.ndarray) else ids
    return np.fromiter(map(_key, values), dtype=np.uint64, count=len(ids))


def _whole_numbers(ids: Sequence[Any] | npt.NDArray[Any]) -> npt.NDArray[np.integer] | None:
    """Return the ids as one array, if all are whole numbers of 64 bits."""
    if isinstance(ids, np.ndarray) and ids.dtype != object:
        return ids if ids.dtype.kind in "iu" else None
    types = set(map(type, ids))
    if not all(issubclass(t, (int, np.integer)) and not issubclass(t, bool) for t in types):
        return None
    # As Python's own, since numpy lets those of its own wrap around.
    values = list(ids) if types <= {int} else [int(i) for i in ids]
    for dtype in (np.int64, np.uint64):
        try:
            return np.array(values, dtype=dtype)
        except OverflowError:
            continue
    return None


def _mixed(whole: npt.NDArray[np.integer]) -> Keys:
    """Return splitmix64 of whole numbers."""
    if whole.dtype.kind == "u":
        z = whole.astype(np.uint64)
        z[z >> np.uint64(63) > 0] ^= UPPER_HALF
    else:
        z = whole.astype(np.int64).view(np.uint64)
    z += GAMMA
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


def _key(value: Any) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and -(2**63) <= value < 2**64:
        return int(_mixed(np.array([value], dtype=np.int64 if value < 2**63 else np.uint64))[0])
    return int.from_bytes(hashlib.blake2b(_encoded(value), digest_size=8).digest(), "little")


def _encoded(value: Any) -> bytes:
    """Return a byte for the type, and the value: different for any two ids of different type or value."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes):
        return b"b" + value
    if value is None:
        return b"n"
    if isinstance(value, (bool, np.bool_)):
        return b"t" if value else b"f"
    if isinstance(value, (int, np.integer)):
        whole = int(value)
        return b"i" + whole.to_bytes(whole.bit_length() // 8 + 1, "little", signed=True)
    if isinstance(value, (float, np.floating)):
        # Equal floats in the same bits: no -0.0, and one nan.
        number = float(value) + 0.0
        return b"d" + struct.pack("<d", number if number == number else float("nan"))
    if isinstance(value, UUID):
        return b"u" + value.bytes
    if isinstance(value, tuple):
        parts = [_encoded(part) for part in value]
        return b"(" + b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    raise TypeError(f"ids must be {ACCEPTED} to have keys; got {value!r} ({type(value).__name__})")
