"""The snapshots of a store: reading, verifying and writing them, when the next is due, and which files to delete."""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.errors import SavedModelError
from grinch.saving import container
from grinch.saving.container import Container
from grinch.store.damage import DamagedStore, LaterFormat, damaged
from grinch.store.database import Database
from grinch.store.forks import fork
from grinch.store.rows import ENDS, VECTORS_NAME, files_of

KIND = "snapshot"
# A snapshot is taken when as many points came, went or moved as this, and as a quarter of all.
MIN_CHANGED, CHANGED_SHARE = 16_384, 0.25
# Or when there were this many operations, however small: each of them is done again when the store is opened.
MAX_OPERATIONS = 2000
SNAPSHOT_NAME = re.compile(r"snapshot-\d+-[0-9a-f]+\.grinch")
OUR_NAMES = (SNAPSHOT_NAME, VECTORS_NAME, re.compile(VECTORS_NAME.pattern + re.escape(ENDS)))
# Files that were being written when their process died.
LEFT_OVER = re.compile(r"\.[0-9a-f]{16}\.tmp(-journal)?")
# A snapshot of up to this many bytes is compared with its checksums as a whole when it is opened.
VERIFIED_BYTES = 2**26
# Of a larger one, these arrays are compared later: most of it, and nothing that code follows from number to number.
HEAVY = re.compile(r"ids/|model/fitted\.builder\.(summaries(?!\.rows\.apart_)|search)\.")

Content = tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]


def snapshot_name(version: int) -> str:
    return f"snapshot-{version}-{secrets.token_hex(4)}.grinch"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Let errors of a file be errors of a store."""
    try:
        yield
    except container.LaterFormat as error:
        raise LaterFormat(str(error)) from None
    except SavedModelError as error:
        raise damaged(path, str(error).removeprefix(f"{path} is damaged: ").removeprefix(f"{path} ")) from error


def read_snapshot(path: Path) -> Container:
    """Map a snapshot into memory."""
    with _reading(path):
        return container.read(path, KIND)


def verify(snapshot: Container, names: Any = None) -> None:
    """Compare arrays of a snapshot, or all of them, with their checksums."""
    with _reading(snapshot.path):
        snapshot.verify(names)


def verify_pointers(snapshot: Container) -> None:
    """Verify what compiled code follows from number to number: it must be as it was written, and stay inside.

    The vectors of a large snapshot are verified later, for it takes as long as to read them.
    """
    verify(snapshot, [name for name in snapshot.arrays if name not in heavy_arrays(snapshot)])
    table = snapshot.arrays.get("model/fitted.builder.links.table")
    if table is not None and len(table) and not (table[:, :3].min() >= -1 and table[:, :3].max() < len(table)):
        raise damaged(snapshot.path, "nodes of its tree are not there")


def heavy_arrays(snapshot: Container) -> list[str]:
    """Return the names of the arrays that are not verified when a snapshot is opened."""
    if sum(array.nbytes for array in snapshot.arrays.values()) <= VERIFIED_BYTES:
        return []
    numbers = {name for name, array in snapshot.arrays.items() if array.dtype.kind == "f" or name.endswith("codes")}
    return [name for name in snapshot.arrays if HEAVY.match(name) and (name in numbers or name.startswith("ids/"))]


def unverified(snapshot: Container) -> Iterator[Callable[[], None]]:
    """Yield what compares the blocks that are not verified on opening with their checksums, one at a time."""
    for name in heavy_arrays(snapshot):
        for number in range(len(snapshot.block_checksums[name])):
            yield partial(verify_block, snapshot, name, number)


def verify_block(snapshot: Container, name: str, number: int) -> None:
    """Compare a block of an array with its checksum."""
    with _reading(snapshot.path):
        snapshot.verify_block(name, number)


class Snapshots:
    """The snapshots in the folder of a store."""

    def __init__(self, folder: Path, database: Database):
        self.folder, self.database = folder, database
        self.version = 0
        """The version of the snapshot that counts."""
        self._n_changed = self._n_operations = 0
        # The snapshot whose checksums have not all been compared yet.
        self._unverified: Path | None = None
        self._waiting: threading.Thread | None = None

    def read(self) -> tuple[Container, bool]:
        """Return the snapshot that counts, and whether it was written here and not copied."""
        name = self.database.get("snapshot")
        if not isinstance(name, str) or not SNAPSHOT_NAME.fullmatch(name):
            raise damaged(self.database.path, f"it names {name!r} as the snapshot")
        snapshot = read_snapshot(self.folder / name)
        if snapshot.header.get("store") != self.database.get("store"):
            raise damaged(snapshot.path, "it is of another store")
        return snapshot, self.database.find("snapshot_is") == _identity(snapshot.path)

    def begin(self, snapshot: Container, n_rows: int, n_operations: int) -> None:
        """Continue from a snapshot, since which this many rows came by this many operations."""
        self.version, self._unverified = int(snapshot.header["version"]), snapshot.path
        self._n_changed, self._n_operations = n_rows, n_operations

    # Writing ------------------------------------------------------------------------------------------------------

    def write(self, name: str, content: Content) -> None:
        """Write a snapshot, which does not count yet."""
        if self._unverified is not None:
            # Parts of it are copied: damage must not get right checksums that way.
            verify(read_snapshot(self._unverified))
        container.write(self.folder / name, KIND, *content)

    def let_count(self, name: str) -> None:
        """Within a transaction: let a snapshot count from its end on; the log before it is history then."""
        version = int(name.split("-")[1])
        self.database.set("snapshot", name)
        self.database.set("snapshot_is", _identity(self.folder / name))
        self.database.forget_rows(version)

    def counts(self, name: str) -> None:
        """Continue from a snapshot that counts now."""
        self.version, self._unverified = int(name.split("-")[1]), None
        self.clean()

    def note(self, n_points: int) -> None:
        """Count a change, of this many points."""
        self._n_changed += n_points
        self._n_operations += 1

    def restart(self) -> None:
        """Count changes from here on: a snapshot has all of them."""
        self._n_changed = self._n_operations = 0

    def is_due(self, n_points: int) -> bool:
        is_much = self._n_changed >= max(MIN_CHANGED, CHANGED_SHARE * n_points)
        return self._waiting is None and (is_much or self._n_operations >= MAX_OPERATIONS)

    def fork_snapshot(
        self, name: str, content: Content, in_child: Callable[[], None], then: Callable[[], None]
    ) -> None:
        """Write a snapshot in a forked process; ``then`` is called in a thread of this one when it has ended.

        Its file has its name once it is whole.
        """

        def work() -> None:
            in_child()
            self.write(name, content)

        pid = fork(work)
        self.restart()

        def wait() -> None:
            with suppress(ChildProcessError):  # other code has waited for it
                os.waitpid(pid, 0)
            then()

        self._waiting = threading.Thread(target=wait, daemon=True, name="grinch-snapshot")
        self._waiting.start()

    def ended(self) -> None:
        """Note that the forked process has ended."""
        self._waiting = None

    def wait(self) -> None:
        """Wait until no forked process writes a snapshot."""
        waiting = self._waiting
        if waiting is not None:
            waiting.join()

    # Files --------------------------------------------------------------------------------------------------------

    def announce(self, *names: str) -> None:
        """Within a transaction: write down the names of files to be made; only what is written down is ever deleted."""
        known = {*(self.database.find("files") or []), *self._counting()}
        if self._waiting is None:
            known = {name for name in known if (self.folder / name).exists()}
        self.database.set("files", sorted({*known, *names}))

    def clean(self) -> None:
        """Delete files of this store that do not count, and those of writers that died."""
        if self._waiting is not None:
            return
        made = {name for name in self.database.find("files") or [] if any(kind.fullmatch(name) for kind in OUR_NAMES)}
        half = {path.name for path in self.folder.iterdir() if LEFT_OVER.fullmatch(path.name)}
        for name in (made | half) - self._counting():
            with suppress(OSError):
                (self.folder / name).unlink()

    def _counting(self) -> set[str]:
        """Return the names of the files with what is in the store."""
        return {self.database.get("snapshot"), *files_of(self.database.get("vectors"))}


def _identity(path: Path) -> list[int]:
    """Return what identifies a file on this machine, which no copy of it shares."""
    status = path.stat()
    return [status.st_dev, status.st_ino]


def numbers_in_block(snapshot: Container, name: str, rows: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Return the numbers of the blocks of an array that hold some of its rows."""
    array = snapshot.arrays[name]
    size = max(array.nbytes // max(len(array), 1), 1)
    rows = rows[(rows >= 0) & (rows < len(array))].astype(np.int64)
    return np.unique(np.concatenate([rows * size // container.BLOCK, ((rows + 1) * size - 1) // container.BLOCK]))


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
        """Raise the first error."""
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
