"""The routes of the service that change the store; each is answered when its change is on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Body, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from grinch.serve.api import bodies, models
from grinch.serve.api.answers import COMMON, Json, ReadOnly, refusal
from grinch.serve.api.read import few, given_ids, json_body, points_body
from grinch.serve.api.service import Service
from grinch.serve.backend import Shape, StoreDesk
from grinch.serve.write_batcher import Call, Insert
from grinch.store import Store


def router(service: Service) -> APIRouter:
    """The routes that write; without a writer they say that nothing can be changed."""
    routes = APIRouter(prefix="/v1", responses=COMMON)
    _add_points(routes, service)
    _add_clusters(routes, service)
    return routes


def _add_points(routes: APIRouter, service: Service) -> None:
    changed = {"responses": {200: {"model": models.Changed}}, "response_class": Response}

    @routes.post(
        "/insert",
        tags=["points"],
        responses={200: {"model": models.Inserted}},
        response_class=Response,
        openapi_extra=points_body(models.PointsGiven),
    )
    async def insert(request: Request) -> Any:
        """Insert points, all of them or none.

        What small requests bring together is written together. A point that is there already under the same id, with
        the same row, is passed over, so a request can be sent again when it is not known whether it arrived.
        """
        try:
            writer = _writer(service)
            points = await bodies.read(request, lambda body: _points(request, body, models.PointsGiven, service))
            if not len(points.X):
                return Json({"version": await run_in_threadpool(service.version), "ids": []})
            rows = fitted(points, await _shape(service))
            done = writer.submit(Insert(rows, points.ids, points.payload))
            found = await asyncio.wrap_future(done)
        except Exception as error:
            return refusal(error)
        return Json({"version": found.version, "ids": found.ids})

    @routes.post("/update", tags=["points"], openapi_extra=points_body(models.UpdateGiven), **changed)  # type: ignore[arg-type]
    async def update(request: Request) -> Any:
        """Give points other rows, another payload, or both; a point with another row is placed again."""
        try:
            _writer(service)
            given = await bodies.read(request, lambda body: _points(request, body, models.UpdateGiven, service))
            rows = None if given.X is None else fitted(given, await _shape(service))
        except Exception as error:
            return refusal(error)
        if given.ids is None:
            return refusal(ValueError("ids must be given: which points are to be changed"))
        return await _make(service, lambda store: store.update(given.ids, rows, given.payload), 2 * len(given.ids))

    @routes.post("/remove", tags=["points"], openapi_extra=json_body(models.IdsGiven), **changed)  # type: ignore[arg-type]
    async def remove(request: Request) -> Any:
        """Remove points, all of them or none; ids that were removed before are passed over."""
        try:
            _writer(service)
            ids = await given_ids(request, service)
        except Exception as error:
            return refusal(error)
        return await _make(service, lambda store: store.remove(ids), len(ids))

    @routes.post("/refine", tags=["tree"], **changed)  # type: ignore[arg-type]
    async def refine(body: Annotated[models.RefineGiven, Body()]) -> Any:
        """Improve the tree. This takes about as long as to insert all points again."""
        return await _make(service, lambda store: store.refine(body.passes))


def _add_clusters(routes: APIRouter, service: Service) -> None:
    changed = {"responses": {200: {"model": models.Changed}}, "response_class": Response, "tags": ["clusters"]}

    @routes.post("/label", **changed)  # type: ignore[arg-type]
    async def label(body: Annotated[models.LabelGiven, Body()]) -> Any:
        """Give a cluster a name that stays with its id; null takes it away."""
        return await _make(service, lambda store: store.label(body.cluster, body.name, body.cut))

    @routes.post("/cuts", **changed)  # type: ignore[arg-type]
    async def add_cut(body: Annotated[models.CutGiven, Body()]) -> Any:
        """Follow another cut of the tree from now on."""
        how = body.model_dump(exclude_none=True)
        return await _make(service, lambda store: store.add_cut(**how))

    @routes.post("/cuts/drop", **changed)  # type: ignore[arg-type]
    async def drop_cut(body: Annotated[models.CutNamed, Body()]) -> Any:
        """Follow a cut no longer, and forget the names of its clusters."""
        return await _make(service, lambda store: store.drop_cut(body.name))

    @routes.post("/recut", **changed)  # type: ignore[arg-type]
    async def recut(body: Annotated[models.CutNamed, Body()]) -> Any:
        """Let an automatic cut choose its resolution again."""
        return await _make(service, lambda store: store.recut(body.name))


def _writer(service: Service) -> Any:
    if service.writer is None:
        raise ReadOnly("the service is read-only: nothing can be changed")
    return service.writer


async def _make(service: Service, change: Callable[[Store], int], points: int = 1) -> Response:
    """Let the writer make a change, and say the version after it."""
    try:
        version = await asyncio.wrap_future(_writer(service).submit(Call(change, points)))
    except Exception as error:
        return refusal(error)
    return Json({"version": version})


async def _shape(service: Service) -> Shape:
    desk = service.desk
    assert isinstance(desk, StoreDesk)
    return await run_in_threadpool(desk.shape) if desk.known is None else desk.known


def _points(request: Request, body: bytes, model: Any, service: Service) -> bodies.Points:
    """The points of a body, checked for themselves."""
    settings = service.settings
    given = bodies.parser(bodies.media_type(request), model, settings)(body)
    if not isinstance(given, bodies.Points):
        X = None if given.X is None else bodies.matrix(given.X, settings)
        given = bodies.Points(X, given.ids, given.payload, is_text=True)  # type: ignore[arg-type]
    n = len(given.X) if given.X is not None else len(few(given.ids or [], settings.max_rows))
    return bodies.check_beside(given, n, settings)


def fitted(points: bodies.Points, shape: Shape) -> npt.NDArray[Any]:
    """Rows as the store keeps them; a ValueError if it cannot."""
    X = points.X
    if shape.is_of_records:
        raise ValueError("the points of this store are no vectors; insert into it from Python")
    if shape.width is not None and X.shape[1] != shape.width:
        raise ValueError(f"X must have {shape.width} columns, as the points that are there; got {X.shape[1]}")
    # Numbers that come as text are not meant to sixteen digits.
    dtype = np.dtype(shape.dtype or (np.float32 if points.is_text else X.dtype))
    if dtype == X.dtype:
        return X
    with np.errstate(over="ignore"):
        return bodies.check_finite(X.astype(dtype), f" in {dtype}, as this store keeps them")
