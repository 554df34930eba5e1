"""A store in memory: a model, the cuts that follow its tree, and the number of the row of each point.

It changes by operations alone, each of which makes a version; the same operations from the same beginning give the
same state, bit by bit. So a snapshot and the operations since are enough on disk. For readers beside a writer there is
a copy of it at one version.
"""

from __future__ import annotations

import copy
import json
import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse

from grinch._types import Counts, Ids, Labels, Slots
from grinch.cuts.tracking import Change
from grinch.estimators.saved import model_from_state
from grinch.saving import disk
from grinch.saving.container import Container
from grinch.saving.state import flatten, unflatten
from grinch.store.database import Id, Operation
from grinch.store.forks import CAN_FORK
from grinch.store.inputs import RowCheck
from grinch.summaries import RecordSummaries, SparseSummaries
from grinch.summaries.arrays import enlarged
from grinch.summaries.sparse import enlarged_entries
from grinch.tree import Tree

if TYPE_CHECKING:
    from grinch.core.view import EngineView


from sklearn.metrics import adjusted_rand_score

from grinch._checks import count_rows
from grinch.cuts.choice import Choice
from grinch.cuts.tracking import CUT_BY, DUE_SHARE, MadeCut, TrackedCut, Tracker
from grinch.cuts.tracking.follower import Arrays
from grinch.cuts.tracking.identity import ABOVE, NO_CLUSTER, owners_above
from grinch.estimators.grinch import Grinch

# Arrays from this many bytes on are put into files that are mapped, so that they need not fit into memory.
MAPPED_BYTES = 2**26
# Exemplars of a cluster.
N_EXEMPLARS = 3
# Of up to this many points an automatic cut takes no longer than a fork, and is made in the commit.
MAX_AT_ONCE = 2048


class Placed(NamedTuple):
    """The nodes that rows would become siblings of, and the positions of the nearest points (-1: unknown)."""

    beside: Counts
    nearest: Counts


class AboutCut(NamedTuple):
    """The parameters of a cut, and the number of points that changed since it was made."""

    kind: str
    parameters: dict[str, Any]
    points_changed: int


class StoreState:
    """The tree over the points of a store and the cuts of it, at the last version.

    ``store`` is a name that no other store has; ``row_of`` has the number of the row of each point, by position;
    ``n_rows`` is the number of all rows, with those of removed points and the earlier ones of updated points.
    """

    def __init__(self, tracking: ClusterTracking, folder: Path, store: str):
        self.model, self.tracking, self.folder, self.store = tracking.model, tracking, folder, store
        self.version = self.n_rows = 0
        self.n_begun = 0
        """The number of changes that were begun: after one that failed, this state must not be used any more."""
        self.verify_points: Callable[[Slots], None] = lambda slots: None
        """Raises if the rows of these points, by their slots, are not as they were written."""
        self._row_of: Counts = np.empty(0, np.int64)
        self._is_row_of_shared = False
        self.row_sums: dict[str, npt.NDArray[Any]] = {}
        """The checksums of the blocks of the rows, as the snapshot had them."""
        self._in_files = InFiles(folder)
        self._use_files()

    def _use_files(self) -> None:
        """Let large arrays grow in files of the store's folder."""
        if self.is_fitted:
            summaries = self.model.engine().summaries
            summaries.enlarge = self._in_files
            if isinstance(summaries, SparseSummaries):
                summaries.enlarge_entries = self._in_files.entries

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
        """Return the positions of all points, in ascending order."""
        if not self.is_fitted:
            return np.empty(0, np.int64)
        fitted = self.model.current_fit()
        positions = fitted.ids.positions[fitted.builder.slots()]  # type: ignore[attr-defined]
        return positions if fitted.ids.is_in_order else np.sort(positions)

    def positions_by_row(self) -> Counts:
        """Return the positions of all points, in the order of their rows."""
        positions = self.positions()
        return positions[np.argsort(self.row_of[positions])]

    def has(self, positions: Counts) -> npt.NDArray[np.bool_]:
        """Return which of these positions have a point."""
        if not self.is_fitted:
            return np.zeros(len(positions), np.bool_)
        engine = self.model.engine()
        slots = self.model.current_fit().ids.slots_at(positions, engine.slots)
        return np.array([slot >= 0 and engine.has(slot) for slot in slots.tolist()], np.bool_)

    # Queries ------------------------------------------------------------------------------------------------------

    @property
    def cut_names(self) -> list[str]:
        return self.tracking.names

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters that the model was made with."""
        parameters = self.model.get_params()
        return {name: parameters[name] for name in ("linkage", "metric", "mode", "n_neighbors", "search")}

    def tree(self) -> Tree:
        return copy.copy(self.model.tree_) if self.n_points else Tree()

    def labels(self, cut: str) -> Labels:
        return self.tracking.labels(cut)

    def about_cut(self, cut: str) -> AboutCut:
        tracked = self.tracking[cut]
        kind = "automatic" if tracked.is_automatic else "n_clusters" if tracked.how.threshold is None else "threshold"
        return AboutCut(kind, tracked.parameters, tracked.drift.changed)

    def row_check(self) -> RowCheck:
        return RowCheck.of(self.model)

    def place(self, rows: Any) -> Placed:
        fitted, engine = self.model.current_fit(), self.model.engine()
        places = engine.place(self.model.prepare(rows, reset=False).rows)
        self.verify_points(places.nearest.astype(np.intp))
        nearest = np.where(places.nearest < 0, -1, fitted.ids.positions[places.nearest])
        return Placed(fitted.public_ids(engine.numbered(places.sibling)), nearest)

    def predict(self, cut: str, rows: Any) -> Labels:
        return self.tracking.predict(cut, rows, self.verify_points)

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

    def neighbors(self) -> Ids:
        """Return the nearest neighbours of each point, by leaf of the tree."""
        return self.model.current_fit().neighbors() if self.n_points else np.empty((0, 0), np.int32)

    # For readers beside a change ----------------------------------------------------------------------------------

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

    def apply(self, done: Operation, rows: Any = None, made: Made | None = None) -> list[Change]:
        """Make the change that an operation of the log stands for, now or again; ``rows`` are those that came with it.

        ``made`` are the automatic cuts that were made with it; None if it is made for the first time. Then
        :attr:`made` has them. Return what happened to clusters.
        """
        self.n_begun += 1
        if done.kind == "insert":
            # Of sparse rows, there may be more columns than before: the store has asked.
            self.model.partial_fit(rows, new_columns=issparse(rows))
            self._use_files()
            self._note_rows(np.arange(self.n_given - done.n_rows, self.n_given), done.numbers)
        elif done.kind == "remove":
            self.model.remove(np.frombuffer(done.data or b"", "<i8"))
        elif done.kind == "update":
            if issparse(rows):
                # As they are read again, they may have columns that came later.
                self.model.n_features_in_ = max(self.n_features, rows.shape[1])
            positions = np.frombuffer(done.data or b"", "<i8")
            self.model.update(positions, rows)
            self._note_rows(positions, done.numbers)
        elif done.kind == "add_cut":
            said = json.loads(done.data or b"")
            changes = self._committed(done.version, {})
            self.tracking.add(said["name"], made, **how_of(said))
            return [*changes, *self._born(done.version, said["name"])]
        elif done.kind == "drop_cut":
            self.tracking.drop(**json.loads(done.data or b""))
        else:
            # The model has no part in what is left, but for a recut.
            self.version, self.tracking.made = done.version, {}
            if done.kind != "recut":
                return []
            said = json.loads(done.data or b"")
            # Before 0.2, it was one at a time.
            names = said["names"] if "names" in said else [said["name"]]
            return self.tracking.recut(done.version, self.tracking.make(names) if made is None else made)
        return self._committed(done.version, made)

    @property
    def made(self) -> Made:
        """The automatic cuts that the last change made, by name."""
        return self.tracking.made

    def adopt(self, version: int, rows: Any, tree: Tree) -> list[Change]:
        """Take the first points with the tree that they have already; leaf i of it is row i."""
        self.n_begun += 1
        self.model.fit_tree(rows, tree)
        self._use_files()
        self._note_rows(np.arange(self.n_given), np.arange(self.n_given))
        return self._committed(version)

    def refine(self, version: int, passes: int) -> list[Change]:
        self.n_begun += 1
        self.model.refine(passes)
        return self._committed(version)

    def compact(self, version: int) -> Counts:
        """Forget removed points, and renumber rows; return the old number of each row."""
        self.n_begun += 1
        if self.is_fitted:
            self.model.close_gaps()
            self._use_files()
        positions = self.positions()
        kept: Counts = np.sort(self.row_of[positions])
        row_of = np.full(self.n_given, -1, np.int64)
        row_of[positions] = np.searchsorted(kept, self.row_of[positions])
        self._row_of, self.n_rows = row_of, len(kept)
        self._committed(version, {})
        return kept

    def set_rows(self, numbers: Counts) -> None:
        """Let these be the numbers of the rows, by position."""
        self._row_of, self.n_rows = numbers, int(numbers.max(initial=-1)) + 1

    def _born(self, version: int, name: str) -> list[Change]:
        """Return the changes that are the beginning of a cut."""
        members = sorted(self.tracking.members(name).items()) if self.n_points else []
        return [
            Change(version, name, "born", cluster, (), len(own), len(own), tuple(np.sort(own)[:N_EXEMPLARS].tolist()))
            for cluster, own in members
        ]

    def _committed(self, version: int, made: Made | None = None) -> list[Change]:
        self.version = version
        return self.tracking.commit(version, made, self._is_at_once)

    @property
    def can_cut_later(self) -> bool:
        """Whether an automatic cut that is due can be made by a forked process, and is worth one."""
        is_of_vectors = self.is_fitted and not isinstance(self.model.engine().summaries, RecordSummaries)
        # Of records, a linkage written in Python would run there.
        return CAN_FORK and self.n_points > MAX_AT_ONCE and is_of_vectors

    def _is_at_once(self, n_points: int, n_changing: int) -> bool:
        """Return whether an automatic cut that is due is made with the change, and not later."""
        return DUE_SHARE * n_changing >= n_points or not self.can_cut_later

    def _note_rows(self, positions: Counts, numbers: Counts) -> None:
        need = self.n_given
        if need > len(self._row_of):
            larger = np.full(max(need, len(self._row_of) * 3 // 2), -1, np.int64)
            larger[: len(self._row_of)] = self._row_of
            self._row_of, self._is_row_of_shared = larger, False
        if self._is_row_of_shared and len(positions) and positions[0] < self.n_given - len(positions):
            # Not only new points, which no reader has seen yet.
            self._row_of, self._is_row_of_shared = self._row_of.copy(), False
        self._row_of[positions] = numbers
        self.n_rows = int(numbers[-1]) + 1

    # On disk ------------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return all there is, as JSON and arrays; nothing is copied."""
        model, own = flatten(self.model.to_state())
        state, tracked = self.tracking.to_state()
        header = {"store": self.store, "version": self.version, "rows": self.n_rows, "model": model, "followed": state}
        arrays = {f"model/{name}": array for name, array in own.items()}
        arrays |= {f"followed/{name}": array for name, array in tracked.items()}
        return header, arrays | {"row_of": self._row_of}

    @classmethod
    def from_snapshot(cls, snapshot: Container, folder: Path, linkage: Any, search: Any) -> Self:
        """Return what was written; arrays are used as they are mapped."""
        header = snapshot.header

        def under(name: str) -> dict[str, npt.NDArray[Any]]:
            return {key.removeprefix(name): array for key, array in snapshot.arrays.items() if key.startswith(name)}

        model = model_from_state(unflatten(header["model"], under("model/")), linkage=linkage, search=search)
        tracking = ClusterTracking.from_state(model, header["followed"], under("followed/"))
        state = cls(tracking, folder, header["store"])
        state.version, state.n_rows = int(header["version"]), int(header["rows"])
        state._row_of, state.row_sums = snapshot.arrays["row_of"], under("rows/")
        return state


def ids_as_arrays(ids: Sequence[Id]) -> dict[str, npt.NDArray[Any]]:
    """Return ids as a snapshot holds them: numbers, or the text of all and where each ends."""
    if not ids or not isinstance(ids[0], str):
        return {"ids/numbers": np.array(ids, np.int64)}
    texts = [str(name).encode() for name in ids]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {"ids/text": np.frombuffer(b"".join(texts), np.uint8), "ids/ends": ends}


def ids_of_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> list[Id] | None:
    """Return the ids in a snapshot, by position; None if it has none.

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
        if fill != 0 or 2 * capacity * row_bytes < MAPPED_BYTES or not self.has_files:
            return enlarged(old, old_capacity, capacity, fill)
        pieces = {0: old[:old_capacity], capacity * row_bytes: old[old_capacity : 2 * old_capacity]}
        return self._mapped(old.dtype, 2 * capacity * row_bytes, pieces).reshape(2 * capacity, *old.shape[1:])

    def entries(self, old: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
        """Do the same for numbers without nodes, as :func:`~grinch.summaries.sparse.enlarged_entries`."""
        if room * old.dtype.itemsize < MAPPED_BYTES or not self.has_files:
            return enlarged_entries(old, room)
        return self._mapped(old.dtype, room * old.dtype.itemsize, {0: old})

    def _mapped(self, dtype: Any, size: int, pieces: Mapping[int, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Return an array of ``size`` bytes, with these pieces at these bytes, mapped from a file."""
        with tempfile.TemporaryFile(dir=self.folder, prefix=".growing-") as file:
            os.ftruncate(file.fileno(), size)
            for at, piece in pieces.items():
                disk.write_at(file.fileno(), piece, at)
            return np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY), dtype)


class Recut(NamedTuple):
    """The outcome of a recut: the number of clusters then and now, and the adjusted Rand index of the two."""

    n_clusters: int
    n_clusters_now: int
    agreement: float


Made = Mapping[str, MadeCut]


class ClusterTracking:
    """The named cuts of a model, tracked from version to version; :meth:`commit` follows every change of the model.

    >>> from grinch import Grinch
    >>> tracking = ClusterTracking(Grinch().fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]]))
    >>> tracking.add("two", n_clusters=2)
    >>> tracking.labels("two").tolist()
    [0, 1, 0, 1]
    >>> _ = tracking.model.partial_fit([[0, 7], [0.2, 10]])
    >>> for change in tracking.commit(version=1):
    ...     print(change.kind, change.cluster, change.size, change.exemplars)
    grew 1 4 (4, 5)
    """

    def __init__(self, model: Grinch, tracker: Tracker | None = None):
        self.model = model
        self._tracker = Tracker() if tracker is None else tracker

    @property
    def names(self) -> list[str]:
        """The names of the cuts, in the order they were added."""
        return self._tracker.names

    def __getitem__(self, name: str) -> TrackedCut:
        return self._tracker[name]

    @property
    def made(self) -> Made:
        """The automatic cuts that the last change made, by name."""
        return self._tracker.made

    @made.setter
    def made(self, made: Made) -> None:
        self._tracker.made = dict(made)

    def add(self, name: str, made: Made | None = None, **how: Any) -> None:
        """Track one more cut, made as a :class:`grinch.cuts.Choice` of these says; an automatic one may be ``made``."""
        self._tracker.add(name, Choice(**how), self.model.growing_tree(), made)

    def drop(self, name: str) -> None:
        """Stop tracking a cut. If one of this name is added again, its ids continue from here."""
        self._tracker.drop(name)

    def commit(
        self,
        version: int,
        made: Made | None = None,
        is_at_once: Callable[[int, int], bool] = lambda n_points, n_changing: True,
    ) -> list[Change]:
        """Follow the model to where it is after a change; return what happened to the clusters of all cuts.

        ``made`` and ``is_at_once`` are as in :meth:`grinch.cuts.tracking.Tracker.commit`.
        """
        return self._tracker.commit(self.model.growing_tree(), version, made, is_at_once)

    def due(self) -> list[str]:
        """Return the names of the automatic cuts that are to be made again."""
        return self._tracker.due(self.model.growing_tree())

    def make(self, names: Iterable[str]) -> Made:
        """Return automatic cuts of the tree as it is."""
        tree = self.model.growing_tree()
        names = [name for name in names if self[name].is_automatic]
        return {} if tree is None else self._tracker.make(names, tree)

    def recut(self, version: int, made: Made) -> list[Change]:
        """Take automatic cuts of the tree, or of an earlier one."""
        return self._tracker.recut(self.model.growing_tree(), version, made)

    def still_new(self, made: Made) -> Made:
        """Return those of some automatic cuts that can be taken: not outdated, and of at least half of the points."""
        return self._tracker.still_new(self.model.growing_tree(), made)

    def would_recut(self, name: str) -> Recut:
        """Return what a recut would give, and how it agrees with the clusters there are; it costs as much as one."""
        cut, tree, now = self[name], self.model.growing_tree(), self.labels(name)
        count = len(np.unique(now))
        if tree is None or not cut.is_automatic:
            return Recut(count, count, 1.0)
        labels = tree.cut_automatically(cut.how).labels
        return Recut(int(labels.max(initial=-1)) + 1, count, float(adjusted_rand_score(now, labels)))

    def labels(self, name: str) -> Labels:
        """Return the ids of the clusters, by leaf of ``model.tree_``."""
        return self._tracker.labels(name, self.model.growing_tree())

    def members(self, name: str) -> dict[int, Counts]:
        """Return, by the id of a cluster, the positions of its points in ascending order."""
        return self._tracker.members(name, self.model.growing_tree())

    def predict(self, name: str, X: Any, verify: Callable[[Slots], None] | None = None) -> Labels:
        """Return the ids of the clusters that points would join, as the model's ``predict`` finds them; -1 for none.

        ``verify`` is called with the slots of their nearest points.
        """
        cut, tree = self[name], self.model.growing_tree()
        if tree is None or not tree.n_leaves:
            return np.full(count_rows(X), NO_CLUSTER, np.int64)
        places, owners = self.model.places(X), self._tracker.owners(name, tree)
        if verify is not None:
            verify(places.nearest.astype(np.intp))
        found = owners[places.sibling]
        if cut.how.threshold is None:
            nearest = np.where(places.nearest < 0, NO_CLUSTER, owners[places.nearest])
            return np.where(found < 0, nearest, found)
        above = owners_above(tree.links, places.sibling, owners)
        is_refused = (above == ABOVE) & (places.score < cut.how.threshold)
        return np.where((found < 0) | is_refused, NO_CLUSTER, found)

    def touched(self, since: int) -> Slots:
        """Return the nodes of ``model.tree_`` whose points changed after a version, and the leaves that came since."""
        tree = self.model.growing_tree()
        if tree is None:
            return np.empty(0, np.intp)
        return np.sort(tree.handed_out(self._tracker.changed_nodes(tree, since)))

    def to_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return what is known of the cuts, as something that JSON can hold and arrays in use."""
        return self._tracker.to_state()

    @classmethod
    def from_state(cls, model: Grinch, state: dict[str, Any], arrays: Arrays) -> Self:
        """Go on with a model that is as it was when the state was taken."""
        tracker = Tracker.from_state(state, arrays)
        tracker.attach(model.growing_tree())
        return cls(model, tracker)


def how_of(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a cut is made from what was written of it; earlier releases cut by height, and wrote no layer."""
    known = {"cut": "height", "layer": "auto", **written}
    return {name: known[name] for name in CUT_BY}
