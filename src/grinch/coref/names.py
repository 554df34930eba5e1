"""Names of persons: folded, taken apart, compared."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple


class Name(NamedTuple):
    """Given names (initials as single letters) and the last name, folded."""

    first: tuple[str, ...]
    last: str


def folded(text: str) -> str:
    """Lower case, without accents.

    >>> folded("Müller")
    'muller'
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return plain.lower()


def parsed(name: str) -> Name:
    """A name taken apart.

    >>> parsed("J. R. Smith")
    Name(first=('j', 'r'), last='smith')
    """
    parts = re.findall(r"[a-z0-9']+", folded(name))
    return Name(tuple(parts[:-1]), parts[-1]) if parts else Name((), "")


def compatible(a: Name, b: Name) -> bool:
    """Whether two names may be the same person's.

    >>> compatible(parsed("W Wang"), parsed("Wei Wang")), compatible(parsed("Wen Wang"), parsed("Wei Wang"))
    (True, False)
    """
    if a.last != b.last:
        return False
    return all(x.startswith(y) or y.startswith(x) for x, y in zip(a.first, b.first, strict=False))
