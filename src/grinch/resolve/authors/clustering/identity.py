"""Author ids that stay the same from one run to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

MOST_DIGITS = 15


def stable_ids(
    authors: Mapping[str, str], previous: Mapping[str, str | None], ever: Iterable[str] = ()
) -> dict[str, str]:
    """For each author id of this run, the id to use instead so that the authors of an earlier run keep theirs.

    An old id goes to the author that shares the most records with it. So an author that has not changed keeps its id,
    and of two parts into which an author was split the larger one keeps it. All others get ids not used before.

    Parameters
    ----------
    authors, previous : mapping of str to str
        Author by record id, in this run and in the earlier one.
    ever : iterable of str
        More ids that were once used, and must not be used again.

    Examples
    --------
    >>> before = {"1": "w wang-1", "2": "w wang-1", "3": "w wang-2"}
    >>> now = {"0": "w wang-1", "1": "w wang-2", "2": "w wang-2", "3": "w wang-3"}
    >>> stable_ids(now, before)
    {'w wang-2': 'w wang-1', 'w wang-3': 'w wang-2', 'w wang-1': 'w wang-3'}
    """
    shared = Counter((author, old) for record, author in authors.items() if (old := previous.get(record)))
    stable: dict[str, str] = {}
    taken: set[str] = set()
    for (author, old), _ in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if author not in stable and old not in taken:
            stable[author] = old
            taken.add(old)
    used = {old for old in previous.values() if old} | set(ever)
    highest: Counter[str] = Counter()
    for old in used:
        stem, number = _parts(old)
        highest[stem] = max(highest[stem], number)
    for author in dict.fromkeys(authors.values()):
        if author not in stable:
            stem, _ = _parts(author)
            highest[stem] += 1
            stable[author] = f"{stem}-{highest[stem]}"
    return stable


def _parts(author: str) -> tuple[str, int]:
    """Block and number of an id. Digits too many for a number that we gave are part of the name."""
    stem, _, number = author.rpartition("-")
    is_number = number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS
    return (stem, int(number)) if is_number else (author, 0)
