"""How the service answers: errors by status, and large lists without a detour."""

from __future__ import annotations

import io
import json
import logging
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response

from grinch.serve.api.events import TooMany
from grinch.serve.api.models import Problem
from grinch.serve.views.viewer import Computing, Stale
from grinch.serve.write_batcher import Closed, Full
from grinch.store.damage import DamagedStore, is_full
from grinch.store.lock import StoreLocked
from grinch.store.store import StoreClosed

log = logging.getLogger("grinch.serve")

COMMON: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request cannot be read"},
    401: {"model": Problem, "description": "A token is needed"},
    403: {"model": Problem, "description": "The service is read-only, or a page of another site asks"},
    413: {"model": Problem, "description": "The body is too large"},
    415: {"model": Problem, "description": "The body is of a kind that is not accepted"},
    421: {"model": Problem, "description": "The service is not called by this name"},
    422: {"model": Problem, "description": "Not accepted; nothing was changed"},
    500: {"model": Problem, "description": "Something went wrong inside; the log has it"},
    503: {"model": Problem, "description": "Busy; try again in a moment. Nothing was changed"},
    507: {"model": Problem, "description": "The disk of the service is full. Nothing was changed"},
}
NOT_THERE: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "Not there"}}
MOVED_ON: dict[int | str, dict[str, Any]] = {
    409: {"model": Problem, "description": "The tree has moved on; ask for the new version"}
}


class ReadOnly(Exception):
    """The service does not write."""


class Json(Response):
    """JSON of plain values, as they are: checking what we made ourselves would take longer than to make it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    return str(value)


def refusal(error: Exception) -> Response:
    """An error as an answer; raises those that nobody expected."""
    if isinstance(error, KeyError):
        return JSONResponse({"error": str(error.args[0]) if error.args else "not there"}, 404)
    if isinstance(error, ReadOnly):
        return JSONResponse({"error": str(error)}, 403)
    if isinstance(error, (Stale, Computing)):
        return JSONResponse({"error": str(error) or "not there yet; ask again in a moment"}, 409)
    if isinstance(error, (Full, Closed, TooMany)):
        return JSONResponse({"error": str(error)}, 503, {"Retry-After": "1"})
    if isinstance(error, (OSError, StoreLocked, StoreClosed, DamagedStore, MemoryError)):
        return unusable(error, "the store cannot be used at the moment; nothing was changed")
    if isinstance(error, ValueError):
        return JSONResponse({"error": str(error)}, 422)
    raise error


def unusable(error: Exception, otherwise: str) -> Response:
    """An error of the disk or of a file as an answer, without its path, which the log has: the disk is full, or
    ``otherwise``.
    """
    number = secrets.token_hex(4)
    log.error("error %s: a file cannot be used", number, exc_info=error)
    if is_full(error):
        message = "the disk of the service is full, or a limit of it is reached; nothing was changed"
        return JSONResponse(
            {"error": f"{message}. Make room there, and send it again; the log has it as {number}"}, 507
        )
    return JSONResponse({"error": f"{otherwise}; the log has it as {number}"}, 503, {"Retry-After": "5"})


async def aside(ask: Callable[[], Any]) -> Response:
    """What a function finds, in a thread, as an answer."""
    try:
        found = await run_in_threadpool(ask)
    except Exception as error:
        return refusal(error)
    return found if isinstance(found, Response) else Json(found)


def npz(version: int, **arrays: npt.NDArray[Any]) -> Response:
    """Several arrays as numpy.savez writes them."""
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return Response(file.getvalue(), media_type="application/x-npz", headers={"X-Version": str(version)})


def npy(array: npt.NDArray[Any], version: int) -> Response:
    """An array in NumPy's format."""
    file = io.BytesIO()
    np.save(file, array)
    return Response(file.getvalue(), media_type="application/x-npy", headers={"X-Version": str(version)})
