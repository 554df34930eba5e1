"""A store in memory: a model, the cuts that follow its tree, and where the row of each point is.

It changes by operations alone, each of which makes a version; the same operations from the same beginning give the
same contents, bit by bit. That is what a store rests on: what is on disk is a snapshot and the operations since.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from grinch._types import Counts
from grinch.cuts.tracking import Change
from grinch.estimators.advice import no_advice
from grinch.saving.parts import Parts, put_together, take_apart
from grinch.store import disk
from grinch.store.cluster_tracking import ClusterTracking, how_of
from grinch.store.damage import damaged
from grinch.store.database import Id, Operation
from grinch.store.snapshots import Snapshot
from grinch.summaries import SparseSummaries
from grinch.summaries.arrays import enlarged
from grinch.summaries.sparse import enlarged_entries
from grinch.tree import Tree

# Arrays from this many bytes on are put into files that are mapped, so that they need not fit into memory.
LARGE = 2**26
# Exemplars of a cluster.
FEW = 3
# A snapshot of up to this many bytes is compared with its checksums as a whole when it is opened.
LITTLE = 2**26
# Of a larger one, these are not: most of it, and nothing that code follows from number to number.
HEAVY = re.compile(r"model/builder\.(summaries(?!\.apart_)|search)\.")


class Contents:
    """What is in a store at a version.

    ``store`` is a name that no other store has;
    ``row_of`` is by position: where in the store's rows the point is; ``n_rows`` is how many rows there are in all,
    those of removed points and earlier versions of updated ones among them.
    """

    def __init__(self, tracking: ClusterTracking, folder: Path, store: str):
        self.model, self.tracking, self.folder, self.store = tracking.model, tracking, folder, store
        self.version = self.n_rows = 0
        self.n_begun = 0
        """How many changes were begun: if one is raised out of, these contents are good for nothing any more."""
        self._row_of: Counts = np.empty(0, np.int64)
        self._use_files()

    def _use_files(self) -> None:
        """Let large arrays grow in files of the store's folder."""
        if self.is_fitted:
            summaries = self.model._engine().summaries
            summaries.enlarge = InFiles(self.folder)
            if isinstance(summaries, SparseSummaries):
                summaries.enlarge_entries = InFiles(self.folder).entries

    # What there is ------------------------------------------------------------------------------------------------

    @property
    def is_fitted(self) -> bool:
        return self.model.__sklearn_is_fitted__()

    @property
    def n_points(self) -> int:
        return self.model._engine().n_leaves if self.is_fitted else 0

    @property
    def n_given(self) -> int:
        """The position of the next point."""
        return self.model._fitted.ids.n_given if self.is_fitted else 0

    @property
    def row_of(self) -> Counts:
        return self._row_of[: self.n_given]

    def positions(self) -> Counts:
        """The positions of all points, in ascending order."""
        if not self.is_fitted:
            return np.empty(0, np.int64)
        fitted = self.model._fitted
        found = fitted.ids.positions[fitted.builder.slots()]  # type: ignore[attr-defined]
        return found if fitted.ids.is_in_order else np.sort(found)

    def positions_by_row(self) -> Counts:
        """The positions of all points, in the order of their rows."""
        positions = self.positions()
        return positions[np.argsort(self.row_of[positions])]

    def has(self, positions: Counts) -> npt.NDArray[np.bool_]:
        """Which of these positions have a point."""
        if not self.is_fitted:
            return np.zeros(len(positions), np.bool_)
        engine = self.model._engine()
        slots = self.model._fitted.ids.slots_at(positions, engine.slots)
        return np.array([slot >= 0 and engine.has(slot) for slot in slots.tolist()], np.bool_)

    # Operations ---------------------------------------------------------------------------------------------------

    def insert(self, version: int, rows: Any, first_row: int) -> list[Change]:
        """Points come, and their rows are those from ``first_row`` on."""
        self.n_begun += 1
        first = self.n_given
        # Of sparse rows, there may be more columns than before: the store has asked.
        self.model.partial_fit(rows, new_columns=issparse(rows))
        self._use_files()
        self._note_rows(np.arange(first, self.n_given), first_row)
        return self._committed(version)

    def adopt(self, version: int, rows: Any, tree: Tree, first_row: int) -> list[Change]:
        """The first points come, with the tree that they have already; leaf i of it is row i."""
        self.n_begun += 1
        self.model.fit_tree(rows, tree)
        self._use_files()
        self._note_rows(np.arange(self.n_given), first_row)
        return self._committed(version)

    def remove(self, version: int, positions: Counts) -> list[Change]:
        self.n_begun += 1
        self.model.remove(positions)
        return self._committed(version)

    def update(self, version: int, positions: Counts, rows: Any, first_row: int) -> list[Change]:
        """Points get other rows: those from ``first_row`` on."""
        self.n_begun += 1
        if issparse(rows):
            # As they are read again, they may have columns that came later.
            self.model.n_features_in_ = self.model._columns_with(rows)
        self.model.update(positions, rows)
        self._note_rows(positions, first_row)
        return self._committed(version)

    def refine(self, version: int, passes: int) -> list[Change]:
        self.n_begun += 1
        self.model.refine(passes)
        return self._committed(version)

    def compact(self, version: int) -> Counts:
        """Let nothing be left of removed points; rows are numbered anew. The old numbers of the rows, by new number."""
        self.n_begun += 1
        if self.is_fitted:
            self.model._close_gaps(at_once=True)
            self._use_files()
        positions = self.positions()
        kept: Counts = np.sort(self.row_of[positions])
        row_of = np.full(self.n_given, -1, np.int64)
        row_of[positions] = np.searchsorted(kept, self.row_of[positions])
        self._row_of, self.n_rows = row_of, len(kept)
        self._committed(version)
        return kept

    def add_cut(self, version: int, name: str, how: Mapping[str, Any]) -> list[Change]:
        self.n_begun += 1
        self.tracking.add(name, **how)
        return [*self._committed(version), *self._born(version, name)]

    def _born(self, version: int, name: str) -> list[Change]:
        """All clusters of a cut that was just made."""
        if not self.n_points:
            return []
        members = sorted(self.tracking.members(name).items())
        return [
            Change(version, name, "born", cluster, (), len(some), len(some), tuple(np.sort(some)[:FEW].tolist()))
            for cluster, some in members
        ]

    def drop_cut(self, version: int, name: str) -> list[Change]:
        self.n_begun += 1
        self.tracking.drop(name)
        return self._committed(version)

    def recut(self, version: int, name: str) -> list[Change]:
        self.n_begun += 1
        self.version = version
        return self.tracking.recut(name, version)

    def nothing(self, version: int) -> list[Change]:
        """An operation that the model has no part in."""
        self.n_begun += 1
        self.version = version
        return []

    def replay(self, done: Operation, rows_of: Callable[[Operation], Any]) -> None:
        """Do an operation of the log again; ``rows_of`` finds the rows that came with it."""
        data = done.data or b""
        if done.kind == "insert":
            with no_advice():  # it was given when they came
                self.insert(done.version, rows_of(done), done.first_row)
        elif done.kind == "remove":
            self.remove(done.version, np.frombuffer(data, "<i8"))
        elif done.kind == "update":
            self.update(done.version, np.frombuffer(data, "<i8"), rows_of(done), done.first_row)
        elif done.kind == "add_cut":
            said = json.loads(data)
            self.add_cut(done.version, said["name"], how_of(said))
        elif done.kind == "drop_cut":
            self.drop_cut(done.version, **json.loads(data))
        elif done.kind == "recut":
            self.recut(done.version, **json.loads(data))
        else:
            self.nothing(done.version)

    def _committed(self, version: int) -> list[Change]:
        self.version = version
        return self.tracking.commit(version)

    def _note_rows(self, positions: Counts, first_row: int) -> None:
        need = self.n_given
        if need > len(self._row_of):
            larger = np.full(max(need, len(self._row_of) * 3 // 2), -1, np.int64)
            larger[: len(self._row_of)] = self._row_of
            self._row_of = larger
        self._row_of[positions] = first_row + np.arange(len(positions))
        self.n_rows = first_row + len(positions)

    # On disk ------------------------------------------------------------------------------------------------------

    def parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """All there is, as JSON and arrays; nothing is copied."""
        model = take_apart(self.model)
        state, tracked = self.tracking.to_state()
        manifest = {
            "store": self.store,
            "version": self.version,
            "rows": self.n_rows,
            "model": model.manifest,
            "followed": state,
        }
        arrays = {f"model/{name}": array for name, array in model.arrays.items()}
        arrays |= {f"followed/{name}": array for name, array in tracked.items()}
        return manifest, arrays | {"row_of": self._row_of}

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, folder: Path, linkage: Any, search: Any) -> Self:
        """What was written; arrays are used as they are mapped."""
        manifest = snapshot.manifest
        check_pointers(snapshot)

        def under(name: str) -> dict[str, npt.NDArray[Any]]:
            return {key.removeprefix(name): array for key, array in snapshot.arrays.items() if key.startswith(name)}

        model = put_together(Parts(manifest["model"], under("model/")), linkage=linkage, search=search)
        tracking = ClusterTracking.from_state(model, manifest["followed"], under("followed/"))
        contents = cls(tracking, folder, manifest["store"])
        contents.version, contents.n_rows = int(manifest["version"]), int(manifest["rows"])
        contents._row_of = snapshot.arrays["row_of"]
        return contents


def ids_as_arrays(ids: Sequence[Id]) -> dict[str, npt.NDArray[Any]]:
    """Ids as a snapshot holds them: numbers, or the text of all and where each ends."""
    if not ids or not isinstance(ids[0], str):
        return {"ids/numbers": np.array(ids, np.int64)}
    texts = [str(name).encode() for name in ids]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {"ids/text": np.frombuffer(b"".join(texts), np.uint8), "ids/ends": ends}


def ids_of_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> list[Id] | None:
    """The ids in a snapshot, by position; None if it has none.

    >>> ids_of_arrays(ids_as_arrays(["a", "", "bc"]))
    ['a', '', 'bc']
    """
    if "ids/numbers" in arrays:
        return list(arrays["ids/numbers"].tolist())
    if "ids/ends" not in arrays:
        return None
    text, ends = arrays["ids/text"].tobytes(), arrays["ids/ends"].tolist()
    return [text[start:end].decode() for start, end in pairwise([0, *ends])]


def check_pointers(snapshot: Snapshot) -> None:
    """Arrays that compiled code follows from number to number must be as they were written, and stay inside.

    The vectors of a large snapshot are verified when somebody asks for it (:meth:`Store.check`), and before they are
    written to the next one, for it takes as long as to read them.
    """
    is_little = sum(array.nbytes for array in snapshot.arrays.values()) <= LITTLE
    snapshot.verify(name for name, array in snapshot.arrays.items() if is_little or not _is_heavy(name, array))
    table = snapshot.arrays.get("model/builder.links.table")
    if table is not None and len(table) and not (table[:, :3].min() >= -1 and table[:, :3].max() < len(table)):
        raise damaged(snapshot.path, "nodes of its tree are not there")


def _is_heavy(name: str, array: npt.NDArray[Any]) -> bool:
    is_number = array.dtype.kind == "f" or name.endswith("codes")
    return name.startswith("ids/") or (bool(HEAVY.match(name)) and is_number)


class InFiles:
    """Gives arrays more rows as :func:`~grinch.summaries.arrays.enlarged` does; large ones are mapped from files.

    A file has no name any more once it is mapped, so nothing of it is left when the process ends, however it ends.
    What is written to the array is not written to the file: pages that were read only can be dropped from memory.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.has_files = os.name != "nt" and not disk.is_in_memory(folder)

    def __call__(self, old: npt.NDArray[Any], old_capacity: int, capacity: int, fill: float) -> npt.NDArray[Any]:
        row_bytes = old.dtype.itemsize * int(np.prod(old.shape[1:], dtype=np.int64))
        if fill != 0 or 2 * capacity * row_bytes < LARGE or not self.has_files:
            return enlarged(old, old_capacity, capacity, fill)
        with tempfile.TemporaryFile(dir=self.folder, prefix=".growing-") as file:
            number = file.fileno()
            os.ftruncate(number, 2 * capacity * row_bytes)
            rows_at_once = max(disk.CHUNK * 16 // row_bytes, 1)
            for source, target in ((0, 0), (old_capacity, capacity)):
                for start in range(0, old_capacity, rows_at_once):
                    piece = old[source + start : source + min(start + rows_at_once, old_capacity)]
                    disk.write_at(number, piece, (target + start) * row_bytes)
            whole = mmap.mmap(number, 2 * capacity * row_bytes, access=mmap.ACCESS_COPY)
        return np.frombuffer(whole, old.dtype).reshape(2 * capacity, *old.shape[1:])

    def entries(self, old: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
        """The same for numbers without nodes: as :func:`~grinch.summaries.sparse.enlarged_entries`."""
        if room * old.dtype.itemsize < LARGE or not self.has_files:
            return enlarged_entries(old, room)
        with tempfile.TemporaryFile(dir=self.folder, prefix=".growing-") as file:
            os.ftruncate(file.fileno(), room * old.dtype.itemsize)
            disk.write_at(file.fileno(), old, 0)
            whole = mmap.mmap(file.fileno(), room * old.dtype.itemsize, access=mmap.ACCESS_COPY)
        return np.frombuffer(whole, old.dtype)
