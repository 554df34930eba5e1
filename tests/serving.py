"""Real servers on this machine, on ports that are free."""

from __future__ import annotations

import http.client
import http.server
import io
import json
import threading
from contextlib import closing, contextmanager, suppress

import numpy as np

from grinch.serve.api.app import listen, make_app, run
from grinch.serve.api.guard import Settings
from grinch.serve.api.service import Service
from grinch.serve.views.viewer import Viewer

TOKEN = "a-token-that-is-long-enough"


class Served:
    """A server that runs, and a connection to it that is kept."""

    def __init__(self, service, port):
        self.service, self.port = service, port
        self.url = f"http://127.0.0.1:{port}/"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask(self, method, path, body=None, kind="application/json", **headers):
        """The status and what was said: JSON if it is, otherwise bytes."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        given = {} if body is None else {"Content-Type": kind}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            self._connection.request(method, path, body, given)
            answer = self._connection.getresponse()
            content = answer.read()
        except BaseException:
            self._connection.close()
            raise
        self.headers = answer.headers
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.status, json.loads(content) if is_json else content

    def get(self, path, **headers):
        return self.ask("GET", path, **headers)

    def post(self, path, body, kind="application/json", **headers):
        return self.ask("POST", path, body, kind, **headers)

    def close(self):
        self._connection.close()


@contextmanager
def running(app, port=0):
    """A server of an application in a thread, until the end of the block; its port."""
    listening, ready, stop = listen("127.0.0.1", port), threading.Event(), threading.Event()
    port = listening.getsockname()[1]
    thread = threading.Thread(target=run, args=(app, listening), kwargs={"ready": ready.set, "stop": stop})
    thread.start()
    try:
        assert ready.wait(30)
        yield port
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive(), "the server does not stop"


@contextmanager
def serving(what, **limits):
    """A server over a store or a source, until the end of the block; with these settings."""
    service = Service(what, Settings(**limits))
    with (
        closing(service),
        running(make_app(Viewer(service.backend), service=service)) as port,
        closing(Served(service, port)) as served,
    ):
        yield served


@contextmanager
def answering(answer):
    """A server that answers every GET with the bytes of ``answer(path)``; its address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content = answer(self.path)
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def npy(array):
    """An array as the bytes of a file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(save=np.savez, **arrays):
    """Arrays as the bytes of an archive."""
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def as_bytes(values):
    """Values as the array of the bytes of their JSON."""
    return np.frombuffer(json.dumps(values).encode(), np.uint8)


def some_rows(n, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def streamed(answer, count):
    """The next events of a stream: kind, id and data of each."""
    found, event = [], {}
    while len(found) < count:
        line = answer.readline().decode().rstrip("\n")
        name, _, value = line.partition(": ")
        if name in ("event", "id", "data"):
            event[name] = value
        elif not line and "data" in event:
            found.append((event["event"], event.get("id"), json.loads(event["data"])))
            event = {}
    return found
