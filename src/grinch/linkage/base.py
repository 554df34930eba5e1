"""What "similar" means: the two kinds of linkage the engine runs on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

Similarity = Callable[[list[Any], list[Any]], float]


@runtime_checkable
class Linkage(Protocol):
    """A similarity of two groups of records of any kind, in three small parts.

    A summary is whatever the linkage needs to know of a group: a vector, a counter of words, a list of members.
    Higher scores are closer. ``score`` should be symmetric, and ``merge`` must not change its arguments.

    Two more are used where a linkage has them: ``scores(a, others)``, the scores of one summary with many in one call,
    and ``ceiling``, the score of two identical records, which is where the heights of the tree start from.
    """

    def leaf(self, record: Any) -> Any:
        """The summary of a single record."""
        ...

    def merge(self, a: Any, b: Any) -> Any:
        """The summary of two groups taken together."""
        ...

    def score(self, a: Any, b: Any) -> float:
        """How similar two groups are."""
        ...


@dataclass(frozen=True)
class FunctionLinkage:
    """A plain function of two lists of records as a linkage; a summary is the list of members."""

    function: Similarity

    def leaf(self, record: Any) -> list[Any]:
        return [record]

    def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
        return a + b

    def score(self, a: list[Any], b: list[Any]) -> float:
        return self.function(a, b)

    def to_state(self) -> dict[str, Any]:
        from grinch.linkage.saved import function_to_state

        return function_to_state(self.function)

    @classmethod
    def from_state(cls, state: Any) -> FunctionLinkage:
        from grinch.linkage.saved import function_from_state

        return cls(function_from_state(state))


@dataclass(frozen=True)
class VectorLinkage:
    """A linkage on vectors with a closed form, compiled.

    ``formula`` is its number in :mod:`grinch.linkage.vector`, or a compiled function of the user's own;
    ``leaf_metric`` is what it amounts to for two points (up to order); ``ceiling`` is the score of two identical
    points, if there is one.
    """

    name: str
    metric: str
    formula: Any
    leaf_metric: str
    ceiling: float | None

    @property
    def is_custom(self) -> bool:
        """Not one of ours: it may return anything, and sees the vectors as they are."""
        return not isinstance(self.formula, int)

    @property
    def is_spherical(self) -> bool:
        """Only directions count, so rows are brought to unit length."""
        return self.name == "average" and self.metric in ("cosine", "hellinger") and not self.is_custom

    @property
    def is_of_roots(self) -> bool:
        """Shares of a whole are compared, by their square roots."""
        return self.metric == "hellinger" and not self.is_custom

    @property
    def is_euclidean(self) -> bool:
        """Only differences count, so the origin may be moved to where rounding is smallest."""
        return self.leaf_metric == "sqeuclidean" and not self.is_custom
