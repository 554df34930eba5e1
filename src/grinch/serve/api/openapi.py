"""The description of the application: what FastAPI says of it, and the token."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from grinch.serve.api.guard import OPEN_TO_ALL
from grinch.serve.api.settings import Settings


def describe(app: FastAPI, settings: Settings) -> None:
    """Let the description say that a token is needed, where one is."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = plain()
            if settings.token is not None:
                found.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
                for path, methods in found["paths"].items():
                    for operation in methods.values():
                        operation["security"] = [] if path in OPEN_TO_ALL else [{"token": []}]
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
