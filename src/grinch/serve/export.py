"""The explorer as one file that needs no server: the page with everything it asks for inside (page/local.js)."""

from __future__ import annotations

import base64
import gzip
import mimetypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.io.write import replacing
from grinch.serve import assets
from grinch.serve.background import Computing
from grinch.serve.sources import sampled
from grinch.serve.views import history, maps
from grinch.serve.views.arrays import pack_arrays, unpack_arrays
from grinch.serve.views.fields import is_address, plain
from grinch.serve.views.scene import Scene
from grinch.serve.views.viewer import Viewer

MOST_POINTS = 50_000
# Vectors longer than this are shortened to the directions in which the points vary most.
LONGEST_ROWS, SHORTENED = 64, 24
# What became of clusters is put in since each of these many versions.
MOST_VERSIONS = 20
# Image files are put in up to this many bytes; those of the points that stand for the largest nodes come first.
MOST_IMAGE_BYTES = 20_000_000

Arrays = dict[str, npt.NDArray[Any]]


def write_page(viewer: Viewer, path: str | os.PathLike[str]) -> None:
    """Write what a viewer shows as a page that opens from a file, offline."""
    if not Path(path).absolute().parent.is_dir():
        raise FileNotFoundError(f"path must be in a folder that is there; got {os.fspath(path)!r}")
    page = page_of(viewer)
    with replacing(os.fspath(path)) as out:
        out.write(page)


def page_of(viewer: Viewer) -> str:
    """What a viewer shows as one page."""
    if viewer.n > MOST_POINTS:
        raise ValueError(
            f"a page without a server holds at most {MOST_POINTS:,} points; there are {viewer.n:,}."
            " Look at them with: grinch explore"
        )
    data = base64.b64encode(gzip.compress(_message(viewer, viewer.scene), 6, mtime=0)).decode()
    return assets.single_page(data)


def _message(viewer: Viewer, scene: Scene) -> bytes:
    header, arrays = _about(viewer, scene), _tree(scene)
    for add in (_add_cuts, _add_points, _add_times, _add_words, _add_rows, _add_map):
        add(viewer, scene, header, arrays)
    return pack_arrays(header, arrays)


def _about(viewer: Viewer, scene: Scene) -> dict[str, Any]:
    fields = viewer.fields
    return {
        "about": {**viewer.about(), "can_name": False, "can_place": False},
        "names": [[int(v), name] for v, name in viewer.names.at(scene).items()],
        "fields": {"text": fields.text, "image": fields.image, "label": fields.label},
        "cluster_names": {f"cut:{cut}": names for cut, names in scene.seen.cluster_names.items()},
        "rows": None,
        "words": None,
    }


def _tree(scene: Scene) -> Arrays:
    children = scene.tree.child_pairs() if scene.n else np.empty((0, 2), np.int32)
    return {
        "left": children[:, 0].astype(np.int32),
        "right": children[:, 1].astype(np.int32),
        "height": scene.heights.astype(np.float32),
        "score": np.asarray(scene.tree.scores, np.float32),
        "splits": scene.split_order(),
    }


def _add_cuts(viewer: Viewer, scene: Scene, header: dict[str, Any], arrays: Arrays) -> None:
    header["layers"] = _layers(viewer)
    header["cuts"] = [*(f"cut:{name}" for name in scene.seen.cuts), *scene.layers]
    arrays.update({f"labels {name}": scene.shown_labels(name) for name in header["cuts"]})


def _layers(viewer: Viewer) -> list[dict[str, Any]]:
    while True:
        try:
            found: list[dict[str, Any]] = viewer.layers()["layers"]
            return found
        except Computing:
            continue


def _add_points(viewer: Viewer, scene: Scene, header: dict[str, Any], arrays: Arrays) -> None:
    points = viewer.source.points(scene.seen.keys.tolist())
    header["ids"] = [name for name, _ in points]
    header["payloads"] = [plain(payload) for _, payload in points]
    header["images"] = _images(viewer, scene, [payload for _, payload in points])
    header["label_names"] = scene.label_names
    if scene.codes is not None:
        arrays["codes"] = scene.codes.astype(np.int32)


def _images(viewer: Viewer, scene: Scene, payloads: list[Any]) -> dict[int, str]:
    """By leaf, the address of its image, or the image itself; nearer to the top of the tree first."""
    found: dict[int, str] = {}
    left = MOST_IMAGE_BYTES
    largest = scene.tree.parents()[: scene.n]
    for leaf in np.argsort(-scene.sizes[largest], kind="stable").tolist() if scene.n > 1 else range(scene.n):
        image = viewer.fields.image_of(payloads[leaf])
        if image is None:
            continue
        if is_address(image):
            found[leaf] = image
        elif viewer.images is not None and left > 0:
            content = _file_of(viewer, leaf, scene, left)
            if content is not None:
                left -= len(content[1])
                found[leaf] = f"data:{content[0]};base64,{base64.b64encode(content[1]).decode()}"
    return found


def _file_of(viewer: Viewer, leaf: int, scene: Scene, most: int) -> tuple[str, bytes] | None:
    """The media type and the content of an image file of at most ``most`` bytes."""
    try:
        path = viewer.image(leaf, scene.version)
        if path.stat().st_size > most:
            return None
        return mimetypes.guess_type(path.name)[0] or "application/octet-stream", path.read_bytes()
    except (KeyError, OSError):
        return None


def _add_times(viewer: Viewer, scene: Scene, header: dict[str, Any], arrays: Arrays) -> None:
    arrays["arrived"] = scene.seen.arrived.astype(np.uint32)
    arrays["arrival"] = scene.arrival.astype(np.float32)
    if scene.seen.times is not None:
        arrays["times"] = scene.seen.times.astype(np.float64)
    known = history.versions(viewer)["versions"]
    header["versions"] = [known[i] for i in sampled(len(known), MOST_VERSIONS).tolist()] if known else []
    since = [0, *(version["version"] for version in header["versions"])]
    header["changes"] = [history.changes(viewer, version, None, None) for version in since]


def _add_words(viewer: Viewer, scene: Scene, header: dict[str, Any], arrays: Arrays) -> None:
    words = viewer.sample(scene).words if scene.n else None
    if words is not None:
        header["words"] = words.words
        arrays.update(word_numbers=words.numbers, word_ends=words.ends.astype(np.int32))


def _add_rows(viewer: Viewer, scene: Scene, header: dict[str, Any], arrays: Arrays) -> None:
    """The vectors, or the directions in which they vary most, in 8 bits: enough for what is central and near."""
    given = viewer.source.rows(scene.seen.keys) if scene.n else None
    if given is None:
        return
    sample = viewer.sample(scene)
    rows = sample.comparable(given)
    names = None if sample.is_shortened else viewer.source.columns()
    if not sample.is_shortened and names is None and sample.words is None and rows.shape[1] <= LONGEST_ROWS:
        names = [f"column {i}" for i in range(rows.shape[1])]
    if rows.shape[1] > LONGEST_ROWS:
        names, rows = None, _shortened(rows, sample.metric)
    low, high = rows.min(axis=0), rows.max(axis=0)
    step = np.where(high > low, (high - low) / 255, 1)
    arrays["rows"] = np.rint((rows - low) / step).astype(np.uint8).ravel()
    header["rows"] = {
        "width": rows.shape[1],
        "metric": sample.metric,
        "low": low.tolist(),
        "step": step.tolist(),
        "columns": names,
    }


def _shortened(rows: npt.NDArray[np.float32], metric: str) -> npt.NDArray[np.float32]:
    """Rows with fewer numbers that keep most of what tells them apart."""
    # Directions are compared from the origin; moved to the mean they would be others.
    centered = rows if metric == "cosine" else rows - rows.mean(axis=0)
    _, vectors = np.linalg.eigh((centered.T @ centered).astype(np.float64))
    found: npt.NDArray[np.float32] = centered @ vectors[:, : -SHORTENED - 1 : -1].astype(np.float32)
    return found


def _add_map(viewer: Viewer, scene: Scene, header: dict[str, Any], arrays: Arrays) -> None:
    if header["about"]["map"] is None:
        return
    method = header["about"]["map"]["method"]
    header["about"]["map"] = {"methods": [method], "method": method}
    made, places = unpack_arrays(maps.make_map(viewer, scene, method))
    header["aspect"] = made["aspect"]
    arrays.update(map_x=places["x"], map_y=places["y"])
