"""A store that is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt

from grinch._types import Counts
from grinch.cuts.tracking import Change
from grinch.linkage.named import linkage_of
from grinch.serve.sources.base import Id, Layer, Place, Seen, metric_of
from grinch.store.face import AnyStore
from grinch.store.looking import Look
from grinch.store.node_names import FILE as NAMES_FILE

Found = TypeVar("Found")


class StoreSource:
    """A store, plain or sharded, open for reading or for writing."""

    kind, has_versions = "store", True

    def __init__(self, store: AnyStore, title: str | None = None):
        self.store = store
        self.title = title or store.folder.resolve().name
        self.names_file: Path | None = store.folder / NAMES_FILE
        self._metric: str | None = None

    def _ask(self, ask: Callable[[Any], Found]) -> Found:
        """What ``ask`` finds in the store."""
        return ask(self.store)

    def latest(self) -> int:
        return self.store.refresh()

    def see(self) -> Seen:
        look: Look = self._ask(lambda store: store.look())
        return Seen(
            look.version, look.tree, look.positions, look.arrived, look.times, look.cuts, look.names, look.drifted
        )

    def points(self, keys: Iterable[int]) -> list[tuple[Id | None, Any]]:
        asked = list(keys)
        return self._ask(lambda store: store.points_at(asked))

    def payloads(self, keys: Counts) -> Iterator[Any]:
        for start in range(0, len(keys), 1_000):
            yield from (payload for _, payload in self.points(keys[start : start + 1_000]))

    def rows(self, keys: Counts) -> npt.NDArray[Any] | None:
        return self._ask(lambda store: store.rows_at(keys))

    def columns(self) -> list[str] | None:
        return self._ask(lambda store: store.columns)

    def metric(self) -> str:
        if self._metric is None:
            about = self._ask(lambda store: store.info())
            self._metric = metric_of(linkage_of(about["linkage"], about["metric"]))
        return self._metric

    def n_features(self) -> int | None:
        return self._ask(lambda store: store.n_features)

    def key_of(self, name: Id) -> int | None:
        return self._ask(lambda store: store.position_of(name))

    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]:
        return self.store.find_text(text, limit)

    def place(self, row: Any) -> Place:
        def placed(store: Any) -> Place:
            with store._turn:
                version, found = store.place(row)
                clusters = {name: int(store.predict(row, name)[0]) for name in store.cut_names}
            beside, nearest = found[0]
            return Place(version, beside, nearest, clusters)

        return self._ask(placed)

    def layers(self, seen: Seen) -> list[Layer] | None:
        # In a turn although it takes long: a store changes its model in more ways than the model's own, and two
        # threads inside would leave it taken for busy for good.
        with self.store._turn:
            if self.store.version != seen.version or not seen.tree.n_leaves:
                return None
            return [Layer(*pair) for pair in self.store.layers()]

    def changes(self, since: int, cut: str, limit: int, until: int) -> tuple[list[Change], bool]:
        return self._ask(lambda store: store.latest_changes(since, cut, limit, until))

    def times(self) -> dict[int, float]:
        return self._ask(lambda store: store.times())

    def close(self) -> None:
        self.store.close()
