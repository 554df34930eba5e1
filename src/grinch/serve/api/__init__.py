"""The server: routes over a viewer and a store, and what guards them."""

from grinch.errors import missing_extra

try:
    import fastapi  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise missing_extra("a server", str(error.name), "serve") from None
