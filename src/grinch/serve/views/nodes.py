"""The page of a node: what it is, what stands for it, what is near it, and who is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from grinch._types import Ids
from grinch.serve.sources import sampled
from grinch.serve.views.fields import is_address, plain
from grinch.serve.views.scene import Cut, Scene, known_range
from grinch.tree.keys import leaf_keys

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

N_EXEMPLARS, N_NEAREST, N_LABELS = 6, 6, 12
# The most central of these many members are the exemplars; of larger nodes, of an even sample.
MOST_COMPARED = 5_000
# Nodes of about the same size that are looked at for the nearest.
MOST_CANDIDATES = 4_000
# Columns of unnamed vectors longer than this are an embedding, and no single one of them says anything.
MOST_UNNAMED_COLUMNS = 100
ORDERS = ("central", "arrival", "newest")


class NodePages:
    """What there is to say of the nodes of a scene."""

    def __init__(self, viewer: Viewer, scene: Scene):
        self.viewer, self.scene = viewer, scene

    def page(self, v: int, cut: Cut, since: int | None) -> dict[str, Any]:
        """All there is to say of a node."""
        scene, viewer = self.scene, self.viewer
        tree, size = scene.tree, int(scene.sizes[v])
        central = self._central(v)
        times = scene.seen.times
        own = None if times is None else known_range(times[scene.leaves(v)])
        score = float(tree.scores[v])
        return {
            "version": scene.version,
            "node": v,
            "key": f"{self._key(v):016x}",
            "start": int(scene.starts[v]),
            "size": size,
            "height": _real(scene.heights[v]),
            "score": _real(score),
            "persistence": self._persistence(v),
            "name": viewer.names.at(scene).get(v),
            "title": viewer.title(scene, v, cut),
            "keywords": viewer.sample(scene).keywords(v, 8),
            "columns": self._columns(v, central),
            "labels": self._labels(v),
            "exemplars": self.listed(central[:N_EXEMPLARS].tolist()),
            "path": [viewer.crumb(scene, u, cut) for u in scene.path(v)],
            "children": [self._short(u, cut) for u in self._parts(v)],
            "nearest": self._nearest(v, cut),
            "cluster": self.cluster_at(v, cut),
            "fresh": int(scene.fresh(np.array([v], np.int32), since)[0]),
            "times": None if own is None else {"first": own[0], "last": own[1]},
        }

    def members(self, v: int, offset: int, limit: int, order: str) -> dict[str, Any]:
        """Some of the points under a node."""
        scene = self.scene
        if order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}; got {order!r:.60}")
        if order == "central":
            # The most central first, and then the rest from left to right.
            first = self._central(v)
            leaves = np.concatenate([first, np.setdiff1d(scene.leaves(v), first, assume_unique=True)])
        else:
            leaves = np.sort(scene.leaves(v))
            leaves = leaves[::-1] if order == "newest" else leaves
        chosen = leaves[offset : offset + limit].tolist()
        return {"version": scene.version, "total": int(scene.sizes[v]), "members": self.listed(chosen)}

    def listed(self, leaves: Sequence[int]) -> list[dict[str, Any]]:
        """What is shown of points."""
        scene, fields = self.scene, self.viewer.fields
        found = self.viewer.source.points(scene.seen.keys[list(leaves)].tolist() if len(leaves) else [])
        times, members = scene.seen.times, []
        for leaf, (name, payload) in zip(leaves, found, strict=True):
            image = fields.image_of(payload)
            if image is not None and not is_address(image):
                image = f"api/image/{leaf}?version={scene.version}" if self.viewer.images is not None else None
            code = -1 if scene.codes is None else int(scene.codes[leaf])
            members.append(
                {
                    "leaf": int(leaf),
                    "x": int(scene.place[leaf]),
                    "id": name,
                    "text": fields.text_of(payload),
                    "image": image,
                    "payload": plain(payload),
                    "time": None if times is None else _real(times[leaf]),
                    "label": None if code < 0 else scene.label_names[code],
                }
            )
        return members

    def cluster_at(self, v: int, cut: Cut) -> dict[str, Any] | None:
        """The cluster of a cut that a node is in."""
        i = int(self.scene.clusters_of(np.array([v], np.int32), cut)[0])
        return None if i < 0 else self.cluster(i, cut)

    def cluster(self, i: int, cut: Cut) -> dict[str, Any]:
        """What there is to say of the i-th cluster of a cut."""
        top = int(cut.nodes[i])
        name = self.viewer.title(self.scene, top, cut)
        return {"cluster": int(cut.clusters[i]), "name": name, "node": top, "size": int(cut.sizes[i])}

    # Parts --------------------------------------------------------------------------------------------------------

    def _key(self, v: int) -> int:
        """The content key of a node, where points are known by their position."""
        return int(leaf_keys(self.scene.seen.keys[self.scene.leaves(v)]).sum())

    def _persistence(self, v: int) -> dict[str, Any] | None:
        """From which height to which the node is a cluster."""
        scene = self.scene
        above = int(scene.tree.parents()[v])
        if above < 0:
            return None
        low, high, top = float(scene.heights[v]), float(scene.heights[above]), float(scene.heights[scene.tree.root])
        if not np.isfinite([low, high, top]).all():
            return None
        return {"from": low, "to": high, "share": (high - low) / top if top > 0 else 0.0}

    def _central(self, v: int) -> Ids:
        """Members, the most central first; of many, of some of them."""
        scene, sample = self.scene, self.viewer.sample(self.scene)
        leaves = scene.leaves(v)
        leaves = leaves[sampled(len(leaves), MOST_COMPARED)]
        if sample.rows is None or len(leaves) < 3:
            return leaves
        rows = sample.comparable(self.viewer.source.rows(scene.seen.keys[leaves]))
        if sample.metric == "cosine":
            remoteness = -(rows @ rows.mean(axis=0))
        else:
            remoteness = ((rows - rows.mean(axis=0)) ** 2).sum(axis=1)
        return leaves[np.argsort(remoteness, kind="stable")]

    def _columns(self, v: int, leaves: Ids) -> list[dict[str, object]]:
        sample, source = self.viewer.sample(self.scene), self.viewer.source
        if sample.rows is None or sample.is_shortened or v == self.scene.tree.root:
            return []
        width, names = sample.rows.shape[1], source.columns()
        if names is None:
            if width > MOST_UNNAMED_COLUMNS or sample.words is not None:
                return []
            names = [f"column {i}" for i in range(width)]
        begin, end = sample.span(v)
        rows = sample.rows[begin:end]
        if not len(rows):
            rows = sample.comparable(source.rows(self.scene.seen.keys[leaves[:50]]))
        return sample.columns(v, rows, names)

    def _labels(self, v: int) -> list[dict[str, Any]] | None:
        scene = self.scene
        if scene.codes is None:
            return None
        codes = scene.codes[scene.leaves(v)]
        counts = np.bincount(codes[codes >= 0], minlength=1)
        best = np.argsort(-counts, kind="stable")[:N_LABELS].tolist()
        return [{"name": scene.label_names[code], "count": int(counts[code])} for code in best if counts[code]]

    def _parts(self, v: int) -> list[int]:
        """The two sides of the first split that leaves more than a few points on both, or of the node itself."""
        scene = self.scene
        u = v
        while not scene.tree.is_leaf(u):
            left, right = sorted(scene.tree.children(u), key=lambda child: -int(scene.sizes[child]))
            if scene.sizes[right] >= 0.05 * scene.sizes[v] or scene.sizes[u] < 0.8 * scene.sizes[v]:
                return [left, right]
            u = left
        return sorted(scene.tree.children(v), key=lambda child: -int(scene.sizes[child]))

    def _short(self, v: int, cut: Cut) -> dict[str, Any]:
        scene = self.scene
        return {
            "node": int(v),
            "start": int(scene.starts[v]),
            "size": int(scene.sizes[v]),
            "title": self.viewer.title(scene, int(v), cut),
        }

    def _nearest(self, v: int, cut: Cut) -> list[dict[str, Any]]:
        """The nodes of about the same size that are most like this one, by their mean vectors."""
        scene, sample = self.scene, self.viewer.sample(self.scene)
        size, sizes = int(scene.sizes[v]), scene.sizes
        if sample.rows is None or v == scene.tree.root:
            return []
        # The largest nodes that are not much larger than this one: none is inside another.
        nodes = np.flatnonzero((sizes > 0) & (sizes <= 2 * size) & (scene.sizes_above > 2 * size))
        inside = (scene.starts[nodes] < scene.starts[v] + size) & (scene.starts[nodes] + sizes[nodes] > scene.starts[v])
        nodes = nodes[~inside & (sizes[nodes] >= size / 8)]
        nodes = nodes[np.argsort(-sizes[nodes], kind="stable")][:MOST_CANDIDATES]
        if not len(nodes):
            return []
        means, own = sample.means(nodes), sample.means(np.array([v], np.int32))
        assert means is not None
        assert own is not None
        if sample.metric == "cosine":
            norms = np.linalg.norm(means, axis=1) * np.linalg.norm(own[0])
            likeness = (means @ own[0]) / np.where(norms > 0, norms, 1)
        else:
            likeness = -np.linalg.norm(means - own[0], axis=1)
        best = np.argsort(-likeness, kind="stable")[:N_NEAREST].tolist()
        return [{**self._short(int(nodes[i]), cut), "similarity": float(likeness[i])} for i in best]


def _real(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
