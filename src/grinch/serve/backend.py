"""What the service is asked about: a store, or a model or tree that does not change."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from grinch import cuts
from grinch._types import Labels
from grinch.errors import unknown_name
from grinch.serve.sources import MemorySource
from grinch.store import Store
from grinch.store.queries import DEFAULT_CUT, View
from grinch.tree import Tree

# A store that another process writes is refreshed when it was last looked at this many seconds ago.
FRESH = 1.0

Found = TypeVar("Found")


class Shape(NamedTuple):
    """What rows are like: how many numbers, and how they are kept; None where that is not known yet."""

    width: int | None
    dtype: str | None
    is_of_records: bool = False


class Desk(Protocol):
    """Where reading requests are answered; ``read`` hands out what has the face of a store."""

    kind: str

    def read(self, ask: Callable[[Any], Found], *, placing: bool = False) -> Found: ...
    def tree(self) -> tuple[int, Tree]: ...
    def tree_and_ids(self) -> tuple[int, Tree, list[Any]]: ...
    def shape(self) -> Shape: ...


class StoreDesk:
    """A store that is read while it is written."""

    kind = "store"

    def __init__(self, store: Store):
        self.store = store
        self.known: Shape | None = None
        self._looked_at = time.monotonic()

    def read(self, ask: Callable[[View], Found], *, placing: bool = False) -> Found:
        """Return what ``ask`` finds in the last version; beside a change, in the one before."""
        if self.store.is_readonly and time.monotonic() - self._looked_at > FRESH:
            self._looked_at = time.monotonic()
            self.store.refresh()
        with self.store.view(placing=placing) as view:
            return ask(view)

    def tree(self) -> tuple[int, Tree]:
        """The version, and the tree without names."""
        return self.read(lambda view: (view.version, view.bare_tree))

    def tree_and_ids(self) -> tuple[int, Tree, list[Any]]:
        """The same with the ids of that version, in the order of the leaves."""
        return self.read(lambda view: (view.version, view.bare_tree, view.ids))

    def shape(self) -> Shape:
        """Never changes once there are points."""
        if self.known is None:
            found, n = self.read(lambda view: (self._shape(view), len(view)))
            self.known = found if n else None
            return found
        return self.known

    @staticmethod
    def _shape(view: View) -> Shape:
        return Shape(view.n_features, view.dtype, view.n_features is None and len(view) > 0)


class FixedDesk:
    """A model or a tree."""

    def __init__(self, source: MemorySource):
        self.kind, self._fixed = source.kind, _Fixed(source)

    def read(self, ask: Callable[[Any], Found], *, placing: bool = False) -> Found:
        return ask(self._fixed)

    def tree(self) -> tuple[int, Tree]:
        return self._fixed.version, self._fixed.bare_tree

    def tree_and_ids(self) -> tuple[int, Tree, list[Any]]:
        return *self.tree(), self._fixed.ids

    def shape(self) -> Shape:
        return Shape(self._fixed.source.n_features(), None, self._fixed.source.n_features() is None)


class _Fixed:
    """A model or a tree with the face of a store that has one version."""

    version = 1

    def __init__(self, source: MemorySource):
        self.source = source
        self.seen = source.see()
        self.bare_tree = self.seen.tree
        self._labels = self.seen.cuts.get("labels")
        self.ids = [name for name, _ in source.points(self.seen.keys)]
        self._keys = dict(zip(self.ids, self.seen.keys.tolist(), strict=True))

    def __len__(self) -> int:
        return self.seen.tree.n_leaves

    def labels(self, cut: str = DEFAULT_CUT) -> Labels:
        if cut != DEFAULT_CUT:
            raise unknown_name("cut", cut, [DEFAULT_CUT])
        if self._labels is None and self.source.model is not None:
            self._labels = self.source.model.labels_
        if self._labels is None:
            raise ValueError("a tree alone has no cut of its own: give n_clusters or threshold")
        return self._labels

    def clusters(self, cut: str = DEFAULT_CUT) -> dict[int, list[Any]]:
        labels = self.labels(cut)
        order = np.argsort(labels, kind="stable")
        numbers, starts = np.unique(labels[order], return_index=True)
        groups = zip(numbers.tolist(), np.split(order, starts[1:]), strict=False)
        return {number: [self.ids[i] for i in group.tolist()] for number, group in groups if number >= 0}

    def names(self, cut: str = DEFAULT_CUT, *, gone: bool = False) -> dict[int, str]:
        return {}

    def changes(self, since: int = 0, cut: str | None = DEFAULT_CUT) -> list[Any]:
        return []

    def payload(self, ids: list[Any]) -> list[Any]:
        return [payload for _, payload in self.source.points(self._found(ids))]

    def vectors(self, ids: list[Any]) -> Any:
        raise ValueError("a model does not keep its points as they were given; a store does")

    def _found(self, ids: list[Any]) -> list[int]:
        missing = next((name for name in ids if name not in self._keys), None)
        if missing is not None:
            raise ValueError(f"ids must name points that are there; {missing!r:.80} is not")
        return [self._keys[name] for name in ids]

    def predict(self, X: Any, cut: str = DEFAULT_CUT) -> Labels:
        self.labels(cut)
        model: Any = self.source.model
        if not hasattr(model, "predict"):
            raise ValueError("X cannot be placed: this is a tree alone, or a model that cannot predict")
        found: Labels = model.predict(X)
        return found

    def info(self) -> dict[str, Any]:
        source = self.source
        about = {"n_features": source.n_features(), "columns": source.columns()}
        return {"points": len(self), "version": self.version, **about, "title": source.title}


def cut_tree(tree: Tree, n_clusters: int | None, threshold: float | None) -> Labels:
    """The clusters of a tree at a number or a threshold, numbered as their first points came."""
    if not tree.n_leaves:
        return np.empty(0, np.int64)
    if threshold is not None:
        return cuts.cut_threshold(tree, threshold)
    return cuts.cut_sizeable(tree, n_clusters or 1)
