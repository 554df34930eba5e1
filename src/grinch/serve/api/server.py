"""A server for an application, on a socket: in the main thread until Ctrl-C, or in another until it is stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from fastapi import FastAPI

from grinch.serve.api import connection_limits

# Seconds that answers on their way are waited for at the end: a change is made in any case, and its client should know.
PATIENCE = 20
# Seconds that a connection is kept on which nothing is asked.
KEPT = 75
LONGEST_ADDRESS = 2**17
# Connections that may wait to be accepted, and those that are accepted at once: each takes a file to be refused, too.
BACKLOG, AT_ONCE = 1024, 16


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol said: asyncio sends small answers at once only then, and otherwise each takes 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host.strip("[]"), port))
        listening.listen(BACKLOG)
        return listening
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"host {host!r} with port {port} cannot be listened on: {error.strerror}") from None


def run(
    app: FastAPI,
    listening: socket.socket,
    *,
    ready: Callable[[], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve an application until Ctrl-C, SIGTERM, or until ``stop`` is set; ``ready`` is called once it accepts."""
    config = uvicorn.Config(
        app,
        # Not the faster one, where it is installed: limits and times are kept here.
        http=connection_limits.protocol(app.state.max_connections),
        backlog=AT_ONCE,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=PATIENCE,
        timeout_keep_alive=KEPT,
        h11_max_incomplete_event_size=LONGEST_ADDRESS,
    )
    server = _Server(config, app, ready, stop)
    try:
        # A second Ctrl-C ends it at once.
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listening])
    finally:
        listening.close()


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, app: Any, ready: Callable[[], None] | None, stop: threading.Event | None
    ):
        super().__init__(config)
        self._app, self._ready, self._stop = app, ready, stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(connection_limits.answer_for_loop)
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)
        if self._ready is not None:
            # Aside: to open a browser may take long.
            threading.Thread(target=self._ready, daemon=True).start()

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or (self._stop is not None and self._stop.is_set())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Streams of events do not end by themselves.
        for close in getattr(self._app.state, "closers", ()):
            close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """To be ended is no error here: signals are not raised again, so that what is open is closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
