"""The application that shows a tree, and perhaps serves a store; and a server for it."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

import grinch
from grinch.serve import assets
from grinch.serve.api import health, problems, read, views, write
from grinch.serve.api.answers import COMMON, refusal
from grinch.serve.api.events import HEADERS, MEDIA_TYPE, Bell, TooMany, versions
from grinch.serve.api.guard import Guard
from grinch.serve.api.metrics import RequestCounter
from grinch.serve.api.openapi import describe
from grinch.serve.api.server import listen, run
from grinch.serve.api.service import Service
from grinch.serve.api.settings import Settings
from grinch.serve.views.viewer import Viewer

# The page asks whether it is still the same.
CACHED = "no-cache"


def make_app(viewer: Viewer, *, service: Service | None = None, settings: Settings | None = None) -> FastAPI:
    """The application over a viewer: the page, its files, what it asks, and what it listens to; and the service."""
    settings = settings or (service.settings if service is not None else Settings())
    app = FastAPI(
        title="grinch",
        version=grinch.__version__,
        summary="A cluster tree that grows",
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Guard, settings=settings)
    problems.register(app)
    app.state.closers = []
    app.state.max_connections = settings.max_connections
    if service is not None:
        _add_service(app, service, viewer)
    app.include_router(views.router(viewer), responses=COMMON)
    _add_page(app)
    _add_events(app, viewer, settings)
    describe(app, settings)
    return app


def _add_service(app: FastAPI, service: Service, viewer: Viewer) -> None:
    app.add_middleware(RequestCounter, metrics=service.metrics)
    strict = [Depends(problems.refuse_unknown_parameters)]
    app.include_router(read.router(service, viewer), dependencies=strict)
    app.include_router(write.router(service), dependencies=strict)
    app.include_router(health.router(service))
    app.state.closers.append(service.bell.close)


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def page(request: Request) -> Response:
        return HTMLResponse(assets.served_page(request.state.nonce), headers={"Cache-Control": "no-store"})

    @app.get("/page/{name}", include_in_schema=False)
    def page_file(name: str, request: Request) -> Response:
        try:
            content, kind = assets.asset(name)
        except KeyError:
            return JSONResponse({"error": "there is no such file of the page"}, 404)
        tag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
        headers = {"ETag": tag, "Cache-Control": CACHED}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)


def _add_events(app: FastAPI, viewer: Viewer, settings: Settings) -> None:
    bell = Bell(settings.max_listeners, viewer.refresh)
    app.state.closers.append(bell.close)

    @app.get(
        "/api/events",
        tags=["look"],
        responses={
            **COMMON,
            200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "A stream of events"},
        },
        response_class=StreamingResponse,
    )
    async def listening() -> Any:
        """Server-sent events: ``version`` with the version that is shown and its number of points."""
        try:
            listener = bell.join()
        except TooMany as error:
            return refusal(error)
        return StreamingResponse(versions(bell, listener, viewer), media_type=MEDIA_TYPE, headers=HEADERS)


__all__ = ["listen", "make_app", "run"]
