"""Single, complete and average linkage over any pairwise similarity or distance, on vectors or on records.

A group keeps its members and the two groups it was merged from. The score of two groups is looked up, or combined from
the scores of its parts (the largest for single, the smallest for complete, the weighted mean for average), and only if
those are not known either is it computed over all pairs. So what did not change in a tree costs a few look-ups.

A function of two records is called once per pair, as long as the pair is remembered: it may be slow. The distances that
scipy knows by name are fast, and computed again.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count, check_name
from grinch.errors import SavedModelError, unknown_name
from grinch.linkage.base import function_from_state, function_to_state, saved_as
from grinch.saving.json_values import saved_tuple, value_bytes, value_of
from grinch.saving.state import State, array, item, scalar

# The distances that scipy's cdist knows by name and that need no further argument.
SCIPY_METRICS = (
    *("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "dice", "euclidean", "hamming"),
    *("jaccard", "jensenshannon", "minkowski", "rogerstanimoto", "russellrao", "sokalsneath", "sqeuclidean", "yule"),
)
KINDS: dict[str, Callable[..., Any]] = {"single": np.max, "complete": np.min, "average": np.mean}

Matrix = npt.NDArray[np.float64]

# Groups up to this size keep their members in one piece; larger ones collect them when they are measured.
SMALL = 32


@saved_tuple("member")
class Member(NamedTuple):
    """A record, and the random number that identifies it."""

    number: int
    record: Any


class Group:
    """The size of a node, the two groups it came from, its members if it is small, and a number that identifies it.

    The number of a group is the exclusive or of its members' random numbers: the same members have the same number,
    however they were put together, so their scores stay known when the tree is rearranged.
    """

    __slots__ = ("block", "number", "parts", "size")

    def __init__(self, block: Any, parts: tuple[Group, Group] | None, number: int):
        self.block, self.parts, self.number = block, parts, number
        self.size = 1 if parts is None else len(parts[0]) + len(parts[1])

    def __len__(self) -> int:
        return self.size

    def members(self) -> Any:
        """Return all members: rows of a matrix, or a list of :class:`Member`."""
        if self.block is not None:
            return self.block
        waiting, blocks = [self], []
        while waiting:
            group = waiting.pop()
            if group.block is not None:
                blocks.append(group.block)
            elif group.parts is not None:
                waiting += group.parts[::-1]
        joined = np.concatenate(blocks) if isinstance(blocks[0], np.ndarray) else [x for block in blocks for x in block]
        if len(self) <= SMALL:
            self.block = joined
        return joined


def _key(a: Group | Member, b: Group | Member) -> tuple[int, int]:
    return (a.number, b.number) if a.number < b.number else (b.number, a.number)


@saved_as("pairwise")
class Pairwise:
    """Single, complete or average linkage over a pairwise measure.

    Parameters
    ----------
    kind : {"single", "complete", "average"}
        The best pair, the worst pair, or the mean over all pairs.
    similarity : callable, optional
        ``similarity(x, y)`` of two records, higher for closer. It should be symmetric: a pair is measured in one order.
    distance : callable or str, optional
        ``distance(x, y)`` of two records, lower for closer, or a name that :func:`scipy.spatial.distance.cdist` knows,
        for vectors. The score is minus the distance. Give either ``similarity`` or ``distance``.
    remember : int, default=1_000_000
        The size of the cache of scores of groups, and of that of pairs of records; 0 for none.

    Attributes
    ----------
    pairs_computed : int
        The number of pairs of records that have been measured.

    Examples
    --------
    >>> from grinch import Grinch
    >>> from grinch.linkage import Pairwise
    >>> import difflib
    >>> alike = Pairwise("average", similarity=lambda x, y: difflib.SequenceMatcher(None, x, y).ratio())
    >>> Grinch(linkage=alike, n_clusters=2).fit_predict(["J. Smith", "Wei Wang", "John Smith", "W. Wang"]).tolist()
    [0, 1, 0, 1]
    """

    def __init__(
        self,
        kind: str,
        similarity: Callable[[Any, Any], float] | None = None,
        distance: Callable[[Any, Any], float] | str | None = None,
        remember: int = 1_000_000,
    ):
        check_name("kind", kind, KINDS)
        if (similarity is None) == (distance is None):
            raise ValueError("give one of similarity= (higher is closer) and distance= (lower is closer)")
        if isinstance(distance, str) and distance not in SCIPY_METRICS:
            raise unknown_name("distance", distance, SCIPY_METRICS, " (or a function of two records)")
        self.kind, self.similarity, self.distance = kind, similarity, distance
        self.remember = check_count("remember", remember, 0)
        self.ceiling = None if distance is None else 0.0
        self._known: OrderedDict[tuple[int, int], float] = OrderedDict()
        # Apart from the scores of groups: which of these are known decides how others are combined, to the last bit.
        self._measured: dict[tuple[int, int], float] = {}
        self.pairs_computed = 0

    def leaf(self, record: Any) -> Group:
        number = secrets.randbits(96)
        if isinstance(self.distance, str):
            return Group(np.asarray(record, np.float64).reshape(1, -1), None, number)
        return Group([Member(number, record)], None, number)

    def rows(self, leaves: Sequence[Group | None]) -> Matrix | None:
        """Return single vectors as rows of a matrix, zero where there is none; None unless distances are Euclidean."""
        if self.distance not in ("euclidean", "sqeuclidean"):
            return None
        width = next((leaf.block.shape[1] for leaf in leaves if leaf is not None), 0)
        found = np.zeros((len(leaves), width))
        for i, leaf in enumerate(leaves):
            if leaf is not None:
                found[i] = leaf.block[0]
        return found

    def merge(self, a: Group, b: Group) -> Group:
        return Group(None, (a, b), a.number ^ b.number)

    def score(self, a: Group, b: Group) -> float:
        if self._recall(a, b) is None and not self._is_partly_known(a, b):
            a, b = b, a
        value = self._worked_out(a, b)
        self._forget()
        return value

    def scores(self, a: Group, others: Sequence[Group]) -> Matrix:
        """Return scores of one group with many; single records among them are measured in one call."""
        singles = [b for b in others if len(b) == 1 and self._recall(a, b) is None]
        for part in a.parts or (a,):
            self._measure_singles(part, [b for b in singles if self._recall(part, b) is None])
        return np.array([self.score(a, b) for b in others])

    def _measure_singles(self, a: Group, singles: list[Group]) -> None:
        if singles:
            blocks = [b.members() for b in singles]
            others = np.concatenate(blocks) if isinstance(self.distance, str) else [block[0] for block in blocks]
            values = KINDS[self.kind](self._measure(a.members(), others), axis=0)
            for b, value in zip(singles, values.tolist(), strict=True):
                self._keep(a, b, value)

    def _measure(self, a: Any, b: Any) -> Matrix:
        """Return similarities of all pairs."""
        if isinstance(self.distance, str):
            from scipy.spatial.distance import cdist

            self.pairs_computed += len(a) * len(b)
            return -np.asarray(cdist(a, b, self.distance))
        values = np.array([[self._measure_pair(x, y) for y in b] for x in a], dtype=np.float64)
        return values if self.similarity is not None else -values

    def _measure_pair(self, x: Member, y: Member) -> float:
        """Return what the user's function says of two records."""
        key = _key(x, y)
        value = self._measured.get(key)
        if value is None:
            function: Any = self.distance if self.similarity is None else self.similarity
            value = function(x.record, y.record)
            self.pairs_computed += 1
            if len(self._measured) < self.remember:
                self._measured[key] = value
        return value

    def _recall(self, a: Group, b: Group) -> float | None:
        return self._known.get(_key(a, b))

    def _is_partly_known(self, a: Group, b: Group) -> bool:
        return a.parts is not None and any(self._recall(part, b) is not None for part in a.parts)

    def _worked_out(self, a: Group, b: Group) -> float:
        """Return the value of a and b, computed from those of their parts that are known.

        The search goes down the parts of a as long as one of them is known with b and one is not, then back up.
        After an insert that is the path to the new record, so only the new record is measured.
        """
        path = []
        while (value := self._recall(a, b)) is None:
            unknown = [part for part in a.parts or () if self._recall(part, b) is None]
            if a.parts is None or len(unknown) == 2:
                value = self._keep(a, b, float(KINDS[self.kind](self._measure(a.members(), b.members()))))
                break
            path.append(a)
            if not unknown:
                break
            a = unknown[0]
        for group in reversed(path):
            value = self._keep(group, b, self._combined(group, b))
        assert value is not None
        return value

    def _combined(self, a: Group, b: Group) -> float:
        """Return from the scores of a's parts with b, both of them known."""
        assert a.parts is not None
        (left, right), known = a.parts, [self._known[_key(part, b)] for part in a.parts]
        if self.kind == "average":
            return (len(left) * known[0] + len(right) * known[1]) / len(a)
        return max(known) if self.kind == "single" else min(known)

    def _keep(self, a: Group, b: Group, value: float) -> float:
        self._known[_key(a, b)] = value
        return value

    def _forget(self) -> None:
        while len(self._known) > self.remember:
            self._known.popitem(last=False)
        if len(self._measured) >= self.remember:
            # The older half at once: taking them one by one from the front of a dict is slow.
            for key in list(islice(self._measured, (len(self._measured) + 1) // 2)):
                del self._measured[key]

    # In files -----------------------------------------------------------------------------------------------------

    def to_state(self) -> State:
        """Return what it is made of, without what it has measured."""
        distance = {"name": self.distance} if isinstance(self.distance, str) else _optional(self.distance)
        return {
            "kind": self.kind,
            "similarity": _optional(self.similarity),
            "distance": distance,
            "remember": int(self.remember),
        }

    @classmethod
    def from_state(cls, state: Any) -> Self:
        similarity, distance = state["similarity"], state["distance"]
        if distance is not None:
            distance = distance["name"] if "name" in distance else function_from_state(distance)
        similarity = None if similarity is None else function_from_state(similarity)
        return cls(state["kind"], similarity=similarity, distance=distance, remember=state["remember"])

    def measured_to_state(self) -> State:
        """Return the scores that are remembered."""
        found: State = {"pairs_computed": int(self.pairs_computed)}
        for name, scores in (("groups", self._known), ("pairs", self._measured)):
            found[f"{name}_keys"] = words_of([number for key in scores for number in key])
            found[f"{name}_values"] = np.fromiter(map(float, scores.values()), np.float64, len(scores))
        return found

    def remember_measured(self, state: Any) -> None:
        """Remember the scores of a state; numbers of groups are random, so beside those of other models."""
        if not self._known and not self._measured:
            self.pairs_computed = scalar(state, "pairs_computed", int)
        for name, scores in (("groups", self._known), ("pairs", self._measured)):
            numbers = numbers_of(array(state, f"{name}_keys", "<u8", 2))
            values = array(state, f"{name}_values", "<f8", 1).tolist()
            scores.update(zip(zip(numbers[::2], numbers[1::2], strict=True), values, strict=True))


def _optional(function: Any) -> State | None:
    return None if function is None else function_to_state(function)


def words_of(numbers: list[int]) -> npt.NDArray[np.uint64]:
    """Return numbers of up to 128 bits as two words each."""
    low = 2**64 - 1
    return np.array([(n >> 64, n & low) for n in numbers], np.uint64).reshape(-1, 2)


def numbers_of(words: npt.NDArray[Any]) -> list[int]:
    if words.shape[1:] != (2,):
        raise SavedModelError("the numbers of groups must be of two words")
    return [(high << 64) | low for high, low in words.tolist()]


class GroupsOut:
    """Groups in the order in which they are written."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self._groups: list[Group] = []

    def reference(self, value: Any) -> Any:
        """Return what stands for a group in the values of a file; None for anything else."""
        if type(value) is not Group:
            return None
        waiting = [value]
        while waiting:
            group = waiting[-1]
            parts = [part for part in group.parts or () if id(part) not in self._index]
            waiting += parts
            if not parts:
                waiting.pop()
                if id(group) not in self._index:
                    self._index[id(group)] = len(self._groups)
                    self._groups.append(group)
        return {"group": self._index[id(value)]}

    def to_state(self) -> State:
        groups = self._groups
        parts = [[self._index[id(part)] for part in group.parts] if group.parts else [-1, -1] for group in groups]
        single = [group.block for group in groups if not group.parts]
        found: State = {
            "parts": np.array(parts, np.int32).reshape(-1, 2),
            "numbers": words_of([group.number for group in groups]),
        }
        if all(isinstance(block, np.ndarray) for block in single):
            rows = np.concatenate(single).astype(np.float64, copy=False) if single else np.zeros((0, 0))
            return found | {"rows": rows, "records": None}
        return found | {"rows": None, "records": value_bytes([block[0].record for block in single], "a record")}


class GroupsIn:
    """The groups of a state."""

    def __init__(self, state: Any):
        parts, numbers = array(state, "parts", "<i4", 2), numbers_of(array(state, "numbers", "<u8", 2))
        if parts.shape != (len(numbers), 2) or (parts >= np.arange(len(parts))[:, None]).any() or (parts < -1).any():
            raise SavedModelError("groups of records are not made of earlier ones")
        is_single = (parts == -1).all(axis=1)
        if (parts[~is_single] == -1).any():
            raise SavedModelError("a group of records is made of one other")
        single = iter(_blocks(state, [numbers[i] for i in np.flatnonzero(is_single)]))
        self._groups: list[Group] = []
        for number, (a, b) in zip(numbers, parts.tolist(), strict=True):
            parts_of = None if a < 0 else (self._groups[a], self._groups[b])
            self._groups.append(Group(next(single) if a < 0 else None, parts_of, number))

    def at(self, tag: str, index: Any) -> Group:
        """Return the group that a reference stands for."""
        if tag != "group" or type(index) is not int or not 0 <= index < len(self._groups):
            raise SavedModelError(f"{tag!r} {index!r:.60} is no value that this version knows")
        return self._groups[index]


def _blocks(state: Any, numbers: list[int]) -> list[Any]:
    """Return what single records are: rows of a matrix, or records with their numbers."""
    if item(state, "rows") is not None:
        rows = array(state, "rows", "<f8", 2)
        found: list[Any] = [rows[i : i + 1] for i in range(len(rows))]
    else:
        records = value_of(array(state, "records", "|u1", 1))
        found = [[Member(number, record)] for number, record in zip(numbers, records, strict=True)]
    if len(found) != len(numbers):
        raise SavedModelError(f"{len(found)} records are there for {len(numbers)} groups of one")
    return found
