"""The first stage: a sample of the points, read where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._checks import count_rows
from grinch.sharded.files import joined, n_bytes, read_rows, write_rows
from grinch.sharded.job import Job, piece_name

STAGE = "sample"


def sample_numbers(job: Job) -> npt.NDArray[np.int64]:
    """The numbers of the sampled points, ascending: any is as likely as any other, whatever the order of the input."""
    numbers = np.random.default_rng(job.seed).choice(job.rows.n_rows, job.sample_size, replace=False, shuffle=False)
    return np.sort(numbers).astype(np.int64)


def run(job: Job, piece: int) -> dict[str, int]:
    """Read the sampled points of a piece."""
    first, last = job.rows.pieces[piece]
    numbers = sample_numbers(job)
    numbers = numbers[np.searchsorted(numbers, first) : np.searchsorted(numbers, last)]
    rows = job.rows.take(numbers)
    return {"points": len(numbers), "read": n_bytes(rows), "written": write_rows(_path(job, piece), rows)}


def sampled(job: Job) -> Any:
    """The sampled points, once all pieces are read."""
    parts = [read_rows(_path(job, piece)) for piece in range(job.n_pieces)]
    return joined([part for part in parts if count_rows(part)])


def _path(job: Job, piece: int) -> Any:
    return job.path(STAGE, f"{piece_name(piece)}.rows")
