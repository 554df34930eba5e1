"""Author ids that stay the same from one run to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping


def lasting_ids(
    authors: Mapping[str, str], previous: Mapping[str, str | None], ever: Iterable[str] = ()
) -> dict[str, str]:
    """For each author id of now, the id to use so that authors found before keep theirs.

    An author keeps an id if it shares the most records with the one who had it. One who has not changed always does;
    of two into which an author fell apart, the one with more of its records does. The others get ids not used before.

    Parameters
    ----------
    authors, previous : mapping of str to str
        The author by record id, now and before.
    ever : iterable of str
        More ids that were used at some time, and are not to be used again.

    Examples
    --------
    >>> before = {"1": "w wang-1", "2": "w wang-1", "3": "w wang-2"}
    >>> now = {"0": "w wang-1", "1": "w wang-2", "2": "w wang-2", "3": "w wang-3"}
    >>> lasting_ids(now, before)
    {'w wang-2': 'w wang-1', 'w wang-3': 'w wang-2', 'w wang-1': 'w wang-3'}
    """
    shared = Counter((author, old) for record, author in authors.items() if (old := previous.get(record)))
    lasting: dict[str, str] = {}
    taken: set[str] = set()
    for (author, old), _ in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if author not in lasting and old not in taken:
            lasting[author] = old
            taken.add(old)
    used = {old for old in previous.values() if old} | set(ever)
    highest: Counter[str] = Counter()
    for old in used:
        stem, number = _parts(old)
        highest[stem] = max(highest[stem], number)
    for author in dict.fromkeys(authors.values()):
        if author not in lasting:
            stem, _ = _parts(author)
            highest[stem] += 1
            lasting[author] = f"{stem}-{highest[stem]}"
    return lasting


def _parts(author: str) -> tuple[str, int]:
    stem, _, number = author.rpartition("-")
    return (stem, int(number)) if number.isascii() and number.isdigit() else (author, 0)
