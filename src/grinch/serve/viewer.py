"""What the page asks of a tree, and the answers; the routes of :mod:`grinch.serve.http.looking` are these methods."""

from __future__ import annotations

import datetime
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import grinch
from grinch._labels import label_codes
from grinch._types import Ids
from grinch.serve import projection
from grinch.serve.arrays import pack_arrays
from grinch.serve.fields import Fields
from grinch.serve.given_names import GivenNames
from grinch.serve.later import Computing, Later
from grinch.serve.nodes import NodePages
from grinch.serve.sample import Sample
from grinch.serve.scene import Cut, Scene, empty_scene
from grinch.serve.searching import search
from grinch.serve.sources import Source, StoreSource, sampled

# A split counts if its smaller side is at least this wide on the screen.
LEAST_PIXELS = 3.0
# Blocks narrower than this have no room for a name.
NAMED_PIXELS = 36.0
MOST_NAMES = 150
MOST_ROWS, MOST_PIXELS = 64, 8_000
MOST_LABELS = 1_000
MOST_CHANGES = 500
LISTED_CLUSTERS = 200
# Labels of more points than this are read only if the user named their field.
MOST_LABELS_UNASKED = 200_000
# A new scene is made at most this share of the time, so that looking does not keep the writer waiting.
SHARE_OF_TIME = 0.2

# Flags of a block.
MORE, TOP, POINT, NAMED, WITHIN = 1, 2, 4, 8, 16


class Stale(Exception):
    """The node numbers of a request are of a version that is no longer shown."""

    def __init__(self, asked: int, version: int):
        super().__init__(f"version {asked} is no longer shown; the tree is at version {version} now. Ask for that")
        self.version = version


class Viewer:
    """A tree that is looked at, from whatever source; answers are plain dicts and packed arrays.

    Parameters
    ----------
    source : Source
        Where the tree comes from (:mod:`grinch.serve.sources`).
    text, image, label, x, y : str, optional
        The fields of the payload that are the text, the image, the true class, and the place on the map; the first
        three are found by themselves where their names are usual.
    images : Path, optional
        The folder below which image files are read. Without it none are.
    labels : sequence, optional
        The true class of each point, for models and trees.

    Examples
    --------
    >>> from grinch import Grinch
    >>> from grinch.serve.sources import MemorySource
    >>> model = Grinch(n_clusters=2).fit([[1, 0], [0, 1], [5, 0.1], [0.1, 4]])
    >>> viewer = Viewer(MemorySource(model, payload=["ape", "bee", "cat", "dog"]))
    >>> about = viewer.about()
    >>> about["n"], about["cut"]
    (4, 'cut:labels')
    >>> viewer.node(about["root"])["title"]
    '4 points'
    """

    def __init__(
        self,
        source: Source,
        *,
        text: str | None = None,
        image: str | None = None,
        label: str | None = None,
        x: str | None = None,
        y: str | None = None,
        images: Path | None = None,
        labels: Any = None,
    ):
        if (x is None) != (y is None):
            raise ValueError("x and y are the two columns of a map: give both of them, or none")
        self.source = source
        self.images = None if images is None else images.resolve(strict=True)
        self._given_fields = {"text": text, "image": image, "label": label, "x": x, "y": y}
        self._given_labels = labels
        self.fields = Fields()
        self.names = GivenNames(source)
        self._building = threading.Lock()
        self._took, self._built_at = 0.0, 0.0
        self._sample, self._layers, self._map = Later(), Later(), Later()
        self._scenes: dict[int, Scene] = {}
        self.scene = self._build()

    # Versions -----------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self.scene.version

    @property
    def n(self) -> int:
        return self.scene.n

    def refresh(self) -> int:
        """Show what is there by now, if that is not too much work for how often it changes; the version shown."""
        if not self._building.acquire(blocking=False):
            return self.version
        try:
            idle = time.monotonic() - self._built_at
            if idle * SHARE_OF_TIME >= self._took and self.source.latest() != self.version:
                self.scene = self._build()
            return self.version
        finally:
            self._building.release()

    def _build(self) -> Scene:
        begin = time.monotonic()
        seen = self.source.see()
        scene = Scene(seen) if seen.tree.n_leaves else empty_scene(seen.version)
        if scene.n:
            self._find_fields(scene)
            self._find_labels(scene)
        # What is on its way of the last version is still answered.
        self._scenes = {scene.version: scene, **dict(list(self._scenes.items())[:1])}
        self._built_at = time.monotonic()
        self._took = self._built_at - begin
        return scene

    def at(self, version: int | None) -> Scene:
        """The scene of a version, or the latest."""
        if version is None or version == self.version:
            return self.scene
        found = self._scenes.get(version)
        if found is None:
            raise Stale(version, self.version)
        return found

    def _find_fields(self, scene: Scene) -> None:
        keys = scene.seen.keys[sampled(scene.n, 200)]
        self.fields = Fields.found_in(list(self.source.payloads(keys)), **self._given_fields)

    def _find_labels(self, scene: Scene) -> None:
        labels = self._given_labels
        is_wanted = self._given_fields["label"] is not None or scene.n <= MOST_LABELS_UNASKED
        if labels is None and self.fields.label is not None and is_wanted:
            labels = [self.fields.label_of(payload) for payload in self.source.payloads(scene.seen.keys)]
        if labels is None:
            return
        if len(labels) != scene.n:
            raise ValueError(f"labels must have an entry for each of the {scene.n:,} points; got {len(labels):,}")
        codes = label_codes(labels)
        names = [""] * (int(codes.max(initial=-1)) + 1)
        for i in np.unique(codes, return_index=True)[1].tolist():
            if codes[i] >= 0:
                names[codes[i]] = str(labels[i])
        scene.set_labels(codes, names)

    def sample(self, scene: Scene) -> Sample:
        """Some of the points, with rows and texts; made when it is first needed."""
        with scene.lock:
            known: Sample | None = getattr(scene, "_sample", None)
            if known is None:
                known = Sample(scene, self.source, self.fields, self.source.metric())
                scene._sample = known  # type: ignore[attr-defined]
            return known

    # The whole ----------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """What is looked at, and what can be asked of it."""
        scene = self.scene
        colors = ["cluster", "time"] + (["fresh"] if self.source.has_versions else [])
        if scene.codes is not None:
            colors[1:1] = ["label", "purity"]
        times = scene.seen.times
        known = None if times is None or not scene.n else {"first": _real(times.min()), "last": _real(times.max())}
        has_rows = scene.n > 0 and self.source.n_features() is not None
        has_columns = self.fields.x is not None
        methods = projection.methods(scene.n, has_columns) if has_rows else ["columns"] if has_columns else []
        return {
            "title": self.source.title,
            "kind": self.source.kind,
            "version": scene.version,
            "n": scene.n,
            "root": scene.tree.root,
            "can_name": self.source.names_file is not None,
            "can_place": has_rows and (isinstance(self.source, StoreSource) or self._can_place()),
            "n_features": self.source.n_features(),
            "cuts": self._named_cuts(scene),
            "cut": self._default_cut(scene),
            "max_k": scene.max_k,
            "colors": colors,
            "labels": scene.label_names[:MOST_LABELS] if scene.codes is not None else None,
            "times": known,
            "map": {"methods": methods, "method": methods[0]} if methods else None,
            "has_text": self.fields.text is not None or (scene.n > 0 and self.sample(scene).words is not None),
            "has_images": self.fields.image is not None,
            "has_payload": scene.n > 0 and next(self.source.payloads(scene.seen.keys[:1]), None) is not None,
            "versions": self.source.has_versions,
            "grinch": grinch.__version__,
        }

    def _can_place(self) -> bool:
        return hasattr(getattr(self.source, "model", None), "_engine")

    def _named_cuts(self, scene: Scene) -> list[dict[str, Any]]:
        titles = {"cut:labels": "flat clusters", "cut:default": "default cut"}
        names = [f"cut:{name}" for name in scene.seen.cuts]
        found = [{"cut": n, "title": titles.get(n, n[4:]), "clusters": len(scene.cut(n))} for n in names]
        return found + [{"cut": n, "title": _layer_title(n), "clusters": len(scene.cut(n))} for n in scene.layers]

    def _default_cut(self, scene: Scene) -> str:
        names = list(scene.seen.cuts)
        return f"cut:{names[0]}" if names else f"k:{min(max(scene.n, 1), 12)}"

    def cut_of(self, scene: Scene, name: str | None) -> Cut:
        """A cut by name; ``auto`` or nothing is the one that is shown first."""
        if name and name.startswith("layer:") and name not in scene.layers and scene.n:
            self._compute_layers(scene)
        return scene.cut(self._default_cut(scene) if name in (None, "", "auto") else str(name))

    def layers(self) -> dict[str, Any]:
        """The resolutions that last, finest first."""
        scene = self.scene
        if not scene.n:
            return {"version": scene.version, "layers": []}
        if not scene.layers:
            self._layers.get(("layers", scene.version), lambda: self._compute_layers(scene))
        found = [
            {"cut": name, "title": _layer_title(name), "clusters": len(scene.cut(name)), "persistence": lasting}
            for name, lasting in getattr(scene, "_lasting", {}).items()
        ]
        return {"version": scene.version, "layers": found}

    def _compute_layers(self, scene: Scene) -> bool:
        found = self.source.layers(scene.seen) or []
        scene._lasting = {f"layer:{i}": layer.persistence for i, layer in enumerate(found)}  # type: ignore[attr-defined]
        scene.layers = {f"layer:{i}": layer.labels for i, layer in enumerate(found)}
        return True

    # The icicle ---------------------------------------------------------------------------------------------------

    def view(
        self,
        x0: float = 0.0,
        x1: float | None = None,
        width: float = 1200.0,
        rows: int = 24,
        cut: str | None = None,
        color: str = "cluster",
        since: int | None = None,
        version: int | None = None,
    ) -> bytes:
        """The blocks between two places, as they are seen at a width in pixels."""
        scene = self.at(version)
        if not scene.n:
            return pack_arrays(
                {"version": scene.version, "n": 0, "x0": 0, "x1": 0, "path": [], "names": {}, "rows": 0}, {}
            )
        begin = int(np.clip(np.floor(x0), 0, scene.n - 1))
        end = int(np.clip(np.ceil(scene.n if x1 is None else x1), begin + 1, scene.n))
        pixels = float(np.clip(width, 1, MOST_PIXELS))
        per_pixel = ((scene.n if x1 is None else x1) - x0) / pixels
        chosen = self.cut_of(scene, cut)
        found = scene.blocks(
            begin, end, int(np.ceil(LEAST_PIXELS * max(per_pixel, 0))), chosen, int(np.clip(rows, 1, MOST_ROWS))
        )
        nodes = found.nodes
        clusters = scene.clusters_of(nodes, chosen)
        colors, values = self._colors(scene, nodes, clusters, chosen, color, since)
        titles = self._titles(scene, found.nodes, clusters, chosen, per_pixel)
        given = self.names.at(scene)
        flags = np.where((scene.sizes[nodes] > 1) & (found.ends < 0), MORE, 0)
        flags |= np.where(np.isin(nodes, chosen.nodes), TOP, 0) | np.where(scene.sizes[nodes] == 1, POINT, 0)
        flags |= np.where(clusters >= 0, WITHIN, 0) | np.where(np.isin(nodes, list(given)), NAMED, 0)
        first = int(nodes[0])
        header = {
            "version": scene.version,
            "n": scene.n,
            "x0": begin,
            "x1": end,
            "path": [self._crumb(scene, v, chosen) for v in scene.path(first)],
            "names": titles,
            "rows": int(found.rows.max()) + 1,
            "since": since,
        }
        arrays: dict[str, npt.NDArray[Any]] = {
            "node": nodes,
            "parent": found.parents,
            "row": found.rows.astype(np.uint16),
            "start": scene.starts[nodes],
            "size": scene.sizes[nodes],
            "split": found.ends,
            "color": colors.astype(np.int32),
            "value": values.astype(np.float32),
            "height": scene.heights[nodes].astype(np.float32),
            "fresh": scene.fresh(nodes, since),
            "flags": flags.astype(np.uint8),
        }
        return pack_arrays(header, arrays)

    def _colors(
        self, scene: Scene, nodes: Ids, clusters: npt.NDArray[Any], cut: Cut, color: str, since: int | None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        slots = np.append(cut.slots.astype(np.int32), -1)[clusters]
        sizes = scene.sizes[nodes]
        if color in ("label", "purity") and scene.codes is not None:
            best, counts = scene.commonest
            return best[nodes], counts[nodes] / sizes
        if color == "time":
            return slots, scene.mean_arrival(nodes)
        if color == "fresh":
            return slots, scene.fresh(nodes, since or 0) / sizes
        if color != "cluster":
            raise ValueError(f"color must be one of {', '.join(self.about()['colors'])}; got {color!r:.60}")
        return slots, np.ones(len(nodes))

    def _titles(
        self, scene: Scene, nodes: Ids, clusters: npt.NDArray[Any], cut: Cut, per_pixel: float
    ) -> dict[str, str]:
        """What to write into blocks that are wide enough, the widest first."""
        wide = np.flatnonzero(scene.sizes[nodes] >= NAMED_PIXELS * per_pixel)
        wide = wide[np.argsort(-scene.sizes[nodes[wide]], kind="stable")][:MOST_NAMES]
        return {str(v): self.title(scene, v, cut) for v in nodes[wide].tolist()}

    def title(self, scene: Scene, v: int, cut: Cut | None = None) -> str:
        """What a node is called: its given name, that of its cluster, its words, its commonest label, or its size."""
        given = self.names.at(scene).get(v)
        if given is not None:
            return given
        if cut is not None and cut.name.startswith("cut:"):
            named = scene.seen.cluster_names.get(cut.name[4:])
            if named:
                i = int(cut.at(scene.starts[[v]])[0])
                if i >= 0 and int(cut.nodes[i]) == v and int(cut.clusters[i]) in named:
                    return named[int(cut.clusters[i])]
        with scene.lock:
            titles: dict[int, str] = scene.__dict__.setdefault("_titles", {})
            if v not in titles:
                titles[v] = self._described(scene, v)
            return titles[v]

    def _described(self, scene: Scene, v: int) -> str:
        size = int(scene.sizes[v])
        if size == 1:
            name, payload = self.source.points([int(scene.seen.keys[scene.order[scene.starts[v]]])])[0]
            text = self.fields.text_of(payload)
            return (text or str(name))[:120]
        words = self.sample(scene).keywords(v, 4)
        if words and v != scene.tree.root:
            return ", ".join(words)
        if scene.codes is not None:
            best, counts = scene.commonest
            if best[v] >= 0 and counts[v] >= size / 2:
                return scene.label_names[best[v]]
        return f"{size:,} points"

    def _crumb(self, scene: Scene, v: int, cut: Cut | None) -> dict[str, Any]:
        return {
            "node": v,
            "start": int(scene.starts[v]),
            "size": int(scene.sizes[v]),
            "name": "all points"
            if v == scene.tree.root and v not in self.names.at(scene)
            else self.title(scene, v, cut),
            "height": _real(scene.heights[v]),
        }

    def cut(self, cut: str | None = None, version: int | None = None) -> bytes:
        """The clusters of a cut, from left to right, and the largest by name."""
        scene = self.at(version)
        found = self.cut_of(scene, cut) if scene.n else None
        if found is None:
            return pack_arrays({"version": scene.version, "cut": cut, "title": "", "clusters": 0, "list": []}, {})
        largest = np.argsort(-found.sizes, kind="stable")[:LISTED_CLUSTERS].tolist()
        sample = self.sample(scene)
        listed = [
            {
                "cluster": int(found.clusters[i]),
                "node": int(found.nodes[i]),
                "start": int(found.starts[i]),
                "size": int(found.sizes[i]),
                "slot": int(found.slots[i]),
                "name": self.title(scene, int(found.nodes[i]), found),
                "keywords": sample.keywords(int(found.nodes[i])),
            }
            for i in largest
        ]
        header = {
            "version": scene.version,
            "cut": found.name,
            "title": _cut_title(found),
            "clusters": len(found),
            "list": listed,
        }
        arrays: dict[str, npt.NDArray[Any]] = {
            "start": found.starts,
            "size": found.sizes,
            "node": found.nodes,
            "cluster": found.clusters.astype(np.int32),
            "slot": found.slots,
        }
        return pack_arrays(header, arrays)

    # Nodes and points ---------------------------------------------------------------------------------------------

    def node(
        self, node: int, cut: str | None = None, since: int | None = None, version: int | None = None
    ) -> dict[str, Any]:
        """The page of a node."""
        scene = self.at(version)
        return NodePages(self, scene).page(scene.node(node), self.cut_of(scene, cut), since)

    def members(
        self, node: int, offset: int = 0, limit: int = 50, order: str = "central", version: int | None = None
    ) -> dict[str, Any]:
        """Some of the points under a node."""
        scene = self.at(version)
        return NodePages(self, scene).members(scene.node(node), offset, min(limit, 200), order)

    def search(self, q: str, limit: int = 20, version: int | None = None) -> dict[str, Any]:
        """Nodes and points by name, id or text."""
        scene = self.at(version)
        return search(self, scene, q.strip(), min(limit, 100))

    def place(
        self, vector: Any = None, like: Any = None, cut: str | None = None, version: int | None = None
    ) -> dict[str, Any]:
        """Where a point would go: a row of numbers, or one like a point that is there."""
        scene = self.at(version)
        if not scene.n:
            raise ValueError("there are no points yet, so a point can be placed nowhere")
        if vector is None and like is not None:
            key = self._key_of(like)
            rows = self.source.rows(np.array([key]))
            if rows is None:
                raise ValueError("points that are no vectors cannot be placed from here")
            vector = rows[0].tolist()
        row = np.asarray(_numbers(vector), np.float64)[None]
        version_then, beside, nearest = self.source.place(row)
        leaf = self._leaf_at(scene, nearest)
        if version_then != scene.version or beside not in scene.tree:
            # The tree has moved on: near the same point.
            beside = int(scene.tree.parents()[leaf]) if leaf is not None else scene.tree.root
        chosen, pages = self.cut_of(scene, cut), NodePages(self, scene)
        return {
            "version": scene.version,
            "node": beside,
            "start": int(scene.starts[beside]),
            "size": int(scene.sizes[beside]),
            "title": self.title(scene, beside, chosen),
            "path": [self._crumb(scene, v, chosen) for v in scene.path(beside)],
            "cluster": pages.cluster_at(beside, chosen),
            "neighbours": [] if leaf is None else pages.listed([leaf]),
        }

    def _key_of(self, name: Any) -> int:
        key = self.source.key_of(name)
        if key is None and isinstance(name, str) and name.lstrip("-").isdigit():
            key = self.source.key_of(int(name))
        if key is None:
            raise KeyError(f"id {name!r:.60} is not there")
        return key

    def _leaf_at(self, scene: Scene, key: int) -> int | None:
        leaf = int(np.searchsorted(scene.seen.keys, key)) if key >= 0 else scene.n
        return leaf if leaf < scene.n and scene.seen.keys[leaf] == key else None

    def locate(self, id: Any, size: int = 1) -> dict[str, Any]:
        """The node over a point whose size is nearest to one that is known."""
        scene = self.scene
        leaf = self._leaf_at(scene, self._key_of(id))
        if leaf is None:
            raise KeyError(f"id {id!r:.60} is not in version {scene.version}")
        v = scene.ancestor_of_size(leaf, size)
        return {"version": scene.version, "node": v, "start": int(scene.starts[v]), "size": int(scene.sizes[v])}

    def image(self, leaf: int, version: int | None = None) -> Path:
        """The file of the image of a point, below the folder that was named."""
        scene = self.at(version)
        if not 0 <= leaf < scene.n:
            raise KeyError(f"leaf {leaf} is not in version {scene.version}")
        name = self.fields.image_of(self.source.points([int(scene.seen.keys[leaf])])[0][1])
        if self.images is None or name is None or "\0" in name:
            raise KeyError(f"there is no image of leaf {leaf}")
        with suppress(OSError, ValueError):
            found = (self.images / name).resolve(strict=True)
            if found.is_relative_to(self.images) and found.is_file():
                return found
        raise KeyError(f"there is no image of leaf {leaf} in the folder of images")

    def name(self, node: int, name: str | None, version: int | None = None) -> dict[str, Any]:
        """Give a node a name that stays (None takes it away)."""
        scene = self.at(version)
        given = self.names.give(scene, scene.node(node), name)
        return {"version": scene.version, "node": node, "name": given}

    # Time ---------------------------------------------------------------------------------------------------------

    def changes(self, since: int | None = None, day: str | None = None, cut: str | None = None) -> dict[str, Any]:
        """What happened to clusters after a version, or since the beginning of a day; the latest first."""
        scene = self.scene
        times = self.source.times()
        if day is not None:
            begin = _start_of(day)
            since = max((version for version, at in times.items() if at < begin), default=0)
        since = min(max(since or 0, 0), scene.version)
        which = self._default_cut(scene) if cut in (None, "", "auto") else str(cut)
        if not which.startswith("cut:"):
            which = self._default_cut(scene)
        found = self.source.changes(since, which[4:]) if self.source.has_versions and which.startswith("cut:") else []
        found = [change for change in found if change.version <= scene.version]
        chosen = scene.cut(which) if scene.n else None
        at = {} if chosen is None else dict(zip(chosen.clusters.tolist(), range(len(chosen)), strict=True))

        def told(change: Any) -> dict[str, Any]:
            i = at.get(change.cluster)
            v = None if i is None or chosen is None else int(chosen.nodes[i])
            return {
                "version": change.version,
                "time": times.get(change.version),
                "kind": change.kind,
                "cluster": change.cluster,
                "others": list(change.others),
                "size": change.size,
                "count": change.count,
                "title": f"cluster {change.cluster}" if v is None else self.title(scene, v, chosen),
                "node": v,
                "start": None if v is None else int(scene.starts[v]),
            }

        new = int(scene.fresh_before(since)[-1]) if scene.n else 0
        latest = found[::-1][:MOST_CHANGES]
        return {
            "version": scene.version,
            "since": since,
            "new_points": new,
            "changes": [told(change) for change in latest],
            "truncated": len(found) > len(latest),
        }

    def versions(self) -> dict[str, Any]:
        """When versions were made, thinned out."""
        times = sorted((v, at) for v, at in self.source.times().items() if v <= self.version)
        kept = [times[i] for i in sampled(len(times), 200).tolist()] if times else []
        if times and kept[-1] != times[-1]:
            kept.append(times[-1])
        return {"versions": [{"version": version, "time": at} for version, at in kept]}

    # The map ------------------------------------------------------------------------------------------------------

    def map(self, method: str | None = None, version: int | None = None) -> bytes:
        """All points on a plane, from left to right in the tree."""
        scene = self.at(version)
        known = self.about()["map"]
        if known is None:
            raise KeyError("there is no map: the points are no vectors, and no columns were named for it")
        method = method or known["method"]
        if method not in known["methods"]:
            raise ValueError(f"method must be one of {', '.join(known['methods'])}; got {method!r:.60}")
        make: Callable[[], bytes] = lambda: self._make_map(scene, str(method))  # noqa: E731
        return self._map.get((method, scene.version), make, wait=60.0 if method != "umap" else 0.3)

    def _make_map(self, scene: Scene, method: str) -> bytes:
        keys = scene.seen.keys[scene.order]
        if method == "columns":
            assert self.fields.x is not None
            assert self.fields.y is not None
            both = [(self.fields.x, self.fields.y)] * scene.n
            found = [
                [_coordinate(payload, name) for name in names]
                for payload, names in zip(self.source.payloads(keys), both, strict=True)
            ]
            plane = np.array(found, np.float32)
        elif method == "umap":
            rows = self.source.rows(keys)
            assert rows is not None
            plane = projection.umap_of(np.asarray(rows, np.float32), self.source.metric())
        else:
            plane = self._pca(scene, keys)
        x, y, aspect = projection.quantized(plane)
        header = {"version": scene.version, "method": method, "n": scene.n, "aspect": aspect}
        return pack_arrays(header, {"x": x, "y": y})

    def _pca(self, scene: Scene, keys: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        sample = self.sample(scene)
        assert sample.rows is not None
        # The axes of the first version stay, so that the map does not turn as points come.
        axes = self.__dict__.setdefault("_axes", None)
        if axes is None or len(axes[0]) != sample.rows.shape[1] or scene.n > 2 * axes[2]:
            self._axes = axes = (*projection.principal_axes(sample.rows), scene.n)

        def rows_at(start: int, stop: int) -> npt.NDArray[np.float32]:
            return sample.comparable(self.source.rows(keys[start:stop]))

        return projection.project(rows_at, scene.n, axes[0], axes[1])

    def points(self, what: str, since: int | None = None, version: int | None = None) -> bytes:
        """Something of every point, from left to right in the tree."""
        scene = self.at(version)
        if what == "label" and scene.codes is not None:
            codes = scene.codes[scene.order]
            values = np.where((codes < 0) | (codes > 65534), 65535, codes)
        elif what == "time":
            values = np.rint(scene.arrival[scene.order] * 65534)
        elif what == "fresh":
            values = (scene.seen.arrived[scene.order] > (since or 0)).astype(np.uint16)
        else:
            raise ValueError(f"what must be label (where labels are known), time or fresh; got {what!r:.60}")
        return pack_arrays({"version": scene.version, "what": what, "n": scene.n}, {"value": values.astype(np.uint16)})

    def close(self) -> None:
        self.source.close()


def _layer_title(name: str) -> str:
    return f"layer {int(name[6:]) + 1}"


def _cut_title(cut: Cut) -> str:
    if cut.name.startswith("layer:"):
        return _layer_title(cut.name)
    return f"{len(cut):,} clusters" if cut.name.startswith("k:") else cut.name[4:]


def _real(value: Any) -> float | None:
    """A number that JSON can hold."""
    return float(value) if np.isfinite(value) else None


def _start_of(day: str) -> float:
    try:
        return datetime.datetime.fromisoformat(day).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"day must be a date such as 2026-11-15; got {day!r:.60}") from None


def _numbers(vector: Any) -> list[float]:
    if isinstance(vector, str):
        try:
            vector = json.loads(vector)
        except (ValueError, RecursionError):
            raise ValueError("vector must be a list of numbers in JSON, such as [0.1, -2, 3]") from None
    is_list = isinstance(vector, list) and all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in vector)
    if not is_list:
        raise ValueError("vector must be a list of numbers, such as [0.1, -2, 3]")
    return [float(x) for x in vector]


def _coordinate(payload: Any, name: str) -> float:
    try:
        return float(payload[name])
    except (TypeError, ValueError, KeyError):
        return 0.0


__all__ = ["Computing", "Stale", "Viewer"]
