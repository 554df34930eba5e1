"""A run on shards: its settings, its sizes and its folder, which one fit uses at a time."""

from __future__ import annotations

import logging
import math
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grinch._checks import check_count
from grinch.core.rules import Rules
from grinch.estimators.grinch import Grinch
from grinch.io.rows import Rows
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.store.lock import NO_LOCKS, StoreLocked, WriterLock, describe, holder
from grinch.tree.links import NO_LIMIT


@dataclass(frozen=True)
class RunFolder:
    """The folder of the stages of a run, one of their own below the folder that was asked for (``home``)."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder.parent

    def path(self, stage: str, name: str) -> Path:
        """Return the file of a stage."""
        return self.folder / stage / name

    def of_piece(self, stage: str, piece: int, ending: str = ".npz") -> Path:
        """Return the file of a piece of the input."""
        return self.path(stage, f"{piece_name(piece)}{ending}")

    def of_shard(self, stage: str, shard: int) -> Path:
        """Return the file of a shard."""
        return self.path(stage, f"{shard_name(shard)}.npz")

    def of_branch(self, stage: str, branch: int, ending: str = ".npz") -> Path:
        """Return the file of a branch."""
        return self.path(stage, f"{branch_name(branch)}{ending}")


@dataclass(frozen=True)
class Job(RunFolder):
    """A run: its input, its settings, and the folder that its stages write to. Small, for it goes with every task."""

    rows: Rows = field(repr=False)
    model: Grinch
    """How every tree is built; it is never fitted itself."""
    n_shards: int
    sample_size: int
    seed: int
    repair: bool
    stamp: str
    """All that results depend on, in short."""

    @property
    def linkage(self) -> VectorLinkage | Linkage:
        return self.model.checked_parameters().linkage

    @property
    def rules(self) -> Rules:
        return self.model.checked_parameters().rules

    @property
    def is_exact(self) -> bool:
        """Whether trees carry the guarantee of the paper's theorem, which the whole is to keep."""
        rules = self.rules
        return rules.graft and not rules.single_search and rules.graft_cap == NO_LIMIT

    @property
    def metric(self) -> str | None:
        """The metric by which cuts compare vectors; None for records."""
        linkage = self.linkage
        if not isinstance(linkage, VectorLinkage):
            return None
        return "euclidean" if linkage.leaf_metric == "sqeuclidean" else "cosine"

    def moves_points(self, n_branches: int) -> bool:
        """Return whether points may move from branch to branch."""
        return self.repair and n_branches > 1

    def opens_branches(self, n_branches: int) -> bool:
        """Return whether branches are opened, so that leaves of the upper tree may be parts of them."""
        return self.is_exact and self.moves_points(n_branches)

    @property
    def n_pieces(self) -> int:
        return len(self.rows.pieces)


def piece_tasks(job: Job) -> dict[str, tuple[Any, ...]]:
    """Return a task for each piece of the input, of the stages that go piece by piece."""
    return {piece_name(piece): (job, piece) for piece in range(job.n_pieces)}


def piece_name(piece: int) -> str:
    return f"piece-{piece:06d}"


def shard_name(shard: int) -> str:
    return f"shard-{shard:05d}"


def branch_name(branch: int) -> str:
    return f"branch-{branch:06d}"


log = logging.getLogger("grinch.sharded")
STAGES, REMOVED = "stages-", ".removed-"
# How these names go on: a folder of the user's own may begin like one of them.
STAMP = "[0-9a-f]" * 16
# By folder that this process works in, the thread that does.
_held: dict[Path, int] = {}


def check_folder(folder: Path) -> Path:
    """Return a folder to work in; make it if there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"folder must be one that can be made and written to; got {str(folder)!r}: {error}") from None
    return folder.absolute()


def stages_folder(home: Path, stamp: str) -> Path:
    """Return the folder of the stages of a run, by all that it depends on: files of two runs never get mixed."""
    return home / f"{STAGES}{stamp[:16]}"


def clear_others(home: Path, stamp: str) -> None:
    """Remove the stages of other runs, and what is left of earlier removals."""
    for path in home.glob(f"{STAGES}{STAMP}"):
        if path.is_dir() and path != stages_folder(home, stamp):
            # Whole or not at all: half of the files of a stage would be taken for all.
            path.rename(home / f"{REMOVED}{secrets.token_hex(8)}")
    for path in home.glob(f"{REMOVED}{STAMP}"):
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Keep others out of the folder of a run: two fits that write over each other's files would mix their results.

    A thread that is in it already goes on. Where files cannot be locked, nobody is kept out.
    """
    folder, thread = folder.absolute(), threading.get_ident()
    if _held.get(folder) == thread:
        yield
        return
    try:
        lock = WriterLock(folder)
    except StoreLocked:
        raise ValueError(
            f"folder {str(folder)!r} is in use by {describe(holder(folder))}, which may be the same run; wait for it,"
            " or give another folder"
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise ValueError(f"folder must be one that can be written to; got {str(folder)!r}: {error}") from None
        log.warning("%s is on a file system without locks: see to it that one fit at a time uses it", folder)
        yield
        return
    _held[folder] = thread
    try:
        yield
    finally:
        del _held[folder]
        lock.release()


# Each shard has several branches: the more, the better the shards can be balanced and the more of the sample's tree is
# kept, but also the more points near borders.
BRANCHES_PER_SHARD = 4
# A shard of this many points is built in seconds, so that workers are busy until the end and little is lost with one.
POINTS_PER_SHARD = 125_000
# Every shard is asked about points of every other: beyond this many, shards become larger instead.
MOST_SHARDS = 1_024
# The sample grows with the root of the number of points, 100,000 for a million: one worker builds its tree, and all
# workers keep it. docs/development/sharded.md has what it takes, and what it is good for.
LEAST_SAMPLE, SAMPLE_PER_ROOT, MOST_SAMPLE = 20_000, 100, 400_000
# The least number of sampled points for each branch.
SAMPLE_PER_BRANCH = 64


def choose_n_shards(given: Any, n_points: int) -> int:
    """Return the number of shards asked for, or one that suits the data.

    >>> choose_n_shards("auto", 1_000_000), choose_n_shards("auto", 10**9), choose_n_shards(5, 1_000_000)
    (8, 1024, 5)
    """
    if isinstance(given, str) and given == "auto":
        return max(min(-(-n_points // POINTS_PER_SHARD), MOST_SHARDS), 1)
    return min(check_count("n_shards", given, 1, " or 'auto'"), max(n_points // 2, 1))


def choose_sample_size(given: Any, n_points: int, n_shards: int) -> int:
    """Return the size of the sample asked for, or one that suits the number of points.

    >>> [choose_sample_size("auto", n, choose_n_shards("auto", n)) for n in (10**5, 10**6, 10**7, 10**8)]
    [31600, 100000, 316200, 400000]
    """
    if isinstance(given, str) and given == "auto":
        by_points = min(max(LEAST_SAMPLE, SAMPLE_PER_ROOT * math.isqrt(n_points)), MOST_SAMPLE)
        return min(n_points, max(by_points, SAMPLE_PER_BRANCH * BRANCHES_PER_SHARD * n_shards))
    return min(check_count("sample_size", given, 2, " or 'auto'"), n_points)
