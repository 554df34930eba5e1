"""Predictions that are asked for at the same time are made together."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from fastapi.concurrency import run_in_threadpool

from grinch.serve.backend import Desk

# What has more rows is asked for alone, so that others need not wait for it.
FEW = 64


class Predicted(NamedTuple):
    """The version that was asked, and the cluster of each row."""

    version: int
    clusters: list[int]


class _Asked(NamedTuple):
    X: npt.NDArray[Any]
    cut: str
    answer: asyncio.Future[Predicted]


class Predictions:
    """Asks the desk for all predictions that wait, in one thread: with a thread for each they hold each other up.

    All of it but :meth:`_ask` is done in the loop of the server.
    """

    def __init__(self, desk: Desk):
        self._desk = desk
        self._waiting: list[_Asked] = []
        self._is_asking = False

    async def get(self, X: npt.NDArray[Any], cut: str) -> Predicted:
        """The clusters that points would join."""
        if len(X) > FEW:
            return await run_in_threadpool(self._ask, X, cut)
        asked = _Asked(X, cut, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if not self._is_asking:
            self._is_asking = True
            self._task = asyncio.create_task(self._answer_all())
        return await asked.answer

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                first = self._waiting[0]
                batch = [one for one in self._waiting if _go_together(one, first)]
                self._waiting = [one for one in self._waiting if not _go_together(one, first)]
                await self._answer(batch)
        finally:
            self._is_asking = False

    async def _answer(self, batch: list[_Asked]) -> None:
        try:
            rows = np.concatenate([one.X for one in batch])
            found = await run_in_threadpool(self._ask, rows, batch[0].cut)
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
            # Who asked may be gone.
            if not one.answer.done():
                one.answer.set_result(Predicted(found.version, found.clusters[begin:end]))

    def _ask(self, X: npt.NDArray[Any], cut: str) -> Predicted:
        def find(seen: Any) -> Predicted:
            return Predicted(int(seen.version), seen.predict(X, cut).tolist() if len(X) else [])

        return self._desk.read(find, placing=True)


def _go_together(one: _Asked, first: _Asked) -> bool:
    """What is wrong with one (its width, its cut) is then wrong with all."""
    return one.cut == first.cut and one.X.shape[1:] == first.X.shape[1:] and one.X.dtype == first.X.dtype
