"""Whether the service is there, and its numbers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response

from grinch.serve.api import metrics, models
from grinch.serve.api.answers import COMMON
from grinch.serve.api.service import Service


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["service"], responses=COMMON)
    known = {"responses": {200: {"model": models.Health}, 503: {"model": models.Health}}, "response_class": Response}

    @routes.get("/health", include_in_schema=False)
    @routes.get("/health/live", **known)  # type: ignore[arg-type]
    async def live() -> Any:
        """Whether the process answers; needs no token."""
        return JSONResponse({"status": "alive"})

    @routes.get("/health/ready", **known)  # type: ignore[arg-type]
    async def ready() -> Any:
        """Whether requests are taken; needs no token."""
        if service.bell.is_closed:
            return JSONResponse({"status": "ending"}, 503)
        return JSONResponse({"status": "ready"})

    @routes.get(
        "/metrics",
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics"}},
        response_class=Response,
    )
    async def numbers() -> Any:
        """Requests, latencies, points, version, and what the writer does, for Prometheus."""
        return Response(await run_in_threadpool(service.metrics.text), media_type=metrics.MEDIA_TYPE)

    return routes
