"""The protocol between a clustering and whatever shows or serves it, and its form over a store.

A :class:`Backend` is a store, or a model or tree in memory (:mod:`grinch.serve.model_backend`). Everything is read from
one of its versions, a :class:`View`; a store has such views already (:class:`grinch.store.queries.View`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from grinch._checks import check_count
from grinch._types import Counts, Ids, Labels
from grinch.cuts.tracking import Change
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage, linkage_of
from grinch.store import Store
from grinch.store.digest import Digest
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.queries import DEFAULT_CUT, Look
from grinch.tree import Tree

Id = Any
Answer = TypeVar("Answer")

# The automatic cut and the layers of more points than this take a while and block other readers: only on request.
MAX_POINTS_FOR_LAYERS = 100_000
# Seconds after which a store that another process writes is refreshed before it is read.
REFRESH_INTERVAL = 1.0
PAYLOADS_PER_READ = 1_000


class Layer(NamedTuple):
    """The clusters of one resolution, by leaf, and their persistence, from 0 to 1."""

    labels: Labels
    persistence: float


class View(Protocol):
    """One version of a backend: the reading methods of a store, and those that the explorer needs.

    The latter ask for points by the positions of :class:`~grinch.store.queries.Look`.
    """

    @property
    def version(self) -> int: ...
    @property
    def ids(self) -> list[Id]: ...
    def __len__(self) -> int: ...
    def labels(self, cut: str = DEFAULT_CUT) -> Labels: ...
    def clusters(self, cut: str = DEFAULT_CUT) -> dict[int, list[Id]]: ...
    def names(self, cut: str = DEFAULT_CUT, *, gone: bool = False) -> dict[int, str]: ...
    def changes(self, since: int = 0, cut: str | None = DEFAULT_CUT) -> list[Change]: ...
    def payload(self, ids: Any) -> list[Any]: ...
    def vectors(self, ids: Any) -> Any: ...
    def predict(self, X: Any, cut: str = DEFAULT_CUT) -> Labels: ...
    def info(self) -> dict[str, Any]: ...
    @property
    def bare_tree(self) -> Tree: ...
    @property
    def n_features(self) -> int | None: ...
    @property
    def dtype(self) -> str | None: ...
    @property
    def columns(self) -> list[str] | None: ...
    @property
    def cut_names(self) -> list[str]: ...
    def look(self) -> Look: ...
    def points_at(self, positions: Any) -> list[tuple[Id | None, Any]]: ...
    def rows_at(self, positions: Counts) -> Any: ...
    def position_of(self, name: Id) -> int | None: ...
    def place(self, X: Any) -> tuple[int, list[tuple[int, int]]]: ...
    def digest(
        self, since: int = 0, limit: int = 10, cut: str = DEFAULT_CUT, *, until: int | None = None
    ) -> Digest: ...
    def times(self) -> dict[int, float]: ...


class Backend(ABC):
    """A clustering that is shown or served.

    ``kind`` is "store", "model" or "tree"; ``names_file`` is where names of nodes are kept, None if they cannot be;
    ``has_neighbors``: it knows the nearest neighbours of each point.
    """

    title: str
    kind: str
    has_versions = has_neighbors = False
    names_file: Path | None = None

    @abstractmethod
    def view(self, *, placing: bool = False) -> AbstractContextManager[View]:
        """Return the last version as a context manager; ``placing``: it is asked to predict or to place."""

    @abstractmethod
    def latest(self) -> int:
        """Return the newest version, after looking for changes by others."""

    @abstractmethod
    def metric(self) -> str:
        """Return "cosine" if vectors are compared by direction, "euclidean" if by distance."""

    @abstractmethod
    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]:
        """Return positions of points with a text in their id or payload, and whether all points were searched."""

    @abstractmethod
    def layers(self) -> tuple[int, list[Layer]]:
        """Return the version and the resolutions of the automatic cut, finest first."""

    def neighbors(self) -> tuple[Counts, Ids]:
        """Return the positions of all points, and the nearest neighbours of each as numbers into these, -1 for none."""
        raise NotImplementedError

    def can_place(self) -> bool:
        """Return whether new points can be placed in the tree."""
        return True

    def refresh_if_due(self) -> None:  # noqa: B027 (only stores have something to do)
        """Take in changes by other processes, at most once a second."""

    def close(self) -> None:  # noqa: B027
        """Close files that are open."""

    def read(self, ask: Callable[[View], Answer], *, placing: bool = False) -> Answer:
        """Return the answer of a function of the last version; during a change, of the version before it."""
        with self.view(placing=placing) as view:
            return ask(view)

    def points(self, positions: Iterable[int]) -> list[tuple[Id | None, Any]]:
        """Return id and payload of points; an id of None for points that were removed."""
        asked = [int(position) for position in positions]
        return self.read(lambda view: view.points_at(asked))

    def payloads(self, positions: Counts) -> Iterator[Any]:
        """Yield the payloads of points."""
        for start in range(0, len(positions), PAYLOADS_PER_READ):
            yield from (payload for _, payload in self.points(positions[start : start + PAYLOADS_PER_READ]))

    def rows(self, positions: Counts) -> Any:
        """Return the rows of points, dense or as a CSR matrix; None if points are not vectors."""
        return self.read(lambda view: view.rows_at(positions))

    def position_of(self, name: Id) -> int | None:
        """Return the position of the point with an id; None if there is none."""
        return self.read(lambda view: view.position_of(name))

    @property
    def n_features(self) -> int | None:
        return self.read(lambda view: view.n_features)

    @property
    def columns(self) -> list[str] | None:
        return self.read(lambda view: view.columns)


class StoreBackend(Backend):
    """A store, open for reading or for writing."""

    kind, has_versions, has_neighbors = "store", True, True

    def __init__(self, store: Store):
        self.store = store
        self.title = store.folder.resolve().name
        self.names_file = store.folder / NAMES_FILE
        self._metric: str | None = None
        self._refreshed_at = time.monotonic()

    def view(self, *, placing: bool = False) -> AbstractContextManager[View]:
        return self.store.view(placing=placing)

    def latest(self) -> int:
        return self.store.refresh(wait=False)

    def refresh_if_due(self) -> None:
        if self.store.is_readonly and time.monotonic() - self._refreshed_at > REFRESH_INTERVAL:
            self._refreshed_at = time.monotonic()
            self.store.refresh(wait=False)

    def metric(self) -> str:
        if self._metric is None:
            about = self.read(lambda view: view.info())
            self._metric = metric_of(linkage_of(about["linkage"], about["metric"]))
        return self._metric

    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]:
        return self.store.find_text(text, limit)

    def layers(self) -> tuple[int, list[Layer]]:
        version, layers = self.store.layers()
        return version, [Layer(*pair) for pair in layers]

    def neighbors(self) -> tuple[Counts, Ids]:
        return self.store.neighbors()

    def close(self) -> None:
        self.store.close()


def metric_of(linkage: VectorLinkage | Linkage) -> str:
    """Return "cosine" if a linkage compares directions, "euclidean" if it compares distances."""
    if isinstance(linkage, VectorLinkage):
        return "euclidean" if linkage.leaf_metric == "sqeuclidean" else "cosine"
    return "cosine" if getattr(linkage, "distance", None) == "cosine" else "euclidean"


def sampled(n: int, max_count: int) -> Counts:
    """Return up to ``max_count`` numbers from 0 to n - 1, evenly spread.

    >>> sampled(10, 4).tolist()
    [1, 3, 6, 8]
    """
    check_count("max_count", max_count, 1)
    if n <= max_count:
        return np.arange(n)
    return ((np.arange(max_count) + 0.5) * n / max_count).astype(np.int64)
