"""The application that shows a tree, and perhaps serves a store; and a server for it."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

import grinch
from grinch.serve import assets
from grinch.serve.http import looking, problems
from grinch.serve.http.events import HEADERS, Events, TooMany
from grinch.serve.http.guard import Guard
from grinch.serve.http.running import listen, run
from grinch.serve.http.settings import Settings
from grinch.serve.viewer import Viewer

# The page asks whether it is still the same.
CACHED = "no-cache"


def make_app(viewer: Viewer, *, settings: Settings | None = None) -> FastAPI:
    """The application over a viewer: the page, its files, what it asks, and what it listens to."""
    settings = settings or Settings()
    app = FastAPI(
        title="grinch",
        version=grinch.__version__,
        summary="A cluster tree that grows",
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Guard, settings=settings)
    problems.register(app)
    app.include_router(looking.router(viewer))
    _add_page(app)
    _add_events(app, Events(viewer, settings.max_listeners))
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
        headers = {"ETag": tag, "Cache-Control": CACHED}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)


def _add_events(app: FastAPI, events: Events) -> None:
    app.state.closers = [events.close]

    @app.get(
        "/api/events",
        tags=["look"],
        responses={200: {"content": {"text/event-stream": {}}}, 503: {"model": looking.Problem}},
        response_class=StreamingResponse,
    )
    async def listening() -> Any:
        """Server-sent events: ``version`` with the version that is shown and its number of points."""
        try:
            listener = events.join()
        except TooMany as error:
            return JSONResponse({"error": str(error)}, 503, {"Retry-After": "5"})
        return StreamingResponse(events.stream(listener), media_type="text/event-stream", headers=HEADERS)


__all__ = ["listen", "make_app", "run"]
