"""The checks that every request has to pass: host, origin, token and size; and the settings of a server."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi.exceptions import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("grinch.serve")

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
SHORTEST_TOKEN = 16
MEGABYTE = 2**20

# Health checks come from machines without a token; these routes say nothing else.
OPEN_TO_ALL = ("/health", "/health/live", "/health/ready")
# Bodies of other routes are small, so that they can be read in the loop of the server.
WITH_POINTS = ("/v1/insert", "/v1/update", "/v1/remove", "/v1/predict", "/v1/payload", "/v1/vectors")
SMALL, A_VECTOR = MEGABYTE, 4 * MEGABYTE
ARRAYS = ("application/x-npy", "application/x-npz", "application/vnd.apache.arrow.stream")
A_MONTH = 30 * 24 * 3600


@dataclass(frozen=True)
class Settings:
    """Settings and limits of a server.

    ``token``: the token that a request must send, if any. ``hosts``: the names of the server, with a port
    (``name:8080``) or with any; a request for another name is refused (DNS rebinding). ``frame_ancestors``: the pages
    that may show the page in a frame. ``max_body``: bytes of a request, ``max_json``: of one in JSON, which takes many
    times as much memory to parse, ``max_rows``: its points, ``max_id``: characters of an id, ``max_payload``: bytes of
    the payload of a point. ``max_waiting``: bytes of all requests at once, ``max_queued``: requests that wait for the
    writer, ``max_gathered``: points that it inserts at once; ``max_listeners``: clients that wait for events,
    ``max_connections``: connections, if the machine allows as many; beyond it, idle ones are closed for new ones.
    ``is_read_only``: nothing can be changed, not even names.

    >>> Settings(token="short")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: token must have at least 16 characters; got 5. Make one with: ...
    """

    token: str | None = None
    hosts: tuple[str, ...] = LOOPBACK_NAMES
    frame_ancestors: tuple[str, ...] = ("'none'",)
    max_body: int = 64 * MEGABYTE
    max_json: int = 16 * MEGABYTE
    max_waiting: int = 256 * MEGABYTE
    max_rows: int = 100_000
    max_id: int = 1_000
    max_payload: int = MEGABYTE
    max_queued: int = 256
    max_gathered: int = 10_000
    max_listeners: int = 100
    max_connections: int = 1_000
    is_read_only: bool = False

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ValueError(
                f"token must have at least {SHORTEST_TOKEN} characters; got {len(self.token)}. Make one with:"
                " python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            raise ValueError("token must be of ASCII letters, digits and signs, without spaces")


class Refused(Exception):
    """A request that is refused, with status and message."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.answer = JSONResponse({"error": message}, status, headers)


class Guard:
    """ASGI middleware around the whole application.

    It checks Host (against DNS rebinding), Origin and Sec-Fetch-Site (against pages of other sites), the token, and the
    size of the body, also of one that comes in chunks; it adds security headers to every answer; and it hides internal
    errors.
    """

    def __init__(self, app: ASGIApp, settings: Settings):
        self.app, self.settings = app, settings
        self.held = 0
        """Bytes of the bodies of all requests that are not answered yet."""
        self._cookie = None if settings.token is None else _cookie_of(settings.token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce
        answer = _Answer(send, self._security_headers(nonce))
        try:
            self._check(scope)
            # If there are too many connections, those with an allowed request stay longest.
            scope["state"]["is_allowed"] = scope["path"] not in OPEN_TO_ALL
            await self._answer(scope, receive, answer)
        except Refused as refused:
            await refused.answer(scope, receive, answer)
        except ClientDisconnect:
            # Nobody is left to answer.
            return
        except Exception:
            number = secrets.token_hex(4)
            log.exception("error %s in %s %s", number, scope["method"], scope["path"])
            if answer.has_begun:
                raise
            message = f"something went wrong inside; the log of the server has it as {number}"
            await JSONResponse({"error": message}, 500)(scope, receive, answer)

    async def _answer(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        limited = _Limited(receive, self, self.most(scope))
        try:
            await self.app(scope, limited, answer)
        finally:
            self.held -= limited.count

    def most(self, scope: Scope) -> int:
        """Return the maximal number of bytes of the body of a request."""
        settings, path = self.settings, scope["path"]
        if path not in WITH_POINTS:
            return min(settings.max_body, A_VECTOR if path == "/api/place" else SMALL)
        kind = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
        return settings.max_body if kind in ARRAYS else min(settings.max_body, settings.max_json)

    # Requests ------------------------------------------------------------------------------------------------

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        self._check_origin(scope, headers, self._check_host(headers))
        self._check_token(scope, headers)
        _check_length(headers, self.most(scope))

    def _check_host(self, headers: Headers) -> str:
        given = headers.getlist("host")
        host = given[0].lower() if len(given) == 1 else ""
        if host not in self.settings.hosts and _name_of(host) not in self.settings.hosts:
            raise Refused(
                421,
                f"Host must be a name by which this server is called; got {host!r:.100}. Allow it with --allow-host",
            )
        return host

    def _check_origin(self, scope: Scope, headers: Headers, host: str) -> None:
        origin = headers.get("origin")
        if origin is not None and (len(headers.getlist("origin")) > 1 or _host_of(origin) != host):
            raise Refused(
                403, f"Origin must be this server itself; got {origin!r:.100}. Pages of other sites are refused"
            )
        site = headers.get("sec-fetch-site", "none")
        # A link from elsewhere may lead to the page, or a notebook show it; frame-ancestors says whose.
        is_opened = scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("same-origin", "none") and not (is_opened and scope["method"] == "GET"):
            raise Refused(403, "Sec-Fetch-Site must be same-origin: pages of other sites are refused")

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        token = self.settings.token
        if token is None or self._cookie is None or scope["path"] in OPEN_TO_ALL:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _is_same(given.strip(), token):
            return
        if any(_is_same(given, self._cookie[1]) for given in _cookies_in(headers, self._cookie[0])):
            return
        if scope["path"] == "/" and scope["method"] == "GET":
            asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
            if _is_same(asked[0], token):
                raise _Redirected(self._cookie, is_secure=scope.get("scheme") == "https")
        raise Refused(
            401,
            "a token is needed: send it as 'Authorization: Bearer TOKEN', or open /?token=TOKEN in a browser once",
            {"WWW-Authenticate": "Bearer"},
        )

    # Answers ---------------------------------------------------------------------------------------------

    def _security_headers(self, nonce: str) -> dict[str, str]:
        policy = (
            f"default-src 'none'; script-src 'self' 'nonce-{nonce}'; style-src 'self';"
            " img-src 'self' data: https:; connect-src 'self'; font-src 'self'; base-uri 'none';"
            f" form-action 'none'; frame-ancestors {' '.join(self.settings.frame_ancestors)}"
        )
        return {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cache-control": "no-store",
        }


class _Redirected(Refused):
    """A redirect for a browser that sent the token in the address: without it, and with a cookie."""

    def __init__(self, cookie: tuple[str, str], is_secure: bool):
        super().__init__(303, "go on without the token", {"Location": "/"})
        self.answer.set_cookie(*cookie, max_age=A_MONTH, secure=is_secure, httponly=True, samesite="strict")


class _Answer:
    """Forwards an answer with more headers."""

    def __init__(self, send: Send, headers: dict[str, str]):
        self._send, self._headers = send, headers
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in self._headers.items():
                headers.setdefault(name, value)
        await self._send(message)


class _Limited:
    """Receives a body up to a limit, of its own and for all requests together."""

    def __init__(self, receive: Receive, guard: Guard, most: int):
        self._receive, self._guard, self._most, self.count = receive, guard, most, 0

    async def __call__(self) -> Message:
        message = await self._receive()
        size, settings = len(message.get("body", b"")), self._guard.settings
        self.count += size
        self._guard.held += size
        # Of this kind, for FastAPI takes any other for a body that could not be parsed.
        if self.count > self._most:
            raise HTTPException(413, too_large(self._most))
        if self._guard.held > settings.max_waiting and self._guard.held > self.count:
            raise HTTPException(503, "too much is being received; try again in a moment", {"Retry-After": "1"})
        return message


def too_large(most: int) -> str:
    return f"the body must have at most {most:,} bytes here; send it in smaller parts, or points as arrays"


def _check_length(headers: Headers, most: int) -> None:
    if headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "Content-Encoding is not accepted: send the body as it is")
    length = headers.get("content-length")
    if length is not None and not (length.isascii() and length.isdigit()):
        raise Refused(400, f"Content-Length must be a number; got {length!r:.40}")
    if length is not None and int(length) > most:
        raise Refused(413, too_large(most))


def _name_of(host: str) -> str:
    """Return a host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host


def _host_of(origin: str) -> str | None:
    """Return name and port of an origin, as in a Host header; None if it has none, such as null."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") and parts.netloc else None


def _is_same(given: Any, known: str) -> bool:
    return isinstance(given, str) and secrets.compare_digest(given.encode("utf-8", "replace"), known.encode())


def _cookie_of(token: str) -> tuple[str, str]:
    """Return name and value of a cookie made from the token; the name differs by token, as ports share cookies."""
    made = hmac.new(token.encode(), b"grinch cookie", hashlib.sha256).hexdigest()
    return f"grinch-{hashlib.sha256(made.encode()).hexdigest()[:8]}", made


def _cookies_in(headers: Headers, name: str) -> list[str]:
    """Return the values of all cookies of a name; any service on this machine can set others."""
    pairs = [one.strip().partition("=") for line in headers.getlist("cookie") for one in line.split(";")]
    return [value for key, _, value in pairs if key == name]
