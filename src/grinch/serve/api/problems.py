"""What is wrong with a request, in one form for all routes: ``{"error": "..."}``."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

MOST_NAMED = 3


def register(app: FastAPI) -> None:
    """Let every error of the application be answered in that form."""

    @app.exception_handler(RequestValidationError)
    async def not_accepted(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": said(error.errors())}, 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        message = f"{request.url.path!r:.100} is not there" if error.detail == "Not Found" else str(error.detail)
        return JSONResponse({"error": message}, error.status_code, error.headers)


async def refuse_unknown_parameters(request: Request) -> None:
    """A parameter that is misspelled would be passed over; it is refused instead."""
    if request.scope["query_string"]:
        known = [parameter.alias for parameter in request.scope["route"].dependant.query_params]
        unknown = next((name for name in request.query_params if name not in known), None)
        if unknown is not None:
            raise HTTPException(422, f"there is no parameter {unknown!r:.60}; there are {', '.join(known) or 'none'}")


def said(errors: Any) -> str:
    """What pydantic finds, in a line.

    >>> said([{"loc": ("query", "limit"), "msg": "Input should be less than 100", "input": "1000"}])
    "limit: Input should be less than 100; got '1000'"
    """
    lines = []
    for error in list(errors)[:MOST_NAMED]:
        at = ".".join(str(part) for part in error["loc"][1:]) or "body"
        given = error.get("input")
        is_short = given is not None and not isinstance(given, (dict, list, bytes))
        lines.append(f"{at}: {error['msg']}" + (f"; got {given!r:.60}" if is_short else ""))
    more = f" (and {len(errors) - MOST_NAMED} more)" if len(errors) > MOST_NAMED else ""
    return "; ".join(lines) + more
