"""From the cell of a table or the value of a JSON field to the value of a record's field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

LISTS = ("coauthors", "keywords")
OPTIONAL = ("author", "block", "orcid", "paper")
# JSON has escapes for them, and no text can be written with them.
HALF_CHARACTERS = re.compile("[\ud800-\udfff]")


class Flaw(ValueError):
    """What is wrong with a cell or a line; the text continues "line 7 …"."""


def value_of(field: str, cell: Any) -> Any:
    """Return the value of a field; raises Flaw if the cell does not hold one.

    >>> value_of("coauthors", "Na Li; J. Doe"), value_of("year", "2019-05-01"), value_of("orcid", " ")
    (('Na Li', 'J. Doe'), 2019, None)
    """
    if field == "year":
        return _year(cell)
    if field in LISTS:
        return tuple(text for part in _parts(cell) if (text := _text(field, part)))
    if isinstance(cell, list | tuple):
        cell = (" " if field == "abstract" else "; ").join(_text(field, part) for part in cell)
    text = _text(field, cell)
    return text or None if field in OPTIONAL else text


def _parts(cell: Any) -> Iterator[Any]:
    yield from cell if isinstance(cell, list | tuple) else re.split("[;|]", cell) if isinstance(cell, str) else [cell]


def _text(field: str, cell: Any) -> str:
    if isinstance(cell, str):
        if HALF_CHARACTERS.search(cell):
            raise Flaw(f"has half of a surrogate pair in its {field}, which is no character")
        return " ".join(cell.split())
    if cell is None or cell != cell:  # NaN
        return ""
    if isinstance(cell, dict | list | tuple | bool):
        raise Flaw(f"must have a text as {field}; it has a {type(cell).__name__}")
    return str(cell)


def _year(cell: Any) -> int | None:
    """2019, "2019", 2019.0 or "2019-03-01"; None if there is none."""
    text = _text("year", cell)
    if not text:
        return None
    match = re.fullmatch(r"(\d{4})(\.0+|[-/.]\d{1,2}([-/.]\d{1,2})?.*)?", text, flags=re.ASCII)
    if match is None or not 1000 <= int(match[1]) <= 2999:
        raise Flaw(f"has the year {text[:30]!r}, which is not a year")
    return int(match[1])
