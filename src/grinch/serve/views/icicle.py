"""The icicle: the blocks in view, the clusters of a cut and the titles of nodes, packed for the page.

A message is a JSON header and arrays in their binary form. Its first four bytes are the length of the header; header
and arrays are each padded to a multiple of eight bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from grinch._types import Ids
from grinch.serve.views.scene import Cut, Scene

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

MEDIA_TYPE = "application/x-grinch-arrays"
DTYPES = {"u1", "u2", "u4", "i4", "f4", "f8"}

# A split is shown if its smaller side is at least this wide on the screen.
MIN_PIXELS = 3.0
# Narrower blocks have no room for a title; names of clusters are written downwards where they have to be.
MIN_PIXELS_FOR_TITLE, MIN_PIXELS_FOR_CLUSTER = 36.0, 12.0
MAX_TITLES = 150
MAX_ROWS, MAX_PIXELS = 64, 8_000
MAX_LISTED_CLUSTERS = 200
MAX_TITLE = 120
N_TITLE_WORDS = 5
# A node is called by so many labels at most, if they are those of this share of its points.
MAX_LABELS_IN_TITLE, LABELLED_SHARE = 3, 2 / 3

# Flags of a block.
MORE, TOP, POINT, NAMED, WITHIN = 1, 2, 4, 8, 16


def pack_arrays(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """Return a message of a header and some arrays.

    >>> message = pack_arrays({"version": 3}, {"size": np.array([5, 7], np.int32)})
    >>> unpack_arrays(message)[0]["version"], unpack_arrays(message)[1]["size"].tolist()
    (3, [5, 7])
    """
    listed = [[name, array.dtype.str[1:], len(array)] for name, array in arrays.items()]
    assert all(dtype in DTYPES for _, dtype, _ in listed), listed
    text = json.dumps({**header, "arrays": listed}, ensure_ascii=False, allow_nan=False, default=_plain).encode()
    text += b" " * (-(4 + len(text)) % 8)
    parts = [np.uint32(len(text)).astype("<u4").tobytes(), text]
    for array in arrays.values():
        content = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        parts += [content, b"\0" * (-len(content) % 8)]
    return b"".join(parts)


def unpack_arrays(message: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the header and the arrays of a message."""
    length = int(np.frombuffer(message, "<u4", 1)[0])
    header: dict[str, Any] = json.loads(message[4 : 4 + length])
    arrays, at = {}, 4 + length
    for name, dtype, count in header["arrays"]:
        arrays[name] = np.frombuffer(message, f"<{dtype}", count, at)
        at += -(-arrays[name].nbytes // 8) * 8
    return header, arrays


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


# Blocks -----------------------------------------------------------------------------------------------------------


def view(
    viewer: Viewer,
    scene: Scene,
    x0: float,
    x1: float | None,
    width: float,
    rows: int,
    cut: str | None,
    color: str,
    since: int | None,
) -> bytes:
    """Return the blocks between two places for a width in pixels."""
    if not scene.n:
        nothing: dict[str, Any] = {"n": 0, "x0": 0, "x1": 0, "path": [], "names": {}, "has_words": True, "rows": 0}
        return pack_arrays({"version": scene.version, **nothing}, {})
    stop = scene.n if x1 is None else x1
    begin = int(np.clip(np.floor(x0), 0, scene.n - 1))
    end = int(np.clip(np.ceil(stop), begin + 1, scene.n))
    per_pixel = max(stop - x0, 0) / float(np.clip(width, 1, MAX_PIXELS))
    chosen, names = viewer.cut_of(scene, cut), scene.names
    min_size = int(np.ceil(MIN_PIXELS * per_pixel))
    shown = scene.blocks(begin, end, min_size, chosen, int(np.clip(rows, 1, MAX_ROWS)), names)
    nodes, sizes = shown.nodes, scene.sizes[shown.nodes]
    clusters = scene.clusters_of(nodes, chosen)
    colors, values = _colors(viewer, scene, nodes, clusters, chosen, color, since)
    flags = np.where((sizes > 1) & (shown.ends < 0), MORE, 0)
    flags |= np.where(np.isin(nodes, chosen.nodes), TOP, 0) | np.where(sizes == 1, POINT, 0)
    flags |= np.where(clusters >= 0, WITHIN, 0) | np.where(np.isin(nodes, list(names)), NAMED, 0)
    least = np.where(flags & TOP, MIN_PIXELS_FOR_CLUSTER, MIN_PIXELS_FOR_TITLE)
    wide = np.flatnonzero(sizes >= least * per_pixel)
    wide, has_words = wide[np.argsort(-sizes[wide], kind="stable")][:MAX_TITLES], viewer.has_words(scene)
    header = {
        "version": scene.version,
        "n": scene.n,
        "x0": begin,
        "x1": end,
        "path": [crumb(viewer, scene, v, chosen, has_words) for v in scene.path(int(nodes[0]))],
        "names": {str(v): title(viewer, scene, v, chosen, has_words) for v in nodes[wide].tolist()},
        "has_words": has_words,
        "rows": int(shown.rows.max()) + 1,
        "since": since,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "node": nodes,
        "parent": shown.parents,
        "row": shown.rows.astype(np.uint16),
        "start": scene.starts[nodes],
        "size": sizes,
        "split": shown.ends,
        "color": colors.astype(np.int32),
        "value": values.astype(np.float32),
        "height": scene.heights[nodes].astype(np.float32),
        "fresh": scene.fresh(nodes, since),
        "flags": flags.astype(np.uint8),
    }
    return pack_arrays(header, arrays)


def _colors(
    viewer: Viewer, scene: Scene, nodes: Ids, clusters: npt.NDArray[Any], cut: Cut, color: str, since: int | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    colors, sizes = np.append(cut.colors.astype(np.int32), -1)[clusters], scene.sizes[nodes]
    if color in ("label", "purity") and scene.codes is not None:
        best, counts = scene.commonest
        return best[nodes], counts[nodes] / sizes
    if color == "time":
        return colors, scene.mean_arrival(nodes)
    if color == "fresh":
        return colors, scene.fresh(nodes, since or 0) / sizes
    if color != "cluster":
        raise ValueError(f"color must be one of {', '.join(viewer.colors(scene))}; got {color!r:.60}")
    return colors, np.ones(len(nodes))


def clusters(viewer: Viewer, scene: Scene, cut: str | None) -> bytes:
    """Return the clusters of a cut, from left to right, and the names of the largest and all given ones."""
    if not scene.n:
        nothing: dict[str, Any] = {"cut": cut, "title": "", "clusters": 0, "list": [], "named": [], "has_words": True}
        return pack_arrays({"version": scene.version, **nothing}, {})
    chosen, has_words = viewer.cut_of(scene, cut), viewer.has_words(scene)
    listed = [
        {
            "cluster": int(chosen.clusters[i]),
            **scene.spot(v := int(chosen.nodes[i])),
            "name": title(viewer, scene, v, chosen, has_words),
        }
        for i in np.argsort(-chosen.sizes, kind="stable")[:MAX_LISTED_CLUSTERS].tolist()
    ]
    names = {v: name for v in chosen.nodes.tolist() if (name := _name_of_cluster(scene, v, chosen)) is not None}
    named = [{**scene.spot(v), "name": name} for v, name in (names | scene.names).items()]
    about = {"version": scene.version, "cut": chosen.name, "title": chosen.title, "clusters": len(chosen)}
    return pack_arrays({**about, "list": listed, "named": named, "has_words": has_words}, cut_arrays(chosen))


def cut_arrays(cut: Cut) -> dict[str, npt.NDArray[Any]]:
    """Return the clusters of a cut as the page takes them."""
    columns = {"start": cut.starts, "size": cut.sizes, "node": cut.nodes}
    return {**columns, "cluster": cut.clusters.astype(np.int32), "color": cut.colors}


# Titles -----------------------------------------------------------------------------------------------------------


def title(viewer: Viewer, scene: Scene, v: int, cut: Cut | None = None, has_words: bool = True) -> str:
    """Return a node's given name, the name of its cluster, its keywords, its labels, or its size.

    Without ``has_words``, what is known before the words of texts are.
    """
    name = given_name(scene, v, cut)
    if name is not None:
        return name
    if not has_words and v not in scene.titles:
        return _description(viewer, scene, v, False)
    if v not in scene.titles:
        scene.titles[v] = _description(viewer, scene, v)
    return scene.titles[v]


def given_name(scene: Scene, v: int, cut: Cut | None) -> str | None:
    """Return the name that somebody gave to a node, or to the cluster that it is."""
    return scene.names.get(v) or _name_of_cluster(scene, v, cut)


def crumb(viewer: Viewer, scene: Scene, v: int, cut: Cut | None, has_words: bool = True) -> dict[str, Any]:
    """Return a node as a step of the path to another."""
    is_all, height = v == scene.tree.root and v not in scene.names, float(scene.heights[v])
    name = "all points" if is_all else title(viewer, scene, v, cut, has_words)
    return {**scene.spot(v), "name": name, "height": height if np.isfinite(height) else None}


def _name_of_cluster(scene: Scene, v: int, cut: Cut | None) -> str | None:
    named = scene.look.names.get(cut.name[4:]) if cut is not None and cut.name.startswith("cut:") else None
    if cut is None or not named:
        return None
    i = int(cut.at(scene.starts[[v]])[0])
    return named.get(int(cut.clusters[i])) if i >= 0 and int(cut.nodes[i]) == v else None


def _description(viewer: Viewer, scene: Scene, v: int, has_words: bool = True) -> str:
    size = int(scene.sizes[v])
    if size == 1:
        name, payload = viewer.backend.points([scene.look.positions[scene.order[scene.starts[v]]]])[0]
        text = viewer.fields.text_of(payload) or ("a point that was removed" if name is None else str(name))
        return text[:MAX_TITLE]
    if scene.has_text and has_words and v != scene.tree.root:
        words = viewer.sample(scene).keywords(v, N_TITLE_WORDS)
        if words:
            return ", ".join(words)
    labels = [] if v == scene.tree.root else _labels(scene, v)
    return " + ".join(labels) or f"{size:,} points"


def _labels(scene: Scene, v: int) -> list[str]:
    """Return the fewest labels that most points of a node have, the commonest first; none if they are many."""
    if scene.codes is None:
        return []
    codes = scene.codes[scene.leaves(v)]
    counts = np.bincount(codes[codes >= 0], minlength=1)
    best = np.argsort(-counts, kind="stable")[:MAX_LABELS_IN_TITLE]
    enough = int(np.searchsorted(np.cumsum(counts[best]), LABELLED_SHARE * len(codes)))
    return [scene.label_names[code] for code in best[: enough + 1]] if enough < len(best) else []
