"""Names that people gave to nodes, found again in the tree of any version."""

from __future__ import annotations

import threading
from collections import Counter

from grinch.serve.scene import Scene
from grinch.serve.sources import Source, sampled
from grinch.store.node_names import MOST_POINTS, NodeName, NodeNames, check_name

# A name stays with a node that shares at least this much with the one it was given to: of the points of either, the
# share that both have.
LEAST_SHARED = 1 / 3


class GivenNames:
    """The names of a source; kept in a file beside it, and in memory where there is none."""

    def __init__(self, source: Source):
        self._source = source
        self._file = None if source.names_file is None else NodeNames(source.names_file)
        self._lock = threading.RLock()
        self._known: tuple[object, dict[int, NodeName]] = (None, {})

    def at(self, scene: Scene) -> dict[int, str]:
        """By node of a scene, the name it was given."""
        return {v: found.name for v, found in self._found(scene).items()}

    def give(self, scene: Scene, v: int, name: str | None) -> str | None:
        """Give a node a name, or take it away with None; the name as it is kept."""
        if self._file is None:
            raise ValueError("names cannot be kept here: what is looked at is not in a file")
        with self._lock:
            text = None if name is None else check_name(name)
            old = self._found(scene).get(v)
            if text is not None:
                leaves = scene.leaves(v)[sampled(int(scene.sizes[v]), MOST_POINTS)]
                points = [i for i, _ in self._source.points(scene.seen.keys[leaves]) if i is not None]
                self._file.add(text, points, int(scene.sizes[v]), scene.n)
            if old is not None:
                self._file.drop([old.number])
            self._known = (None, {})
            return text

    def _found(self, scene: Scene) -> dict[int, NodeName]:
        if self._file is None:
            return {}
        with self._lock:
            # Another process may have given names: a file that changed is read again.
            try:
                state = self._file.path.stat()
                key: object = (scene.version, state.st_mtime_ns, state.st_size)
            except OSError:
                return {}
            if self._known[0] != key:
                self._known = (key, self._find(scene))
            return self._known[1]

    def _find(self, scene: Scene) -> dict[int, NodeName]:
        assert self._file is not None
        found: dict[int, NodeName] = {}
        # The latest name of a node counts.
        for given in self._file.all():
            v = node_of(scene, given, self._leaves(scene, given))
            if v is not None:
                found[v] = given
        return found

    def _leaves(self, scene: Scene, given: NodeName) -> list[int]:
        keys = scene.seen.keys
        places = {int(key) for point in given.points if (key := self._source.key_of(point)) is not None}
        at = keys.searchsorted(sorted(places))
        return [int(i) for i, key in zip(at, sorted(places), strict=True) if i < len(keys) and keys[i] == key]


def node_of(scene: Scene, given: NodeName, leaves: list[int]) -> int | None:
    """The node that has most of the points of a name and little else; None if there is none like that.

    Points that came later are not held against it: a node of then that grew is still the same. They are taken to have
    come everywhere at the same rate.
    """
    if not leaves:
        return None
    parents, counts = scene.tree.parents(), Counter[int]()
    # Where a path meets one that was walked before, only the counts go on; together they are one walk for each point.
    for leaf in leaves:
        v = leaf
        while v >= 0:
            counts[v] += 1
            v = int(parents[v])
    growth = max(scene.n / max(given.total, 1), 1.0)
    best, most = None, LEAST_SHARED
    for v, count in counts.items():
        size = int(scene.sizes[v])
        shared = given.size * count / max(len(given.points), 1)
        # As large as it was, or as large as it would be by now: what fits better.
        expected = min(max(size, given.size), given.size * growth)
        kept = min(shared * expected / given.size, size)
        score = kept / (expected + size - kept)
        if score > most + 1e-9 or (best is not None and abs(score - most) <= 1e-9 and size < scene.sizes[best]):
            best, most = v, max(score, most)
    return best
