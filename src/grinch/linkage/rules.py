"""Must-link and cannot-link rules on top of a linkage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from grinch.linkage import base
from grinch.linkage.base import Linkage, saved_as
from grinch.saving.json_values import saved_tuple

Key = Callable[[Any], Any]
Values = list[frozenset[Any]]
KEYS = ("must", "cannot_share", "cannot_differ")


@saved_tuple("ruled")
class Ruled(NamedTuple):
    """The linkage's own summary of a group, and the values that its members have for each rule."""

    summary: Any
    must: Values
    cannot_share: Values
    cannot_differ: Values


@saved_as("with_rules")
class WithRules:
    """Must-link and cannot-link rules on top of a linkage.

    Parameters
    ----------
    linkage : Linkage
        Used where no rule applies: a Linkage, or a function of two lists of records.
    must : sequence of callables
        Each maps a record to a value or None. Two groups that share a value belong together (the same ORCID).
    cannot_share : sequence of callables
        Two groups that share a value must not be together (two authors of one paper).
    cannot_differ : sequence of callables
        Two groups with different values must not be together (two ORCIDs).
    weight : float, default=1e6
        What a must-link adds to the score, and a cannot-link takes from it. Where both apply, the cannot-link counts.

    Examples
    --------
    >>> from grinch import Grinch
    >>> from grinch.linkage import Pairwise, WithRules
    >>> near = Pairwise("average", distance=lambda x, y: abs(x["year"] - y["year"]))
    >>> rules = WithRules(near, must=[lambda r: r.get("orcid")])
    >>> papers = [{"year": 1990, "orcid": "a"}, {"year": 1991}, {"year": 2020, "orcid": "a"}, {"year": 2021}]
    >>> model = Grinch(linkage=rules, mode="exact", threshold=1000).fit(papers)
    >>> model.labels_.tolist()
    [0, 1, 0, 2]
    """

    def __init__(
        self,
        linkage: Linkage | base.Similarity,
        must: Sequence[Key] = (),
        cannot_share: Sequence[Key] = (),
        cannot_differ: Sequence[Key] = (),
        weight: float = 1e6,
    ):
        if not isinstance(linkage, Linkage):
            if not callable(linkage):
                raise TypeError(f"linkage must be an object with leaf, merge and score, or a function; got {linkage!r}")
            linkage = base.FunctionLinkage(linkage)
        for name, keys in (("must", must), ("cannot_share", cannot_share), ("cannot_differ", cannot_differ)):
            if callable(keys) or not all(map(callable, keys)):
                raise TypeError(f"{name} must be a list of functions of a record; got {keys!r}")
        if not weight > 0:
            raise ValueError(f"weight must be a positive number; got {weight!r}")
        self.linkage, self.must, self.cannot_share, self.cannot_differ = linkage, must, cannot_share, cannot_differ
        self.weight = weight

    def leaf(self, record: Any) -> Ruled:
        def values(keys: Sequence[Key]) -> Values:
            found = (key(record) for key in keys)
            return [frozenset() if value is None else frozenset([value]) for value in found]

        return Ruled(self.linkage.leaf(record), *map(values, (self.must, self.cannot_share, self.cannot_differ)))

    def merge(self, a: Ruled, b: Ruled) -> Ruled:
        unions = ([x | y for x, y in zip(u, v, strict=True)] for u, v in zip(a[1:], b[1:], strict=True))
        return Ruled(self.linkage.merge(a.summary, b.summary), *unions)

    def score(self, a: Ruled, b: Ruled) -> float:
        return self.linkage.score(a.summary, b.summary) + self._rule(a, b)

    def scores(self, a: Ruled, others: Sequence[Ruled]) -> npt.NDArray[np.float64]:
        values = base.scores_of(self.linkage, a.summary, [b.summary for b in others])
        return values + np.array([self._rule(a, b) for b in others])

    def _rule(self, a: Ruled, b: Ruled) -> float:
        """Return what the rules add to the score of two groups."""
        if any(x & y for x, y in zip(a.cannot_share, b.cannot_share, strict=True)):
            return -self.weight
        if any(x and y and not (x & y) for x, y in zip(a.cannot_differ, b.cannot_differ, strict=True)):
            return -self.weight
        return self.weight if any(x & y for x, y in zip(a.must, b.must, strict=True)) else 0.0

    def to_state(self) -> dict[str, Any]:
        keys = {name: [base.function_to_state(key) for key in getattr(self, name)] for name in KEYS}
        return {"linkage": base.part_to_state(self.linkage), **keys, "weight": float(self.weight)}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        keys = {name: [base.function_from_state(key) for key in state[name]] for name in KEYS}
        return cls(base.part_from_state(state["linkage"]), **keys, weight=state["weight"])
