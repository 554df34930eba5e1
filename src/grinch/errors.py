"""Errors whose messages name the parameter, what is accepted, what was received, and the fix."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

# A table may have thousands of columns; a message names this many.
MOST_NAMES = 30
# What is raised where the contents of a file or an answer make no sense; beside them, ValueError.
NO_SENSE = (LookupError, TypeError, AttributeError, ArithmeticError, AssertionError, RecursionError)


def unknown_name(parameter: str, received: object, accepted: Iterable[str], more: str = "") -> ValueError:
    """Return the error for an unknown name, with the nearest known one."""
    names = list(accepted)
    close = difflib.get_close_matches(str(received), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    left_out = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    known = ", ".join(map(repr, names[:MOST_NAMES])) + left_out
    return ValueError(f"{parameter} must be one of {known}{more}; got {received!r}{hint}")


def missing_extra(what: str, package: str, extra: str) -> ImportError:
    """Return the error for an optional dependency that is not installed, with the command that installs it."""
    return ImportError(
        f"{what} needs {package}, which is not installed; install it with: pip install 'grinch[{extra}]'"
    )


def cause_of(error: BaseException) -> str:
    """Return type and message of an error, and the line that raised it if that is not where it was caught.

    >>> cause_of(KeyError("speed"))
    "KeyError: 'speed'"
    """
    inside = traceback.extract_tb(error.__traceback__)[1:]
    where = f" ({Path(inside[-1].filename).name}, line {inside[-1].lineno})" if inside else ""
    return f"{type(error).__name__}: {error}{where}"


class SettingsWarning(UserWarning):
    """Settings that do not suit the points, with what to write instead; the fit goes on as it was asked for.

    >>> import warnings
    >>> warnings.simplefilter("ignore", SettingsWarning)
    """


class LinkageError(ValueError):
    """A linkage of the user's own that raised, or returned something that is no score.

    ``groups`` are the positions of the points in the two groups it was asked about.
    """

    def __init__(self, complaint: str, u: int, v: int | None):
        super().__init__(complaint)
        self.complaint, self.nodes = complaint, [node for node in (u, v) if node is not None]
        self.groups: list[list[int]] = [[node] for node in self.nodes]
        self.outcome = "The tree is as it was before that point"

    def __str__(self) -> str:
        return self.message(lambda position: position)

    def message(self, name: Callable[[int], object]) -> str:
        """Return the message, with each point by its name."""

        def listed(group: list[int]) -> str:
            shown = ", ".join(repr(name(position)) for position in group[:5])
            return f"[{shown}{f', … {len(group)} in all' if len(group) > 5 else ''}]"

        where = " and ".join(map(listed, self.groups))
        return f"linkage {self.complaint} (for {where}). {self.outcome}"


class NotSavable(ValueError):
    """A model that cannot be written to a file, with the reason and what to do. Nothing was written."""


class SavedModelError(ValueError):
    """A saved model that cannot be opened: damaged, of a later version, not one, or it needs something handed in."""


class ShardError(RuntimeError):
    """A task of a sharded run that failed on its worker. What was finished is kept, and the same call goes on.

    ``folder`` is where; None if it was a temporary one.
    """

    def __init__(self, stage: str, task: str, cause: str, folder: str | None, n_others: int = 0):
        super().__init__(stage, task, cause, folder, n_others)
        self.stage, self.task, self.cause, self.folder, self.n_others = stage, task, cause, folder, n_others

    def __str__(self) -> str:
        others = f" ({self.n_others} more failed with it)" if self.n_others else ""
        cause = self.cause.rstrip(".")
        kept = f"What is finished is kept in {self.folder!r}; once the cause is removed, the same call resumes"
        if self.folder is None:
            kept = "Nothing is kept; with folder=..., what is finished would be"
        return f"stage {self.stage!r} failed at task {self.task!r}{others}: {cause}. {kept}"
