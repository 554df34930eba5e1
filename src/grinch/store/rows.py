"""The rows of all points that ever came to a store, by number: vectors in a file, or records in the database."""

from __future__ import annotations

import copy
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from grinch._checks import count_rows
from grinch._types import Counts
from grinch.saving.disk import CHUNK
from grinch.store import inputs
from grinch.store.damage import DamagedStore, damaged, reading
from grinch.store.database import Database, Id, Operation
from grinch.store.row_files import ENDS, Blocks, RowFile, SparseRowFile, checksum_rows

VECTORS_NAME = re.compile(r"vectors-[0-9a-f]+\.bin")
# Rows of up to this many bytes are put into the log, too: then one file is on disk sooner than two.
LOGGED = 2**15


def vectors_name() -> str:
    return f"vectors-{secrets.token_hex(4)}.bin"


class Rows:
    """The rows of a store.

    Rows are verified when they are read: those of an operation by its checksum, others by the checksum of their block
    of the file, which snapshots hold.
    """

    def __init__(self, folder: Path, database: Database, *, is_readonly: bool):
        self.folder, self.database, self.is_readonly = folder, database, is_readonly
        self.file: RowFile | SparseRowFile | None = None
        # By number, rows that a reader has from the log, and that are not in the file yet.
        self._in_log_alone: dict[int, Any] = {}

    def open(self, sums: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        """Open the file that the database names, if points are vectors and there are any.

        ``sums`` are the checksums of a snapshot; without them, those that are known stay.
        """
        known = {part: file.blocks for part, file in self._parts().items()}
        self.close()
        width = self.database.get("n_features")
        if width is None:
            return
        name, dtype = self.database.get("vectors"), self.database.get("dtype")
        if not VECTORS_NAME.fullmatch(name) or dtype not in ("float32", "float64") or not 0 < width < 2**31:
            raise damaged(self.database.path, f"it names {name!r}, {width} x {dtype}, as the vectors")
        kind = SparseRowFile if self.database.find("is_sparse") else RowFile
        self.file = kind(self.folder / name, np.dtype(dtype), width)
        if sums is not None:
            parts = [part for part in self._parts() if f"{part}.sums" in sums]
            known = {part: Blocks(sums[f"{part}.sums"], int(sums[f"{part}.length"][0])) for part in parts}
        for part, file in self._parts().items():
            file.blocks = known.get(part, file.blocks)
            file.blocks.rollback()
        if self.is_readonly:
            self.file.hold()  # the writer may take it away

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.file = None

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.file, SparseRowFile)

    @property
    def path(self) -> Path:
        """Return the file to name where something is wrong with rows."""
        return self.database.path if self.file is None else self.file.path

    def fixed(self, count: int, database: Database) -> Self:
        """Return the first rows for another reader, by a database of its own; what the writer does is not seen."""
        twin = copy.copy(self)
        if self.file is not None:
            twin.file = self._verified(lambda: self._file.fixed(count))
        twin.database = database
        return twin

    # Reading ------------------------------------------------------------------------------------------------------

    def at(self, numbers: Counts) -> Any:
        """Return some of the rows, by number."""
        if self.file is None:
            with reading(self.database.path, ValueError):
                return inputs.decode_records(self.database.records_at(numbers.tolist()))
        alone = self._in_log_alone
        if not alone:
            return self._verified(lambda: self._file.at(numbers))
        is_alone = np.array([number in alone for number in numbers.tolist()], np.bool_)
        found = self._verified(lambda: self._file.at(numbers[~is_alone]))
        # Those in the file first, then the others: back in the order that was asked for.
        places = np.argsort(np.argsort(is_alone, kind="stable"))
        return self.file.stacked([found, *(alone[number] for number in numbers[is_alone].tolist())])[places]

    def of(self, done: Operation) -> Any:
        """Return the rows that came with an operation."""
        numbers = np.arange(done.first_row, done.first_row + done.n_rows)
        if self.file is None:
            return self.at(numbers)
        if done.rows is not None:
            rows = self._verified(lambda: self._file.unpacked(done.rows, done.n_rows))  # type: ignore[arg-type]
        else:
            rows = self.at(numbers)
        if checksum_rows([rows]) != done.checksum:
            raise self._changed_since(done)
        return rows

    def with_empty(self, numbers: Counts) -> Any:
        """Return rows by number; empty ones for numbers below 0."""
        assert self.file is not None
        is_there = numbers >= 0
        found = self.at(numbers[is_there])
        if is_there.all():
            return found
        # Those without a row have the empty one at the end.
        places = np.where(is_there, np.cumsum(is_there) - 1, is_there.sum())
        return self.file.stacked([found, self.file.empty(1)])[places]

    def take_up(self, later: Iterable[Operation]) -> None:
        """Go on from the operations since the snapshot, whose rows may be in the log alone.

        That is so where the machine went down; only a writer can put them where they go.
        """
        self._in_log_alone = {}
        if self.file is None:
            return
        for done in later:
            if not done.n_rows:
                continue
            if not self.is_readonly:
                self._verified(lambda done=done: self._put_back(done, self.of(done)))  # type: ignore[misc]
            elif done.rows is not None:
                rows, numbers = self.of(done), np.arange(done.first_row, done.first_row + done.n_rows)
                if not self._is_in_file(numbers, rows):
                    self._in_log_alone |= {number: rows[i : i + 1] for i, number in enumerate(numbers.tolist())}

    def _put_back(self, done: Operation, rows: Any) -> None:
        if done.rows is None:
            self._file.cover(done.first_row, rows)
        else:
            self._file.append(done.first_row, rows, is_kept=True)
        self.commit()

    def check_size(self, need: int, width: int) -> None:
        """Raise unless the file has as many rows as are needed, and of this width."""
        if self.file is not None:
            there = self.file.count()
            if there < need or self.file.width != width:
                why = f"it must hold {need:,} rows of {width} numbers, and has {there:,} of {self.file.width}"
                raise damaged(self.file.path, why)

    def check(self, operations: Iterable[Operation]) -> None:
        """Verify the rows of all operations."""
        if self.file is None:
            return
        step = max(CHUNK * 16 // self.file.row_bytes, 1)
        for done in operations:
            stop = done.first_row + done.n_rows
            pieces = (np.arange(start, min(start + step, stop)) for start in range(done.first_row, stop, step))
            if checksum_rows(map(self.at, pieces)) != done.checksum:
                raise self._changed_since(done)

    def unverified(self) -> Iterator[Callable[[], None]]:
        """Return what compares the blocks that were never read with their checksums, one at a time, in any thread."""
        for part in self._parts().values():
            yield from self._unverified_in(part)

    def _unverified_in(self, part: RowFile) -> Iterator[Callable[[], None]]:
        file = self._verified(lambda: part.fixed(-(-part.blocks.length // part.row_bytes)), part.path)

        def verify(number: int) -> None:
            self._verified(lambda: file.verify_blocks(np.array([number])), file.path)

        for number in file.blocks.unverified().tolist():
            yield partial(verify, number)

    # Writing ------------------------------------------------------------------------------------------------------

    def begin(self, rows: Any, names: Sequence[Id] | None, columns: list[str] | None) -> None:
        """Note in the database what rows are like, which the first ones say."""
        self.database.set("is_named", names is not None)
        self.database.set("id_kind", inputs.kind_of(names[0]) if names else None)
        if not isinstance(rows, list):
            self.database.set("is_sparse", not isinstance(rows, np.ndarray))
            self.database.set("n_features", rows.shape[1])
            self.database.set("dtype", rows.dtype.name)
            self.database.set("columns", columns)
            self.open()

    def append(self, kind: str, version: int, first: int, rows: Any, data: bytes | None) -> Operation:
        """Put rows on disk from number ``first`` on; returns the operation that brings them."""
        n = count_rows(rows)
        if self.file is None:
            self.database.add_records(first, inputs.encode_records(rows))
            return Operation(version, kind, first, n, data=data)
        if rows.shape[1] > self.file.width:  # sparse rows may have new columns
            self.database.set("n_features", rows.shape[1])
            self.file.width = rows.shape[1]
        n_bytes = rows.nbytes if isinstance(rows, np.ndarray) else 8 * n + 12 * rows.nnz
        log = self.file.packed(rows) if n_bytes <= LOGGED else None
        self._verified(lambda: self._file.append(first, rows, is_kept=log is not None))
        return Operation(version, kind, first, n, checksum_rows([rows]), data, log)

    def rewrite(self, kept: Counts, name: str) -> int:
        """Write some of the rows, by number, to a new file, and go on with that; returns their checksum."""
        if self.file is None:
            self.database.renumber_records(kept)
            return 0
        source: Any = self.file
        target = type(source)(self.folder / name, source.dtype, source.width)
        step = max(CHUNK * 16 // source.row_bytes, 1)
        target.append(0, source.empty(0))

        def pieces() -> Iterator[Any]:
            for start in range(0, len(kept), step):
                piece = source.at(kept[start : start + step])
                target.append(start, piece)
                yield piece

        checksum: int = self._verified(lambda: checksum_rows(pieces()))
        self.database.set("vectors", name)
        self.file = target
        source.close()
        return checksum

    def commit(self) -> None:
        """Cover the rows that were appended by checksums: they count."""
        for file in self._parts().values():
            file.blocks.commit()

    def sync(self) -> None:
        """Wait until all rows are on disk, also those that came before the file was opened."""
        if self.file is not None:
            self.file.sync()

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return the checksums of the blocks of the files, for a snapshot."""
        return sums_of(self.file)

    # Within -------------------------------------------------------------------------------------------------------

    @property
    def _file(self) -> RowFile | SparseRowFile:
        assert self.file is not None
        return self.file

    def _parts(self) -> dict[str, RowFile]:
        return parts_of(self.file)

    def _verified(self, read: Callable[[], Any], path: Path | None = None) -> Any:
        try:
            return read()
        except DamagedStore:
            raise
        except ValueError as error:
            raise damaged(path or self.path, str(error)) from None

    def _changed_since(self, done: Operation) -> Exception:
        return damaged(self.path, f"the vectors of version {done.version} are not those that were written")

    def _is_in_file(self, numbers: Counts, rows: Any) -> bool:
        if numbers[-1] >= self._file.count():
            return False
        try:
            return bool(inputs.same_rows(self._file.at(numbers), rows).all())
        except (OSError, ValueError):  # rows of another length are there
            return False


def parts_of(file: RowFile | SparseRowFile | None) -> dict[str, RowFile]:
    """Return the files that rows are in, by what is in each."""
    if isinstance(file, SparseRowFile):
        return {"entries": file.entries, "ends": file.ends}
    return {} if file is None else {"rows": file}


def sums_of(file: RowFile | SparseRowFile | None) -> dict[str, npt.NDArray[Any]]:
    """Return the checksums of the blocks of the files that rows are in."""
    state: dict[str, npt.NDArray[Any]] = {}
    for name, part in parts_of(file).items():
        state |= {f"{name}.sums": part.blocks.sums, f"{name}.length": np.array([part.blocks.length])}
    return state


def files_of(vectors: str) -> tuple[str, str]:
    """Return the names of the files with the rows, by the name of the first."""
    return vectors, vectors + ENDS
