"""The state of a store as one file: arrays that are memory-mapped when it is opened, and what they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from grinch.errors import SavedModelError
from grinch.saving import container
from grinch.store.damage import LaterFormat, damaged

KIND = "snapshot"

Arrays = dict[str, npt.NDArray[Any]]


class Snapshot(NamedTuple):
    """What a snapshot holds; ``arrays`` can be written to, and the file stays as it is."""

    path: Path
    manifest: dict[str, Any]
    arrays: Arrays
    file: container.Container

    def verify(self, names: Iterable[str] | None = None) -> None:
        """Compare arrays with their checksums, as they are in the file."""
        with _explaining(self.path):
            self.file.verify(names)


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    """Raise what is wrong with a file as an error of its store."""
    try:
        yield
    except container.OldFormat:
        folder = path.parent
        raise container.OldFormat(
            f"the store in {folder} is of an earlier format of grinch. Convert it: grinch convert {folder} NEW"
        ) from None
    except container.LaterFormat as error:
        raise LaterFormat(str(error)) from error
    except SavedModelError as error:
        raise damaged(path, str(error).removeprefix(f"{path} is damaged: ")) from error


def write_snapshot(path: Path, manifest: dict[str, Any], arrays: Arrays) -> None:
    """Write a snapshot whole or not at all; it is on disk when this returns."""
    container.write(path, KIND, manifest, arrays)


def read_snapshot(path: Path) -> Snapshot:
    """Map a snapshot into memory; what is in the arrays is read when it is used."""
    with _explaining(path):
        file = container.read(path, KIND)
    return Snapshot(path, file.header, file.arrays, file)


# In the background --------------------------------------------------------------------------------------------------

CAN_FORK = hasattr(os, "fork")


def run_aside(work: Callable[[], None]) -> int:
    """Run ``work`` on the memory as it is now, in a process of its own; its number. It ends with 0 if all went well.

    The process is a fork: memory is shared with it, and a page is copied when this process writes to it. ``work`` may
    write files and nothing else, for other threads, with whatever they hold, are not there.
    """
    import gc
    import signal
    import warnings

    with warnings.catch_warnings():
        # Python warns of forks beside threads, whose locks are never opened in the fork; this one takes none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        gc.disable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        work()
        code = 0
    finally:
        os._exit(code)
