"""Find nodes and points by names, ids and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grinch.serve.views.scene import Scene, whole_number

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

SNIPPET = 160


def search(viewer: Viewer, scene: Scene, q: str, limit: int) -> dict[str, Any]:
    """What a text leads to: given names and names of clusters first, then an id, keywords of clusters, and texts."""
    if not q or not scene.n:
        return {"version": scene.version, "hits": [], "complete": True}
    hits = [*_named(viewer, scene, q), *_by_id(viewer, scene, q)]
    seen = {hit["leaf"] for hit in hits if hit["leaf"] is not None}
    keys, is_complete = viewer.source.find_text(q, 4 * limit)
    for key in keys:
        leaf = viewer.leaf_at(scene, key)
        if leaf is None or leaf in seen:
            continue
        hit = _point(viewer, scene, leaf, q)
        if hit is not None:
            hits.append(hit)
        if len(hits) >= limit:
            is_complete = False
            break
    return {"version": scene.version, "hits": hits[:limit], "complete": is_complete}


def _named(viewer: Viewer, scene: Scene, q: str) -> list[dict[str, Any]]:
    wanted, hits, taken = q.lower(), [], set()
    for v, name in viewer.names.at(scene).items():
        if wanted in name.lower():
            hits.append(_hit(scene, "name", name, "", v))
            taken.add(v)
    cut = viewer.cut_of(scene, None)
    given = scene.seen.cluster_names.get(cut.name[4:], {}) if cut.name.startswith("cut:") else {}
    number = whole_number(q.lower().removeprefix("cluster").strip().lstrip("#"))
    for cluster, v in zip(cut.clusters.tolist(), cut.nodes.tolist(), strict=True):
        name = given.get(cluster, "")
        is_number = number == cluster and q.lower().startswith(("cluster", "#"))
        if v not in taken and (is_number or (name and wanted in name.lower())):
            hits.append(_hit(scene, "cluster", name or f"cluster {cluster}", viewer.title(scene, v, cut), v))
            taken.add(v)
    return hits + _by_keyword(viewer, scene, wanted, taken)


def _by_keyword(viewer: Viewer, scene: Scene, wanted: str, taken: set[int]) -> list[dict[str, Any]]:
    """The clusters of the cut that are known by a word, largest first; a few."""
    sample = viewer.sample(scene)
    if sample.words is None or wanted not in sample.words.words:
        return []
    cut, hits = viewer.cut_of(scene, None), []
    for i in (-cut.sizes).argsort(kind="stable")[:500].tolist():
        v = int(cut.nodes[i])
        if v not in taken and wanted in sample.keywords(v, 5):
            hits.append(_hit(scene, "keyword", viewer.title(scene, v, cut), ", ".join(sample.keywords(v, 5)), v))
        if len(hits) >= 5:
            break
    return hits


def _by_id(viewer: Viewer, scene: Scene, q: str) -> list[dict[str, Any]]:
    try:
        leaf = viewer.leaf_at(scene, viewer.key_of(q))
    except KeyError:
        return []
    found = None if leaf is None else _point(viewer, scene, leaf, q)
    return [] if found is None else [{**found, "kind": "id"}]


def _point(viewer: Viewer, scene: Scene, leaf: int, q: str) -> dict[str, Any] | None:
    """A point whose id or text has a text in it; None if it is only the name of a field."""
    name, payload = viewer.source.points([int(scene.seen.keys[leaf])])[0]
    text = viewer.fields.text_of(payload)
    values = [payload] if not isinstance(payload, dict) else list(payload.values())
    where = next((str(value) for value in values if q.lower() in str(value).lower()), None)
    if where is None and q.lower() not in str(name).lower():
        return None
    return _hit(scene, "text", (text or str(name))[:SNIPPET], _around(where or "", q), leaf, leaf)


def _around(text: str, q: str) -> str:
    """The part of a text where a word is."""
    at = text.lower().find(q.lower())
    begin = max(at - SNIPPET // 3, 0)
    return f"{'…' if begin else ''}{text[begin : begin + SNIPPET]}{'…' if len(text) > begin + SNIPPET else ''}"


def _hit(scene: Scene, kind: str, title: str, snippet: str, v: int, leaf: int | None = None) -> dict[str, Any]:
    return {
        "kind": kind,
        "title": title,
        "snippet": snippet,
        "node": int(v),
        "start": int(scene.starts[v]),
        "size": int(scene.sizes[v]),
        "leaf": leaf,
    }
