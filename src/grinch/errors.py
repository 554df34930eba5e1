"""Messages that say which parameter, what is accepted, what came, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown_name(parameter: str, received: object, accepted: Iterable[str], more: str = "") -> ValueError:
    """An unknown name, with the nearest known one."""
    names = list(accepted)
    close = difflib.get_close_matches(str(received), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return ValueError(f"{parameter} must be one of {', '.join(map(repr, names))}{more}; got {received!r}{hint}")


def missing_extra(what: str, package: str, extra: str) -> ImportError:
    """An optional dependency that is not installed, with the command that installs it."""
    return ImportError(
        f"{what} needs {package}, which is not installed; install it with: pip install 'grinch[{extra}]'"
    )
