"""What two groups of records have in common, in words, for a person who decides whether they are of one author."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from grinch.resolve.authors.records.blocking import block_key
from grinch.resolve.authors.records.names import folded
from grinch.resolve.authors.records.record import Record

# Words that titles of any kind have.
SMALL_WORDS = frozenset(("about", "based", "between", "from", "into", "over", "towards", "under", "using", "with"))
MOST = 6


def evidence(a: Sequence[Record], b: Sequence[Record]) -> dict[str, str]:
    """What two groups of records have in common, and what each is like.

    >>> a = [Record("1", "Wei Wang", "Grafting of trees", ("Na Li", "J. Doe"), "KDD", 2019)]
    >>> b = [Record("2", "W. Wang", "Trees in the wild", ("Jane Doe",), "ICML", 2021), Record("3", "W. Wang")]
    >>> for what, found in evidence(a, b).items():
    ...     if found:
    ...         print(f"{what}: {found}")
    names a: Wei Wang
    names b: W. Wang (2)
    records a: 1
    records b: 2
    years a: 2019
    years b: 2021
    same coauthors: Jane Doe
    same words: trees
    example a: Grafting of trees
    example b: Trees in the wild
    ids a: 1
    ids b: 2 3
    """
    sides = {"a": a, "b": b}
    return {
        **{f"names {side}": _counted(record.name for record in group) for side, group in sides.items()},
        **{f"records {side}": str(len(group)) for side, group in sides.items()},
        **{f"years {side}": _span([r.year for r in group if r.year is not None]) for side, group in sides.items()},
        "same coauthors": _common(a, b, lambda record: record.coauthors, block_key),
        "same venues": _common(a, b, lambda record: (record.venue,), folded),
        "same affiliations": _common(a, b, lambda record: record.affiliation.split("; "), folded),
        "same words": _common(a, b, _words, folded),
        "same orcid": _common(a, b, lambda record: (record.orcid or "",), folded),
        **{f"example {side}": next((r.title for r in group if r.title), "") for side, group in sides.items()},
        **{f"ids {side}": _listed([record.id for record in group], " ") for side, group in sides.items()},
    }


def _words(record: Record) -> Iterable[str]:
    words = re.findall(r"\w{4,}", " ".join([record.title, *record.keywords]).lower())
    return [word for word in words if word not in SMALL_WORDS]


def _common(
    a: Sequence[Record],
    b: Sequence[Record],
    values: Callable[[Record], Iterable[str]],
    key: Callable[[str], str],
) -> str:
    """What both have, the most frequent first, each in its longest spelling."""
    counts: list[Counter[str]] = []
    written: dict[str, str] = {}
    for group in (a, b):
        counts.append(Counter())
        for record in group:
            for value in values(record):
                if value:
                    counts[-1][key(value)] += 1
                    written[key(value)] = max(written.get(key(value), ""), value, key=len)
    both = counts[0] & counts[1]
    return _listed([written[each] for each, _ in both.most_common()], "; ")


def _counted(names: Iterable[str]) -> str:
    counted = [name if n == 1 else f"{name} ({n})" for name, n in Counter(names).most_common()]
    return _listed(counted, "; ")


def _listed(values: Sequence[str], between: str) -> str:
    more = f"{between}… {len(values)} in all" if len(values) > MOST else ""
    return between.join(values[:MOST]) + more


def _span(years: Sequence[int]) -> str:
    if not years:
        return ""
    return str(min(years)) if min(years) == max(years) else f"{min(years)}–{max(years)}"
