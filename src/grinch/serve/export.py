"""The explorer as one file that needs no server: the page with answers to all its questions inside (page/local.js).

Nodes are numbered in the order of the display, the larger child first, so that the sizes alone are the tree: the first
child of a node is the next one, and the second one comes after all nodes below the first.
"""

from __future__ import annotations

import base64
import gzip
import mimetypes
import os
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._types import Counts, Ids
from grinch.io.write import replacing
from grinch.plots.colors import TONES, hue_steps
from grinch.serve import assets
from grinch.serve.background import Computing
from grinch.serve.views import history, maps
from grinch.serve.views.fields import is_address, plain
from grinch.serve.views.icicle import pack_arrays, unpack_arrays
from grinch.serve.views.nodes import N_EXEMPLARS, N_KEYWORDS, N_NEAREST, NodePages
from grinch.serve.views.sample import N_COLUMNS
from grinch.serve.views.viewer import Viewer

MAX_POINTS = 50_000
# Changes are included since each of this many versions.
MAX_VERSIONS = 20
# Image files are included up to this many bytes; those of points near the top of the tree come first.
MAX_IMAGE_BYTES = 20_000_000
NODES_PER_BATCH = 1_000
# Keywords of nodes with more points than this are those of an ancestor that has at most 2 % more points.
MAX_DESCRIBED_EACH, SAME_KEYWORDS = 2_000, 0.98

Arrays = dict[str, npt.NDArray[Any]]


def write_page(viewer: Viewer, path: str | os.PathLike[str]) -> None:
    """Write the explorer of a viewer as a page that opens from a file, offline."""
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"path must be in a folder that is there; got {os.fspath(path)!r}")
    page = page_of(viewer)
    with replacing(os.fspath(path)) as out:
        out.write(page)


def page_of(viewer: Viewer) -> str:
    """Return the explorer of a viewer as one page."""
    if viewer.n > MAX_POINTS:
        raise ValueError(
            f"a page without a server holds at most {MAX_POINTS:,} points; there are {viewer.n:,}."
            " Look at them with: grinch explore"
        )
    data = base64.b64encode(gzip.compress(pack_arrays(*Export(viewer).message()), 9, mtime=0)).decode()
    return assets.single_page(data)


class Export:
    """The answers of a viewer about its latest version, by node in the order of the display."""

    def __init__(self, viewer: Viewer):
        self.viewer, self.scene = viewer, viewer.scene
        while True:
            try:
                self.layers = viewer.layers()["layers"]
                break
            except Computing:
                continue
        there = self.scene.tree.preorder() if self.scene.n else np.empty(0, np.int32)
        self.nodes: Ids = there[np.lexsort((-self.scene.sizes[there], self.scene.starts[there]))].astype(np.int32)
        self.sizes: Ids = self.scene.sizes[self.nodes]
        # One more entry, for -1.
        self.numbers = np.full(self.scene.tree.n_ids + 1, -1, np.int32)
        self.numbers[self.nodes] = np.arange(len(self.nodes))

    def message(self) -> tuple[dict[str, Any], Arrays]:
        """Return everything as a header and arrays."""
        header, arrays = self._about(), self._tree()
        for part in (self._cuts, self._points, self._history, self._words, self._rows, self._map):
            more, further = part()
            header |= more
            arrays |= further
        return header, arrays

    def _about(self) -> dict[str, Any]:
        fields, root = self.viewer.fields, 0 if self.scene.n else -1
        return {
            "about": {**self.viewer.about(), "root": root, "can_name": False, "can_place": False},
            "layers": self.layers,
            "names": [[int(self.numbers[v]), name] for v, name in self.scene.names.items()],
            "text": fields.text,
            "cluster_names": {f"cut:{cut}": names for cut, names in self.scene.look.names.items()},
            "label_names": self.scene.label_names,
        }

    def _tree(self) -> Arrays:
        scene, at = self.scene, np.arange(len(self.nodes))
        steps = np.array([scene.step_up(v) for v in self.nodes.tolist()], np.int64)
        arrays: Arrays = {
            "size": self.sizes.astype(np.uint32),
            "hue": hue_steps(scene.hues[self.nodes]),
            "height": scene.heights[self.nodes].astype(np.float32),
            # The same for nearly all nodes, so that it takes little room.
            "score_and_height": (np.asarray(scene.tree.scores) + scene.heights)[self.nodes].astype(np.float32),
            "up": (at - self.numbers[steps]).astype(np.uint32),
            "split": (self.numbers[self._pages.splits_of(self.nodes)] - at).astype(np.uint32),
        }
        if scene.codes is not None and scene.n:
            best, counts = scene.commonest
            arrays |= {"label": best[self.nodes].astype(np.int32), "label_count": counts[self.nodes].astype(np.uint32)}
        return arrays

    @cached_property
    def _pages(self) -> NodePages:
        scene, viewer = self.scene, self.viewer
        rows = viewer.backend.rows(scene.look.positions) if scene.n else None
        return NodePages(viewer, scene, None if rows is None else viewer.sample(scene).comparable(rows))

    # Cuts ---------------------------------------------------------------------------------------------------------

    def _cuts(self) -> tuple[dict[str, Any], Arrays]:
        scene, names = self.scene, [*(f"cut:{name}" for name in self.scene.look.cuts), *self.scene.layers]
        arrays: Arrays = {}
        for cut in map(scene.cut, names):
            arrays[f"node {cut.name}"] = self.numbers[cut.nodes]
            arrays[f"cluster {cut.name}"] = cut.clusters.astype(np.int32)
        node, first, last = np.array(self._by_k(), np.int64).reshape(-1, 3).T
        arrays |= {"k_node": self.numbers[node], "k_first": first.astype(np.uint16), "k_last": last.astype(np.uint16)}
        return {"cut_titles": {name: scene.cut(name).title for name in names}, "tones": len(TONES)}, arrays

    def _by_k(self) -> list[tuple[int, int, int]]:
        """Return each node that is a cluster of a cut into k clusters, and the first and the last k."""
        done, first = [], dict[int, int]()
        last = self.scene.max_k if self.scene.n else 0
        for k in range(1, last + 1):
            cut = self.scene.cut(f"k:{k}")
            clusters = set(cut.nodes.tolist())
            done += [(cluster, first.pop(cluster), k - 1) for cluster in first.keys() - clusters]
            first |= dict.fromkeys(clusters - first.keys(), k)
        return sorted(done + [(cluster, since, last) for cluster, since in first.items()])

    # Points, from left to right -----------------------------------------------------------------------------------

    def _points(self) -> tuple[dict[str, Any], Arrays]:
        scene, look = self.scene, self.scene.look
        points = self.viewer.backend.points(look.positions[scene.order])
        header = {
            "ids": [name for name, _ in points],
            "payloads": [plain(payload) for _, payload in points],
            "images": self._images([payload for _, payload in points]),
        }
        arrays: Arrays = {"leaf": scene.order.astype(np.uint32)}
        if self.viewer.backend.has_versions:
            arrays["arrived"] = look.arrived[scene.order].astype(np.uint32)
        if look.times is not None:
            arrays["times"] = look.times[scene.order].astype(np.float64)
        for what in ("label", "time") if scene.codes is not None else ("time",):
            arrays[f"points {what}"] = unpack_arrays(maps.of_points(scene, what, None))[1]["value"]
        return header, arrays

    def _images(self, payloads: list[Any]) -> dict[int, str]:
        """Return, by place, the address of an image, or the image itself; those near the top of the tree first."""
        scene, left, images = self.scene, MAX_IMAGE_BYTES, dict[int, str]()
        above = scene.sizes_above[scene.order]
        for place in np.argsort(-above, kind="stable").tolist():
            image = self.viewer.fields.image_of(payloads[place])
            if image is None:
                continue
            if is_address(image):
                images[place] = image
            elif self.viewer.images is not None and left > 0:
                kind, content = self._image_file(int(scene.order[place]), left)
                left -= len(content)
                if content:
                    images[place] = f"data:{kind};base64,{base64.b64encode(content).decode()}"
        return images

    def _image_file(self, leaf: int, max_bytes: int) -> tuple[str, bytes]:
        """Return media type and content of an image file; no content if it is too large or cannot be read."""
        try:
            path = self.viewer.image(leaf, self.scene.version)
            content = path.read_bytes() if path.stat().st_size <= max_bytes else b""
            return mimetypes.guess_type(path.name)[0] or "application/octet-stream", content
        except (KeyError, OSError):
            return "", b""

    def _history(self) -> tuple[dict[str, Any], Arrays]:
        versions = history.versions(self.viewer, MAX_VERSIONS)["versions"]
        since = [0, *(version["version"] for version in versions)]
        changes = [history.changes(self.viewer, version, None, None) for version in since]
        for change in (change for changed in changes for change in changed["changes"]):
            if change["node"] is not None:
                change["node"] = int(self.numbers[change["node"]])
        return {"versions": versions, "changes": changes}, {}

    # Pages of nodes -----------------------------------------------------------------------------------------------

    def _words(self) -> tuple[dict[str, Any], Arrays]:
        sample = self.viewer.sample(self.scene)
        if sample.words is None:
            return {"words": None}, {}
        listed: dict[int, list[int]] = {}
        parents, sizes = self.scene.tree.parents(), self.scene.sizes
        # Long chains of large nodes with nearly the same points have the same keywords.
        described = dict[int, int]()
        for v in self.nodes[self.sizes > 1].tolist():
            above = described.get(int(parents[v]), v)
            is_same = sizes[v] > MAX_DESCRIBED_EACH and sizes[v] > SAME_KEYWORDS * sizes[above] and above != v
            described[v] = above if is_same and above in listed else v
            listed[v] = listed[above] if described[v] != v else sample.keyword_numbers(v, N_KEYWORDS)
        return {"words": sample.words.words}, _ragged("keyword", list(listed.values()))

    def _rows(self) -> tuple[dict[str, Any], Arrays]:
        """Return what is typical of nodes, nearest to them, and the columns that stand out."""
        pages, sample = self._pages, self.viewer.sample(self.scene)
        if sample.rows is None or not self.scene.n:
            return {"nearest": None, "columns": None}, {}
        inner = self.nodes[self.sizes > 1]
        exemplars = [self.scene.place[pages.central(v)[:N_EXEMPLARS]] - self.scene.starts[v] for v in inner.tolist()]
        nearest, likeness = self._nearest()
        low = float(likeness.min(initial=0.0))
        step = float(likeness.max(initial=0.0) - low) / 255 or 1.0
        arrays = {
            **_ragged("exemplar", exemplars),
            # All first bytes, all second ones, and so on: it compresses better.
            "nearest": nearest.astype("<i4").ravel().view(np.uint8).reshape(-1, 4).T.ravel(),
            "likeness": np.rint((likeness - low) / step).astype(np.uint8).ravel(),
        }
        header: dict[str, Any] = {"nearest": {"low": low, "step": step, "count": N_NEAREST}, "columns": None}
        if pages.column_names is not None:
            batches = [sample.standing_out(sample.means(batch)) for batch in _batches(self.nodes)]
            columns, scores = (np.concatenate(parts) for parts in zip(*batches, strict=True))
            of_all = {"mean": sample.mean.tolist(), "deviation": sample.deviation.tolist()}
            header["columns"] = {"names": pages.column_names, **of_all, "count": min(N_COLUMNS, columns.shape[1])}
            arrays["column"] = columns.astype(np.uint16).ravel()
            # In tenths of a standard deviation.
            arrays["column_z"] = np.clip(np.rint(scores * 10) + 128, 0, 255).astype(np.uint8).ravel()
        return header, arrays

    def _nearest(self) -> tuple[Ids, npt.NDArray[np.float64]]:
        """Return, by node, how much further on the nearest nodes are, 0 for none, and their similarity."""
        nearest = np.zeros((len(self.nodes), N_NEAREST), np.int32)
        likeness = np.zeros(nearest.shape)
        order = np.argsort(self.sizes, kind="stable")
        # Those of one size are compared with the same nodes.
        for same in np.split(order, np.flatnonzero(np.diff(self.sizes[order])) + 1):
            for at in _batches(same) if self.sizes[same[0]] < self.scene.n else ():
                found, scores = self._pages.nearest(self.nodes[at])
                width = found.shape[1]
                nearest[at, :width] = np.where(found >= 0, self.numbers[found] - at[:, None], 0)
                likeness[at, :width] = np.where(found >= 0, scores, 0)
        return nearest, likeness

    def _map(self) -> tuple[dict[str, Any], Arrays]:
        methods = maps.methods(self.viewer, self.scene)[:1]
        if not methods:
            return {}, {}
        header, places = unpack_arrays(maps.make_map(self.viewer, self.scene, methods[0]))
        return {"map": {**header, "methods": methods}}, {"map_x": places["x"], "map_y": places["y"]}


def _batches(values: Any) -> Iterable[Any]:
    return (values[start : start + NODES_PER_BATCH] for start in range(0, len(values), NODES_PER_BATCH))


def _ragged(name: str, lists: list[Any]) -> Arrays:
    """Return lists of different lengths as two arrays: all values, and the number of each."""
    values: Counts = np.concatenate([np.empty(0, np.int64), *map(np.asarray, lists)])
    dtype = np.uint16 if values.max(initial=0) < 2**16 else np.uint32
    return {name: values.astype(dtype), f"{name}_count": np.array([len(one) for one in lists], np.uint8)}
