"""Requests to a service: one persistent connection, retries, and errors by status."""

from __future__ import annotations

import errno
import http.client
import json
import ssl
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from email.message import Message
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

from grinch.errors import NO_SENSE

# Seconds before a request is sent again; twice as long each time.
FIRST_WAIT, MAX_WAIT = 0.1, 5.0
# A connection that was idle for this many seconds may have been closed at the other end: another one is opened.
MAX_IDLE = 20.0
LOST = (http.client.HTTPException, OSError)


# Bytes of a line of a stream of events.
MAX_LINE = 2**24

Found = TypeVar("Found")
# Errors by status; ValueError for others.
ERRORS: dict[int, type[Exception]] = {
    **dict.fromkeys((401, 403), PermissionError),
    404: KeyError,
    **dict.fromkeys((500, 502), RuntimeError),
    **dict.fromkeys((503, 504), ConnectionError),
}


def parsed(parse: Callable[[Any], Found], given: Any) -> Found:
    """Return a parsed answer; raises ConnectionError if it cannot be parsed.

    >>> parsed(lambda said: said["version"], {})
    Traceback (most recent call last):
        ...
    ConnectionError: the server answered something that is not understood (KeyError: 'version'); is it grinch serve?
    """
    try:
        return parse(given)
    except (*NO_SENSE, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        what = f"{type(error).__name__}: {str(error)[:100]}"
        raise ConnectionError(
            f"the server answered something that is not understood ({what}); is it grinch serve?"
        ) from error


class Answer(NamedTuple):
    """An answer of a service."""

    status: int
    headers: Message
    content: bytes

    def read(self, parse: Callable[[Any], Found]) -> Found:
        """Return the parsed JSON of the answer."""
        return parsed(lambda content: parse(json.loads(content)), self.content)


class Connection:
    """One connection to a service, which threads share; opened when it is first needed."""

    def __init__(self, url: str, token: str | None, timeout: float, retries: int):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be the address of a service, as http://127.0.0.1:8765/; got {url!r:.100}")
        self.url = f"{parts.scheme}://{parts.netloc}/"
        self._parts, self._timeout, self._retries = parts, timeout, retries
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._lock = threading.Lock()
        self._open: http.client.HTTPConnection | None = None
        self._used = 0.0

    def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str | None = None, *, is_safe: bool = True
    ) -> Answer:
        """Return the answer to a request, or raise the error of its status.

        It is sent again when the service is busy; and, if ``is_safe``, when the connection is lost.
        """
        headers = {**self._headers, **({} if kind is None else {"Content-Type": kind})}
        wait = FIRST_WAIT
        for attempt in range(self._retries + 1):
            is_last = attempt == self._retries
            try:
                answer = self._ask_once(method, path, body, headers)
            except ConnectionRefusedError as error:
                if is_last:
                    raise ConnectionError(f"no server answers at {self.url}: {error}") from None
            except LOST as error:
                if is_last or not is_safe:
                    raise ConnectionError(
                        f"the connection to {self.url} was lost: {type(error).__name__}: {error}"
                    ) from error
            else:
                if answer.status != 503 or is_last:
                    return _checked(answer)
            time.sleep(wait)
            wait = min(2 * wait, MAX_WAIT)
        raise AssertionError("unreachable")

    def _ask_once(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        with self._lock:
            if time.monotonic() - self._used > MAX_IDLE:
                self._close()
            if self._open is None:
                self._open = self._new(self._timeout)
            try:
                self._open.request(method, path, body, headers)
                found = self._open.getresponse()
                answer = Answer(found.status, found.headers, found.read())
            except BaseException:
                self._close()
                raise
            self._used = time.monotonic()
            return answer

    def _new(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname, self._parts.port
        assert host is not None
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def events(self, path: str, asked: dict[str, Any], last: int | None) -> Iterator[tuple[int, Any]]:
        """Yield id and data of server-sent events after ``last``, over a connection of their own."""
        connection = self._new(self._timeout)
        headers = {**self._headers, **({} if last is None else {"Last-Event-ID": str(last)})}
        try:
            connection.request("GET", f"{path}?{urlencode(asked)}", headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                _checked(Answer(answer.status, answer.headers, answer.read()))
            number, data = 0, ""
            while line := parsed(_line, answer):
                name, _, value = line.rstrip("\r\n").partition(": ")
                if name == "id":
                    number = parsed(int, value)
                elif name == "data":
                    data = value
                elif not name and data:
                    yield number, parsed(json.loads, data)
                    data = ""
        except http.client.HTTPException as error:
            raise ConnectionError(f"the connection to {self.url} was lost: {error}") from error
        finally:
            connection.close()

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _line(answer: http.client.HTTPResponse) -> str:
    line = answer.readline(MAX_LINE)
    if len(line) == MAX_LINE:
        raise ValueError(f"a line of more than {MAX_LINE:,} bytes")
    return line.decode()


def _checked(answer: Answer) -> Answer:
    if answer.status < 300:
        return answer
    try:
        message = str(json.loads(answer.content)["error"])
    except (ValueError, KeyError, TypeError):
        message = f"the service answered with status {answer.status}"
    if answer.status == 507:
        raise OSError(errno.ENOSPC, message)
    raise ERRORS.get(answer.status, ValueError)(message)
