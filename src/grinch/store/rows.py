"""The rows of all points that ever came to a store, by number: vectors in files, or records in the database."""

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
from grinch.store import inputs
from grinch.store.damage import damaged, reading
from grinch.store.database import Database, Id, Operation
from grinch.store.row_files import (
    ENDS,
    AnyRowFile,
    BlockChecksums,
    RowFile,
    SparseRowFile,
    checksum_rows,
    copy_rows,
    in_pieces,
    open_rows,
    stacked,
)

VECTORS_NAME = re.compile(r"vectors-[0-9a-f]+\.bin")
DTYPES = ("float32", "float64")
# Rows of up to this many bytes are put into the log, too: then one file is on disk sooner than two.
LOGGED = 2**15


def vectors_name() -> str:
    return f"vectors-{secrets.token_hex(4)}.bin"


def files_of(vectors: str) -> tuple[str, str]:
    """Return the names of the files with the rows, by the name of the first."""
    return vectors, vectors + ENDS


class StoredRows:
    """The rows of a store.

    Rows are verified when they are read: those of an operation by its checksum, others by the checksum of their block
    of the file, which snapshots hold.
    """

    def __init__(self, folder: Path, database: Database, *, is_readonly: bool):
        self.folder, self.database, self.is_readonly = folder, database, is_readonly
        self.file: AnyRowFile | None = None
        # By number, rows that a reader has from the log, and that are not in the file yet.
        self._in_log_alone: dict[int, Any] = {}

    def open(self, sums: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        """Open the file that the database names, if points are vectors and there are any.

        ``sums`` are the checksums of a snapshot; without them, those that are known stay.
        """
        known = {name: part.blocks for name, part in self._parts.items()}
        self.close()
        width = self.database.get("n_features")
        if width is None:
            return
        name, dtype = self.database.get("vectors"), self.database.get("dtype")
        if not VECTORS_NAME.fullmatch(name) or dtype not in DTYPES or not 0 < width < 2**31:
            raise damaged(self.database.path, f"it names {name!r}, {width} x {dtype}, as the vectors")
        self.file = open_rows(self.folder / name, dtype, width, bool(self.database.find("is_sparse")))
        if sums is not None:
            parts = [name for name in self._parts if f"{name}.sums" in sums]
            known = {name: BlockChecksums(sums[f"{name}.sums"], int(sums[f"{name}.length"][0])) for name in parts}
        for name, part in self._parts.items():
            part.blocks = known.get(name, part.blocks)
            part.blocks.rollback()
            if self.is_readonly:
                part.hold()  # the writer may delete it

    def close(self) -> None:
        for part in self._parts.values():
            part.close()
        self.file = None

    @property
    def is_sparse(self) -> bool:
        return isinstance(self.file, SparseRowFile)

    @property
    def path(self) -> Path:
        """The file to name where something is wrong with rows."""
        return self.database.path if self.file is None else self.file.path

    def fixed(self, count: int, database: Database) -> Self:
        """Return the first rows for another reader, by a database of its own; what the writer does is not seen."""
        twin = copy.copy(self)
        if self.file is not None:
            with reading(self.path, ValueError):
                twin.file = self.file.fixed(count)
        twin.database = database
        return twin

    # Reading ------------------------------------------------------------------------------------------------------

    def at(self, numbers: Counts) -> Any:
        """Return some of the rows, by number; of vectors, empty ones for numbers below 0."""
        with reading(self.path, ValueError):
            if self.file is None:
                return inputs.decode_records(self.database.records_at(numbers.tolist()))
            is_apart = numbers < 0
            if self._in_log_alone:
                is_apart |= np.isin(numbers, list(self._in_log_alone))
            rows = self.file.at(numbers[~is_apart])
            if not is_apart.any():
                return rows
            empty = self.file.empty(1)
            apart = [self._in_log_alone.get(number, empty) for number in numbers[is_apart].tolist()]
            # Those in the file come first, then the others: back to the order that was asked for.
            return stacked([rows, *apart])[np.argsort(np.argsort(is_apart, kind="stable"))]

    def of(self, done: Operation) -> Any:
        """Return the rows that came with an operation."""
        if self.file is None or done.rows is None:
            rows = self.at(done.numbers)
        else:
            with reading(self.path, ValueError):
                rows = self.file.unpacked(done.rows, done.n_rows)
        if self.file is not None and checksum_rows([rows]) != done.checksum:
            raise self._changed_since(done)
        return rows

    def take_up(self, later: Iterable[Operation]) -> None:
        """Continue from the operations since the snapshot, whose rows may be in the log alone.

        That is so after a crash of the machine; only a writer can put them into the file.
        """
        self._in_log_alone = {}
        for done in later:
            if self.file is None or not done.n_rows:
                continue
            if not self.is_readonly:
                with reading(self.path, ValueError):
                    if done.rows is None:
                        self.file.cover(done.first_row, self.of(done))
                    else:
                        self.file.append(done.first_row, self.of(done), is_kept=True)
                    self.commit()
            elif done.rows is not None:
                rows = self.of(done)
                if not _has(self.file, done.numbers, rows):
                    self._in_log_alone |= {number: rows[i : i + 1] for i, number in enumerate(done.numbers.tolist())}

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
        for done in operations:
            if checksum_rows(map(self.at, in_pieces(self.file, done.numbers))) != done.checksum:
                raise self._changed_since(done)

    def unverified(self) -> Iterator[Callable[[], None]]:
        """Yield what compares the blocks that were never read with their checksums, one at a time, in any thread."""
        for part in self._parts.values():
            with reading(part.path, ValueError):
                fixed = part.fixed(-(-part.blocks.length // part.row_bytes))
            for number in fixed.blocks.unverified().tolist():
                yield partial(_verify_block, fixed, number)

    # Writing ------------------------------------------------------------------------------------------------------

    def checked(
        self, X: Any, check: inputs.RowCheck, columns: list[str] | None = None, new_columns: bool = False
    ) -> Any:
        """Return X as the store keeps it; ``columns`` are its columns, of a frame its own."""
        columns, known = columns or inputs.columns_of(X), self.database.get("columns")
        shared = min(len(columns or ()), len(known or ())) if new_columns else None
        if columns is not None and known is not None and columns[:shared] != known[:shared]:
            raise ValueError(f"X must have the columns that the first points had, {known}; got {columns}")
        dtype = self.database.get("dtype")
        is_sparse = None if self.file is None else self.is_sparse
        try:
            return check(X, None if dtype is None else np.dtype(dtype), is_sparse, new_columns)
        except ValueError:
            inputs.refuse_texts(X, self.folder)
            raise

    def begin(self, rows: Any, names: Sequence[Id] | None, columns: list[str] | None) -> None:
        """Note in the database what rows are like, by the first ones."""
        self.database.set("is_named", names is not None)
        self.database.set("id_kind", inputs.kind_of(names[0]) if names else None)
        if not isinstance(rows, list):
            self.database.set("is_sparse", not isinstance(rows, np.ndarray))
            self.database.set("n_features", rows.shape[1])
            self.database.set("dtype", rows.dtype.name)
            self.database.set("columns", columns)
            self.open()

    def append(self, kind: str, version: int, first: int, rows: Any, data: bytes | None = None) -> Operation:
        """Put rows on disk from number ``first`` on; return the operation that brings them."""
        n = count_rows(rows)
        if self.file is None:
            self.database.add_records(first, inputs.encode_records(rows))
            return Operation(version, kind, first, n, data=data)
        if rows.shape[1] > self.file.width:  # sparse rows may have new columns
            self.database.set("n_features", rows.shape[1])
            self.file.width = rows.shape[1]
        n_bytes = rows.nbytes if isinstance(rows, np.ndarray) else 8 * n + 12 * rows.nnz
        log = self.file.packed(rows) if n_bytes <= LOGGED else None
        try:
            self.file.append(first, rows, is_kept=log is not None)
        except ValueError as error:
            raise damaged(self.path, str(error)) from None
        return Operation(version, kind, first, n, checksum_rows([rows]), data, log)

    def rewrite(self, kept: Counts, name: str) -> int:
        """Write some of the rows, by number, to a new file, and continue with it; return their checksum."""
        if self.file is None:
            self.database.renumber_records(kept)
            return 0
        old, new = self.file, open_rows(self.folder / name, self.file.dtype, self.file.width, self.is_sparse)
        with reading(self.path, ValueError):
            checksum = copy_rows(old, new, kept)
        self.database.set("vectors", name)
        self.close()
        self.file = new
        return checksum

    def commit(self) -> None:
        """Cover the rows that were appended by checksums: they count."""
        for part in self._parts.values():
            part.blocks.commit()

    def sync(self) -> None:
        """Wait until all rows are on disk, also those that came before the file was opened."""
        for part in self._parts.values():
            part.sync()

    # Within -------------------------------------------------------------------------------------------------------

    @property
    def _parts(self) -> dict[str, RowFile]:
        return {} if self.file is None else self.file.parts

    def _changed_since(self, done: Operation) -> Exception:
        return damaged(self.path, f"the vectors of version {done.version} are not those that were written")


def _verify_block(file: RowFile, number: int) -> None:
    with reading(file.path, ValueError):
        file.verify_blocks(np.array([number]))


def _has(file: Any, numbers: Counts, rows: Any) -> bool:
    """Return whether these rows are in a file."""
    try:
        return bool(numbers[-1] < file.count() and inputs.same_rows(file.at(numbers), rows).all())
    except (OSError, ValueError):  # rows of another length are there
        return False
