"""What all tasks of a run have to know."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grinch.core.rules import Rules
from grinch.estimators.grinch import Grinch
from grinch.io.rows import Rows
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.tree.links import NO_LIMIT


@dataclass(frozen=True)
class RunFolder:
    """Where the stages of a run are: below the folder that was asked for (``home``), in one of their own."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder.parent

    def path(self, stage: str, name: str) -> Path:
        """The file of a stage."""
        return self.folder / stage / name


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
        return self.model._check_parameters(reset=True).linkage

    @property
    def rules(self) -> Rules:
        return self.model._rules()

    @property
    def is_exact(self) -> bool:
        """Whether trees carry the guarantee of the paper's theorem, which the whole is to keep."""
        rules = self.rules
        return rules.graft and not rules.single_search and rules.graft_cap == NO_LIMIT

    @property
    def n_pieces(self) -> int:
        return len(self.rows.pieces)


def piece_tasks(job: Job) -> dict[str, tuple[Any, ...]]:
    """A task for each piece of the input, of the stages that go piece by piece."""
    return {piece_name(piece): (job, piece) for piece in range(job.n_pieces)}


def piece_name(piece: int) -> str:
    return f"piece-{piece:06d}"


def shard_name(shard: int) -> str:
    return f"shard-{shard:05d}"


def branch_name(branch: int) -> str:
    return f"branch-{branch:06d}"
