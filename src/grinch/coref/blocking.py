"""Blocks: records that may be the same person's."""

from __future__ import annotations

from grinch.coref.names import parsed


def block_key(name: str) -> str:
    """First initial and last name.

    >>> block_key("Wei Wang")
    'w wang'
    """
    first, last = parsed(name)
    return f"{first[0][0]} {last}" if first else last
