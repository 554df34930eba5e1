"""Answers of all routes: errors by status as ``{"error": "..."}``, JSON, and arrays."""

from __future__ import annotations

import io
import json
import logging
import secrets
from typing import Any

import numpy as np
import numpy.typing as npt
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from grinch.serve.api.events import TooManyListeners
from grinch.serve.api.models import Problem
from grinch.serve.views.viewer import Computing, Stale
from grinch.serve.write_batcher import Closed, Full
from grinch.store.damage import DamagedStore, is_full
from grinch.store.lock import StoreLocked
from grinch.store.store import StoreClosed

log = logging.getLogger("grinch.serve")

MAX_LISTED_ERRORS = 3
Responses = dict[int | str, dict[str, Any]]

COMMON: Responses = {
    status: {"model": Problem, "description": description}
    for status, description in {
        400: "The request cannot be read",
        401: "A token is needed",
        403: "The service is read-only, or a page of another site asks",
        413: "The body is too large",
        415: "The body is of a kind that is not accepted",
        421: "The service is not called by this name",
        422: "Not accepted; nothing was changed",
        500: "Something went wrong inside; the log has it",
        503: "Busy; try again in a moment. Nothing was changed",
        507: "The disk of the service is full. Nothing was changed",
    }.items()
}
NOT_THERE: Responses = {404: {"model": Problem, "description": "Not there"}}
MOVED_ON: Responses = {409: {"model": Problem, "description": "The tree has changed; ask for the new version"}}


class ReadOnly(Exception):
    """A change was asked of a service that does not write."""


class Json(Response):
    """JSON of plain values, without a check of what we made ourselves, which would take longer than making it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode()


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else str(value)


def numpy_file(version: int, array: npt.NDArray[Any] | None = None, **arrays: npt.NDArray[Any]) -> Response:
    """Return an array as numpy.save writes it, or several as numpy.savez does."""
    file = io.BytesIO()
    if array is not None:
        np.save(file, array)
    else:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    kind = "application/x-npz" if array is None else "application/x-npy"
    return Response(file.getvalue(), media_type=kind, headers={"X-Version": str(version)})


# Errors -----------------------------------------------------------------------------------------------------------


def register_errors(app: FastAPI) -> None:
    """Answer the errors of all routes by their kind; those that nobody expects are left to the guard."""

    async def answered(request: Request, error: Exception) -> Response:
        return refusal(error, is_page=request.url.path.startswith("/api/"))

    for kind in (KeyError, ValueError, ReadOnly, Stale, Computing, Full, Closed, TooManyListeners, *UNUSABLE):
        app.add_exception_handler(kind, answered)

    @app.exception_handler(RequestValidationError)
    async def not_accepted(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": in_a_line(error.errors())}, 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        message = f"{request.url.path!r:.100} is not there" if error.detail == "Not Found" else str(error.detail)
        return JSONResponse({"error": message}, error.status_code, error.headers)


UNUSABLE = (OSError, StoreLocked, StoreClosed, DamagedStore, MemoryError)


def refusal(error: Exception, *, is_page: bool = False) -> Response:
    """Return the answer to a request that failed; to the page, a result that is still being computed is no failure."""
    message: dict[str, Any] = {"error": str(error)}
    if isinstance(error, KeyError):
        return JSONResponse({"error": str(error.args[0]) if error.args else "not there"}, 404)
    if isinstance(error, ReadOnly):
        return JSONResponse(message, 403)
    if isinstance(error, Computing):
        waiting = {"status": "computing"} if is_page else {"error": "not there yet; ask again in a moment"}
        return JSONResponse(waiting, 202 if is_page else 409)
    if isinstance(error, Stale):
        return JSONResponse({**message, "version": error.version}, 409)
    if isinstance(error, (Full, Closed, TooManyListeners)):
        return JSONResponse(message, 503, {"Retry-After": "1"})
    if isinstance(error, UNUSABLE):
        return _unusable(error)
    return JSONResponse(message, 422)


def _unusable(error: Exception) -> Response:
    """Return the answer to an error of the disk or of a file, without its path, which the log has."""
    number = secrets.token_hex(4)
    log.error("error %s: a file cannot be used", number, exc_info=error)
    if is_full(error):
        message = "the disk of the service is full, or a limit of it is reached; nothing was changed"
        return JSONResponse(
            {"error": f"{message}. Make room there, and send it again; the log has it as {number}"}, 507
        )
    message = "the store cannot be used at the moment; nothing was changed"
    return JSONResponse({"error": f"{message}; the log has it as {number}"}, 503, {"Retry-After": "5"})


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuse a parameter that is not known, such as a misspelled one."""
    if request.scope["query_string"]:
        known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
        unknown = next((name for name in request.query_params if name not in known), None)
        if unknown is not None:
            raise HTTPException(422, f"there is no parameter {unknown!r:.60}; there are {', '.join(known) or 'none'}")


def in_a_line(errors: Any) -> str:
    """Return the errors of pydantic in a line.

    >>> in_a_line([{"loc": ("query", "limit"), "msg": "Input should be less than 100", "input": "1000"}])
    "limit: Input should be less than 100; got '1000'"
    """
    lines = []
    for error in list(errors)[:MAX_LISTED_ERRORS]:
        at = ".".join(str(part) for part in error["loc"][1:]) or "body"
        given = error.get("input")
        is_short = given is not None and not isinstance(given, (dict, list, bytes))
        lines.append(f"{at}: {error['msg']}" + (f"; got {given!r:.60}" if is_short else ""))
    more = f" (and {len(errors) - MAX_LISTED_ERRORS} more)" if len(errors) > MAX_LISTED_ERRORS else ""
    return "; ".join(lines) + more
