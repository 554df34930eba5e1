"""Metrics in the text format of Prometheus."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1_000, 10_000)


class Histogram:
    r"""Cumulative counts of observations by upper bound.

    >>> seconds = Histogram((0.1, 1.0))
    >>> for value in (0.05, 0.5, 3.0):
    ...     seconds.add(value)
    >>> print("\n".join(seconds.lines("took", "")))
    took_bucket{le="0.1"} 1
    took_bucket{le="1.0"} 2
    took_bucket{le="+Inf"} 3
    took_sum 3.55
    took_count 3
    """

    def __init__(self, bounds: tuple[float, ...]):
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> list[str]:
        found, count = [], 0
        for bound, n in zip([*map(str, self._bounds), "+Inf"], self._counts, strict=True):
            count += n
            found.append(f'{name}_bucket{{{labels}{"," if labels else ""}le="{bound}"}} {count}')
        known = f"{{{labels}}}" if labels else ""
        return [*found, f"{name}_sum{known} {self._sum:.6g}", f"{name}_count{known} {count}"]


class Metrics:
    """Requests by route and status, their latencies, and the batches of the writer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._batches, self._points = Histogram(SIZES), Histogram(SIZES)
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        """By name, its description and a function that returns its value."""

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[route, method, status] += 1
            self._seconds.setdefault(route, Histogram(SECONDS)).add(seconds)

    def wrote(self, requests: int, points: int) -> None:
        with self._lock:
            self._batches.add(requests)
            self._points.add(points)

    def text(self) -> str:
        """Return all metrics as Prometheus reads them."""
        lines = [line for name, (what, find) in self.gauges.items() for line in _gauge(name, what, find())]
        with self._lock:
            lines += _head("grinch_requests_total", "counter", "Requests by route and status.")
            for (route, method, status), n in sorted(self._requests.items()):
                lines.append(f'grinch_requests_total{{route="{route}",method="{method}",status="{status}"}} {n}')
            lines += _head("grinch_request_seconds", "histogram", "Time until the answer begins, by route.")
            for route, seconds in sorted(self._seconds.items()):
                lines += seconds.lines("grinch_request_seconds", f'route="{route}"')
            lines += _head("grinch_batch_requests", "histogram", "Changes that were written together.")
            lines += self._batches.lines("grinch_batch_requests", "")
            lines += _head("grinch_batch_points", "histogram", "Points of changes that were written together.")
            lines += self._points.lines("grinch_batch_points", "")
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, what: str) -> list[str]:
    return [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]


def _gauge(name: str, what: str, value: float) -> Iterable[str]:
    return [*_head(name, "gauge", what), f"{name} {value:g}" if value != int(value) else f"{name} {int(value)}"]


class RequestCounter:
    """ASGI middleware that counts requests."""

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.metrics.answered(_route(scope), _method(scope), message["status"], time.perf_counter() - began)
            await send(message)

        await self.app(scope, receive, noted)


def _route(scope: Any) -> str:
    """Return the route as it is declared, so that there are few of them."""
    return str(getattr(scope.get("route"), "path", "other"))


def _method(scope: Any) -> str:
    return scope["method"] if scope["method"] in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS") else "other"
