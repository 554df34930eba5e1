"""The page of a node: its facts, exemplars, nearest nodes and members; and the place of a new point."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from grinch._types import Floats, Ids, Vectors32
from grinch.serve.backend import sampled
from grinch.serve.views.fields import is_address, plain
from grinch.serve.views.icicle import crumb, title
from grinch.serve.views.scene import Cut, Scene, known_range
from grinch.summaries.vectors import dense_rows
from grinch.tree.keys import leaf_keys

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

N_EXEMPLARS, N_NEAREST, N_LABELS, N_KEYWORDS = 6, 6, 8, 8
# Exemplars are the most central of this many members; of larger nodes, of an even sample.
MAX_COMPARED = 5_000
# Nodes of about the same size among which the nearest are searched.
MAX_CANDIDATES = 4_000
# More columns without names are an embedding, and a single one of them says nothing.
MAX_UNNAMED_COLUMNS = 100
ORDERS = ("central", "arrival", "newest")


class NodePages:
    """Pages of the nodes of a scene; ``rows`` are those of all leaves, if they were read already."""

    def __init__(self, viewer: Viewer, scene: Scene, rows: Vectors32 | None = None):
        self.viewer, self.scene, self._all_rows = viewer, scene, rows
        self.sample = viewer.sample(scene)

    def page(self, v: int, cut: Cut, since: int | None) -> dict[str, Any]:
        """Return everything that is shown of a node."""
        scene, viewer = self.scene, self.viewer
        central = self.central(v)
        times = scene.look.times
        own = None if times is None else known_range(times[scene.leaves(v)])
        return {
            "version": scene.version,
            **scene.spot(v),
            "key": f"{int(leaf_keys(scene.look.positions[scene.leaves(v)]).sum()):016x}",
            "height": _real(scene.heights[v]),
            "score": _real(scene.tree.scores[v]),
            "persistence": self._persistence(v),
            "name": scene.names.get(v),
            "title": title(viewer, scene, v, cut),
            "keywords": self.sample.keywords(v, N_KEYWORDS),
            "columns": self._columns(v, central),
            **self._labels(v),
            "exemplars": self.listed(central[:N_EXEMPLARS].tolist()),
            "path": [crumb(viewer, scene, u, cut) for u in scene.path(v)],
            "children": [self._short(u, cut) for u in self._sides(v)],
            "nearest": self._nearest(v, cut),
            "cluster": self.cluster_at(v, cut),
            "fresh": int(scene.fresh(np.array([v], np.int32), since)[0]),
            "times": None if own is None else {"first": own[0], "last": own[1]},
        }

    def members(self, v: int, offset: int, limit: int, order: str) -> dict[str, Any]:
        """Return some of the points under a node."""
        scene = self.scene
        if order not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}; got {order!r:.60}")
        if order == "central":
            # The most central first, and then the rest from left to right.
            first = self.central(v)
            leaves = np.concatenate([first, np.setdiff1d(scene.leaves(v), first, assume_unique=True)])
        else:
            leaves = np.sort(scene.leaves(v))[:: -1 if order == "newest" else 1]
        shown = leaves[offset : offset + limit].tolist()
        return {"version": scene.version, "total": int(scene.sizes[v]), "members": self.listed(shown)}

    def listed(self, leaves: Sequence[int]) -> list[dict[str, Any]]:
        """Return points as they are shown in lists."""
        scene, fields = self.scene, self.viewer.fields
        points = self.viewer.backend.points(scene.look.positions[list(leaves)] if len(leaves) else [])
        times, members = scene.look.times, []
        for leaf, (name, payload) in zip(leaves, points, strict=True):
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
        """Return the cluster of a cut that a node is in."""
        i = int(self.scene.clusters_of(np.array([v], np.int32), cut)[0])
        return None if i < 0 else self.cluster(i, cut)

    def cluster(self, i: int, cut: Cut) -> dict[str, Any]:
        """Return the i-th cluster of a cut."""
        top = int(cut.nodes[i])
        name = title(self.viewer, self.scene, top, cut)
        return {"cluster": int(cut.clusters[i]), "name": name, "node": top, "size": int(cut.sizes[i])}

    # Parts --------------------------------------------------------------------------------------------------------

    def central(self, v: int) -> Ids:
        """Return the members of a node, the most central first; of a large node, an even sample of them."""
        leaves = self.scene.leaves(v)
        leaves = leaves[sampled(len(leaves), MAX_COMPARED)]
        if self.sample.rows is None or len(leaves) < 3:
            return leaves
        rows = self._rows(leaves)
        if self.sample.metric == "cosine":
            remoteness = -(rows @ rows.mean(axis=0))
        else:
            remoteness = ((rows - rows.mean(axis=0)) ** 2).sum(axis=1)
        return leaves[np.argsort(remoteness, kind="stable")]

    def _rows(self, leaves: Ids) -> Vectors32:
        if self._all_rows is not None:
            return self._all_rows[leaves]
        return self.sample.comparable(self.viewer.backend.rows(self.scene.look.positions[leaves]))

    @cached_property
    def column_names(self) -> list[str] | None:
        """The columns whose values are worth showing; None where they mean nothing."""
        sample = self.sample
        if sample.rows is None or sample.is_shortened:
            return None
        names = self.viewer.backend.columns
        if names is None and sample.rows.shape[1] <= MAX_UNNAMED_COLUMNS and sample.words is None:
            names = [f"column {i}" for i in range(sample.rows.shape[1])]
        return names

    def _columns(self, v: int, leaves: Ids) -> list[dict[str, Any]]:
        if self.column_names is None or v == self.scene.tree.root:
            return []
        begin, end = self.sample.span(v)
        means = self.sample.means(np.array([v])) if end > begin else self._rows(leaves[:50]).mean(axis=0)[None]
        columns, scores = self.sample.standing_out(means)
        return [
            {"name": self.column_names[i], "mean": float(means[0, i]), "all": float(self.sample.mean[i]), "z": float(z)}
            for i, z in zip(columns[0].tolist(), scores[0].tolist(), strict=True)
            if abs(z) > 0.1
        ]

    def _persistence(self, v: int) -> dict[str, Any] | None:
        """Return the heights between which the node is a cluster."""
        scene = self.scene
        above = int(scene.tree.parents()[v])
        if above < 0:
            return None
        low, high, top = float(scene.heights[v]), float(scene.heights[above]), float(scene.heights[scene.tree.root])
        if not np.isfinite([low, high, top]).all():
            return None
        return {"from": low, "to": high, "share": (high - low) / top if top > 0 else 0.0}

    def _labels(self, v: int) -> dict[str, Any]:
        """Return the commonest labels of a node, how many labels there are, and how many points have one."""
        scene = self.scene
        if scene.codes is None:
            return {"labels": None, "n_labels": 0, "n_labelled": 0}
        codes = scene.codes[scene.leaves(v)]
        counts = np.bincount(codes[codes >= 0], minlength=1)
        best = np.argsort(-counts, kind="stable")[:N_LABELS].tolist()
        listed = [{"name": scene.label_names[code], "count": int(counts[code])} for code in best if counts[code]]
        return {"labels": listed, "n_labels": int((counts > 0).sum()), "n_labelled": int(counts.sum())}

    def splits_of(self, nodes: Ids) -> Ids:
        """Return for each node the first split at or below it with more than a few points on both sides, or itself."""
        sizes, pairs, splits = self.scene.sizes, self.scene.tree.child_pairs(), nodes.copy()
        going = np.flatnonzero(sizes[nodes] > 1)
        while len(going):
            u, size = splits[going], sizes[nodes[going]]
            large, small = np.sort(sizes[pairs[u]], axis=1).T[::-1]
            is_found = (small >= 0.05 * size) | (sizes[u] < 0.8 * size)
            further = pairs[u, np.argmax(sizes[pairs[u]], axis=1)]
            splits[going] = np.where(is_found, u, np.where(large > 1, further, nodes[going]))
            going = going[~is_found & (large > 1)]
        return splits

    def _sides(self, v: int) -> list[int]:
        split = int(self.splits_of(np.array([v], np.int32))[0])
        return sorted(self.scene.tree.children(split), key=lambda child: -int(self.scene.sizes[child]))

    def _short(self, v: int, cut: Cut) -> dict[str, Any]:
        return {**self.scene.spot(v), "title": title(self.viewer, self.scene, int(v), cut)}

    def _nearest(self, v: int, cut: Cut) -> list[dict[str, Any]]:
        if self.sample.rows is None or v == self.scene.tree.root:
            return []
        nodes, likeness = self.nearest(np.array([v], np.int32))
        pairs = zip(nodes[0].tolist(), likeness[0].tolist(), strict=True)
        return [{**self._short(u, cut), "similarity": similarity} for u, similarity in pairs if u >= 0]

    def nearest(self, nodes: Ids) -> tuple[Ids, Floats]:
        """Return the most similar nodes of each of some nodes of one size, by mean vectors, and their similarity.

        Among the largest nodes that are at most twice as large, of which none is inside another; -1 for none.
        """
        scene, size = self.scene, int(self.scene.sizes[nodes[0]])
        sizes, starts = scene.sizes, scene.starts
        others: Ids = np.flatnonzero((sizes >= size / 8) & (sizes <= 2 * size) & (scene.sizes_above > 2 * size)).astype(
            np.int32
        )
        # One more than are compared, since one of them is or contains the node itself.
        others = others[np.argsort(-sizes[others], kind="stable")][: MAX_CANDIDATES + 1]
        if not len(others):
            return np.full((len(nodes), 0), -1, np.int32), np.empty((len(nodes), 0))
        means, own = self.sample.means(others), self.sample.means(nodes)
        if self.sample.metric == "cosine":
            norms = np.linalg.norm(own, axis=1)[:, None] * np.linalg.norm(means, axis=1)
            likeness = own @ means.T / np.where(norms > 0, norms, 1)
        else:
            own, means = own - self.sample.mean, means - self.sample.mean
            squares = (own**2).sum(axis=1)[:, None] + (means**2).sum(axis=1) - 2 * own @ means.T
            likeness = -np.sqrt(np.maximum(squares, 0))
        start = starts[nodes][:, None]
        likeness[(starts[others] < start + size) & (starts[others] + sizes[others] > start)] = -np.inf
        nearest = np.full((len(nodes), min(N_NEAREST, len(others))), -1, np.int32)
        similarity, each = np.zeros(nearest.shape), np.arange(len(nodes))
        for i in range(nearest.shape[1]):
            best = likeness.argmax(axis=1)
            similarity[:, i] = likeness[each, best]
            nearest[:, i] = np.where(np.isfinite(similarity[:, i]), others[best], -1)
            likeness[each, best] = -np.inf
        return nearest, similarity


def place(viewer: Viewer, scene: Scene, vector: Any, like: Any, cut: str | None) -> dict[str, Any]:
    """Return the place of a new point: a row of numbers, or one like a point that is there."""
    if not scene.n:
        raise ValueError("there are no points yet, so a point can be placed nowhere")
    if vector is None and like is not None:
        rows = viewer.backend.rows(np.array([viewer.position_of(like)]))
        vector = None if rows is None else dense_rows(rows)[0].tolist()
    width = viewer.backend.n_features
    if width is None:
        raise ValueError("a point cannot be placed from here: the points are no vectors")
    numbers = _numbers(vector)
    if len(numbers) != width:
        raise ValueError(f"vector must have {width:,} numbers, as the points have; got {len(numbers):,}")
    row = np.asarray(numbers, np.float64)[None]
    with viewer.backend.view(placing=True) as view:
        version, [(beside, nearest)] = view.place(row)
        clusters = {name: int(view.predict(row, name)[0]) for name in view.cut_names}
    leaf = scene.leaf_at(nearest)
    if version != scene.version or beside not in scene.tree:
        # The tree has changed: near the same point.
        beside = scene.tree.root if leaf is None else max(int(scene.tree.parents()[leaf]), leaf)
    chosen, pages = viewer.cut_of(scene, cut), NodePages(viewer, scene)
    joined = clusters.get(chosen.name.removeprefix("cut:"))
    return {
        "version": scene.version,
        **scene.spot(beside),
        "title": title(viewer, scene, beside, chosen),
        "path": [crumb(viewer, scene, v, chosen) for v in scene.path(beside)],
        "cluster": _cluster(pages, chosen, joined, beside, leaf),
        "neighbours": [] if leaf is None else pages.listed([leaf]),
    }


def _cluster(pages: NodePages, cut: Cut, joined: int | None, beside: int, nearest: int | None) -> dict[str, Any] | None:
    """Return the cluster that a point would join: as predicted for a tracked cut, else the one at its place."""
    if joined is not None:
        at = np.flatnonzero(cut.clusters == joined)
        return pages.cluster(int(at[0]), cut) if len(at) else None
    inside = pages.cluster_at(beside, cut)
    # Above the cut it would be a cluster of its own; it belongs with its nearest neighbour.
    return pages.cluster_at(nearest, cut) if inside is None and nearest is not None else inside


def _numbers(vector: Any) -> list[float]:
    if isinstance(vector, str):
        try:
            vector = json.loads(vector)
        except (ValueError, RecursionError):
            raise ValueError("vector must be a list of numbers in JSON, such as [0.1, -2, 3]") from None
    is_list = isinstance(vector, list) and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in vector)
    if not is_list:
        raise ValueError("vector must be a list of numbers, such as [0.1, -2, 3]")
    try:
        return [float(x) for x in vector]
    except OverflowError:
        raise ValueError("vector must have numbers of up to 64 bits; one is too large") from None


def _real(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
