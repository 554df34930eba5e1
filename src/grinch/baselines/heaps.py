"""Heaps in a pair of arrays, compiled: the greatest key on top, of equal ones the partner that came first."""

from __future__ import annotations

from grinch._compile import jitable, kernel
from grinch._types import Floats, Ids


@jitable
def _is_before(keys: Floats, partners: Ids, i: int, j: int) -> bool:
    return keys[i] > keys[j] or (keys[i] == keys[j] and partners[i] < partners[j])


@jitable
def _sift_down(keys: Floats, partners: Ids, size: int, i: int) -> None:
    while True:
        best = 2 * i + 1
        if best >= size:
            break
        if best + 1 < size and _is_before(keys, partners, best + 1, best):
            best += 1
        if not _is_before(keys, partners, best, i):
            break
        keys[i], keys[best] = keys[best], keys[i]
        partners[i], partners[best] = partners[best], partners[i]
        i = best


@kernel
def heapify(keys: Floats, partners: Ids) -> None:
    """Order two arrays as a heap."""
    size = keys.shape[0]
    for i in range(size // 2 - 1, -1, -1):
        _sift_down(keys, partners, size, i)


@kernel
def drop_dead(keys: Floats, partners: Ids, size: int, slot_of: Ids) -> int:
    """Pop until the partner on top is alive; the size that is left."""
    while size > 0 and slot_of[partners[0]] < 0:
        size -= 1
        keys[0], partners[0] = keys[size], partners[size]
        _sift_down(keys, partners, size, 0)
    return size
