"""A model or a tree in memory as a backend, and the backend of a path: a store, a model, a run, or a tree file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch import cuts
from grinch._types import Counts, Ids, Labels
from grinch.cuts.tracking import Change
from grinch.errors import unknown_name
from grinch.estimators.grinch import Grinch
from grinch.estimators.saved import load
from grinch.estimators.tree_clusterer import CUT_BY, TreeClusterer, lock_of
from grinch.io.read import FileError
from grinch.linkage.named import VectorLinkage
from grinch.saving.container import MAGIC, OLD_MODEL
from grinch.serve.backend import MAX_POINTS_FOR_LAYERS, Answer, Backend, Id, Layer, StoreBackend, View, metric_of
from grinch.store.digest import Digest
from grinch.store.opening import is_store
from grinch.store.opening import open as open_store
from grinch.store.queries import DEFAULT_CUT, Look
from grinch.summaries.arrays import StoredPoints
from grinch.tree import Tree

TABLES = (".csv", ".tsv", ".parquet", ".npz")
# The name of the only cut of a model; the service calls it "default", too.
FLAT_CUT = "labels"


class Vectors(Protocol):
    """Rows of a tree's leaves that are not in memory, and their metric; None if they are not vectors."""

    @property
    def n_features(self) -> int | None: ...
    @property
    def metric(self) -> str | None: ...
    def rows_at(self, numbers: Counts) -> Any: ...


@dataclass(frozen=True)
class ModelView:
    """A model or a tree at one version, with the methods of a store's view; arrays and ids are by leaf."""

    backend: ModelBackend
    version: int
    bare_tree: Tree
    positions: Counts
    flat: Labels | None
    raw_ids: list[Any]

    def __len__(self) -> int:
        return self.bare_tree.n_leaves

    @cached_property
    def ids(self) -> list[Id]:
        return [_plain_id(name) for name in self.raw_ids]

    @cached_property
    def _leaf_of(self) -> dict[str, int]:
        return {str(name): leaf for leaf, name in enumerate(self.ids)}

    @property
    def dtype(self) -> str | None:
        return None

    @property
    def n_features(self) -> int | None:
        vectors, model = self.backend.vectors, self.backend.model
        return getattr(model, "n_features_in_", None) if vectors is None else vectors.n_features

    @property
    def columns(self) -> list[str] | None:
        names = getattr(self.backend.model, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def look(self) -> Look:
        flat = {} if self.flat is None else {FLAT_CUT: self.flat}
        automatic = frozenset(flat if self.backend.is_automatic else ())
        return Look(self.version, self.bare_tree, self.positions, self.positions, None, flat, {}, automatic)

    def info(self) -> dict[str, Any]:
        about = {"n_features": self.n_features, "columns": self.columns, "title": self.backend.title}
        return {"points": len(self), "version": self.version, **about}

    # Points -------------------------------------------------------------------------------------------------------

    def points_at(self, positions: Any) -> list[tuple[Id | None, Any]]:
        leaves = _leaves_at(self.positions, np.array(positions, np.int64)).tolist()
        ids = (None if leaf < 0 else self.ids[leaf] for leaf in leaves)
        return list(zip(ids, map(self.backend.payload.get, positions), strict=True))

    def rows_at(self, positions: Counts) -> Any:
        return self.backend.rows_at(positions)

    def position_of(self, name: Id) -> int | None:
        leaf = self._leaf_of.get(str(name))
        return None if leaf is None else int(self.positions[leaf])

    def payload(self, ids: list[Any]) -> list[Any]:
        known = dict(zip(self.ids, self.positions.tolist(), strict=True))
        missing = next((name for name in ids if name not in known), None)
        if missing is not None:
            raise ValueError(f"ids must name points that are there; {missing!r:.80} is not")
        return [self.backend.payload.get(known[name]) for name in ids]

    def vectors(self, ids: list[Any]) -> Any:
        raise ValueError("a model does not keep its points as they were given; a store does")

    def predict(self, X: Any, cut: str = DEFAULT_CUT) -> Labels:
        self.labels(cut)
        model: Any = self.backend.model
        if not hasattr(model, "predict"):
            raise ValueError("X cannot be placed: this is a tree alone, or a model that cannot predict")
        clusters: Labels = model.predict(X)
        return clusters

    def place(self, X: Any) -> tuple[int, list[tuple[int, int]]]:
        return self.backend.place(X)

    # Clusters -----------------------------------------------------------------------------------------------------

    @property
    def cut_names(self) -> list[str]:
        return [] if self.backend.model is None and self.flat is None else [FLAT_CUT]

    def labels(self, cut: str = DEFAULT_CUT) -> Labels:
        if cut not in (DEFAULT_CUT, FLAT_CUT):
            raise unknown_name("cut", cut, [DEFAULT_CUT])
        if self.flat is not None:
            return self.flat
        if self.backend.model is None:
            raise ValueError("a tree alone has no cut of its own: give n_clusters or threshold")
        labels: Labels = self.backend.model.labels_
        return labels

    def clusters(self, cut: str = DEFAULT_CUT) -> dict[int, list[Id]]:
        labels = self.labels(cut)
        order = np.argsort(labels, kind="stable")
        numbers, starts = np.unique(labels[order], return_index=True)
        ordered, bounds = [self.ids[i] for i in order.tolist()], pairwise([*starts.tolist(), len(labels)])
        groups = zip(numbers.tolist(), bounds, strict=True)
        return {number: ordered[start:end] for number, (start, end) in groups if number >= 0}

    def names(self, cut: str = DEFAULT_CUT, *, gone: bool = False) -> dict[int, str]:
        return {}

    def changes(self, since: int = 0, cut: str | None = DEFAULT_CUT) -> list[Change]:
        return []

    def digest(self, since: int = 0, limit: int = 10, cut: str = DEFAULT_CUT, *, until: int | None = None) -> Digest:
        return Digest(since, self.version, 0, (), {})

    def times(self) -> dict[int, float]:
        return {}


class ModelBackend(Backend):
    """A model, or a tree alone, with a payload for its points.

    ``payload`` is a sequence with an entry for each point at this moment: a text, or a mapping. Points that come later
    have none. Points are known by their positions, which stay theirs when others are removed. ``labels`` and
    ``vectors`` are those of a tree alone: its flat clusters, and access to its rows.
    """

    def __init__(
        self,
        clustering: TreeClusterer | Tree,
        title: str = "",
        *,
        payload: Sequence[Any] | None = None,
        names_file: Path | None = None,
        labels: Labels | None = None,
        vectors: Vectors | None = None,
    ):
        self.model = clustering if isinstance(clustering, TreeClusterer) else None
        self.kind = "tree" if self.model is None else "model"
        self.title = title or (type(clustering).__name__ if self.model is not None else "tree")
        self.names_file, self.vectors = names_file, vectors
        self.has_neighbors = isinstance(clustering, Grinch)
        self.payload: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._version = 0
        self._last_tree: Tree | None = None
        self._last_cut: list[Any] = []
        self._view: ModelView | None = None
        self._training: tuple[int, Counts, StoredPoints] | None = None
        if isinstance(clustering, Tree):
            names, leaves = clustering.names, np.arange(clustering.n_leaves)
            ids = leaves.tolist() if names is None else list(names)
            self._view = ModelView(self, 1, clustering, leaves, labels, ids)
        positions = self._now().positions
        if payload is not None:
            self.describe(payload, positions)

    def describe(self, payload: Sequence[Any], positions: Counts | None = None) -> None:
        """Set the payload of each point at this moment."""
        at = self._now().positions if positions is None else positions
        if len(payload) != len(at):
            raise ValueError(f"payload must have an entry for each of the {len(at):,} points; got {len(payload):,}")
        self.payload = dict(zip(at.tolist(), payload, strict=True))

    # Versions -----------------------------------------------------------------------------------------------------

    def view(self, *, placing: bool = False) -> AbstractContextManager[View]:
        return nullcontext(self._now())

    def latest(self) -> int:
        return 1 if self.model is None else self._read(self._version_of, self._version or None)

    def _version_of(self, fitted: Any) -> int:
        """Return the number of the model's present state, a new one after every change."""
        # A model makes another tree after every change, and returns the same one until then.
        tree, cut = fitted.tree(), [getattr(self.model, name, None) for name in CUT_BY]
        with self._lock:
            if tree is not self._last_tree or cut != self._last_cut:
                self._version, self._last_tree, self._last_cut = self._version + 1, tree, cut
            return self._version

    def _now(self) -> ModelView:
        if self.model is None:
            assert self._view is not None
            return self._view
        return self._read(self._view_of, self._view)

    def _read(self, ask: Callable[[Any], Answer], last: Answer | None) -> Answer:
        """Return what a function says of the fit; while another thread has the model, what was said last."""
        lock = lock_of(self.model)
        if not lock.acquire(blocking=last is None):
            assert last is not None
            return last
        try:
            assert self.model is not None
            return self.model.read_fit(ask)
        finally:
            lock.release()

    def _view_of(self, fitted: Any) -> ModelView:
        version, view, model = self._version_of(fitted), self._view, self.model
        if view is None or view.version != version or (view.flat is None and fitted.has_automatic):
            assert model is not None
            # The automatic cut of very many points takes long.
            is_known = not self.is_automatic or fitted.has_automatic or fitted.n_leaves <= MAX_POINTS_FOR_LAYERS
            labels = model.labels_ if fitted.n_leaves > 0 and is_known else None
            view = ModelView(self, version, fitted.tree(), fitted.positions(), labels, fitted.point_ids())
            self._view = view
        return view

    @property
    def is_automatic(self) -> bool:
        """Whether the flat clusters are the automatic cut."""
        return self.model is not None and self.model.n_clusters is None and self.model.threshold is None

    # Points -------------------------------------------------------------------------------------------------------

    def rows_at(self, positions: Counts) -> Any:
        """Return the rows of points, zeros for those that were removed; None if points are not vectors."""
        if self.model is None:
            return None if self.vectors is None else self.vectors.rows_at(positions)
        _, there, training = self._training_points()
        if not training.is_vectors:
            return None
        leaves = _leaves_at(there, positions)
        rows = training.rows[leaves[leaves >= 0]]
        if scipy.sparse.issparse(rows):
            return _with_empty(_as_given(rows, training), leaves >= 0)
        spaced: npt.NDArray[Any] = np.zeros((len(positions), training.rows.shape[1]), rows.dtype)
        spaced[leaves >= 0] = _as_given(rows, training)
        return spaced

    def _training_points(self) -> tuple[int, Counts, StoredPoints]:
        def read(fitted: Any) -> tuple[int, Counts, StoredPoints]:
            version = self._version_of(fitted)
            if self._training is None or self._training[0] != version:
                self._training = version, fitted.positions(), fitted.points()
            return self._training

        return self._read(read, self._training)

    def metric(self) -> str:
        if self.model is None:
            return (None if self.vectors is None else self.vectors.metric) or "cosine"
        return metric_of(self._training_points()[2].linkage)

    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]:
        view, wanted = self._now(), text.lower()
        matches: list[int] = []
        for position, name in zip(view.positions.tolist(), view.ids, strict=True):
            if wanted in f"{name}\n{all_text(self.payload.get(position))}".lower():
                matches.append(position)
                if len(matches) >= limit:
                    return matches, False
        return matches, True

    def can_place(self) -> bool:
        return isinstance(self.model, Grinch)

    def place(self, row: Any) -> tuple[int, list[tuple[int, int]]]:
        """Return the version, and for each row the node beside which it would go, and the nearest point."""
        model = self.model
        if not isinstance(model, Grinch):
            raise ValueError("a point can be placed in the tree of a Grinch model or in a store; this is neither")

        def placed(fitted: Any) -> tuple[int, list[tuple[int, int]]]:
            view, engine, places = self._view_of(fitted), model.engine(), model.places(row)
            nearest, beside = (fitted.public_ids(engine.numbered(nodes)) for nodes in (places.nearest, places.sibling))
            near = np.where(places.nearest >= 0, view.positions[nearest], -1)
            return view.version, list(zip(beside.tolist(), near.tolist(), strict=True))

        return model.read_fit(placed)

    def neighbors(self) -> tuple[Counts, Ids]:
        assert self.model is not None
        self._training_points()  # for others that ask for rows meanwhile
        return self.model.read_fit(lambda fitted: (fitted.positions(), fitted.neighbors()))

    def layers(self) -> tuple[int, list[Layer]]:
        if self.model is not None:
            version, model = self.latest(), self.model
            pairs = zip(model.layers_, model.layer_persistence_.tolist(), strict=True)
            return version, [Layer(*pair) for pair in pairs]
        tree = self._now().bare_tree
        layers = cuts.automatic_cut(tree, None, tree.heights()).layers
        return 1, [Layer(cuts.labels_of(tree, layer.is_split), layer.persistence) for layer in layers]


def all_text(payload: Any) -> str:
    """Return all values of a payload as text, without the names of its fields."""
    if isinstance(payload, Mapping):
        return "\n".join(map(str, payload.values()))
    return "" if payload is None else str(payload)


def _leaves_at(positions: Counts, asked: Counts) -> Counts:
    """Return the leaf at each of some positions; -1 for none."""
    at = np.searchsorted(positions, asked)
    is_known = at < len(positions)
    is_known[is_known] = positions[at[is_known]] == asked[is_known]
    return np.where(is_known, at, -1)


def _as_given(rows: Any, training: StoredPoints) -> Any:
    """Undo the scaling of stored rows, except for their length where only directions count."""
    if isinstance(training.linkage, VectorLinkage) and training.linkage.is_of_roots:
        return rows.multiply(rows).tocsr() if scipy.sparse.issparse(rows) else rows * rows
    if scipy.sparse.issparse(rows):
        return rows
    return rows / training.scale + (0 if training.origin is None else training.origin)


def _with_empty(rows: Any, is_known: Any) -> Any:
    """Return sparse rows at the places that are known, and empty ones between them."""
    sizes = np.zeros(len(is_known), np.int64)
    sizes[is_known] = np.diff(rows.indptr)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return scipy.sparse.csr_matrix((rows.data, rows.indices, indptr), shape=(len(is_known), rows.shape[1]))


def _plain_id(name: Any) -> Any:
    """Return an id as JSON can hold it."""
    if isinstance(name, np.generic):
        name = name.item()
    return name if isinstance(name, (str, int)) and not isinstance(name, bool) else str(name)


# Paths ------------------------------------------------------------------------------------------------------------


def open_backend(path: str | os.PathLike[str], *, payload: Sequence[Any] | None = None) -> StoreBackend | ModelBackend:
    """Open a path: a store or a finished run of many workers (folders), a saved model, a scipy linkage matrix (.npy),
    or a tree in Newick.
    """
    file = Path(path)
    if file.is_dir():
        return _open_folder(file, payload)
    if not file.exists():
        raise FileError(
            f"PATH {str(file)!r} does not exist; give a store, a saved model, a linkage.npy or a Newick file"
        )
    with open(file, "rb") as content:
        start = content.read(64)
    clustering: TreeClusterer | Tree = load(file) if start.startswith((MAGIC, OLD_MODEL)) else _read_tree(file, start)
    return ModelBackend(clustering, file.name, payload=payload, names_file=file.with_name(f"{file.name}.names"))


def is_run(path: Path) -> bool:
    """Return whether a folder is that of a run by many workers."""
    from grinch.sharded.record import is_run

    return path.is_dir() and is_run(path)


def _open_folder(folder: Path, payload: Sequence[Any] | None) -> StoreBackend | ModelBackend:
    if is_store(folder):
        if payload is not None:
            raise ValueError("payload is for models and trees; the points of a store have their own")
        return StoreBackend(open_store(folder, readonly=True))
    if not is_run(folder):
        raise FileError(
            f"PATH {str(folder)!r} is a folder without a store or a run of many workers in it; make a store with:"
            " grinch add STORE FILE"
        )
    from grinch.sharded.record import FinishedRun

    run, title = FinishedRun(folder), folder.resolve().name
    return ModelBackend(
        run.tree, title, payload=payload, names_file=folder / "run.names", labels=run.labels, vectors=run
    )


def _read_tree(path: Path, start: bytes) -> Tree:
    """Read the tree in a file of another program."""
    try:
        if start.startswith(b"\x93NUMPY"):
            return Tree.from_scipy(np.load(path, allow_pickle=False))
        if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"(", b"[")):
            tree = Tree.from_newick(path.read_text("utf-8-sig"))
            if tree.n_leaves == 1:
                leaf = "0" if tree.names is None else tree.names[0]
                raise ValueError(
                    f"it is a tree of a single leaf, {leaf!r:.60}; give one of two or more, such as '(a,b);'"
                )
            return tree
    except (ValueError, EOFError) as error:
        raise FileError(f"PATH {str(path)!r} cannot be read as a tree: {error}") from None
    hint = f". Make a tree of these points with: grinch cluster {path}" if path.suffix in TABLES else ""
    raise FileError(
        f"PATH {str(path)!r} cannot be opened; accepted are a store (a folder), a model saved by save(),"
        f" scipy's linkage matrix (.npy), or a tree in Newick{hint}"
    )
