"""The application that shows a tree, and perhaps serves a store, with its page, events and description."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

import grinch
from grinch.serve import assets
from grinch.serve.api import answers, events, metrics, models, read, views, write
from grinch.serve.api.guard import OPEN_TO_ALL, Guard, Settings
from grinch.serve.api.server import listen, run
from grinch.serve.api.service import Service
from grinch.serve.views.viewer import Viewer

# Browsers ask whether their copy of a file is still current.
CACHE_CONTROL = "no-cache"


def make_app(viewer: Viewer, *, service: Service | None = None, settings: Settings | None = None) -> FastAPI:
    """Return the application over a viewer: the page, its questions and events; and the service, if there is one."""
    settings = settings or (service.settings if service is not None else Settings())
    app = FastAPI(
        title="grinch",
        version=grinch.__version__,
        summary="A cluster tree that grows",
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Guard, settings=settings)
    answers.register_errors(app)
    app.state.closers = []
    app.state.max_connections = settings.max_connections
    if service is not None:
        app.add_middleware(metrics.RequestCounter, metrics=service.metrics)
        strict = [Depends(answers.refuse_unknown_parameters)]
        app.include_router(read.router(service, viewer), dependencies=strict)
        app.include_router(write.router(service), dependencies=strict)
        app.include_router(_health(service))
        app.state.closers.append(service.notifier.close)
    app.include_router(views.router(viewer), responses=answers.COMMON)
    _add_page(app)
    _add_events(app, viewer, settings)
    _describe_token(app, settings)
    return app


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
        headers = {"ETag": tag, "Cache-Control": CACHE_CONTROL}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)


def _add_events(app: FastAPI, viewer: Viewer, settings: Settings) -> None:
    notifier = events.Notifier(settings.max_listeners, viewer.refresh)
    app.state.closers.append(notifier.close)
    stream = {"content": {events.MEDIA_TYPE: {"schema": {"type": "string"}}}, "description": "A stream of events"}

    @app.get("/api/events", tags=["look"], responses={**answers.COMMON, 200: stream}, response_class=StreamingResponse)
    async def listening() -> Any:
        """Server-sent events: ``version`` with the version that is shown and its number of points."""
        return events.streamed(events.versions(notifier, notifier.join(), viewer))


def _health(service: Service) -> APIRouter:
    routes = APIRouter(tags=["service"], responses=answers.COMMON)
    health: dict[str, Any] = {"responses": {status: {"model": models.Health} for status in (200, 503)}}
    text = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics"}

    @routes.get("/health", include_in_schema=False)
    @routes.get("/health/live", response_class=Response, **health)
    async def live() -> Any:
        """Whether the process answers; needs no token."""
        return JSONResponse({"status": "alive"})

    @routes.get("/health/ready", response_class=Response, **health)
    async def ready() -> Any:
        """Whether requests are taken; needs no token."""
        is_ending = service.notifier.is_closed
        return JSONResponse({"status": "ending" if is_ending else "ready"}, 503 if is_ending else 200)

    @routes.get("/metrics", responses={200: text}, response_class=Response)
    def numbers() -> Any:
        """Requests, latencies, points, version, and the batches of the writer, for Prometheus."""
        return Response(service.metrics.text(), media_type=metrics.MEDIA_TYPE)

    return routes


def _describe_token(app: FastAPI, settings: Settings) -> None:
    """Let the OpenAPI description say that a token is needed, where one is."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        is_new, schema = app.openapi_schema is None, plain()
        if is_new and settings.token is not None:
            schema.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            for path, methods in schema["paths"].items():
                for operation in methods.values():
                    operation["security"] = [] if path in OPEN_TO_ALL else [{"token": []}]
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


__all__ = ["listen", "make_app", "run"]
