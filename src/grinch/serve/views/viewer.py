"""What the page asks of a tree, and the answers; the routes of :mod:`grinch.serve.api.views` are these methods."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import grinch
from grinch._types import Floats
from grinch.estimators.grinch import Grinch
from grinch.serve.background import Computing, Later
from grinch.serve.node_names import GivenNames
from grinch.serve.sources import MOST_FOR_LAYERS, Source, StoreSource, sampled
from grinch.serve.views import history, icicle, maps, projection, titles
from grinch.serve.views.fields import IMAGE_ENDINGS, Fields, check_named
from grinch.serve.views.nodes import NodePages
from grinch.serve.views.place import place
from grinch.serve.views.sample import Sample
from grinch.serve.views.scene import Cut, Scene, empty_scene, known_range, whole_number
from grinch.serve.views.search import search
from grinch.serve.views.shortening import Shortening

MOST_LABELS = 1_000
# Labels of more points than this are read only if the user named their field.
MOST_LABELS_UNASKED = 200_000
# A new scene is made at most this share of the time, so that looking does not keep the writer waiting.
SHARE_OF_TIME = 0.2

# A cut with more clusters than this share of the points is not what is shown first; into how many, instead.
MOST_CLUSTERS_SHARE, SOME_CLUSTERS = 1 / 4, 40
# Seconds that a request waits for a map; UMAP takes longer, and is asked for again.
MAP_WAIT, UMAP_WAIT = 60.0, 0.3


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
    >>> model = Grinch(n_clusters=2).fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]])
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
        self._label_by_key: dict[int, Any] | None = None
        self._label_numbers: dict[Any, int] = {}
        self.fields = Fields()
        self.names = GivenNames(source)
        self._building = threading.Lock()
        self._took, self._built_at = 0.0, 0.0
        self._layers, self._map = Later(), Later()
        self._layers_took, self._layers_at = 0.0, 0.0
        # The mean, two directions, and of how many points.
        self.axes: tuple[Floats, Floats, int] | None = None
        self._shortening = Shortening()
        self._scenes: dict[int, Scene] = {}
        self.scene = self._build()
        if self.scene.n:
            self._check_named_fields(self.scene)

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

    def _check_named_fields(self, scene: Scene) -> None:
        """Fields that the user named must be there, if only for a few of the points."""
        missing = {what: name for what, name in self._given_fields.items() if name is not None}
        for payload in self.source.payloads(scene.seen.keys):
            missing = {what: name for what, name in missing.items() if not _has_field(payload, name)}
            if not missing:
                return
        check_named(list(self.source.payloads(scene.seen.keys[sampled(scene.n, 200)])), **missing)

    def _find_labels(self, scene: Scene) -> None:
        labels = self._labels_of(scene)
        if labels is None or all(label is None for label in labels):
            return
        # A label keeps its number, and so its color, in all versions.
        number = self._label_numbers
        codes = [-1 if label is None else number.setdefault(label, len(number)) for label in labels]
        scene.set_labels(np.array(codes, np.int64), [str(label) for label in number])

    def _labels_of(self, scene: Scene) -> list[Any] | None:
        """The true class of each point, as far as it is known; None if of none."""
        if self._given_labels is not None:
            if self._label_by_key is None:
                labels = list(self._given_labels)
                if len(labels) != scene.n:
                    raise ValueError(
                        f"labels must have an entry for each of the {scene.n:,} points; got {len(labels):,}"
                    )
                self._label_by_key = dict(zip(scene.seen.keys.tolist(), labels, strict=True))
            # Of points that came later, none is known.
            return [_as_label(self._label_by_key.get(key)) for key in scene.seen.keys.tolist()]
        is_wanted = self._given_fields["label"] is not None or scene.n <= MOST_LABELS_UNASKED
        if self.fields.label is None or not is_wanted:
            return None
        return [_as_label(self.fields.label_of(payload)) for payload in self.source.payloads(scene.seen.keys)]

    def sample(self, scene: Scene) -> Sample:
        """Some of the points, with rows and texts; made when it is first needed."""
        with scene.lock:
            if scene.sample is None:
                scene.sample = Sample(scene, self.source, self.fields, self.source.metric(), self._shortening)
            return scene.sample

    # The whole ----------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """What is looked at, and what can be asked of it."""
        scene = self.scene
        colors = ["cluster", "time"] + (["fresh"] if self.source.has_versions else [])
        if scene.codes is not None:
            colors[1:1] = ["label", "purity"]
        times = None if scene.seen.times is None else known_range(scene.seen.times)
        known = None if times is None else {"first": times[0], "last": times[1]}
        has_rows = scene.n > 0 and self.source.n_features() is not None
        methods = self.map_methods(scene)
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
            "cut": self.default_cut(scene),
            "max_k": scene.max_k,
            "colors": colors,
            "labels": scene.label_names[:MOST_LABELS] if scene.codes is not None else None,
            "times": known,
            "map": {"methods": methods, "method": methods[0]} if methods else None,
            "has_text": self.fields.has_text,
            "has_images": self.fields.image is not None,
            "has_payload": scene.n > 0 and next(self.source.payloads(scene.seen.keys[:1]), None) is not None,
            "versions": self.source.has_versions,
            "grinch": grinch.__version__,
        }

    def _can_place(self) -> bool:
        return isinstance(getattr(self.source, "model", None), Grinch)

    def _named_cuts(self, scene: Scene) -> list[dict[str, Any]]:
        called = {"cut:labels": "flat clusters", "cut:default": "default cut"}
        names = [f"cut:{name}" for name in scene.seen.cuts]
        found: list[dict[str, Any]] = [
            {
                "cut": name,
                "title": called.get(name, name[4:]),
                "clusters": len(scene.cut(name)),
                "is_recut_advised": name[4:] in scene.seen.drifted,
            }
            for name in names
        ]
        return found + [{"cut": n, "title": icicle.layer_title(n), "clusters": len(scene.cut(n))} for n in scene.layers]

    def default_cut(self, scene: Scene) -> str:
        # A cut that is mostly single points (that of a store that wants a recut, say) is nothing to begin with.
        names = [f"cut:{name}" for name in scene.seen.cuts]
        fine = next((name for name in names if len(scene.cut(name)) <= MOST_CLUSTERS_SHARE * scene.n + 4), None)
        return fine or f"k:{max(min(scene.max_k, SOME_CLUSTERS), 1)}"

    def cut_of(self, scene: Scene, name: str | None) -> Cut:
        """A cut by name; ``auto`` or nothing is the one that is shown first."""
        if name and name.startswith("layer:") and name not in scene.layers and scene.n:
            self.compute_layers(scene)
        return scene.cut(self.default_cut(scene) if name in (None, "", "auto") else str(name))

    def layers(self, asked: bool = False) -> dict[str, Any]:
        """The resolutions that last, finest first; of very many points only if they are ``asked`` for (else None)."""
        scene = self.scene
        if not scene.n:
            return {"version": scene.version, "layers": []}
        if not scene.layers:
            if scene.n > MOST_FOR_LAYERS and not asked:
                return {"version": scene.version, "layers": None}
            if time.monotonic() - self._layers_at < self._layers_took / SHARE_OF_TIME:
                raise Computing
            self._layers.get(("layers", scene.version), lambda: self.compute_layers(scene))
        found = [
            {"cut": name, "title": icicle.layer_title(name), "clusters": len(scene.cut(name)), "persistence": lasting}
            for name, lasting in scene.persistence.items()
        ]
        return {"version": scene.version, "layers": found}

    def compute_layers(self, scene: Scene) -> bool:
        began = time.monotonic()
        found = self.source.layers(scene.seen) or []
        self._layers_at = time.monotonic()
        self._layers_took = self._layers_at - began
        scene.persistence = {f"layer:{i}": layer.persistence for i, layer in enumerate(found)}
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
        return icicle.view(self, self.at(version), x0, x1, width, rows, cut, color, since)

    def cut(self, cut: str | None = None, version: int | None = None) -> bytes:
        """The clusters of a cut, from left to right, and the largest by name."""
        return icicle.clusters(self, self.at(version), cut)

    def title(self, scene: Scene, v: int, cut: Cut | None = None) -> str:
        """What a node is called: its given name, that of its cluster, its words, its commonest label, or its size."""
        return titles.title(self, scene, v, cut)

    def crumb(self, scene: Scene, v: int, cut: Cut | None) -> dict[str, Any]:
        """A node as a step of the path to another."""
        return titles.crumb(self, scene, v, cut)

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
        return place(self, self.at(version), vector, like, cut)

    def key_of(self, name: Any) -> int:
        key = self.source.key_of(name)
        if key is None and isinstance(name, str) and (number := whole_number(name)) is not None:
            key = self.source.key_of(number)
        if key is None:
            raise KeyError(f"id {name!r:.60} is not there")
        return key

    def leaf_at(self, scene: Scene, key: int) -> int | None:
        leaf = int(np.searchsorted(scene.seen.keys, key)) if key >= 0 else scene.n
        return leaf if leaf < scene.n and scene.seen.keys[leaf] == key else None

    def locate(self, id: Any, size: int = 1) -> dict[str, Any]:
        """The node over a point whose size is nearest to one that is known."""
        scene = self.scene
        leaf = self.leaf_at(scene, self.key_of(id))
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
            is_image = found.name.lower().endswith(IMAGE_ENDINGS)
            if is_image and found.is_relative_to(self.images) and found.is_file():
                return found
        raise KeyError(f"there is no image of leaf {leaf} in the folder of images")

    def name(self, node: int, name: str | None, version: int | None = None) -> dict[str, Any]:
        """Give a node a name that stays (None takes it away)."""
        scene = self.at(version)
        given = self.names.give(scene, scene.node(node), name)
        return {"version": scene.version, "node": node, "name": given}

    # Time and place -----------------------------------------------------------------------------------------------

    def changes(self, since: int | None = None, day: str | None = None, cut: str | None = None) -> dict[str, Any]:
        """What happened to clusters after a version, or since the beginning of a day; the latest first."""
        return history.changes(self, since, day, cut)

    def versions(self) -> dict[str, Any]:
        """When versions were made, thinned out."""
        return history.versions(self)

    def map(self, method: str | None = None, version: int | None = None) -> bytes:
        """All points on a plane, from left to right in the tree."""
        scene = self.at(version)
        known = self.map_methods(scene)
        if not known:
            raise KeyError("there is no map: the points are no vectors, and no columns were named for it")
        method = method or known[0]
        if method not in known:
            raise ValueError(f"method must be one of {', '.join(known)}; got {method!r:.60}")
        made: bytes = self._map.get(
            (method, scene.version),
            lambda: maps.make_map(self, scene, method),
            wait=MAP_WAIT if method != "umap" else UMAP_WAIT,
        )
        return made

    def map_methods(self, scene: Scene) -> list[str]:
        """The ways to put the points on a plane, the first of them at once."""
        has_rows, has_columns = scene.n > 0 and self.source.n_features() is not None, self.fields.x is not None
        return projection.methods(scene.n, has_columns) if has_rows else ["columns"] if has_columns else []

    def points(self, what: str, since: int | None = None, version: int | None = None) -> bytes:
        """Something of every point, from left to right in the tree."""
        return maps.of_points(self.at(version), what, since)

    def close(self) -> None:
        self.source.close()


def _has_field(payload: Any, name: str) -> bool:
    return isinstance(payload, Mapping) and name in payload


def _as_label(value: Any) -> Any:
    """A class as it can be counted; None for none."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value == "" or (isinstance(value, float) and np.isnan(value)):
        return None
    return value if isinstance(value, (str, int, float)) else str(value)


__all__ = ["Computing", "Stale", "Viewer"]
