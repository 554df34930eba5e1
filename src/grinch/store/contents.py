"""A store in memory: a model, the cuts that follow its tree, and where the row of each point is.

It changes by operations alone, each of which makes a version; the same operations from the same beginning give the
same contents, bit by bit. That is what a store rests on: what is on disk is a snapshot and the operations since.
"""

from __future__ import annotations

import copy
import json
import mmap
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from grinch._types import Counts, Labels, Slots
from grinch.cuts.tracking import Change
from grinch.estimators.advice import no_advice
from grinch.estimators.saved import model_from_state
from grinch.saving import disk
from grinch.saving.container import Container
from grinch.saving.state import flatten, unflatten
from grinch.store.cluster_tracking import ClusterTracking, how_of
from grinch.store.database import Id, Operation
from grinch.store.inputs import RowCheck
from grinch.store.queries import AboutCut, Placed
from grinch.summaries import SparseSummaries
from grinch.summaries.arrays import enlarged
from grinch.summaries.sparse import enlarged_entries
from grinch.tree import Tree

if TYPE_CHECKING:
    from grinch.core.view import EngineView

# Arrays from this many bytes on are put into files that are mapped, so that they need not fit into memory.
LARGE = 2**26
# Exemplars of a cluster.
FEW = 3


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
        self.verify_points: Callable[[Slots], None] = lambda slots: None
        """Raises if the rows of these points, by their slots, are not as they were written."""
        self._row_of: Counts = np.empty(0, np.int64)
        self._is_row_of_shared = False
        self.row_sums: dict[str, npt.NDArray[Any]] = {}
        """The checksums of the blocks of the rows, as the snapshot had them."""
        self._use_files()

    def _use_files(self) -> None:
        """Let large arrays grow in files of the store's folder."""
        if self.is_fitted:
            summaries = self.model.engine().summaries
            summaries.enlarge = InFiles(self.folder)
            if isinstance(summaries, SparseSummaries):
                summaries.enlarge_entries = InFiles(self.folder).entries

    # What there is ------------------------------------------------------------------------------------------------

    @property
    def is_fitted(self) -> bool:
        return self.model.__sklearn_is_fitted__()

    @property
    def n_points(self) -> int:
        return self.model.engine().n_leaves if self.is_fitted else 0

    @property
    def n_given(self) -> int:
        """The position of the next point."""
        return self.model.current_fit().ids.n_given if self.is_fitted else 0

    @property
    def row_of(self) -> Counts:
        return self._row_of[: self.n_given]

    def positions(self) -> Counts:
        """The positions of all points, in ascending order."""
        if not self.is_fitted:
            return np.empty(0, np.int64)
        fitted = self.model.current_fit()
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
        engine = self.model.engine()
        slots = self.model.current_fit().ids.slots_at(positions, engine.slots)
        return np.array([slot >= 0 and engine.has(slot) for slot in slots.tolist()], np.bool_)

    # As it is asked for (``queries.State``) -----------------------------------------------------------------------

    @property
    def cut_names(self) -> list[str]:
        return self.tracking.names

    @property
    def settings(self) -> dict[str, Any]:
        """How the model was made."""
        parameters = self.model.get_params()
        return {name: parameters[name] for name in ("linkage", "metric", "mode", "n_neighbors", "search")}

    def tree(self) -> Tree:
        return copy.copy(self.model.tree_) if self.n_points else Tree()

    def labels(self, cut: str) -> Labels:
        return self.tracking.labels(cut)

    def about_cut(self, cut: str) -> AboutCut:
        found = self.tracking[cut]
        kind = "automatic" if found.is_automatic else "n_clusters" if found.how.threshold is None else "threshold"
        return AboutCut(kind, found.parameters, found.drift.came + found.drift.left, found.drift.share)

    def row_check(self) -> RowCheck:
        return RowCheck.of(self.model)

    def place(self, rows: Any) -> Placed:
        fitted, engine = self.model.current_fit(), self.model.engine()
        places = engine.place(self.model.prepare(rows, reset=False).rows)
        self.verify_points(places.nearest.astype(np.intp))
        nearest = np.where(places.nearest < 0, -1, fitted.ids.positions[places.nearest])
        return Placed(fitted.public_ids(engine.numbered(places.sibling)), nearest)

    def predict(self, cut: str, rows: Any) -> Labels:
        return self.tracking.predict(cut, rows)

    @property
    def can_place(self) -> bool:
        return True

    @property
    def n_features(self) -> int:
        return int(getattr(self.model, "n_features_in_", 0))

    def touched(self, since: int) -> Counts:
        return self.tracking.touched(since) if self.n_points else np.empty(0, np.int64)

    def layers(self) -> list[tuple[Labels, float]]:
        """Return the layers of the automatic cut, and how long each lasts."""
        if not self.n_points:
            return []
        return list(zip(self.model.layers_, self.model.layer_persistence_.tolist(), strict=True))

    def would_recut(self, cut: str) -> Any:
        return self.tracking.would_recut(cut)

    # For readers beside a change (``frozen.py``) ------------------------------------------------------------------

    def engine_view(self) -> EngineView | None:
        return self.model.engine().view() if self.n_points else None

    def leaves(self) -> Counts:
        """Return, by leaf of the engine's tree, the leaf of the tree handed out."""
        return self.model.current_fit().leaves() if self.n_points else np.empty(0, np.int64)

    def shared_row_of(self) -> Counts:
        """Return :attr:`row_of` for a reader who keeps it while points come and go."""
        self._is_row_of_shared = True
        return self.row_of

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
            self.model.n_features_in_ = max(self.n_features, rows.shape[1])
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
            self.model.close_gaps()
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
            self._row_of, self._is_row_of_shared = larger, False
        if self._is_row_of_shared and len(positions) and positions[0] < self.n_given - len(positions):
            # Not only points that came, which nobody has looked at yet.
            self._row_of, self._is_row_of_shared = self._row_of.copy(), False
        self._row_of[positions] = first_row + np.arange(len(positions))
        self.n_rows = first_row + len(positions)

    # On disk ------------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return all there is, as JSON and arrays; nothing is copied."""
        model, own = flatten(self.model.to_state())
        state, tracked = self.tracking.to_state()
        manifest = {
            "store": self.store,
            "version": self.version,
            "rows": self.n_rows,
            "model": model,
            "followed": state,
        }
        arrays = {f"model/{name}": array for name, array in own.items()}
        arrays |= {f"followed/{name}": array for name, array in tracked.items()}
        return manifest, arrays | {"row_of": self._row_of}

    @classmethod
    def from_snapshot(cls, snapshot: Container, folder: Path, linkage: Any, search: Any) -> Self:
        """What was written; arrays are used as they are mapped."""
        manifest = snapshot.header

        def under(name: str) -> dict[str, npt.NDArray[Any]]:
            return {key.removeprefix(name): array for key, array in snapshot.arrays.items() if key.startswith(name)}

        model = model_from_state(unflatten(manifest["model"], under("model/")), linkage=linkage, search=search)
        tracking = ClusterTracking.from_state(model, manifest["followed"], under("followed/"))
        contents = cls(tracking, folder, manifest["store"])
        contents.version, contents.n_rows = int(manifest["version"]), int(manifest["rows"])
        contents._row_of, contents.row_sums = snapshot.arrays["row_of"], under("rows/")
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
