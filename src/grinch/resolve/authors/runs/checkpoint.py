"""Finished blocks on disk, each written as soon as it is done, so that a run that was stopped can continue."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grinch.io.write import digest, replacing


class Checkpoint:
    """A folder with the result of each finished block, as JSON.

    A result is only used for the same block, record for record, and the same ``stamp``: a text that identifies all else
    that results depend on, such as the model and the settings.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     Checkpoint(folder, "model 1").save("w wang", ["a", "b"], [0, 1])
    ...     again, other = Checkpoint(folder, "model 1"), Checkpoint(folder, "model 2")
    ...     again.load("w wang", ["a", "b"]), again.load("w wang", ["a", "c"]), other.load("w wang", ["a", "b"])
    ([0, 1], None, None)
    """

    def __init__(self, folder: str | Path, stamp: str = ""):
        self.folder, self.stamp = Path(folder), stamp
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"checkpoint must be a folder that can be made; got {str(folder)!r}: {error}") from None

    def load(self, name: str, block: Sequence[Any]) -> Any:
        """The result of a block; None if it is not finished, or its file is damaged or from another run."""
        try:
            kept = json.loads(self._path(name).read_text(encoding="utf-8"))
            return kept["result"] if kept["stamp"] == self._stamp(block) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def save(self, name: str, block: Sequence[Any], result: Any) -> None:
        """Write the result of a block; the file is complete or not there at all."""
        try:
            text = json.dumps({"block": name, "stamp": self._stamp(block), "result": result})
        except TypeError as error:
            raise TypeError(f"results must be JSON-able to be kept in a checkpoint; {error}") from None
        with replacing(self._path(name)) as file:
            file.write(text)

    def _path(self, name: str) -> Path:
        readable = re.sub(r"[^\w-]+", "-", name)[:40]
        return self.folder / f"{readable}-{digest(name)[:8]}.json"

    def _stamp(self, block: Sequence[Any]) -> str:
        return digest(f"{self.stamp}\n{list(block)!r}")
