"""Names that users gave to nodes, matched to the tree of any version."""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np

from grinch.serve.backend import Backend, sampled
from grinch.serve.views.scene import Scene
from grinch.store.damage import DamagedStore, is_full
from grinch.store.node_names import MAX_POINTS, MIN_SIMILARITY, NodeName, NodeNames, check_name
from grinch.tree.blocks import nodes_above

log = logging.getLogger("grinch.serve")


class NamedNodes:
    """The names of a backend's nodes, in a file beside it; ``scene.names`` has those of a scene by node."""

    def __init__(self, backend: Backend):
        self._backend = backend
        self._file = None if backend.names_file is None else NodeNames(backend.names_file)
        self._lock = threading.RLock()
        if self._file is not None:
            self._file.all()  # a file that cannot be read is refused at once

    def fields(self) -> dict[str, str]:
        """Return the fields of the payload that were named before, by their purpose."""
        return {} if self._file is None else self._file.fields()

    def name_fields(self, fields: dict[str, str | None]) -> None:
        """Remember fields of the payload, where that is possible."""
        if self._file is None or all(self.fields().get(purpose) == name for purpose, name in fields.items()):
            return
        try:
            self._file.name_fields(**fields)
        except OSError as error:
            log.warning("the named fields are not remembered: %s", error)

    def update(self, scene: Scene) -> None:
        """Read the names of a scene again if the file has changed; another process may have written it."""
        if self._file is None:
            return
        with self._lock:
            state = self._file.state()
            if state != scene.names_state:
                matched = {} if state is None else self._match(scene)
                scene.names_state, scene.names = state, {v: names[-1].name for v, names in matched.items()}

    def give(self, scene: Scene, v: int, name: str | None) -> str | None:
        """Give a node a name, or remove its name with None; returns the name as it is stored."""
        if self._file is None:
            raise ValueError("names cannot be stored here: the tree is not from a file")
        with self._lock:
            old = self._match(scene).get(v, [])
            if name is None:
                # Earlier names that matched this node, too: otherwise one of them would appear.
                self._file.drop([known.number for known in old])
            else:
                name, points = check_name(name), self._points(scene, v)
                try:
                    self._file.add(name, points, int(scene.sizes[v]), scene.n)
                except OSError as error:
                    if is_full(error):
                        raise
                    raise ValueError(f"name cannot be kept: {error}") from error
                self._file.drop([known.number for known in old[-1:]])
            self.update(scene)
            return name

    def _points(self, scene: Scene, v: int) -> list[Any]:
        leaves = scene.leaves(v)[sampled(int(scene.sizes[v]), MAX_POINTS)]
        ids = [name for name, _ in self._backend.points(scene.look.positions[leaves]) if name is not None]
        if not ids:
            raise ValueError(f"node {v} cannot be named: its points were removed meanwhile")
        return ids

    def _match(self, scene: Scene) -> dict[int, list[NodeName]]:
        """Return the names of each node, the latest last; none if the file is damaged, as the tree can be shown."""
        assert self._file is not None
        matched: dict[int, list[NodeName]] = {}
        try:
            for given in self._file.all():
                v = node_of(scene, given, self._leaves(scene, given))
                if v is not None:
                    matched.setdefault(v, []).append(given)
        except DamagedStore as error:
            log.warning("names of nodes are not shown: %s", error)
            return {}
        return matched

    def _leaves(self, scene: Scene, given: NodeName) -> list[int]:
        def ask(view: Any) -> set[int]:
            return {position for point in given.points if (position := view.position_of(point)) is not None}

        leaves = (scene.leaf_at(position) for position in sorted(self._backend.read(ask)))
        return [leaf for leaf in leaves if leaf is not None]


def node_of(scene: Scene, given: NodeName, leaves: list[int]) -> int | None:
    """Return the node that has most of the points of a name and little else; None if there is none."""
    if not leaves:
        return None
    nodes, counts = nodes_above(scene.tree, np.array(leaves, np.int32))
    sizes = scene.sizes[nodes]
    scores = given.similarities(len(leaves), counts, sizes, scene.n)
    # Of several equally good ones, the smallest.
    best = int(np.lexsort((sizes, -scores))[0])
    return int(nodes[best]) if scores[best] > MIN_SIMILARITY else None
