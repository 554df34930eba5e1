"""The routes of the service that read."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Header, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from grinch import cuts
from grinch._types import Labels
from grinch.serve.api import bodies, events, models
from grinch.serve.api.answers import COMMON, MOVED_ON, NOT_THERE, Json, numpy_file
from grinch.serve.api.models import MAX_INT, HitLimit, MemberLimit, Node, Offset, Version, Words
from grinch.serve.api.predict import Predictions
from grinch.serve.api.service import Service
from grinch.serve.backend import View
from grinch.serve.views.viewer import Stale, Viewer
from grinch.tree import Tree

BINARY = {"schema": {"type": "string", "format": "binary"}}
TEXT = {"schema": {"type": "string"}}
CutName = Annotated[str, Query(min_length=1, max_length=300, description="The name of a tracked cut.")]
Since = Annotated[int, Query(ge=0, le=MAX_INT, description="Changes after this version.")]
LastEvent = Annotated[str | None, Header(max_length=20, description="The version of the last event that came.")]
# Changes that are read at once for a stream.
CHANGES_PER_READ = 10_000
# Information about the machine, which others need not know.
HIDDEN = ("writer", "bytes")


def answers(model: Any, *tags: str, body: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the description of a route whose answer is a model, and which reads its body itself."""
    return {
        "tags": list(tags),
        "responses": {200: {"model": model, **more}},
        "response_class": Response,
        "openapi_extra": body,
    }


def router(service: Service, viewer: Viewer) -> APIRouter:
    """Return the routes that read."""
    routes = APIRouter(prefix="/v1", responses=COMMON)
    _add_points(routes, service)
    _add_clusters(routes, service, viewer)
    _add_changes(routes, service)
    _add_tree(routes, service, viewer)
    return routes


def _add_points(routes: APIRouter, service: Service) -> None:
    predictions = Predictions(service)
    of_ids = bodies.json_body(models.IdsGiven)

    @routes.get("/info", **answers(models.Info, "service"))
    def info() -> Any:
        """What is served: points, version, settings, cuts."""
        about = service.read(lambda view: view.info())
        shown = {name: value for name, value in about.items() if name not in HIDDEN}
        return Json({"kind": service.backend.kind, "is_read_only": service.writer is None, **shown})

    @routes.get("/ids", **answers(models.Ids, "points"))
    def ids(offset: Offset = 0, limit: Annotated[int, Query(ge=1, le=1_000_000)] = 10_000) -> Any:
        """The ids of the points, in the order they came, in pages."""
        version, names = service.read(lambda view: (view.version, view.ids))
        return Json({"version": version, "total": len(names), "ids": names[offset : offset + limit]})

    async def of(request: Request, find: Callable[[View, list[Any]], dict[str, Any]]) -> Response:
        """Answer for the points that a request names."""
        ids = await bodies.read_ids(request, service.settings)
        return Json(await run_in_threadpool(service.read, lambda view: {"version": view.version, **find(view, ids)}))

    @routes.post("/payload", **answers(models.Payloads, "points", body=of_ids))
    async def payload(request: Request) -> Any:
        """The payload of points."""
        return await of(request, lambda view, ids: {"payload": view.payload(ids)})

    @routes.post("/vectors", **answers(models.Vectors, "points", body=of_ids))
    async def vectors(request: Request) -> Any:
        """The points themselves, as they are stored."""

        def find(view: View, ids: list[Any]) -> dict[str, Any]:
            rows = view.vectors(ids)
            if not isinstance(rows, np.ndarray):
                raise ValueError("the points are no vectors")
            return {"X": rows.tolist()}

        return await of(request, find)

    @routes.post("/predict", **answers(models.Predicted, "points", body=bodies.points_body(models.RowsGiven)))
    async def predict(request: Request, cut: CutName = "default") -> Any:
        """The cluster that each point would join, without inserting it.

        With a body of arrays, the cut is named in the address.
        """

        def parse(body: bytes) -> tuple[Any, str]:
            given: Any = bodies.parser(request, models.RowsGiven, service.settings)(body)
            name = cut if isinstance(given, bodies.Points) else given.cut
            return bodies.matrix(given.X, service.settings), name

        version, clusters = await predictions.get(*await bodies.read(request, parse))
        return Json({"version": version, "clusters": clusters})


def _add_clusters(routes: APIRouter, service: Service, viewer: Viewer) -> None:
    of_cut = {**answers(models.Labels, "clusters", content={bodies.NPY: BINARY})}
    of_cut["responses"] |= {**NOT_THERE, **MOVED_ON}

    @routes.get("/cut", **of_cut)
    def cut(
        name: Annotated[str | None, Query(min_length=1, max_length=300, description="A tracked cut.")] = None,
        n_clusters: Annotated[int | None, Query(ge=1, le=MAX_INT, description="Into this many clusters.")] = None,
        threshold: Annotated[float | None, Query(allow_inf_nan=False, description="At this score.")] = None,
        layer: Annotated[int | None, Query(ge=0, le=1_000, description="A layer of the automatic cut.")] = None,
        format: Literal["json", "npy"] = "json",
    ) -> Any:
        """The cluster of each point, in the order of the ids, by one way to cut the tree (default: the cut default)."""
        if sum(value is not None for value in (name, n_clusters, threshold, layer)) > 1:
            raise ValueError("give one of name, n_clusters, threshold and layer")
        if layer is not None:
            version, labels = _layer(viewer, layer)
        elif n_clusters is not None or threshold is not None:
            version, tree = service.read(lambda view: (view.version, view.bare_tree))
            labels = cut_tree(tree, n_clusters, threshold)
        else:
            version, labels = service.read(lambda view: (view.version, view.labels(name or "default")))
        return numpy_file(version, labels) if format == "npy" else Json({"version": version, "labels": labels.tolist()})

    @routes.get("/clusters", **answers(models.Clusters, "clusters"))
    def clusters(
        cut: CutName = "default", ids: Annotated[bool, Query(description="With the ids of all points.")] = True
    ) -> Any:
        """The clusters of a tracked cut, by ids that stay with them."""
        version, members, names = service.read(lambda view: (view.version, view.clusters(cut), view.names(cut)))
        listed = [
            {"cluster": number, "name": names.get(number), "size": len(own), "ids": own if ids else []}
            for number, own in members.items()
        ]
        return Json({"version": version, "cut": cut, "clusters": listed})

    @routes.get("/names", **answers(models.Names, "clusters"))
    def names(cut: CutName = "default", gone: bool = False) -> Any:
        """The names that were given to clusters; with ``gone``, of clusters that are no more, too."""
        version, names = service.read(lambda view: (view.version, view.names(cut, gone=gone)))
        return Json({"version": version, "cut": cut, "names": {str(number): name for number, name in names.items()}})


def _layer(viewer: Viewer, layer: int) -> tuple[int, Labels]:
    viewer.refresh(now=True)
    scene = viewer.scene
    if not scene.layers and scene.n:
        viewer.compute_layers(scene)
        if not scene.layers and (latest := viewer.backend.latest()) != scene.version:
            raise Stale(scene.version, latest)
    labels = scene.layers.get(f"layer:{layer}")
    if labels is None:
        raise KeyError(f"layer {layer} is not there; there are {len(scene.layers)}")
    return scene.version, labels


def cut_tree(tree: Tree, n_clusters: int | None, threshold: float | None) -> Labels:
    """Return the clusters of a tree at a number or a threshold, numbered as their first points came."""
    if not tree.n_leaves:
        return np.empty(0, np.int64)
    if threshold is not None:
        return cuts.cut_threshold(tree, threshold)
    return cuts.cut_sizeable(tree, n_clusters or 1)


def _add_changes(routes: APIRouter, service: Service) -> None:
    @routes.get("/changes", **answers(models.Changes, "changes"))
    def changes(
        since: Since = 0, cut: CutName = "default", limit: Annotated[int, Query(ge=1, le=1_000_000)] = 10_000
    ) -> Any:
        """Changes of clusters, in order, by whole versions; of all cuts with ``cut=*``."""
        return Json(service.read(lambda view: _changes(view, since, cut, limit)))

    @routes.get("/changes/digest", **answers(models.News, "changes"))
    def digest(since: Since = 0, cut: CutName = "default", limit: Annotated[int, Query(ge=0, le=1_000)] = 10) -> Any:
        """The news since a version, in sentences: what became of clusters, the most important first."""
        return Json(asdict(service.read(lambda view: view.digest(since, limit, cut))))

    @routes.get(
        "/changes/stream",
        tags=["changes"],
        responses={200: {"content": {events.MEDIA_TYPE: TEXT}}},
        response_class=StreamingResponse,
    )
    async def stream(
        since: Annotated[int | None, Query(ge=0, le=MAX_INT, description="Default: from now on.")] = None,
        cut: CutName = "default",
        last_event_id: LastEvent = None,
    ) -> Any:
        """Changes of clusters as server-sent events: one called ``changes`` for each version, which is its id."""
        begin = await run_in_threadpool(service.read, lambda view: _begin(view, since, last_event_id, cut))
        return events.streamed(_changes_stream(service, service.notifier.join(), begin, cut))


def _begin(view: View, since: int | None, last_event_id: str | None, cut: str) -> int:
    if last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdigit()):
            raise ValueError(f"Last-Event-ID must be the version of an event; got {last_event_id!r:.40}")
        since = int(last_event_id)
    begin = view.version if since is None else since
    # Refuses the name of a cut that is not there.
    _changes(view, min(begin, view.version), cut, 1)
    if begin > view.version:
        raise ValueError(f"since must be a version there is, up to {view.version}; got {begin}")
    return begin


def _changes(view: View, since: int, cut: str, limit: int) -> dict[str, Any]:
    changes = view.changes(since, None if cut == "*" else cut)
    is_more = len(changes) > limit
    if is_more:
        # Whole versions only, and at least one.
        last = changes[limit].version
        before = [change for change in changes if change.version < last]
        changes = before or [change for change in changes if change.version == last]
    until = changes[-1].version if is_more else view.version
    listed = [{**asdict(change), "others": list(change.others)} for change in changes]
    return {"version": view.version, "until": until, "more": is_more and until < view.version, "changes": listed}


async def _changes_stream(service: Service, listener: events.Listener, since: int, cut: str) -> AsyncIterator[bytes]:
    try:
        yield events.BEGIN
        while not service.notifier.is_closed:
            after = since
            page = await run_in_threadpool(
                service.read, lambda view, after=after: _changes(view, after, cut, CHANGES_PER_READ)
            )
            for version, changes in groupby(page["changes"], lambda change: change["version"]):
                yield events.event("changes", {"version": version, "changes": list(changes)}, version)
            since = page["until"]
            if not page["more"] and not await listener.wait(events.KEEP_ALIVE):
                yield events.SIGN_OF_LIFE
    finally:
        service.notifier.leave(listener)


def _add_tree(routes: APIRouter, service: Service, viewer: Viewer) -> None:
    formats = {"text/plain": TEXT, "text/csv": TEXT, bodies.NPY: BINARY, bodies.NPZ: BINARY}
    of_viewer: dict[str, Any] = {
        "tags": ["tree"],
        "responses": {**NOT_THERE, **MOVED_ON},
        "response_class": Response,
        "response_model": dict[str, Any],
    }

    @routes.get("/tree", **answers(models.TreeNodes, "tree", content=formats))
    def tree(format: Literal["json", "newick", "npy", "npz", "csv"] = "json") -> Any:
        """The whole tree: all nodes (JSON, CSV), Newick, or scipy's linkage matrix (npy). Leaves go by their ids.

        With npz there are two arrays: ``linkage``, and ``ids_json``, the bytes of a list in JSON.
        """
        version, tree, ids = service.read(lambda view: (view.version, view.bare_tree, view.ids))
        if format == "json":
            return Json({"version": version, **nodes_of(tree)})
        if format in ("npy", "npz"):
            linkage = tree.to_scipy() if tree.n_leaves > 1 else np.empty((0, 4))
            if format == "npy":
                return numpy_file(version, linkage)
            return numpy_file(version, linkage=linkage, ids_json=np.frombuffer(Json(ids).body, np.uint8))
        headers = {"X-Version": str(version)}
        if format == "newick":
            return PlainTextResponse(tree.to_newick(ids) if ids else ";", headers=headers)
        return Response(csv_of(tree, ids), media_type="text/csv", headers=headers)

    @routes.get("/node/{node}", **of_viewer)
    def node(node: Node, version: Version = None) -> Any:
        """A node: its size, keywords, exemplars, and the nodes around it."""
        viewer.refresh()
        return Json(viewer.node(node, None, None, version))

    @routes.get("/node/{node}/members", **of_viewer)
    def members(node: Node, offset: Offset = 0, limit: MemberLimit = 50, version: Version = None) -> Any:
        """Some of the points under a node, the most central first."""
        viewer.refresh()
        return Json(viewer.members(node, offset, limit, "central", version))

    @routes.get("/search", **of_viewer)
    def search(q: Words, limit: HitLimit = 20) -> Any:
        """Nodes and points by name, id or text."""
        viewer.refresh()
        return Json(viewer.search(q, limit))


def nodes_of(tree: Tree) -> dict[str, list[Any]]:
    """Return all nodes of a tree, by columns."""
    if not tree.n_leaves:
        return {name: [] for name in ("node", "parent", "left", "right", "size", "height")}
    nodes = np.concatenate([np.arange(tree.n_leaves), np.sort(tree.internal_nodes())])
    is_leaf, pairs = nodes < tree.n_leaves, tree.child_pairs()
    left, right = (np.where(is_leaf, -1, pairs[np.where(is_leaf, tree.root, nodes), side]) for side in (0, 1))
    heights = tree.heights()[nodes]
    return {
        "node": nodes.tolist(),
        "parent": tree.parents()[nodes].tolist(),
        "left": left.tolist(),
        "right": right.tolist(),
        "size": tree.sizes()[nodes].tolist(),
        "height": [height if np.isfinite(height) else None for height in heights.tolist()],
    }


def csv_of(tree: Tree, ids: list[Any]) -> str:
    """Return all nodes of a tree as a table, leaves with their ids."""
    columns, out = nodes_of(tree), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*columns, "id"])
    writer.writerows(zip(*columns.values(), [*ids, *[""] * (len(columns["node"]) - len(ids))], strict=True))
    return out.getvalue()
