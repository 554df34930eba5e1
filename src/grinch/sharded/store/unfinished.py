"""The names of branches that are being made or replaced: what may be deleted if their process dies."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from grinch.files.write import replacing
from grinch.store.opening import BRANCH_NAME

FILE = "unfinished.json"


def note(folder: Path, names: Iterable[str]) -> None:
    """Write down the branches that are about to be made or replaced; they are on disk when this returns."""
    with replacing(folder / FILE) as out:
        json.dump(sorted(names), out)


def noted(folder: Path) -> set[str]:
    """Return the branches that were being made or replaced when a process died."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return set()
    return {name for name in found if isinstance(name, str) and BRANCH_NAME.fullmatch(name)}


def forget(folder: Path) -> None:
    """Nothing is unfinished any more."""
    (folder / FILE).unlink(missing_ok=True)
