"""Tables as CSV, names of contents, and files that are replaced whole."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Sequence
from typing import IO

from grinch.saving.disk import recording_writes, replacing

__all__ = ["digest", "harmless", "recording_writes", "replacing", "write_table"]

# What spreadsheets take for the beginning of a formula.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def harmless(cells: Iterable[object]) -> list[object]:
    """Return the cells of a row for a spreadsheet: text that it would run as a formula gets a single quote in front.

    >>> harmless(["=1+1", "-1", -1, "@SUM(A1)", "plain"])
    ["'=1+1", '-1', -1, "'@SUM(A1)", 'plain']
    """
    return [f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell for cell in cells]


def write_table(out: IO[str], header: Sequence[str], rows: Iterable[Iterable[object]]) -> None:
    """Write CSV for people: text that a spreadsheet would run as a formula gets a single quote in front."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(map(harmless, rows))


def _is_formula(text: str) -> bool:
    if not text.startswith(FORMULA_STARTS):
        return False
    try:
        float(text)
    except ValueError:
        return True
    # A number with a tab or a line end in front is not written as one.
    return text[0] in "\t\r"


def digest(content: str | bytes) -> str:
    """Return a short name of a content: the same for the same content, and different for any other.

    >>> digest("a") == digest(b"a"), digest("a") == digest("b"), len(digest("a"))
    (True, False, 32)
    """
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=16).hexdigest()
