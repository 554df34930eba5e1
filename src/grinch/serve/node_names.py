"""Names that people gave to nodes, found again in the tree of any version."""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np

from grinch.serve.sources import Source, sampled
from grinch.serve.views.scene import Scene
from grinch.store.damage import DamagedStore, is_full
from grinch.store.node_names import MAX_POINTS, NodeName, NodeNames, check_name
from grinch.tree.blocks import nodes_above

log = logging.getLogger("grinch.serve")

# A name stays with a node that shares at least this much with the one it was given to: of the points of either, the
# share that both have.
LEAST_SHARED = 1 / 3


class GivenNames:
    """The names of a source; kept in a file beside it, and in memory where there is none."""

    def __init__(self, source: Source):
        self._source = source
        self._file = None if source.names_file is None else NodeNames(source.names_file)
        self._lock = threading.RLock()
        # By version, the state of the file, and by node its names, the latest last.
        self._known: dict[int, tuple[object, dict[int, list[NodeName]]]] = {}
        if self._file is not None:
            self._file.all()  # a file that cannot be read is refused at once

    def at(self, scene: Scene) -> dict[int, str]:
        """By node of a scene, the name it was given."""
        return {v: names[-1].name for v, names in self._found(scene).items()}

    def give(self, scene: Scene, v: int, name: str | None) -> str | None:
        """Give a node a name, or take it away with None; the name as it is kept."""
        if self._file is None:
            raise ValueError("names cannot be kept here: what is looked at is not in a file")
        with self._lock:
            old = self._found(scene).get(v, [])
            if name is None:
                # Earlier names that led here, too: otherwise one of them would come to light.
                self._file.drop([known.number for known in old])
                return None
            text, points = check_name(name), self._points(scene, v)
            try:
                self._file.add(text, points, int(scene.sizes[v]), scene.n)
            except OSError as error:
                if is_full(error):
                    raise
                raise ValueError(f"name cannot be kept: {error}") from error
            self._file.drop([known.number for known in old[-1:]])
            return text

    def _points(self, scene: Scene, v: int) -> list[Any]:
        leaves = scene.leaves(v)[sampled(int(scene.sizes[v]), MAX_POINTS)]
        found = [name for name, _ in self._source.points(scene.seen.keys[leaves]) if name is not None]
        if not found:
            raise ValueError(f"node {v} cannot be named: its points were removed meanwhile")
        return found

    def _find_or_none(self, scene: Scene) -> dict[int, list[NodeName]]:
        """The names; none where the file is damaged, which is no reason not to show the tree."""
        try:
            return self._find(scene)
        except DamagedStore as error:
            log.warning("names of nodes are not shown: %s", error)
            return {}

    def _found(self, scene: Scene) -> dict[int, list[NodeName]]:
        if self._file is None:
            return {}
        with self._lock:
            # Another process may have given names: a file that changed is read again.
            state = self._file.state()
            if state is None:
                return {}
            known = self._known.get(scene.version)
            if known is None or known[0] != state:
                # Of two versions: the one that is shown, and the one before it.
                others = [version for version in self._known if version != scene.version][-1:]
                known = state, self._find_or_none(scene)
                self._known = {version: self._known[version] for version in others} | {scene.version: known}
            return known[1]

    def _find(self, scene: Scene) -> dict[int, list[NodeName]]:
        assert self._file is not None
        found: dict[int, list[NodeName]] = {}
        for given in self._file.all():
            v = node_of(scene, given, self._leaves(scene, given))
            if v is not None:
                found.setdefault(v, []).append(given)
        return found

    def _leaves(self, scene: Scene, given: NodeName) -> list[int]:
        keys = scene.seen.keys
        places = {int(key) for point in given.points if (key := self._source.key_of(point)) is not None}
        at = keys.searchsorted(sorted(places))
        return [int(i) for i, key in zip(at, sorted(places), strict=True) if i < len(keys) and keys[i] == key]


def node_of(scene: Scene, given: NodeName, leaves: list[int]) -> int | None:
    """The node that has most of the points of a name and little else; None if there is none like that.

    Points that were removed, or came later, are not held against it: a node of then that shrank or grew is still the
    same. Those that came are taken to have come everywhere at the same rate.
    """
    if not leaves:
        return None
    nodes, counts = nodes_above(scene.tree, np.array(leaves, np.int32))
    sizes = scene.sizes[nodes].astype(np.float64)
    growth = max(scene.n / max(given.total, 1), 1.0)
    # How many of its points are still there.
    left = max(given.size * len(leaves) / len(given.points), 1.0)
    # As large as that, or as large as it would be by now: what fits better.
    expected = np.minimum(np.maximum(sizes, left), left * growth)
    kept = np.minimum(counts / len(leaves) * expected, sizes)
    scores = kept / (expected + sizes - kept)
    # Of several that are as good, the smallest.
    best = int(np.lexsort((sizes, -np.round(scores, 9)))[0])
    return int(nodes[best]) if scores[best] > LEAST_SHARED + 1e-9 else None
