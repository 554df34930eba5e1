"""What a store does not verify when it is opened is verified in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from grinch.store.damage import DamagedStore


class Verification:
    """Compares blocks with their checksums in a thread, one after the other; the first that is wrong ends it.

    >>> def wrong() -> None:
    ...     raise DamagedStore("rows.bin is damaged")
    >>> verification = Verification([wrong])
    >>> verification.wait()
    >>> verification.check()
    Traceback (most recent call last):
        ...
    grinch.store.damage.DamagedStore: rows.bin is damaged
    """

    def __init__(self, blocks: Iterable[Callable[[], None]]):
        self._blocks, self._is_stopped = blocks, threading.Event()
        self._error: DamagedStore | OSError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="grinch-verify")
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raise what was found."""
        if self._error is not None:
            raise self._error

    def wait(self) -> None:
        """Wait until all blocks are verified."""
        self._thread.join()

    def stop(self) -> None:
        """End before the next block."""
        self._is_stopped.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            for verify in self._blocks:
                if self._is_stopped.is_set():
                    return
                verify()
        except (DamagedStore, OSError) as error:
            self._error = error
