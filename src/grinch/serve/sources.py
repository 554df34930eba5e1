"""Where the trees come from that are looked at: stores, models, and files of other programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from grinch import cuts
from grinch._checks import check_count
from grinch._types import Counts, Floats, Labels
from grinch.estimators.base import TreeClusterer
from grinch.estimators.kept import kept_points
from grinch.files.read import FileError
from grinch.linkage.base import VectorLinkage
from grinch.saving.file import MAGIC, load
from grinch.store.changes import Change
from grinch.store.database import FILE as STORE_FILE
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.opening import open as open_store
from grinch.store.store import Store
from grinch.tree import Tree

Id = Any


class Seen(NamedTuple):
    """A tree at one version; arrays are by leaf.

    ``keys``: by which the source knows the points; ``arrived``: the version in which each came (or its number, where
    there are no versions); ``times``: when, in seconds since 1970; ``cuts``: cluster ids by name of the cut;
    ``cluster_names``: by cut, the names of clusters.
    """

    version: int
    tree: Tree
    keys: Counts
    arrived: Counts
    times: Floats | None
    cuts: dict[str, Labels]
    cluster_names: dict[str, dict[int, str]]


class Layer(NamedTuple):
    """The clusters of one resolution, by leaf, and how long they last, from 0 to 1."""

    labels: Labels
    persistence: float


class Source(Protocol):
    """What is looked at. ``keys`` are those of :class:`Seen`, so that points are found although others came since."""

    title: str
    kind: str
    has_versions: bool
    names_file: Path | None

    def latest(self) -> int: ...
    def see(self) -> Seen: ...
    def points(self, keys: Iterable[int]) -> list[tuple[Id | None, Any]]: ...
    def payloads(self, keys: Counts) -> Iterator[Any]: ...
    def rows(self, keys: Counts) -> npt.NDArray[Any] | None: ...
    def columns(self) -> list[str] | None: ...
    def metric(self) -> str: ...
    def n_features(self) -> int | None: ...
    def key_of(self, name: Id) -> int | None: ...
    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]: ...
    def place(self, row: Any) -> tuple[int, int, int]: ...
    def layers(self, seen: Seen) -> list[Layer] | None: ...
    def changes(self, since: int, cut: str, limit: int) -> tuple[list[Change], bool]: ...
    def times(self) -> dict[int, float]: ...
    def close(self) -> None: ...


class StoreSource:
    """A store, open for reading or for writing."""

    kind, has_versions = "store", True

    def __init__(self, store: Store, title: str | None = None):
        self.store = store
        self.title = title or store.folder.resolve().name
        self.names_file: Path | None = store.folder / NAMES_FILE

    def latest(self) -> int:
        return self.store.refresh()

    def see(self) -> Seen:
        look = self.store.look()
        return Seen(look.version, look.tree, look.positions, look.arrived, look.times, look.cuts, look.names)

    def points(self, keys: Iterable[int]) -> list[tuple[Id | None, Any]]:
        return self.store.points_at(keys)

    def payloads(self, keys: Counts) -> Iterator[Any]:
        for start in range(0, len(keys), 1_000):
            yield from (payload for _, payload in self.store.points_at(keys[start : start + 1_000]))

    def rows(self, keys: Counts) -> npt.NDArray[Any] | None:
        rows: npt.NDArray[Any] | None = self.store.rows_at(keys)
        return rows

    def columns(self) -> list[str] | None:
        return self.store.columns

    def metric(self) -> str:
        return _metric_of(self.store._now().model)

    def n_features(self) -> int | None:
        return self.store.n_features

    def key_of(self, name: Id) -> int | None:
        return self.store.position_of(name)

    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]:
        return self.store.find_text(text, limit)

    def place(self, row: Any) -> tuple[int, int, int]:
        version, found = self.store.place(row)
        return version, *found[0]

    def layers(self, seen: Seen) -> list[Layer] | None:
        with self.store._turn:
            contents = self.store._now()
            if contents.version != seen.version or not contents.n_points:
                return None
            model = contents.model
            return [Layer(*pair) for pair in zip(model.layers_, model.layer_persistence_.tolist(), strict=True)]

    def changes(self, since: int, cut: str, limit: int) -> tuple[list[Change], bool]:
        return self.store.latest_changes(since, cut, limit)

    def times(self) -> dict[int, float]:
        return self.store.times()

    def close(self) -> None:
        self.store.close()


class MemorySource:
    """A model, or a tree alone, with what is known of its points.

    ``payload`` is a sequence with an entry for each point: a text, or a mapping.
    """

    has_versions = False

    def __init__(
        self,
        looked_at: TreeClusterer | Tree,
        title: str = "",
        *,
        payload: Sequence[Any] | None = None,
        names_file: Path | None = None,
    ):
        self.model = looked_at if isinstance(looked_at, TreeClusterer) else None
        self.kind = "tree" if self.model is None else "model"
        self._tree = looked_at if isinstance(looked_at, Tree) else None
        self.title = title or (type(looked_at).__name__ if self.model is not None else "tree")
        self.names_file = names_file
        self._payload = payload
        self._version, self._state = 0, None
        self._kept: Any = None
        self._ids: list[Any] | None = None
        self._leaf_of: dict[Any, int] | None = None
        n = self._n()
        if payload is not None and len(payload) != n:
            raise ValueError(f"payload must have an entry for each of the {n:,} points; got {len(payload):,}")

    def _n(self) -> int:
        return int(self.model.n_leaves_) if self.model is not None else (self._tree or Tree()).n_leaves

    def latest(self) -> int:
        state: Any = None if self.model is None else (self._n(), tuple(self.model.stats_.values()))
        if state != self._state or not self._version:
            self._version, self._state = self._version + 1, state
            self._kept = self._ids = self._leaf_of = None
        return self._version

    def see(self) -> Seen:
        version = self.latest()
        tree = self._tree if self.model is None else self.model.tree_
        assert tree is not None
        leaves = np.arange(tree.n_leaves)
        labels = {} if self.model is None else {"labels": self.model.labels_}
        return Seen(version, tree, leaves, leaves, None, labels if tree.n_leaves else {}, {})

    def _all_ids(self) -> list[Any]:
        if self._ids is None:
            names = self._tree.names if self._tree is not None else None
            self._ids = self.model.ids_ if self.model is not None else names or list(range(self._n()))
        return self._ids

    def points(self, keys: Iterable[int]) -> list[tuple[Id | None, Any]]:
        ids, payload = self._all_ids(), self._payload
        there = [int(key) for key in keys]
        return [(_plain_id(ids[key]), None if payload is None else payload[key]) for key in there]

    def payloads(self, keys: Counts) -> Iterator[Any]:
        payload = self._payload
        return iter([None] * len(keys)) if payload is None else (payload[key] for key in keys.tolist())

    def rows(self, keys: Counts) -> npt.NDArray[Any] | None:
        if self.model is None:
            return None
        if self._kept is None:
            self._kept = self.model._read(lambda fitted: kept_points(fitted))
        kept = self._kept
        if not kept.is_vectors:
            return None
        found = kept.rows[keys]
        dense: npt.NDArray[Any] = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
        return dense

    def columns(self) -> list[str] | None:
        names = getattr(self.model, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def metric(self) -> str:
        return "cosine" if self.model is None else _metric_of(self.model)

    def n_features(self) -> int | None:
        return getattr(self.model, "n_features_in_", None)

    def key_of(self, name: Id) -> int | None:
        if self._leaf_of is None:
            self._leaf_of = {str(_plain_id(found)): i for i, found in enumerate(self._all_ids())}
        return self._leaf_of.get(str(name))

    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]:
        wanted, found = text.lower(), []
        for key, name in enumerate(self._all_ids()):
            content = "" if self._payload is None else _all_text(self._payload[key])
            if wanted in f"{name}\n{content}".lower():
                found.append(key)
                if len(found) >= limit:
                    return found, False
        return found, True

    def place(self, row: Any) -> tuple[int, int, int]:
        model: Any = self.model
        if not hasattr(model, "_engine"):
            raise ValueError("a point can be placed in the tree of a Grinch model or in a store; this is neither")

        def placed(fitted: Any) -> tuple[int, int]:
            engine = model._engine()
            places = engine.place(model._validate(row, reset=False).rows)
            nearest, beside = (fitted.public_ids(engine.numbered(nodes)) for nodes in (places.nearest, places.sibling))
            return int(beside[0]), int(nearest[0])

        version = self.latest()
        return version, *model._read(placed)

    def layers(self, seen: Seen) -> list[Layer] | None:
        if self.model is not None:
            layers = self.model.layers_, self.model.layer_persistence_.tolist()
            return [Layer(*pair) for pair in zip(*layers, strict=True)]
        found = cuts.automatic_cut(seen.tree, None, seen.tree.heights())
        return [Layer(cuts.labels_of(seen.tree, layer.is_split), layer.persistence) for layer in found.layers]

    def changes(self, since: int, cut: str, limit: int) -> tuple[list[Change], bool]:
        return [], True

    def times(self) -> dict[int, float]:
        return {}

    def close(self) -> None:
        pass


def open_source(path: str | os.PathLike[str], *, payload: Sequence[Any] | None = None) -> StoreSource | MemorySource:
    """What is at a path: a store (a folder), a saved model, a scipy linkage matrix (.npy), or a tree in Newick."""
    found = Path(path)
    if found.is_dir():
        if not (found / STORE_FILE).exists():
            raise FileError(
                f"PATH {str(found)!r} is a folder without a store in it; make one with: grinch add STORE FILE"
            )
        if payload is not None:
            raise ValueError("payload is for models and trees; the points of a store have their own")
        return StoreSource(open_store(found, readonly=True))
    if not found.exists():
        raise FileError(
            f"PATH {str(found)!r} does not exist; give a store, a saved model, a linkage.npy or a Newick file"
        )
    names_file = found.with_name(f"{found.name}.names")
    with open(found, "rb") as file:
        start = file.read(64)
    looked_at: TreeClusterer | Tree
    if start.startswith(MAGIC):
        looked_at = load(found)
    elif start.startswith(b"\x93NUMPY"):
        looked_at = Tree.from_scipy(np.load(found, allow_pickle=False))
    elif start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"(", b"[")):
        looked_at = Tree.from_newick(found.read_text("utf-8"))
    else:
        raise FileError(
            f"PATH {str(found)!r} is none of what can be looked at: a store (a folder), a model saved by save(),"
            " scipy's linkage matrix (.npy), or a tree in Newick"
        )
    return MemorySource(looked_at, found.name, payload=payload, names_file=names_file)


def _metric_of(model: Any) -> str:
    """How vectors are compared: by direction or by distance."""
    linkage = getattr(getattr(model, "_fitted", None), "linkage", None) or getattr(model, "linkage", "")
    if isinstance(linkage, VectorLinkage):
        return "euclidean" if linkage.leaf_metric == "sqeuclidean" else "cosine"
    if isinstance(linkage, str):
        metric = getattr(model, "metric", None)
        is_distance = linkage in ("ward", "centroid") or metric not in (None, "cosine", "dot")
        return "euclidean" if is_distance else "cosine"
    return "cosine" if getattr(linkage, "distance", "cosine") == "cosine" else "euclidean"


def _plain_id(name: Any) -> Any:
    """An id as JSON can hold it."""
    if isinstance(name, np.generic):
        name = name.item()
    return name if isinstance(name, (str, int)) and not isinstance(name, bool) else str(name)


def _all_text(payload: Any) -> str:
    return payload if isinstance(payload, str) else "\n".join(map(str, payload.values())) if payload else ""


def sampled(n: int, most: int) -> Counts:
    """Up to ``most`` numbers from 0 to n - 1, evenly spread.

    >>> sampled(10, 4).tolist()
    [1, 3, 6, 8]
    """
    check_count("most", most, 1)
    if n <= most:
        return np.arange(n)
    return ((np.arange(most) + 0.5) * n / most).astype(np.int64)
