"""Tables and figures as pages show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def share(value: float) -> str:
    """A number between 0 and 1, in three digits.

    >>> share(0.81), share(1.0)
    ('.810', '1.000')
    """
    return f"{value:.3f}".removeprefix("0")


def seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def size(n_bytes: float) -> str:
    """Bytes in the unit that suits them.

    >>> size(2_560_000), size(1.5e9), size(3e12), size(0)
    ('2.6 MB', '1.5 GB', '3.0 TB', '–')
    """
    if not n_bytes:
        return "–"
    unit = next((unit for unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")) if n_bytes >= unit[0]), (1e3, "KB"))
    value = n_bytes / unit[0]
    return f"{value:,.0f} {unit[1]}" if value >= 10 else f"{value:.1f} {unit[1]}"


def hours(value: float) -> str:
    """Hours, or minutes where that is shorter.

    >>> hours(30.2), hours(2.5), hours(0.25), hours(0.001)
    ('30 h', '2.5 h', '15 min', '< 1 min')
    """
    if value >= 1:
        return f"{value:,.0f} h" if value >= 10 else f"{value:.1f} h"
    return f"{value * 60:.0f} min" if value >= 1 / 60 else "< 1 min"
