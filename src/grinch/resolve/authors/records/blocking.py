"""Blocks: the records that could be of one author, by name or by a column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from grinch.errors import unknown_name
from grinch.resolve.authors.records.names import parsed
from grinch.resolve.authors.records.record import Record


def block_key(name: str) -> str:
    """First initial and last name, so that all spellings of a name meet in one block.

    Of the last name only the last word counts, without particles: "García Márquez", "García-Márquez" and "Márquez"
    meet, and so do "van der Berg" and "Berg". A name of one word is its own block.

    >>> [block_key(name) for name in ("Wang, Wei", "W. Wang", "WANG W", "Wéi Wang")]
    ['w wang', 'w wang', 'w wang', 'w wang']
    >>> block_key("Gabriel García Márquez"), block_key("García-Márquez, G."), block_key("Jan van der Berg")
    ('g marquez', 'g marquez', 'j berg')
    """
    first, core = parsed(name).first, parsed(name).core
    return " ".join([*(word[0] for word in first[:1]), *core[-1:]])


def blocks(records: Iterable[Record], by: Literal["block"] | None = None) -> dict[str, list[Record]]:
    """Records by block, in the order they come.

    Parameters
    ----------
    records : iterable of Record
        Each with a name.
    by : None or "block"
        None: by first initial and last name, see :func:`block_key`. "block": by the field ``block`` of the records.

    Examples
    --------
    >>> from grinch.resolve.authors import Record
    >>> records = [Record("1", "Wei Wang"), Record("2", "Li, Na"), Record("3", "W. Wang")]
    >>> {block: [record.id for record in group] for block, group in blocks(records).items()}
    {'w wang': ['1', '3'], 'n li': ['2']}
    """
    if by not in (None, "block"):
        raise unknown_name("by", by, ["block"], more=" or None (by name)")
    found: dict[str, list[Record]] = {}
    for record in records:
        key = block_key(record.name) if by is None else record.block
        if not key:
            lacking = (
                "no block; fill it in, or block by name (by=None)"
                if by
                else f"the name {record.name!r}, which has no letters"
            )
            raise ValueError(
                f"every record must have a {by or 'name'} to be put in a block; record {record.id!r} has {lacking}"
            )
        found.setdefault(key, []).append(record)
    return found
