"""Ways to work on blocks on this machine. Each yields the outcome of a block as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any, NamedTuple, TypeVar

from grinch.errors import cause_of

T = TypeVar("T")
R = TypeVar("R")
Work = Callable[[Sequence[T]], R]


class Failure(NamedTuple):
    """Why there is no result of a block."""

    reason: str


Finished = Generator[tuple[str, R | Failure], None, None]


def attempt(work: Work[T, R], block: Sequence[T]) -> R | Failure:
    """Do the work; an exception becomes a failure, with the place where it was raised.

    >>> attempt(sum, [1, 2]), attempt(max, [])
    (3, Failure(reason='ValueError: max() arg is an empty sequence'))
    """
    try:
        return work(block)
    except Exception as error:
        return Failure(cause_of(error))


def one_by_one(work: Work[T, R], blocks: Mapping[str, Sequence[T]]) -> Finished[R]:
    """In this process."""
    for name, block in blocks.items():
        yield name, attempt(work, block)


def in_processes(work: Work[T, R], blocks: Mapping[str, Sequence[T]], jobs: int) -> Finished[R]:
    """In processes of this machine. If one dies, only the block it was working on fails."""
    left = dict(blocks)
    while left:
        handed_out: list[str] = []
        try:
            with closing(_pool(work, left.copy(), jobs, handed_out)) as finished:
                for name, outcome in finished:
                    del left[name]
                    yield name, outcome
        except BrokenProcessPool:
            # Which block it was is not known: those that were being worked on run again, each in a process of its own.
            for name in handed_out:
                if name in left:
                    yield name, _alone(work, left.pop(name))


def _alone(work: Work[T, R], block: Sequence[T]) -> R | Failure:
    """In a process of its own."""
    try:
        with closing(_pool(work, {"": block}, 2, [])) as finished:
            return next(finished)[1]
    except BrokenProcessPool:
        return Failure("the process that worked on it died (killed, or out of memory?)")


def _pool(work: Work[T, R], blocks: dict[str, Sequence[T]], jobs: int, handed_out: list[str]) -> Finished[R]:
    from joblib import Parallel, delayed

    def tasks() -> Generator[Any, None, None]:
        for name, block in blocks.items():
            handed_out.append(name)
            yield delayed(_named)(name, work, block)

    yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(tasks())


def _named(name: str, work: Work[T, R], block: Sequence[T]) -> tuple[str, R | Failure]:
    return name, attempt(work, block)
