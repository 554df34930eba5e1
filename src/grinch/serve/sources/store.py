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
from grinch.store import Store
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.queries import Look, View

Found = TypeVar("Found")


class StoreSource:
    """A store, open for reading or for writing."""

    kind, has_versions = "store", True

    def __init__(self, store: Store, title: str | None = None):
        self.store = store
        self.title = title or store.folder.resolve().name
        self.names_file: Path | None = store.folder / NAMES_FILE
        self._metric: str | None = None

    def _ask(self, ask: Callable[[View], Found], *, placing: bool = False) -> Found:
        """Return what ``ask`` finds in the last version; beside a change, in the one before."""
        with self.store.view(placing=placing) as view:
            return ask(view)

    def latest(self) -> int:
        return self.store.refresh()

    def see(self) -> Seen:
        look: Look = self._ask(lambda view: view.look())
        return Seen(
            look.version, look.tree, look.positions, look.arrived, look.times, look.cuts, look.names, look.drifted
        )

    def points(self, keys: Iterable[int]) -> list[tuple[Id | None, Any]]:
        asked = list(keys)
        return self._ask(lambda view: view.points_at(asked))

    def payloads(self, keys: Counts) -> Iterator[Any]:
        for start in range(0, len(keys), 1_000):
            yield from (payload for _, payload in self.points(keys[start : start + 1_000]))

    def rows(self, keys: Counts) -> npt.NDArray[Any] | None:
        return self._ask(lambda view: view.rows_at(keys))

    def columns(self) -> list[str] | None:
        return self._ask(lambda view: view.columns)

    def metric(self) -> str:
        if self._metric is None:
            about = self._ask(lambda view: view.info())
            self._metric = metric_of(linkage_of(about["linkage"], about["metric"]))
        return self._metric

    def n_features(self) -> int | None:
        return self._ask(lambda view: view.n_features)

    def key_of(self, name: Id) -> int | None:
        return self._ask(lambda view: view.position_of(name))

    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]:
        return self.store.find_text(text, limit)

    def place(self, row: Any) -> Place:
        def placed(view: View) -> Place:
            version, found = view.place(row)
            clusters = {name: int(view.predict(row, name)[0]) for name in view.cut_names}
            return Place(version, *found[0], clusters)

        return self._ask(placed, placing=True)

    def layers(self, seen: Seen) -> list[Layer] | None:
        version, found = self.store.layers()
        return [Layer(*pair) for pair in found] if version == seen.version and seen.tree.n_leaves else None

    def changes(self, since: int, cut: str, limit: int, until: int) -> tuple[list[Change], bool]:
        return self._ask(lambda view: view.latest_changes(since, cut, limit, until))

    def times(self) -> dict[int, float]:
        return self._ask(lambda view: view.times())

    def close(self) -> None:
        self.store.close()
