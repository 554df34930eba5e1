"""The server of an application: in the main thread until Ctrl-C, or in another thread until it is stopped."""

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

# Seconds to wait for pending answers at the end: a change is made in any case, and its client should know.
SHUTDOWN_TIMEOUT = 20
# Seconds until an idle connection is closed.
KEEP_ALIVE = 75
MAX_ADDRESS = 2**17
# Connections that may wait to be accepted, and those accepted at once: each takes a file, even to be refused.
BACKLOG, AT_ONCE = 1024, 16


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 is any free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, or asyncio would not disable Nagle's algorithm, and each answer would take 40 ms.
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
        # Not the faster httptools, if it is installed: limits and timeouts are enforced in this one.
        http=connection_limits.protocol(app.state.max_connections),
        backlog=AT_ONCE,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
        timeout_keep_alive=KEEP_ALIVE,
        h11_max_incomplete_event_size=MAX_ADDRESS,
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
            # In a thread: opening a browser may take long.
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
        """Handle signals without raising them again, so that open files are closed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
