"""What an estimator needs of whatever builds its tree."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from grinch._types import Advance
from grinch.saving.state import State
from grinch.summaries.arrays import StoredPoints
from grinch.tree import Tree


class Builder(Protocol):
    """Takes points in and hands out a tree of them; Grinch's engine is one, and each other system has its own."""

    @property
    def n_leaves(self) -> int:
        """How many points are in the tree; 0 as long as there is none worth keeping."""
        ...

    @property
    def stats(self) -> dict[str, int]:
        """What was done, in numbers."""
        ...

    def insert(self, rows: Any, progress: Advance | None = None) -> None:
        """Take points in, in order, and tell ``progress`` how many; what is raised on the way leaves a valid tree."""
        ...

    def tree(self) -> Tree:
        """The tree as it stands; later points do not change it."""
        ...

    def to_state(self) -> State:
        """Return what a file holds of it."""
        ...


@runtime_checkable
class Removing(Protocol):
    """A builder that points can be taken out of; each has a slot, and an empty slot stays behind."""

    @property
    def n_slots(self) -> int:
        """How many slots there are, empty ones among them."""
        ...

    def slots(self) -> npt.NDArray[np.intp]:
        """The slots of the points in the tree, in ascending order."""
        ...

    def has(self, slot: int) -> bool:
        """Whether there is a point in this slot."""
        ...


@runtime_checkable
class Keeping(Protocol):
    """A builder that keeps its points, as all but the engine do (which keeps summaries of them)."""

    def kept(self) -> StoredPoints:
        """The points in the order they came, and the linkage that compares them."""
        ...


@runtime_checkable
class HavingPoints(Protocol):
    """A builder whose points decide where its tree is cut."""

    def points(self) -> npt.NDArray[np.float32]:
        """The points in the order they came."""
        ...
