"""The automatic cuts of a store that a forked process makes while the store goes on."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from threadpoolctl import threadpool_limits

from grinch._checks import limited_cores
from grinch.cuts.tracking import MadeCut
from grinch.store.forks import fork
from grinch.store.state import Made


class Recuts:
    """Makes automatic cuts in a forked process, one at a time.

    What it makes is in a file without a name, so nothing of it is left when either process dies.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._pid: int | None = None
        self._file: IO[bytes] | None = None
        self.names: frozenset[str] = frozenset()
        """The names of the cuts that are being made, or are ready."""

    def start(self, names: list[str], make: Callable[[], Made], in_child: Callable[[], None]) -> None:
        """Make cuts of these names in a forked process: ``make`` returns them, after ``in_child``."""
        file = tempfile.TemporaryFile(dir=self._folder, prefix=".cut-")  # noqa: SIM115

        def work() -> None:
            in_child()
            # The threads of BLAS and of the search are not there.
            with limited_cores(1), threadpool_limits(1):
                before_making()
                made = {name: cut.to_bytes() for name, cut in make().items()}
            file.write(json.dumps({name: len(cut) for name, cut in made.items()}).encode() + b"\n")
            file.writelines(made.values())
            file.flush()

        try:
            self._pid = fork(work)
        except BaseException:
            file.close()
            raise
        self._file, self.names = file, frozenset(names)
        # Of a store that is dropped without being closed, too.
        weakref.finalize(self, file.close)

    def is_under_way(self) -> bool:
        """Return whether the process is at work."""
        if self._pid is not None:
            with suppress(ChildProcessError):  # other code has waited for it
                if os.waitpid(self._pid, os.WNOHANG)[0] == 0:
                    return True
            self._pid = None
        return False

    def wait(self) -> None:
        """Wait until the process has ended."""
        if self._pid is not None:
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = None

    def take(self) -> Made:
        """Return the cuts that were made; none if the process failed. Another one can be started then."""
        file, self._file, self.names = self._file, None, frozenset()
        if file is None:
            return {}
        with file:
            file.seek(0)
            try:
                lengths = json.loads(file.readline())
                return {name: MadeCut.from_bytes(file.read(length)) for name, length in lengths.items()}
            except (OSError, ValueError):
                return {}

    def discard(self) -> None:
        """End the process; what it makes is not wanted."""
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        self.wait()
        self.take()


def before_making() -> None:
    """Do nothing; tests replace this, in a forked process."""
