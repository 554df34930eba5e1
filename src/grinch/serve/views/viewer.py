"""The questions of the page about a tree; the routes of :mod:`grinch.serve.api.views` are these methods."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import grinch
from grinch._types import Counts, Floats, Labels
from grinch.plots.colors import COLORS
from grinch.serve.backend import MAX_POINTS_FOR_LAYERS, Backend, sampled
from grinch.serve.background import Background, Computing
from grinch.serve.node_names import NamedNodes
from grinch.serve.views import cluster_list, history, icicle, maps
from grinch.serve.views.fields import IMAGE_ENDINGS, Fields, check_named
from grinch.serve.views.nodes import NodePages, place
from grinch.serve.views.sample import Directions, Sample
from grinch.serve.views.scene import Cut, Scene, known_range, layer_title, whole_number
from grinch.serve.views.search import search
from grinch.store.queries import Look
from grinch.tree.layout import Plane

MAX_LABELS = 1_000
# Labels of more points than this are read only if the user named their field.
MAX_POINTS_FOR_LABELS = 200_000
# New scenes take at most this share of the time, so that viewing does not delay the writer.
SHARE_OF_TIME = 0.2
# The first cut that is shown has at most so many clusters; where no tracked cut has, it has about this number.
MAX_FIRST, DEFAULT_K = 40, 25
# Seconds that a request waits for a map, or for the words of texts, before it is asked for again.
MAP_WAIT, WORDS_WAIT = 0.3, 0.2
# The map of so few points is waited for.
FEW_POINTS, LONG_WAIT = 5_000, 60.0
N_FOR_FIELDS = 1_000


class Stale(Exception):
    """A request with node numbers of a version that is no longer shown."""

    def __init__(self, asked: int, version: int):
        super().__init__(f"version {asked} is no longer shown; the tree is at version {version} now. Ask for that")
        self.version = version


class Viewer:
    """A tree that is shown, of any backend; answers are plain dicts and packed arrays.

    Parameters
    ----------
    backend : Backend
        A store, a model or a tree (:mod:`grinch.serve.backend`).
    text, image, label, x, y : str, optional
        The fields of the payload that are the text, the image, the true class, and the place on the map; the first
        three are detected where their names are usual. A store remembers them; an empty text forgets.
    images : Path, optional
        The folder below which image files are read. Without it none are.
    labels : sequence, optional
        The true class of each point, for models and trees.

    Examples
    --------
    >>> from grinch import Grinch
    >>> from grinch.serve.model_backend import ModelBackend
    >>> model = Grinch(n_clusters=2).fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]])
    >>> viewer = Viewer(ModelBackend(model, payload=["ape", "bee", "cat", "dog"]))
    >>> about = viewer.about()
    >>> about["n"], about["cut"]
    (4, 'cut:labels')
    >>> viewer.node(about["root"])["title"]
    '4 points'
    """

    def __init__(
        self,
        backend: Backend,
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
        self.backend = backend
        self.images = None if images is None else images.resolve(strict=True)
        given = {"text": text, "image": image, "label": label, "x": x, "y": y}
        self._given_labels = labels
        self._label_at: dict[int, Any] | None = None
        self._label_numbers: dict[Any, int] = {}
        self.fields = Fields()
        self.names = NamedNodes(backend)
        named = {what: name for what, name in given.items() if name is not None}
        self._named_fields = {what: name for what, name in (self.names.fields() | named).items() if name}
        self._building = threading.Lock()
        self._took, self._built_at = 0.0, 0.0
        self._layers, self._map, self._words = Background(), Background(), Background()
        self._layers_took, self._layers_at = 0.0, 0.0
        # The axes of the map, and the number of points they were found from.
        self.axes: tuple[Floats, Floats, int] | None = None
        # The positions of the points that were laid out by their neighbours, ascending, and where they are.
        self.laid_out: tuple[Counts, Plane] | None = None
        self._directions = Directions()
        self._scenes: dict[int, Scene] = {}
        self.scene = self._build()
        self._check_named_fields(named)
        if named and backend.kind == "store":
            self.names.name_fields({what: name or None for what, name in named.items()})

    # Versions -----------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self.scene.version

    @property
    def n(self) -> int:
        return self.scene.n

    def refresh(self, *, now: bool = False) -> int:
        """Show the newest version, unless that is too much work for the rate of changes; returns the version shown.

        With ``now``, show it in any case.
        """
        if not self._building.acquire(blocking=now):
            return self.version
        try:
            idle = time.monotonic() - self._built_at
            if (now or idle * SHARE_OF_TIME >= self._took) and self.backend.latest() != self.version:
                self.scene = self._build()
            self.names.update(self.scene)
            return self.version
        finally:
            self._building.release()

    def _build(self) -> Scene:
        begin = time.monotonic()
        look = self.backend.read(lambda view: view.look())
        scene = Scene(look)
        if scene.n:
            # Neighbours in the tree, since those are of one class if any are.
            places = np.unique(np.add.outer(sampled(scene.n, N_FOR_FIELDS // 2), (0, 1)).clip(max=scene.n - 1))
            some = list(self.backend.payloads(look.positions[scene.order[places]]))
            self.fields = Fields.detect(some, **self._named_fields)
        scene.codes, scene.label_names = self._labels(look)
        scene.has_text = self.fields.has_text
        self.names.update(scene)
        if scene.n:
            self.cut_of(scene, None)  # what a page asks for first
        if self._scenes and self.scene.sample is not None and self.scene.sample.has_words:
            # Names are shown: those of the next version come with it.
            self.has_words(scene, None)
        # Requests for the last version may still come.
        self._scenes = {scene.version: scene, **dict(list(self._scenes.items())[:1])}
        self._built_at = time.monotonic()
        self._took = self._built_at - begin
        return scene

    def at(self, version: int | None) -> Scene:
        """Return the scene of a version, or the latest."""
        scene = self.scene if version is None or version == self.version else self._scenes.get(version)
        if scene is None:
            raise Stale(int(version or 0), self.version)
        return scene

    def _check_named_fields(self, given: dict[str, str]) -> None:
        """Refuse fields that the user named and no point has; forget those that were remembered."""
        missing, positions = dict(self._named_fields), self.scene.look.positions
        if not missing or not len(positions):
            return
        for payload in self.backend.payloads(positions):
            fields = payload if isinstance(payload, Mapping) else ()
            missing = {what: name for what, name in missing.items() if name not in fields}
            if not missing:
                return
        check_named(
            list(self.backend.payloads(positions[sampled(len(positions), N_FOR_FIELDS)])),
            **{what: name for what, name in missing.items() if given.get(what)},
        )
        self._named_fields = {what: name for what, name in self._named_fields.items() if what not in missing}
        self.scene = self._build()

    def _labels(self, look: Look) -> tuple[Labels | None, list[str]]:
        """Return the true class of each point as a number, -1 for none, and the names; None if there are none."""
        labels = self._labels_of(look)
        if labels is None or all(label is None for label in labels):
            return None, []
        # A label keeps its number, and so its color, in all versions.
        number = self._label_numbers
        codes = [-1 if label is None else number.setdefault(label, len(number)) for label in labels]
        return np.array(codes, np.int64), [str(label) for label in number]

    def _labels_of(self, look: Look) -> list[Any] | None:
        positions = look.positions.tolist()
        if self._given_labels is not None:
            if self._label_at is None:
                labels, n = list(self._given_labels), len(positions)
                if len(labels) != n:
                    raise ValueError(f"labels must have an entry for each of the {n:,} points; got {len(labels):,}")
                self._label_at = dict(zip(positions, labels, strict=True))
            # Points that came later have none.
            return [_as_label(self._label_at.get(position)) for position in positions]
        is_wanted = "label" in self._named_fields or len(positions) <= MAX_POINTS_FOR_LABELS
        if self.fields.label is None or not is_wanted:
            return None
        return [_as_label(self.fields.label_of(payload)) for payload in self.backend.payloads(look.positions)]

    def sample(self, scene: Scene) -> Sample:
        """Return some of the points with rows and texts; made when it is first needed."""
        with scene.lock:
            if scene.sample is None:
                scene.sample = Sample(scene, self.backend, self.fields, self._directions)
            return scene.sample

    def has_words(self, scene: Scene, wait: float | None = WORDS_WAIT) -> bool:
        """Return whether the words of texts are known after some seconds; they are found in the background.

        Until then nodes are called by their sizes. With ``wait=None``, wait until they are known.
        """
        if not scene.has_text:
            return True
        try:
            self._words.get(scene.version, lambda: self.sample(scene).words, wait)
        except Computing:
            return False
        return True

    # The whole ----------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return a description of the tree, and of what can be asked."""
        scene, backend = self.scene, self.backend
        times = None if scene.look.times is None else known_range(scene.look.times)
        methods, n_features = maps.methods(self, scene), backend.n_features
        return {
            "title": backend.title,
            "kind": backend.kind,
            "version": scene.version,
            "n": scene.n,
            "root": scene.tree.root,
            "can_name": backend.names_file is not None,
            "can_place": scene.n > 0 and n_features is not None and backend.can_place(),
            "n_features": n_features,
            "cuts": self._tracked_cuts(scene) + self._listed_layers(scene),
            "cut": self.default_cut(scene),
            "max_k": scene.max_k,
            "colors": self.colors(scene),
            "palette": COLORS,
            "labels": scene.label_names[:MAX_LABELS] if scene.codes is not None else None,
            "label_colors": scene.label_colors.tolist() if scene.codes is not None else None,
            "times": None if times is None else {"first": times[0], "last": times[1]},
            "map": {"methods": methods, "method": methods[0]} if methods else None,
            "has_text": self.fields.has_text,
            "has_images": self.fields.image is not None,
            "has_payload": next(backend.payloads(scene.look.positions[:1]), None) is not None,
            "versions": backend.has_versions,
            "grinch": grinch.__version__,
        }

    def colors(self, scene: Scene) -> list[str]:
        """Return the ways in which the tree can be colored."""
        of_labels = [] if scene.codes is None else ["label", "purity"]
        return ["cluster", *of_labels, "time", *(["fresh"] if self.backend.has_versions else [])]

    def _tracked_cuts(self, scene: Scene) -> list[dict[str, Any]]:
        titles = {"labels": "flat clusters", "default": "default cut"}
        titles |= dict.fromkeys(titles.keys() & scene.look.automatic, "automatic cut")
        return [
            {
                "cut": f"cut:{name}",
                "title": titles.get(name, name),
                "clusters": len(scene.cut(f"cut:{name}")),
            }
            for name in scene.look.cuts
        ]

    def _listed_layers(self, scene: Scene) -> list[dict[str, Any]]:
        return [
            {"cut": name, "title": layer_title(name), "clusters": len(scene.cut(name)), "persistence": persistence}
            for name, persistence in scene.persistence.items()
        ]

    def default_cut(self, scene: Scene) -> str:
        """Return the cut that is shown first."""
        names = [f"cut:{name}" for name in scene.look.cuts]
        good = next((name for name in names if len(scene.cut(name)) <= min(MAX_FIRST, scene.n / 4 + 4)), None)
        return good or f"k:{max(min(scene.max_k, DEFAULT_K), 1)}"

    def cut_of(self, scene: Scene, name: str | None) -> Cut:
        """Return a cut by name; ``auto`` or nothing is the one that is shown first."""
        if name and name.startswith("layer:") and name not in scene.layers and scene.n:
            self.compute_layers(scene)
        return scene.cut(self.default_cut(scene) if name in (None, "", "auto") else str(name))

    def layers(self, asked: bool = False) -> dict[str, Any]:
        """Return the layers, finest first; for very many points only if they are ``asked`` for (else None)."""
        scene = self.scene
        if scene.n and not scene.layers:
            if scene.n > MAX_POINTS_FOR_LAYERS and not asked:
                return {"version": scene.version, "layers": None}
            if time.monotonic() - self._layers_at < self._layers_took / SHARE_OF_TIME:
                raise Computing
            self._layers.get(("layers", scene.version), lambda: self.compute_layers(scene))
        return {"version": scene.version, "layers": self._listed_layers(scene)}

    def compute_layers(self, scene: Scene) -> bool:
        """Compute the layers of a scene; none if there is a newer version by now."""
        began = time.monotonic()
        version, layers = self.backend.layers() if self.backend.latest() == scene.version else (-1, [])
        self._layers_at = time.monotonic()
        self._layers_took = self._layers_at - began
        if version == scene.version:
            scene.layers = {f"layer:{i}": layer.labels for i, layer in enumerate(layers)}
            scene.persistence = {f"layer:{i}": layer.persistence for i, layer in enumerate(layers)}
            # With them the automatic cut of a model is known.
            look = self.backend.read(lambda view: view.look())
            scene.look = look if look.version == version else scene.look
        return True

    # The icicle and its nodes -------------------------------------------------------------------------------------

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
        """Return the blocks between two places for a width in pixels."""
        return icicle.view(self, self.at(version), x0, x1, width, rows, cut, color, since)

    def cut(self, cut: str | None = None, version: int | None = None) -> bytes:
        """Return the clusters of a cut, from left to right, and the names of the largest."""
        return icicle.clusters(self, self.at(version), cut)

    def clusters(
        self,
        cut: str | None = None,
        q: str = "",
        order: str = "size",
        offset: int = 0,
        limit: int = 100,
        since: int | None = None,
        version: int | None = None,
    ) -> dict[str, Any]:
        """Return some of the clusters of a cut, those with a given name first."""
        return cluster_list.clusters(self, self.at(version), cut, q.strip(), order, offset, limit, since)

    def node(
        self, node: int, cut: str | None = None, since: int | None = None, version: int | None = None
    ) -> dict[str, Any]:
        """Return the page of a node."""
        scene = self.at(version)
        return NodePages(self, scene).page(scene.node(node), self.cut_of(scene, cut), since)

    def members(
        self, node: int, offset: int = 0, limit: int = 50, order: str = "central", version: int | None = None
    ) -> dict[str, Any]:
        """Return some of the points under a node."""
        scene = self.at(version)
        return NodePages(self, scene).members(scene.node(node), offset, min(limit, 200), order)

    def search(self, q: str, limit: int = 20, version: int | None = None) -> dict[str, Any]:
        """Return nodes and points by name, id or text."""
        return search(self, self.at(version), q.strip(), min(limit, 100))

    def place(
        self, vector: Any = None, like: Any = None, cut: str | None = None, version: int | None = None
    ) -> dict[str, Any]:
        """Return the place of a new point: a row of numbers, or one like a point that is there."""
        return place(self, self.at(version), vector, like, cut)

    def position_of(self, name: Any) -> int:
        """Return the position of the point with an id; raises KeyError if there is none."""
        position = self.backend.position_of(name)
        if position is None and isinstance(name, str) and (number := whole_number(name)) is not None:
            position = self.backend.position_of(number)
        if position is None:
            raise KeyError(f"id {name!r:.60} is not there")
        return position

    def locate(self, id: Any, size: int = 1) -> dict[str, Any]:
        """Return the node over a point whose size is nearest to a given one."""
        scene = self.scene
        leaf = scene.leaf_at(self.position_of(id))
        if leaf is None:
            raise KeyError(f"id {id!r:.60} is not in version {scene.version}")
        return {"version": scene.version, **scene.spot(scene.ancestor_of_size(leaf, size))}

    def image(self, leaf: int, version: int | None = None) -> Path:
        """Return the image file of a point, below the folder of images."""
        scene = self.at(version)
        if not 0 <= leaf < scene.n:
            raise KeyError(f"leaf {leaf} is not in version {scene.version}")
        name = self.fields.image_of(self.backend.points([scene.look.positions[leaf]])[0][1])
        if self.images is None or name is None or "\0" in name:
            raise KeyError(f"there is no image of leaf {leaf}")
        with suppress(OSError, ValueError):
            file = (self.images / name).resolve(strict=True)
            is_image = file.name.lower().endswith(IMAGE_ENDINGS)
            if is_image and file.is_relative_to(self.images) and file.is_file():
                return file
        raise KeyError(f"there is no image of leaf {leaf} in the folder of images")

    def name(self, node: int, name: str | None, version: int | None = None) -> dict[str, Any]:
        """Give a node a name that stays with it (None removes it)."""
        scene = self.at(version)
        given = self.names.give(scene, scene.node(node), name)
        self.names.update(self.scene)
        return {"version": scene.version, "node": node, "name": given}

    # History and map ----------------------------------------------------------------------------------------------

    def changes(self, since: int | None = None, day: str | None = None, cut: str | None = None) -> dict[str, Any]:
        """Return the net changes of clusters after a version, or since the beginning of a day."""
        return history.changes(self, since, day, cut)

    def versions(self) -> dict[str, Any]:
        """Return the times of versions, some of them where there are many."""
        return history.versions(self)

    def map(self, method: str | None = None, version: int | None = None) -> bytes:
        """Return all points on a plane, from left to right in the tree."""
        scene = self.at(version)
        known = maps.methods(self, scene)
        if not known:
            raise KeyError("there is no map: the points are no vectors, and no columns were named for it")
        chosen = method or known[0]
        if chosen not in known:
            raise ValueError(f"method must be one of {', '.join(known)}; got {chosen!r:.60}")
        key = chosen, scene.version
        message: bytes = self._map.get(
            key, lambda: maps.make_map(self, scene, chosen), wait=LONG_WAIT if scene.n <= FEW_POINTS else MAP_WAIT
        )
        return message

    def points(self, what: str, since: int | None = None, version: int | None = None) -> bytes:
        """Return a value of every point, from left to right in the tree."""
        return maps.of_points(self.at(version), what, since)

    def close(self) -> None:
        """Close the backend."""
        self.backend.close()


def _as_label(value: Any) -> Any:
    """Return a class as it can be counted; None for none."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or value == "" or (isinstance(value, float) and np.isnan(value)):
        return None
    return value if isinstance(value, (str, int, float)) else str(value)


__all__ = ["Computing", "Stale", "Viewer"]
