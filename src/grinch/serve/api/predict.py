"""Predictions that are asked for at the same time are made together."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from fastapi.concurrency import run_in_threadpool

from grinch.serve.api.service import Service
from grinch.serve.backend import View

# Requests with more rows are answered alone, so that others need not wait for them.
MAX_BATCHED_ROWS = 64


class Predicted(NamedTuple):
    """The version that was asked, and the cluster of each row."""

    version: int
    clusters: list[int]


class _Request(NamedTuple):
    X: npt.NDArray[Any]
    cut: str
    answer: asyncio.Future[Predicted]

    @property
    def group(self) -> tuple[Any, ...]:
        """Requests of one group fail together: what is wrong with one (its width, its cut) is wrong with all."""
        return self.cut, self.X.shape[1:], self.X.dtype


class Predictions:
    """Answers all predictions that wait in one thread: with a thread for each they hold each other up.

    All of it except :meth:`_predict` runs in the loop of the server.
    """

    def __init__(self, service: Service):
        self._service = service
        self._waiting: list[_Request] = []
        self._task: asyncio.Task[None] | None = None

    async def get(self, X: npt.NDArray[Any], cut: str) -> Predicted:
        """Return the clusters that points would join."""
        if len(X) > MAX_BATCHED_ROWS:
            return await run_in_threadpool(self._predict, X, cut)
        request = _Request(X, cut, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._task is None:
            self._task = asyncio.create_task(self._answer_all())
        return await request.answer

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                group = self._waiting[0].group
                batch = [one for one in self._waiting if one.group == group]
                self._waiting = [one for one in self._waiting if one.group != group]
                await self._answer(batch)
        finally:
            self._task = None

    async def _answer(self, batch: list[_Request]) -> None:
        # Whoever asked may be gone: then the future is done.
        try:
            rows = np.concatenate([one.X for one in batch])
            version, clusters = await run_in_threadpool(self._predict, rows, batch[0].cut)
        except BaseException as error:
            for one in batch:
                if not one.answer.done():
                    one.answer.set_exception(error if isinstance(error, Exception) else RuntimeError("interrupted"))
            if not isinstance(error, Exception):
                raise
            return
        end = 0
        for one in batch:
            begin, end = end, end + len(one.X)
            if not one.answer.done():
                one.answer.set_result(Predicted(version, clusters[begin:end]))

    def _predict(self, X: npt.NDArray[Any], cut: str) -> Predicted:
        def predict(view: View) -> Predicted:
            return Predicted(view.version, view.predict(X, cut).tolist() if len(X) else [])

        return self._service.read(predict, placing=True)
