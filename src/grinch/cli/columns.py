"""The columns of a file must be those of the store, in the same order."""

from __future__ import annotations

from typing import Any

from grinch.io.points import MOST_NAMES, shown
from grinch.io.read import FileError, Points


def check_columns(opened: Any, points: Points) -> None:
    """Where the file and the store know the names of their columns, they must be the same."""
    known, given = opened.info()["columns"], points.columns
    if known is None or given is None or known == given:
        return
    if sorted(known) == sorted(given):
        raise FileError(
            f"FILE must have its columns in the order of the store, {_listed(known)}; it has {_listed(given)}"
        )
    lacking, more = ([name for name in a if name not in b] for a, b in ((known, given), (given, known)))
    problems = [f"lacks {_listed(lacking)}"] * bool(lacking) + [f"has {_listed(more)} as well"] * bool(more)
    option = next((f". What is no feature is left out with --drop, as in --drop {name}" for name in more), "")
    raise FileError(f"FILE must have the columns of the store, {_listed(known)}; it {' and '.join(problems)}{option}")


def _listed(names: list[str]) -> str:
    return ", ".join(map(shown, names[:MOST_NAMES])) + (" and more" if len(names) > MOST_NAMES else "")
