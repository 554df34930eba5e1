"""The routes by which a tree is looked at: what a :class:`~grinch.serve.views.viewer.Viewer` answers, over HTTP."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from grinch.serve.api.answers import unusable
from grinch.serve.views.arrays import MEDIA_TYPE
from grinch.serve.views.viewer import Computing, Stale, Viewer
from grinch.store.damage import DamagedStore

LARGEST = 2**31 - 1
Version = Annotated[int | None, Query(ge=0, le=LARGEST, description="The version that node numbers are of.")]
Node = Annotated[int, Path(ge=0, le=LARGEST, description="The number of a node in that version.")]
CutName = Annotated[str | None, Query(max_length=300, description="auto, cut:NAME, layer:0, or k:37.")]
Since = Annotated[int | None, Query(ge=0, le=LARGEST, description="Points that came after this version are new.")]
Place = Annotated[float, Query(ge=0, le=1e10, allow_inf_nan=False)]


class Problem(BaseModel):
    """What is wrong with a request."""

    error: str


class Waiting(BaseModel):
    """It is not there yet; ask again in a moment."""

    status: str


class NameGiven(BaseModel):
    """A name for a node; null takes it away."""

    model_config = ConfigDict(extra="forbid")

    node: int = Field(ge=0, le=LARGEST)
    name: str | None = Field(max_length=1_000)
    version: int | None = Field(default=None, ge=0, le=LARGEST)


class Vector(BaseModel):
    """A point that is to be placed."""

    model_config = ConfigDict(extra="forbid")

    vector: list[float] = Field(max_length=100_000, fail_fast=True)
    cut: str | None = Field(default=None, max_length=300)
    version: int | None = Field(default=None, ge=0, le=LARGEST)


PROBLEMS: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "Not there"},
    409: {"model": Problem, "description": "The tree has moved on; ask for the new version"},
    422: {"model": Problem, "description": "Not accepted"},
}
LATER: dict[int | str, dict[str, Any]] = {**PROBLEMS, 202: {"model": Waiting, "description": "Ask again in a moment"}}
ARRAYS: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}, "description": "Packed arrays"}
}


def answer(ask: Callable[[], Any]) -> Any:
    """What a viewer says, or what is wrong, in terms of HTTP."""
    try:
        found = ask()
    except KeyError as error:
        return JSONResponse({"error": str(error.args[0]) if error.args else "not there"}, 404)
    except Stale as error:
        return JSONResponse({"error": str(error), "version": error.version}, 409)
    except Computing:
        return JSONResponse({"status": "computing"}, 202)
    except (OSError, DamagedStore) as error:
        return unusable(error, "a file of what is shown cannot be used")
    except ValueError as error:
        return JSONResponse({"error": str(error)}, 422)
    return Response(found, media_type=MEDIA_TYPE) if isinstance(found, bytes) else found


def router(viewer: Viewer) -> APIRouter:
    """The routes over a viewer."""
    routes = APIRouter(prefix="/api", tags=["look"])

    @routes.get("/about")
    def about() -> dict[str, Any]:
        viewer.refresh()
        return viewer.about()

    @routes.get("/layers", responses=LATER)
    def layers(asked: bool = False) -> Any:
        return answer(lambda: viewer.layers(asked))

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
        return answer(lambda: viewer.view(x0, x1, width, rows, cut, color, since, version))

    @routes.get("/cut", responses={**PROBLEMS, **ARRAYS}, response_class=Response)
    def cut(cut: CutName = None, version: Version = None) -> Any:
        return answer(lambda: viewer.cut(cut, version))

    @routes.get("/node/{node}", responses=PROBLEMS)
    def node(node: Node, cut: CutName = None, since: Since = None, version: Version = None) -> Any:
        return answer(lambda: viewer.node(node, cut, since, version))

    @routes.get("/node/{node}/members", responses=PROBLEMS)
    def members(
        node: Node,
        offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        order: Annotated[str, Query(max_length=20)] = "central",
        version: Version = None,
    ) -> Any:
        return answer(lambda: viewer.members(node, offset, limit, order, version))

    @routes.get("/search", responses=PROBLEMS)
    def search(
        q: Annotated[str, Query(max_length=300)],
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        version: Version = None,
    ) -> Any:
        return answer(lambda: viewer.search(q, limit, version))

    @routes.get("/place", responses=PROBLEMS)
    def place(
        vector: Annotated[str | None, Query(max_length=100_000)] = None,
        like: Annotated[str | None, Query(max_length=1_000)] = None,
        cut: CutName = None,
        version: Version = None,
    ) -> Any:
        return answer(lambda: viewer.place(vector, like, cut, version))

    @routes.post("/place", responses=PROBLEMS)
    def place_vector(body: Annotated[Vector, Body()]) -> Any:
        return answer(lambda: viewer.place(body.vector, None, body.cut, body.version))

    @routes.get("/locate", responses=PROBLEMS)
    def locate(id: Annotated[str, Query(max_length=1_000)], size: Annotated[int, Query(ge=1, le=LARGEST)] = 1) -> Any:
        return answer(lambda: viewer.locate(id, size))

    @routes.get("/changes", responses=PROBLEMS)
    def changes(
        since: Since = None, day: Annotated[str | None, Query(max_length=40)] = None, cut: CutName = None
    ) -> Any:
        return answer(lambda: viewer.changes(since, day, cut))

    @routes.get("/versions", responses=PROBLEMS)
    def versions() -> Any:
        return answer(viewer.versions)

    @routes.get("/map", responses={**LATER, **ARRAYS}, response_class=Response)
    def map(method: Annotated[str | None, Query(max_length=20)] = None, version: Version = None) -> Any:
        return answer(lambda: viewer.map(method, version))

    @routes.get("/points", responses={**PROBLEMS, **ARRAYS}, response_class=Response)
    def points(what: Annotated[str, Query(max_length=20)], since: Since = None, version: Version = None) -> Any:
        return answer(lambda: viewer.points(what, since, version))

    @routes.get("/image/{leaf}", responses={**PROBLEMS, 200: {"content": {"image/*": {}}}}, response_class=Response)
    def image(leaf: Node, version: Version = None) -> Any:
        def found() -> Any:
            path = viewer.image(leaf, version)
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            # An image could hold a script; it is shown as an image alone, in no page of its own.
            return FileResponse(
                path, media_type=kind, headers={"Content-Security-Policy": "default-src 'none'; sandbox"}
            )

        return answer(found)

    @routes.post("/names", responses=PROBLEMS)
    def names(body: Annotated[NameGiven, Body()]) -> Any:
        if viewer.source.names_file is None:
            return JSONResponse(
                {"error": "nothing can be named here: there is no file for names, or it is read-only"}, 403
            )
        return answer(lambda: viewer.name(body.node, body.name, body.version))

    return routes
