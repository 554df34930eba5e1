"""Search for nodes and points by names, ids and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grinch.serve.views.icicle import title
from grinch.serve.views.scene import Scene, whole_number

if TYPE_CHECKING:
    from grinch.serve.views.viewer import Viewer

SNIPPET = 160
# Clusters whose keywords are compared, and those of them that are listed.
MAX_COMPARED, MAX_BY_KEYWORD = 500, 5


def search(viewer: Viewer, scene: Scene, q: str, limit: int) -> dict[str, Any]:
    """Return hits for a text: given names and names of clusters first, then an id, keywords of clusters, and texts."""
    if not q or not scene.n:
        return {"version": scene.version, "hits": [], "complete": True}
    hits = [*_named(viewer, scene, q), *_by_id(viewer, scene, q)]
    seen = {hit["leaf"] for hit in hits if hit["leaf"] is not None}
    positions, is_complete = viewer.backend.find_text(q, 4 * limit)
    for position in positions:
        leaf = scene.leaf_at(position)
        if leaf is None or leaf in seen:
            continue
        hits += _point(viewer, scene, leaf, q)
        if len(hits) >= limit:
            is_complete = False
            break
    return {"version": scene.version, "hits": hits[:limit], "complete": is_complete}


def _named(viewer: Viewer, scene: Scene, q: str) -> list[dict[str, Any]]:
    wanted, cut, sample = q.lower(), viewer.cut_of(scene, None), viewer.sample(scene)
    hits = [_hit(scene, "name", name, "", v) for v, name in scene.names.items() if wanted in name.lower()]
    taken = {hit["node"] for hit in hits}
    names = scene.look.names.get(cut.name[4:], {}) if cut.name.startswith("cut:") else {}
    number = whole_number(wanted.removeprefix("cluster").strip().lstrip("#"))
    for cluster, v in zip(cut.clusters.tolist(), cut.nodes.tolist(), strict=True):
        name = names.get(cluster, "")
        is_number = number == cluster and wanted.startswith(("cluster", "#"))
        if v not in taken and (is_number or (name and wanted in name.lower())):
            hits.append(_hit(scene, "cluster", name or f"cluster {cluster}", title(viewer, scene, v, cut), v))
            taken.add(v)
    if sample.words is None or wanted not in sample.words.words:
        return hits
    # Clusters with this keyword, the largest first.
    largest = cut.nodes[(-cut.sizes).argsort(kind="stable")[:MAX_COMPARED]].tolist()
    known = [v for v in largest if v not in taken and wanted in sample.keywords(v)][:MAX_BY_KEYWORD]
    snippets = {v: ", ".join(sample.keywords(v)) for v in known}
    return hits + [_hit(scene, "keyword", title(viewer, scene, v, cut), snippets[v], v) for v in known]


def _by_id(viewer: Viewer, scene: Scene, q: str) -> list[dict[str, Any]]:
    try:
        leaf = scene.leaf_at(viewer.position_of(q))
    except KeyError:
        return []
    return [] if leaf is None else [{**hit, "kind": "id"} for hit in _point(viewer, scene, leaf, q)]


def _point(viewer: Viewer, scene: Scene, leaf: int, q: str) -> list[dict[str, Any]]:
    """Return a point whose id or text contains a text; nothing if only the name of a field does."""
    name, payload = viewer.backend.points([scene.look.positions[leaf]])[0]
    values = [payload] if not isinstance(payload, dict) else list(payload.values())
    where = next((str(value) for value in values if q.lower() in str(value).lower()), None)
    if where is None and q.lower() not in str(name).lower():
        return []
    text = viewer.fields.text_of(payload) or str(name)
    return [_hit(scene, "text", text[:SNIPPET], _around(where or "", q), leaf, leaf)]


def _around(text: str, q: str) -> str:
    """Return the part of a text around a word."""
    begin = max(text.lower().find(q.lower()) - SNIPPET // 3, 0)
    return f"{'…' if begin else ''}{text[begin : begin + SNIPPET]}{'…' if len(text) > begin + SNIPPET else ''}"


def _hit(scene: Scene, kind: str, title: str, snippet: str, v: int, leaf: int | None = None) -> dict[str, Any]:
    return {"kind": kind, "title": title, "snippet": snippet, **scene.spot(v), "leaf": leaf}
