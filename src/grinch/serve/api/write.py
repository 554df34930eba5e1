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
from grinch.serve.api.answers import COMMON, Json, ReadOnly
from grinch.serve.api.read import answers
from grinch.serve.api.service import RowFormat, Service
from grinch.serve.write_batcher import Call, Insert, Writer
from grinch.store import Store


def router(service: Service) -> APIRouter:
    """Return the routes that write; without a writer they answer that nothing can be changed."""
    routes = APIRouter(prefix="/v1", responses=COMMON)
    _add_points(routes, service)
    _add_clusters(routes, service)
    return routes


def _add_points(routes: APIRouter, service: Service) -> None:
    @routes.post("/insert", **answers(models.Inserted, "points", body=bodies.points_body(models.PointsGiven)))
    async def insert(request: Request) -> Any:
        """Insert points, all of them or none.

        Small requests that wait together are written together. A point that is there already under the same id, with
        the same row, is skipped, so a request can be sent again when it is not known whether it arrived.
        """
        writer = _writer(service)
        points = await bodies.read(request, lambda body: _points(request, body, models.PointsGiven, service))
        if not len(points.X):
            return Json({"version": await run_in_threadpool(service.version), "ids": []})
        rows = as_stored(points, await _row_format(service))
        inserted = await asyncio.wrap_future(writer.submit(Insert(rows, points.ids, points.payload)))
        return Json({"version": inserted.version, "ids": inserted.ids})

    @routes.post("/update", **answers(models.Changed, "points", body=bodies.points_body(models.UpdateGiven)))
    async def update(request: Request) -> Any:
        """Give points other rows, another payload, or both; a point with another row is placed again."""
        _writer(service)
        given = await bodies.read(request, lambda body: _points(request, body, models.UpdateGiven, service))
        rows = None if given.X is None else as_stored(given, await _row_format(service))
        if given.ids is None:
            raise ValueError("ids must be given: which points are to be changed")
        return await _make(service, lambda store: store.update(given.ids, rows, given.payload), 2 * len(given.ids))

    @routes.post("/remove", **answers(models.Changed, "points", body=bodies.json_body(models.IdsGiven)))
    async def remove(request: Request) -> Any:
        """Remove points, all of them or none; ids that were removed before are skipped."""
        _writer(service)
        ids = await bodies.read_ids(request, service.settings)
        return await _make(service, lambda store: store.remove(ids), len(ids))

    @routes.post("/refine", **answers(models.Changed, "tree"))
    async def refine(body: Annotated[models.RefineGiven, Body()]) -> Any:
        """Improve the tree. This takes about as long as inserting all points again."""
        return await _make(service, lambda store: store.refine(body.passes))


def _add_clusters(routes: APIRouter, service: Service) -> None:
    changed = answers(models.Changed, "clusters")

    @routes.post("/label", **changed)
    async def label(body: Annotated[models.LabelGiven, Body()]) -> Any:
        """Give a cluster a name that stays with its id; null removes it."""
        return await _make(service, lambda store: store.label(body.cluster, body.name, body.cut))

    @routes.post("/cuts", **changed)
    async def add_cut(body: Annotated[models.CutGiven, Body()]) -> Any:
        """Track another cut of the tree from now on."""
        return await _make(service, lambda store: store.add_cut(**body.model_dump(exclude_none=True)))

    @routes.post("/cuts/drop", **changed)
    async def drop_cut(body: Annotated[models.CutNamed, Body()]) -> Any:
        """Stop tracking a cut, and forget the names of its clusters."""
        return await _make(service, lambda store: store.drop_cut(body.name))

    @routes.post("/recut", **changed)
    async def recut(body: Annotated[models.CutNamed, Body()]) -> Any:
        """Let an automatic cut choose its resolution again."""
        return await _make(service, lambda store: store.recut(body.name))


def _writer(service: Service) -> Writer:
    if service.writer is None:
        raise ReadOnly("the service is read-only: nothing can be changed")
    return service.writer


async def _row_format(service: Service) -> RowFormat:
    known = service.known_row_format
    return await run_in_threadpool(service.row_format) if known is None else known


async def _make(service: Service, change: Callable[[Store], int], n_points: int = 1) -> Response:
    """Let the writer make a change, and answer the version after it."""
    return Json({"version": await asyncio.wrap_future(_writer(service).submit(Call(change, n_points)))})


def _points(request: Request, body: bytes, model: Any, service: Service) -> bodies.Points:
    """Return the points of a body, checked by themselves."""
    settings = service.settings
    given = bodies.parser(request, model, settings)(body)
    if not isinstance(given, bodies.Points):
        X = None if given.X is None else bodies.matrix(given.X, settings)
        given = bodies.Points(X, given.ids, given.payload, is_text=True)  # type: ignore[arg-type]
    n = len(given.X) if given.X is not None else len(bodies.check_count(given.ids or [], settings))
    return bodies.check_beside(given, n, settings)


def as_stored(points: bodies.Points, row_format: RowFormat) -> npt.NDArray[Any]:
    """Return rows in the format of the store; raises ValueError if they do not fit."""
    X = points.X
    if row_format.is_of_records:
        raise ValueError("the points of this store are no vectors; insert into it from Python")
    if row_format.n_features is not None and X.shape[1] != row_format.n_features:
        raise ValueError(f"X must have {row_format.n_features} columns, as the points that are there; got {X.shape[1]}")
    # Numbers that come as text are not meant to sixteen digits.
    dtype = np.dtype(row_format.dtype or (np.float32 if points.is_text else X.dtype))
    if dtype == X.dtype:
        return X
    with np.errstate(over="ignore"):
        return bodies.check_finite(X.astype(dtype), f" in {dtype}, as this store keeps them")
