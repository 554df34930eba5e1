"""What a sharded store is: one small file, whose replacement is the moment at which a split counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

import grinch
from grinch.files.write import replacing
from grinch.store import DamagedStore
from grinch.store.opening import BRANCH_NAME

FILE = "sharded.json"
FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """The contents of ``sharded.json``.

    ``max_points``: a branch with more is split; ``n_clusters`` and ``threshold``: where :meth:`ShardedStore.labels`
    cuts unless it is told otherwise; ``is_named``: whether points have ids of the user's; ``next_number``: no point had
    this number, or a higher one, when the file was written; ``branches``: the names of their folders; ``pairs``: the
    tree over them, as :meth:`grinch.Tree.from_merges` takes it.
    """

    max_points: int
    n_clusters: int | None = None
    threshold: float | None = None
    is_named: bool | None = None
    next_number: int = 0
    branches: tuple[str, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    format: int = FORMAT
    grinch: str = field(default_factory=lambda: grinch.__version__)

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        path = folder / FILE
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
            if about["format"] > FORMAT:
                raise DamagedStore(
                    f"{path} is of format {about['format']}, written by a later version of grinch; this one reads up to"
                    f" {FORMAT}. Upgrade grinch"
                )
            about["branches"], about["pairs"] = tuple(about["branches"]), tuple(map(tuple, about["pairs"]))
            found = cls(**about)
            found.check()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, DamagedStore):
                raise
            raise DamagedStore(f"{path} is damaged: {error!r}. Restore it from a backup") from None
        return found

    def write(self, folder: Path) -> None:
        with replacing(folder / FILE) as out:
            json.dump(asdict(self), out, indent=1)

    def check(self) -> None:
        """Every branch is under the root of the tree of branches, once."""
        n, pairs = len(self.branches), self.pairs
        if not n or len(set(self.branches)) < n or not all(BRANCH_NAME.fullmatch(name) for name in self.branches):
            raise ValueError(f"branches are {self.branches}")
        below = sorted(v for pair in pairs for v in pair)
        if len(pairs) != n - 1 or below != list(range(max(2 * n - 2, 0))):
            raise ValueError(f"the tree over {n} branches is {pairs}")
        if any(v >= n + k for k, pair in enumerate(pairs) for v in pair):
            raise ValueError(f"the tree over {n} branches has a node above itself: {pairs}")

    def new_names(self, count: int, others: Iterable[str] = ()) -> list[str]:
        """Names that no branch has, nor any of ``others``, higher than all there are."""
        first = 1 + max((int(name.split("-")[1]) for name in (*self.branches, *others)), default=-1)
        return [f"branch-{number:05}" for number in range(first, first + count)]

    def with_split(self, at: int, left: str, right: str, next_number: int) -> Manifest:
        """Two branches in the place of branch ``at``: one has its number, the other is the last.

        >>> before = Manifest(9, branches=("branch-00000", "branch-00001"), pairs=((0, 1),))
        >>> before.with_split(0, "branch-00002", "branch-00003", 7).pairs
        ((0, 2), (3, 1))
        """
        n = len(self.branches)
        branches = [*self.branches, right]
        branches[at] = left
        # The pair of the two is the first merge, so that all other merges move up by one, and so does every leaf count.
        moved = np.array(self.pairs, np.int64).reshape(-1, 2)
        was_split = moved == at
        moved[moved >= n] += 2
        moved[was_split] = n + 1
        pairs = ((at, n), *((int(a), int(b)) for a, b in moved))
        return replace(self, branches=tuple(branches), pairs=pairs, next_number=next_number)


def pairs_of(merges: npt.NDArray[np.integer]) -> tuple[tuple[int, int], ...]:
    """Merges as a manifest has them."""
    return tuple((int(a), int(b)) for a, b in merges)
