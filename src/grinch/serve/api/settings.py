"""What a server allows, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
SHORTEST_TOKEN = 16
MEGABYTE = 2**20


@dataclass(frozen=True)
class Settings:
    """What a server allows.

    ``token``: what a request must bring along, if anything. ``hosts``: the names by which the server is called, with a
    port (``name:8080``) or with any; a request for another name is refused, since it comes from a page that had its
    own name point here. ``frame_ancestors``: who may show the page in a frame. ``max_body``: bytes of a request,
    ``max_json``: of one in JSON, which takes many times as much memory to read, ``max_rows``: its points, ``max_id``:
    characters of an id, ``max_payload``: bytes of what is kept beside a point.
    ``max_waiting``: bytes of all requests at once, ``max_queued``: requests that wait for the writer,
    ``max_gathered``: points that it inserts at once;
    ``max_listeners``: clients that wait for events, ``max_connections``: connections, if the machine allows as many;
    where there are more, those that do not go on give way to new ones.
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
