"""The routes of the page: the answers of a :class:`~grinch.serve.views.viewer.Viewer` over HTTP."""

from __future__ import annotations

import mimetypes
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.exceptions import HTTPException
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from grinch.serve.api.answers import COMMON, MOVED_ON, NOT_THERE, Json, Responses
from grinch.serve.api.models import MAX_INT, HitLimit, MemberLimit, Node, Offset, Version, Words
from grinch.serve.views.icicle import MEDIA_TYPE
from grinch.serve.views.viewer import Viewer

CutName = Annotated[str | None, Query(max_length=300, description="auto, cut:NAME, layer:0, or k:37.")]
Since = Annotated[int | None, Query(ge=0, le=MAX_INT, description="Points that came after this version are new.")]
Place = Annotated[float, Query(ge=0, le=1e10, allow_inf_nan=False)]


class Waiting(BaseModel):
    """A result that is still being computed; ask again in a moment."""

    status: str


class NameGiven(BaseModel):
    """A name for a node; null removes it."""

    model_config = ConfigDict(extra="forbid")

    node: int = Field(ge=0, le=MAX_INT)
    name: str | None = Field(max_length=1_000)
    version: int | None = Field(default=None, ge=0, le=MAX_INT)


class Vector(BaseModel):
    """A point that is to be placed."""

    model_config = ConfigDict(extra="forbid")

    vector: list[float] = Field(max_length=100_000, fail_fast=True)
    cut: str | None = Field(default=None, max_length=300)
    version: int | None = Field(default=None, ge=0, le=MAX_INT)


PROBLEMS: Responses = {**NOT_THERE, **MOVED_ON, 422: COMMON[422]}
LATER: Responses = {**PROBLEMS, 202: {"model": Waiting, "description": "Ask again in a moment"}}
ARRAYS: Responses = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}, "description": "Packed arrays"}
}


def packed(message: bytes) -> Response:
    """Return packed arrays as an answer."""
    return Response(message, media_type=MEDIA_TYPE)


def router(viewer: Viewer) -> APIRouter:
    """Return the routes over a viewer."""
    routes = APIRouter(prefix="/api", tags=["look"])

    @routes.get("/about")
    def about() -> Any:
        viewer.refresh()
        return Json(viewer.about())

    @routes.get("/layers", responses=LATER)
    def layers(asked: bool = False) -> Any:
        return Json(viewer.layers(asked))

    @routes.get("/view", responses={**PROBLEMS, **ARRAYS}, response_class=Response)
    def view(
        x0: Place = 0.0,
        x1: Annotated[float | None, Query(ge=0, le=1e10, allow_inf_nan=False)] = None,
        width: Annotated[float, Query(ge=1, le=8_000, allow_inf_nan=False)] = 1200.0,
        rows: Annotated[int, Query(ge=1, le=64)] = 24,
        cut: CutName = None,
        color: Annotated[str, Query(max_length=20)] = "cluster",
        since: Since = None,
        version: Version = None,
    ) -> Any:
        return packed(viewer.view(x0, x1, width, rows, cut, color, since, version))

    @routes.get("/cut", responses={**PROBLEMS, **ARRAYS}, response_class=Response)
    def cut(cut: CutName = None, version: Version = None) -> Any:
        return packed(viewer.cut(cut, version))

    @routes.get("/clusters", responses=PROBLEMS)
    def clusters(
        cut: CutName = None,
        q: Annotated[str, Query(max_length=300)] = "",
        order: Annotated[str, Query(max_length=20, description="size, new or name; given names come first.")] = "size",
        offset: Offset = 0,
        limit: MemberLimit = 100,
        since: Since = None,
        version: Version = None,
    ) -> Any:
        return Json(viewer.clusters(cut, q, order, offset, limit, since, version))

    @routes.get("/node/{node}", responses=PROBLEMS)
    def node(node: Node, cut: CutName = None, since: Since = None, version: Version = None) -> Any:
        return Json(viewer.node(node, cut, since, version))

    @routes.get("/node/{node}/members", responses=PROBLEMS)
    def members(
        node: Node,
        offset: Offset = 0,
        limit: MemberLimit = 50,
        order: Annotated[str, Query(max_length=20)] = "central",
        version: Version = None,
    ) -> Any:
        return Json(viewer.members(node, offset, limit, order, version))

    @routes.get("/search", responses=PROBLEMS)
    def search(q: Words, limit: HitLimit = 20, version: Version = None) -> Any:
        return Json(viewer.search(q, limit, version))

    @routes.get("/place", responses=PROBLEMS)
    def place(
        vector: Annotated[str | None, Query(max_length=100_000)] = None,
        like: Annotated[str | None, Query(max_length=1_000)] = None,
        cut: CutName = None,
        version: Version = None,
    ) -> Any:
        return Json(viewer.place(vector, like, cut, version))

    @routes.post("/place", responses=PROBLEMS)
    def place_vector(body: Annotated[Vector, Body()]) -> Any:
        return Json(viewer.place(body.vector, None, body.cut, body.version))

    @routes.get("/locate", responses=PROBLEMS)
    def locate(id: Annotated[str, Query(max_length=1_000)], size: Annotated[int, Query(ge=1, le=MAX_INT)] = 1) -> Any:
        return Json(viewer.locate(id, size))

    @routes.get("/changes", responses=PROBLEMS)
    def changes(
        since: Since = None, day: Annotated[str | None, Query(max_length=40)] = None, cut: CutName = None
    ) -> Any:
        return Json(viewer.changes(since, day, cut))

    @routes.get("/versions", responses=PROBLEMS)
    def versions() -> Any:
        return Json(viewer.versions())

    @routes.get("/map", responses={**LATER, **ARRAYS}, response_class=Response)
    def map(method: Annotated[str | None, Query(max_length=20)] = None, version: Version = None) -> Any:
        return packed(viewer.map(method, version))

    @routes.get("/points", responses={**PROBLEMS, **ARRAYS}, response_class=Response)
    def points(what: Annotated[str, Query(max_length=20)], since: Since = None, version: Version = None) -> Any:
        return packed(viewer.points(what, since, version))

    @routes.get("/image/{leaf}", responses={**PROBLEMS, 200: {"content": {"image/*": {}}}}, response_class=Response)
    def image(leaf: Node, version: Version = None) -> Any:
        path = viewer.image(leaf, version)
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        # An image could contain a script; it is shown as an image only, in no page of its own.
        return FileResponse(path, media_type=kind, headers={"Content-Security-Policy": "default-src 'none'; sandbox"})

    @routes.post("/names", responses=PROBLEMS)
    def names(body: Annotated[NameGiven, Body()]) -> Any:
        if viewer.backend.names_file is None:
            raise HTTPException(403, "nothing can be named here: there is no file for names, or it is read-only")
        return Json(viewer.name(body.node, body.name, body.version))

    return routes
