"""Since when: a version, or a time and the version that there was then."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from grinch.io.read import FileError

AGO = re.compile(r"(\d+)\s*(minute|hour|day|week)s?(\s+ago)?")
WANTED = 'a version (3), a date (2026-11-15, or "2026-11-15 08:30"), today, yesterday, or as in "1 day" and "2 hours"'


def version_at(text: str, times: dict[int, float], now: datetime) -> int:
    """The last version before a time; a number is a version.

    >>> times = {1: datetime(2026, 11, 14, 12).timestamp(), 2: datetime(2026, 11, 15, 12).timestamp()}
    >>> [version_at(text, times, datetime(2026, 11, 16, 9)) for text in ("1", "2026-11-15", "yesterday", "2 days")]
    [1, 1, 1, 0]
    >>> version_at("today", times, datetime(2026, 11, 16, 9))
    2
    """
    text = text.strip().lower()
    if text.isascii() and text.isdigit():
        return int(text)
    moment = _moment(text, now).timestamp()
    return max((version for version, at in times.items() if at < moment), default=0)


def _moment(text: str, now: datetime) -> datetime:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return midnight - timedelta(days=text == "yesterday")
    ago = AGO.fullmatch(text)
    try:
        if ago:
            return now - timedelta(**{f"{ago[2]}s": int(ago[1])})
        return datetime.fromisoformat(text.upper())
    except (ValueError, OverflowError):
        raise FileError(f"--since must be {WANTED}; got {text!r:.60}") from None


def written(seconds: float | None) -> str:
    """A time as a person reads it."""
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds):%d %b %Y, %H:%M}"
