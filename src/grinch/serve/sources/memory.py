"""A model or a tree that is looked at, with what is known of its points."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch import cuts
from grinch._types import Counts, Labels
from grinch.cuts.tracking import Change
from grinch.estimators.grinch import Grinch
from grinch.estimators.tree_clusterer import CUT_BY, TreeClusterer
from grinch.linkage.base import VectorLinkage
from grinch.serve.sources.base import MOST_FOR_LAYERS, Id, Layer, Place, Seen, metric_of
from grinch.summaries.kept import Kept
from grinch.tree import Tree


class Vectors(Protocol):
    """The rows of a tree's leaves that are not in memory, and how they are compared; None if they are no vectors."""

    @property
    def n_features(self) -> int | None: ...
    @property
    def metric(self) -> str | None: ...
    def rows_at(self, numbers: Counts) -> Any: ...


class _Known(NamedTuple):
    """A model or a tree at one version; arrays and ids are by leaf."""

    version: int
    tree: Tree
    positions: Counts
    labels: Labels | None
    ids: list[Any]


class MemorySource:
    """A model, or a tree alone, with what is known of its points.

    ``payload`` is a sequence with an entry for each point there is now: a text, or a mapping. Points that come later
    have none. Points are known by their positions, which stay theirs when others are removed. ``labels`` and
    ``vectors`` are those of a tree alone: its flat clusters, and where its rows are.
    """

    has_versions = False

    def __init__(
        self,
        looked_at: TreeClusterer | Tree,
        title: str = "",
        *,
        payload: Sequence[Any] | None = None,
        names_file: Path | None = None,
        labels: Labels | None = None,
        vectors: Vectors | None = None,
    ):
        self.model = looked_at if isinstance(looked_at, TreeClusterer) else None
        self.kind = "tree" if self.model is None else "model"
        self._tree = looked_at if isinstance(looked_at, Tree) else None
        self._labels, self._vectors = labels, vectors
        self.title = title or (type(looked_at).__name__ if self.model is not None else "tree")
        self.names_file = names_file
        self._lock = threading.Lock()
        self._version = 0
        self._handed_out: Tree | None = None
        self._how: list[Any] = []
        self._known: _Known | None = None
        self._leaf_of: tuple[int, dict[str, int]] = (0, {})
        self._kept: tuple[int, Counts, Any] | None = None
        self._payload: dict[int, Any] = {}
        self._now()
        if payload is not None:
            self.describe(payload)

    def describe(self, payload: Sequence[Any]) -> None:
        """Say what is known of each point there is now."""
        positions = self._now().positions
        if len(payload) != len(positions):
            n = len(positions)
            raise ValueError(f"payload must have an entry for each of the {n:,} points; got {len(payload):,}")
        self._payload = dict(zip(positions.tolist(), payload, strict=True))

    # What is there now --------------------------------------------------------------------------------------------

    def latest(self) -> int:
        return 1 if self.model is None else self.model.read_fit(self._version_of)

    def _version_of(self, seen: Any) -> int:
        """The number of what a reader of the model sees; another one whenever it has changed."""
        # A model makes another tree after every change, and hands out the same one until then.
        tree, how = seen.tree(), [getattr(self.model, name, None) for name in CUT_BY]
        with self._lock:
            if tree is not self._handed_out or how != self._how:
                self._version, self._handed_out, self._how = self._version + 1, tree, how
            return self._version

    def _now(self) -> _Known:
        if self.model is None:
            assert self._tree is not None
            leaves = np.arange(self._tree.n_leaves)
            names = self._tree.names
            return _Known(1, self._tree, leaves, self._labels, leaves.tolist() if names is None else list(names))
        return self.model.read_fit(self._look)

    def _look(self, fitted: Any) -> _Known:
        version, known = self._version_of(fitted), self._known
        if known is None or known.version != version:
            labels = self.model.labels_ if self.model is not None and self._is_cut_at_once(fitted) else None
            known = _Known(version, fitted.tree(), fitted.positions(), labels, fitted.point_ids())
            self._known = known
        return known

    def _is_cut_at_once(self, fitted: Any) -> bool:
        """Whether the flat clusters are there without a long wait: the automatic cut of very many points is not."""
        is_automatic = self.model is not None and self.model.n_clusters is None and self.model.threshold is None
        is_found = not is_automatic or fitted.has_automatic or fitted.n_leaves <= MOST_FOR_LAYERS
        return fitted.n_leaves > 0 and is_found

    def see(self) -> Seen:
        known = self._now()
        labels = {} if known.labels is None else {"labels": known.labels}
        return Seen(known.version, known.tree, known.positions, known.positions, None, labels, {})

    # Points -------------------------------------------------------------------------------------------------------

    def points(self, keys: Iterable[int]) -> list[tuple[Id | None, Any]]:
        known, wanted = self._now(), np.array([int(key) for key in keys], np.int64)
        at = _leaves_at(known.positions, wanted).tolist()
        ids = [None if leaf < 0 else _plain_id(known.ids[leaf]) for leaf in at]
        return list(zip(ids, self.payloads(wanted), strict=True))

    def payloads(self, keys: Counts) -> Iterator[Any]:
        return (self._payload.get(key) for key in keys.tolist())

    def rows(self, keys: Counts) -> Any:
        if self.model is None:
            return None if self._vectors is None else self._vectors.rows_at(keys)
        _, positions, kept = self._kept_rows()
        if not kept.is_vectors:
            return None
        leaves = _leaves_at(positions, keys)
        found = kept.rows[leaves[leaves >= 0]]
        if scipy.sparse.issparse(found):
            return _spaced(_given(found, kept), leaves >= 0)
        rows: npt.NDArray[Any] = np.zeros((len(keys), kept.rows.shape[1]), found.dtype)
        rows[leaves >= 0] = _given(found, kept)
        return rows

    def _kept_rows(self) -> tuple[int, Counts, Any]:
        assert self.model is not None

        def look(fitted: Any) -> tuple[int, Counts, Any]:
            version = self._version_of(fitted)
            if self._kept is None or self._kept[0] != version:
                self._kept = version, fitted.positions(), fitted.points()
            return self._kept

        return self.model.read_fit(look)

    def columns(self) -> list[str] | None:
        names = getattr(self.model, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def metric(self) -> str:
        if self.model is None:
            return (None if self._vectors is None else self._vectors.metric) or "cosine"
        return metric_of(self._kept_rows()[2].linkage)

    def n_features(self) -> int | None:
        return getattr(self.model, "n_features_in_", None) if self._vectors is None else self._vectors.n_features

    def key_of(self, name: Id) -> int | None:
        known = self._now()
        version, leaf_of = self._leaf_of
        if version != known.version:
            leaf_of = {str(_plain_id(found)): i for i, found in enumerate(known.ids)}
            self._leaf_of = known.version, leaf_of
        leaf = leaf_of.get(str(name))
        return None if leaf is None else int(known.positions[leaf])

    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]:
        known, wanted = self._now(), text.lower()
        found: list[int] = []
        for key, name in zip(known.positions.tolist(), known.ids, strict=True):
            if wanted in f"{name}\n{all_text(self._payload.get(key))}".lower():
                found.append(key)
                if len(found) >= limit:
                    return found, False
        return found, True

    def place(self, row: Any) -> Place:
        model: Any = self.model
        if not isinstance(model, Grinch):
            raise ValueError("a point can be placed in the tree of a Grinch model or in a store; this is neither")

        def placed(fitted: Any) -> Place:
            known, engine = self._look(fitted), model.engine()
            places = model.places(row)
            nearest, beside = (fitted.public_ids(engine.numbered(nodes)) for nodes in (places.nearest, places.sibling))
            near = int(known.positions[nearest[0]]) if places.nearest[0] >= 0 else -1
            return Place(known.version, int(beside[0]), near, {"labels": int(model.predict(row)[0])})

        return model.read_fit(placed)

    # Clusters -----------------------------------------------------------------------------------------------------

    def layers(self, seen: Seen) -> list[Layer] | None:
        if self.model is not None:
            if self.latest() != seen.version:
                return None
            layers = self.model.layers_, self.model.layer_persistence_.tolist()
            return [Layer(*pair) for pair in zip(*layers, strict=True)]
        found = cuts.automatic_cut(seen.tree, None, seen.tree.heights())
        return [Layer(cuts.labels_of(seen.tree, layer.is_split), layer.persistence) for layer in found.layers]

    def changes(self, since: int, cut: str, limit: int, until: int) -> tuple[list[Change], bool]:
        return [], True

    def times(self) -> dict[int, float]:
        return {}

    def close(self) -> None:
        pass


def _leaves_at(positions: Counts, keys: Counts) -> Counts:
    """By key, the leaf with this position; -1 for none."""
    at = np.searchsorted(positions, keys)
    is_known = at < len(positions)
    is_known[is_known] = positions[at[is_known]] == keys[is_known]
    return np.where(is_known, at, -1)


def _given(rows: Any, kept: Kept) -> Any:
    """Rows as they were given, not as they are stored; but for their length, where only directions count."""
    if isinstance(kept.linkage, VectorLinkage) and kept.linkage.is_of_roots:
        return rows.multiply(rows).tocsr() if scipy.sparse.issparse(rows) else rows * rows
    return rows if scipy.sparse.issparse(rows) else rows / kept.scale + (0 if kept.origin is None else kept.origin)


def _spaced(rows: Any, is_known: Any) -> Any:
    """Sparse rows at these places, and empty ones between them."""
    sizes = np.zeros(len(is_known), np.int64)
    sizes[is_known] = np.diff(rows.indptr)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return scipy.sparse.csr_matrix((rows.data, rows.indices, indptr), shape=(len(is_known), rows.shape[1]))


def _plain_id(name: Any) -> Any:
    """An id as JSON can hold it."""
    if isinstance(name, np.generic):
        name = name.item()
    return name if isinstance(name, (str, int)) and not isinstance(name, bool) else str(name)


def all_text(payload: Any) -> str:
    """All that a payload says, without the names of its fields."""
    if isinstance(payload, Mapping):
        return "\n".join(map(str, payload.values()))
    return "" if payload is None else str(payload)
