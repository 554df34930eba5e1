"""The routes of the service that change nothing."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import HTTPException
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from grinch.serve.api import bodies, events, models
from grinch.serve.api.answers import COMMON, MOVED_ON, NOT_THERE, Json, aside, npy, npz, refusal
from grinch.serve.api.predict import Predictions
from grinch.serve.api.service import Service
from grinch.serve.backend import cut_tree
from grinch.serve.views.viewer import Stale, Viewer
from grinch.tree import Tree

LARGEST = models.LARGEST
NPY = {bodies.NPY: {"schema": {"type": "string", "format": "binary"}}}
NPZ = {bodies.NPZ: {"schema": {"type": "string", "format": "binary"}}}
CutName = Annotated[str, Query(min_length=1, max_length=300, description="The name of a cut that is followed.")]
Since = Annotated[int, Query(ge=0, le=LARGEST, description="What happened after this version.")]
Version = Annotated[int | None, Query(ge=0, le=LARGEST, description="The version that node numbers are of.")]
LastEvent = Annotated[str | None, Header(max_length=20, description="The version of the last event that came.")]
Node = Annotated[int, Path(ge=0, le=LARGEST, description="The number of a node in that version.")]


def router(service: Service, viewer: Viewer) -> APIRouter:
    """The routes that read."""
    routes = APIRouter(prefix="/v1", responses=COMMON)
    _add_points(routes, service)
    _add_clusters(routes, service, viewer)
    _add_changes(routes, service)
    _add_tree(routes, service, viewer)
    return routes


def _add_points(routes: APIRouter, service: Service) -> None:
    desk, settings = service.desk, service.settings
    predictions = Predictions(desk)

    @routes.get("/info", tags=["service"], responses={200: {"model": models.Info}}, response_class=Response)
    async def info() -> Any:
        """What is served: points, version, settings, cuts."""
        hidden = ("writer", "bytes")
        return await aside(
            lambda: {
                "kind": desk.kind,
                "is_read_only": service.writer is None,
                **{name: value for name, value in desk.read(lambda seen: seen.info()).items() if name not in hidden},
            }
        )

    @routes.get("/ids", tags=["points"], responses={200: {"model": models.Ids}}, response_class=Response)
    async def ids(
        offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0, limit: Annotated[int, Query(ge=1, le=1_000_000)] = 10_000
    ) -> Any:
        """The ids of the points, in the order they came, in pages."""

        def find(seen: Any) -> dict[str, Any]:
            found = seen.ids
            return {"version": seen.version, "total": len(found), "ids": found[offset : offset + limit]}

        return await aside(lambda: desk.read(find))

    @routes.post(
        "/payload",
        tags=["points"],
        responses={200: {"model": models.Payloads}},
        response_class=Response,
        openapi_extra=json_body(models.IdsGiven),
    )
    async def payload(request: Request) -> Any:
        """What is kept beside points."""

        def find(seen: Any, ids: list[Any]) -> dict[str, Any]:
            return {"version": seen.version, "payload": seen.payload(ids)}

        return await _of_ids(request, service, find)

    @routes.post(
        "/vectors",
        tags=["points"],
        responses={200: {"model": models.Vectors}},
        response_class=Response,
        openapi_extra=json_body(models.IdsGiven),
    )
    async def vectors(request: Request) -> Any:
        """The points themselves, as they are kept."""

        def find(seen: Any, ids: list[Any]) -> dict[str, Any]:
            rows = seen.vectors(ids)
            if not isinstance(rows, np.ndarray):
                raise ValueError("the points are no vectors")
            return {"version": seen.version, "X": rows.tolist()}

        return await _of_ids(request, service, find)

    @routes.post(
        "/predict",
        tags=["points"],
        responses={200: {"model": models.Predicted}},
        response_class=Response,
        openapi_extra=points_body(models.RowsGiven),
    )
    async def predict(request: Request, cut: CutName = "default") -> Any:
        """The cluster that each point would join, without inserting it.

        With a body of arrays, the cut is named in the address.
        """

        def parse(body: bytes) -> tuple[Any, str]:
            given: Any = bodies.parser(bodies.media_type(request), models.RowsGiven, settings)(body)
            name = cut if isinstance(given, bodies.Points) else given.cut
            return bodies.matrix(given.X, settings), name

        try:
            found = await predictions.get(*await bodies.read(request, parse))
        except Exception as error:
            return refusal(error)
        return Json({"version": found.version, "clusters": found.clusters})


async def _of_ids(request: Request, service: Service, find: Callable[[Any, list[Any]], Any]) -> Response:
    """What is found for the points that a request names."""
    try:
        ids = await given_ids(request, service)
    except Exception as error:
        return refusal(error)
    return await aside(lambda: service.desk.read(lambda seen: find(seen, ids)))


async def given_ids(request: Request, service: Service) -> list[Any]:
    """The ids in the body of a request, as many as may be."""
    kind = bodies.media_type(request)
    if kind != bodies.JSON:
        raise HTTPException(415, f"Content-Type must be {bodies.JSON}; got {kind!r:.60}")
    given = await bodies.read(request, lambda body: bodies.read_json(body, models.IdsGiven))
    return few(given.ids, service.settings.max_rows)


def _add_clusters(routes: APIRouter, service: Service, viewer: Viewer) -> None:
    desk = service.desk

    @routes.get(
        "/cut",
        tags=["clusters"],
        responses={200: {"model": models.Labels, "content": NPY}, **NOT_THERE, **MOVED_ON},
        response_class=Response,
    )
    async def cut(
        name: Annotated[str | None, Query(min_length=1, max_length=300, description="A cut that is followed.")] = None,
        n_clusters: Annotated[int | None, Query(ge=1, le=LARGEST, description="Into this many clusters.")] = None,
        threshold: Annotated[float | None, Query(allow_inf_nan=False, description="At this score.")] = None,
        layer: Annotated[int | None, Query(ge=0, le=1_000, description="A layer of the automatic cut.")] = None,
        format: Literal["json", "npy"] = "json",
    ) -> Any:
        """The cluster of each point, in the order of the ids, by one way to cut the tree (default: the cut default)."""

        def find() -> Any:
            given = [value for value in (name, n_clusters, threshold, layer) if value is not None]
            if len(given) > 1:
                raise ValueError("give one of name, n_clusters, threshold and layer")
            if layer is not None:
                version, labels = _layer(viewer, layer)
            elif n_clusters is not None or threshold is not None:
                version, tree = desk.tree()
                labels = cut_tree(tree, n_clusters, threshold)
            else:
                version, labels = desk.read(lambda seen: (seen.version, seen.labels(name or "default")))
            return npy(labels, version) if format == "npy" else {"version": version, "labels": labels.tolist()}

        return await aside(find)

    @routes.get("/clusters", tags=["clusters"], responses={200: {"model": models.Clusters}}, response_class=Response)
    async def clusters(
        cut: CutName = "default", ids: Annotated[bool, Query(description="With the ids of all points.")] = True
    ) -> Any:
        """The clusters of a cut that is followed, by ids that stay with them."""

        def find(seen: Any) -> dict[str, Any]:
            found, names = seen.clusters(cut), seen.names(cut)
            listed = [
                {"cluster": number, "name": names.get(number), "size": len(members), "ids": members if ids else []}
                for number, members in found.items()
            ]
            return {"version": seen.version, "cut": cut, "clusters": listed}

        return await aside(lambda: desk.read(find))

    @routes.get("/names", tags=["clusters"], responses={200: {"model": models.Names}}, response_class=Response)
    async def names(cut: CutName = "default", gone: bool = False) -> Any:
        """The names that were given to clusters; with ``gone``, of clusters that are no more, too."""

        def find(seen: Any) -> dict[str, Any]:
            given = {str(number): name for number, name in seen.names(cut, gone=gone).items()}
            return {"version": seen.version, "cut": cut, "names": given}

        return await aside(lambda: desk.read(find))


def _layer(viewer: Viewer, layer: int) -> tuple[int, Any]:
    viewer.refresh()
    scene = viewer.scene
    if not scene.layers and scene.n:
        viewer.compute_layers(scene)
        if not scene.layers and viewer.source.latest() != scene.version:
            raise Stale(scene.version, viewer.source.latest())
    found = scene.layers.get(f"layer:{layer}")
    if found is None:
        raise KeyError(f"layer {layer} is not there; there are {len(scene.layers)}")
    return scene.version, found


def _add_changes(routes: APIRouter, service: Service) -> None:
    desk = service.desk

    @routes.get("/changes", tags=["changes"], responses={200: {"model": models.Changes}}, response_class=Response)
    async def changes(
        since: Since = 0, cut: CutName = "default", limit: Annotated[int, Query(ge=1, le=1_000_000)] = 10_000
    ) -> Any:
        """What happened to clusters, in order, by whole versions; of all cuts with ``cut=*``."""
        return await aside(lambda: desk.read(lambda seen: _changes(seen, since, cut, limit)))

    @routes.get(
        "/changes/stream",
        tags=["changes"],
        responses={200: {"content": {events.MEDIA_TYPE: {"schema": {"type": "string"}}}}},
        response_class=StreamingResponse,
    )
    async def stream(
        since: Annotated[int | None, Query(ge=0, le=LARGEST, description="Default: from now on.")] = None,
        cut: CutName = "default",
        last_event_id: LastEvent = None,
    ) -> Any:
        """What happens to clusters, as server-sent events: one called ``changes`` for each version, which is its id."""
        try:
            begin = await run_in_threadpool(lambda: desk.read(lambda seen: _begin(seen, since, last_event_id, cut)))
            listener = service.bell.join()
        except Exception as error:
            return refusal(error)
        found = _changes_stream(service, listener, begin, cut)
        return StreamingResponse(found, media_type=events.MEDIA_TYPE, headers=events.HEADERS)


def _begin(seen: Any, since: int | None, last_event_id: str | None, cut: str) -> int:
    if last_event_id is not None:
        if not (last_event_id.isascii() and last_event_id.isdigit()):
            raise ValueError(f"Last-Event-ID must be the version of an event; got {last_event_id!r:.40}")
        since = int(last_event_id)
    begin = int(seen.version) if since is None else since
    # Also says what is wrong with the name of the cut, and with a version that is still to come.
    _changes(seen, min(begin, seen.version), cut, 1)
    if begin > seen.version:
        raise ValueError(f"since must be a version there is, up to {seen.version}; got {begin}")
    return begin


def _changes(seen: Any, since: int, cut: str, limit: int) -> dict[str, Any]:
    found = seen.changes(since, None if cut == "*" else cut)
    is_more = len(found) > limit
    if is_more:
        # Whole versions only, and at least one.
        last = found[limit].version
        kept = [change for change in found if change.version < last]
        found = kept or [change for change in found if change.version == last]
    until = found[-1].version if is_more else seen.version
    is_more = is_more and until < seen.version
    listed = [{**asdict(change), "others": list(change.others)} for change in found]
    return {"version": seen.version, "until": until, "more": is_more, "changes": listed}


async def _changes_stream(service: Service, listener: events.Listener, since: int, cut: str) -> AsyncIterator[bytes]:
    bell = service.bell
    try:
        yield events.BEGIN
        while not bell.is_closed:
            found = await run_in_threadpool(_read_changes, service, since, cut)
            for version, changes in groupby(found["changes"], lambda change: change["version"]):
                yield events.event("changes", {"version": version, "changes": list(changes)}, version)
            since = found["until"]
            if not found["more"] and not await listener.wait(events.KEEP_ALIVE):
                yield events.SIGN_OF_LIFE
    finally:
        bell.leave(listener)


def _read_changes(service: Service, since: int, cut: str) -> dict[str, Any]:
    return service.desk.read(lambda seen: _changes(seen, since, cut, 10_000))


def _add_tree(routes: APIRouter, service: Service, viewer: Viewer) -> None:
    desk = service.desk
    found = {"text/plain": {"schema": {"type": "string"}}, "text/csv": {"schema": {"type": "string"}}, **NPY, **NPZ}

    @routes.get(
        "/tree",
        tags=["tree"],
        responses={200: {"model": models.TreeNodes, "content": found}},
        response_class=Response,
    )
    async def tree(format: Literal["json", "newick", "npy", "npz", "csv"] = "json") -> Any:
        """The whole tree: all nodes (JSON, CSV), Newick, or scipy's linkage matrix (npy). Leaves go by their ids.

        With npz there are two arrays: ``linkage``, and ``ids_json``, the bytes of a list in JSON.
        """

        def find() -> Any:
            version, found, ids = desk.tree_and_ids()
            if format == "npy":
                return npy(_linkage(found), version)
            if format == "npz":
                named = np.frombuffer(Json(ids).body, np.uint8)
                return npz(version, linkage=_linkage(found), ids_json=named)
            if format == "json":
                return {"version": version, **nodes_of(found)}
            headers = {"X-Version": str(version)}
            if format == "newick":
                return PlainTextResponse(found.to_newick(ids) if ids else ";", headers=headers)
            return Response(csv_of(found, ids), media_type="text/csv", headers=headers)

        return await aside(find)

    @routes.get("/node/{node}", tags=["tree"], responses={**NOT_THERE, **MOVED_ON}, response_class=Response)
    async def node(node: Node, version: Version = None) -> dict[str, Any]:
        """A node: its size, what stands out, exemplars, and what is around it."""
        return await aside(_fresh(viewer, lambda: viewer.node(node, None, None, version)))  # type: ignore[return-value]

    @routes.get("/node/{node}/members", tags=["tree"], responses={**NOT_THERE, **MOVED_ON}, response_class=Response)
    async def members(
        node: Node,
        offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        version: Version = None,
    ) -> dict[str, Any]:
        """Some of the points under a node, the most central first."""
        ask = _fresh(viewer, lambda: viewer.members(node, offset, limit, "central", version))
        return await aside(ask)  # type: ignore[return-value]

    @routes.get("/search", tags=["tree"], responses={**NOT_THERE, **MOVED_ON}, response_class=Response)
    async def search(
        q: Annotated[str, Query(max_length=300)], limit: Annotated[int, Query(ge=1, le=100)] = 20
    ) -> dict[str, Any]:
        """Nodes and points by name, id or text."""
        return await aside(_fresh(viewer, lambda: viewer.search(q, limit)))  # type: ignore[return-value]


def _linkage(tree: Tree) -> npt.NDArray[np.float64]:
    return tree.to_scipy() if tree.n_leaves > 1 else np.empty((0, 4))


def _fresh(viewer: Viewer, ask: Callable[[], Any]) -> Callable[[], Any]:
    def asked() -> Any:
        viewer.refresh()
        return ask()

    return asked


def nodes_of(tree: Tree) -> dict[str, list[Any]]:
    """All nodes of a tree, by columns."""
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
    """All nodes of a tree as a table, leaves with their ids."""
    columns, out = nodes_of(tree), io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*columns, "id"])
    writer.writerows(zip(*columns.values(), [*ids, *[""] * (len(columns["node"]) - len(ids))], strict=True))
    return out.getvalue()


def few(ids: list[Any], most: int) -> list[Any]:
    if len(ids) > most:
        raise ValueError(f"ids must be at most {most:,}; got {len(ids):,}. Send them in parts")
    return ids


def points_body(model: Any) -> dict[str, Any]:
    """The body of a route that takes points in several formats, for its description."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    kinds = {bodies.NPY: binary, bodies.NPZ: binary, bodies.ARROW: binary}
    found = json_body(model)
    found["requestBody"]["content"].update(kinds)
    return found


def json_body(model: Any) -> dict[str, Any]:
    """The body of a route that reads it aside, for its description."""
    return {"requestBody": {"required": True, "content": {bodies.JSON: {"schema": model.model_json_schema()}}}}
