"""The summaries of all nodes under a linkage, growing with the tree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch.errors import LinkageError
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.vector import COUNT, LENGTH, VectorSummaries
from grinch.tree.links import NONE, USED, first_leaf, next_leaf, size

Slots = npt.NDArray[np.intp]

# Shorter vectors have no squared length in float32.
SHORTEST = 1e-18


def _regrown(old: npt.NDArray[Any], old_capacity: int, capacity: int, fill: float) -> npt.NDArray[Any]:
    """Copy leaf rows to the front and internal rows to the new offset; what is new holds ``fill``."""
    new = np.zeros((2 * capacity, *old.shape[1:]), old.dtype)
    if fill != 0:
        new[...] = fill
    new[:old_capacity] = old[:old_capacity]
    new[capacity : capacity + old_capacity] = old[old_capacity:]
    return new


def _kept(old: npt.NDArray[Any], leaves: Slots, internal: Slots, capacity: int, fill: float) -> npt.NDArray[Any]:
    """Rows of these leaves at the front; those of these internal nodes after the first from ``capacity`` on."""
    new = np.full((2 * capacity, *old.shape[1:]), fill, old.dtype)
    new[: len(leaves)] = old[leaves]
    new[capacity + 1 : capacity + 1 + len(internal)] = old[internal]
    return new


def dense_rows(rows: Any) -> npt.NDArray[Any]:
    return np.asarray(rows.toarray() if scipy.sparse.issparse(rows) else rows)


class VectorStore:
    """Means and moments of vectors for the compiled linkages."""

    def __init__(self, linkage: VectorLinkage, n_features: int):
        self.linkage, self.n_features, self.capacity = linkage, n_features, 0
        self.origin: npt.NDArray[np.float64] | None = None
        self.longest = 0.0
        self.is_whole = True
        self.sums = VectorSummaries(
            means=np.zeros((0, n_features), np.float32),
            moments=np.zeros((0, 3)),
            bonds=np.zeros(0),
            stale=np.zeros(0, np.uint8),
            gone=np.zeros(0, np.uint8),
            nodes=np.zeros(0, np.int32),
            answers=np.zeros(0),
            trouble=np.zeros(3, np.int64),
            formula=linkage.formula,
        )

    def grow(self, capacity: int) -> None:
        old, s = self.capacity, self.sums
        self.sums = VectorSummaries(
            means=_regrown(s.means, old, capacity, 0),
            moments=_regrown(s.moments, old, capacity, 0),
            bonds=_regrown(s.bonds, old, capacity, np.nan),
            stale=_regrown(s.stale, old, capacity, 0),
            gone=np.concatenate([s.gone, np.zeros(capacity - old, np.uint8)]),
            nodes=np.zeros(capacity, np.int32),
            answers=np.zeros(capacity),
            trouble=s.trouble,
            formula=s.formula,
        )
        self.capacity = capacity

    def write(self, at: int, rows: Any) -> None:
        """Put points into the leaf slots from ``at`` on, in the form the linkage works on."""
        self.sums.gone[at : at + rows.shape[0]] = 0
        if self.linkage.is_euclidean and self.origin is None:
            self.origin = dense_rows(rows[:1])[0].astype(np.float64)
        # In pieces, so that a large input is never copied whole.
        for start in range(0, rows.shape[0], 4096):
            piece = dense_rows(rows[start : start + 4096])
            target = self.sums.means[at + start : at + start + len(piece)]
            moments = self.sums.moments[at + start : at + start + len(piece)]
            wide = piece.astype(np.float64)
            if self.origin is not None:
                wide -= self.origin
            lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
            if not self.linkage.is_spherical:
                # Too short for float32 to square: they count as zero vectors.
                wide[lengths < SHORTEST] = 0.0
                lengths[lengths < SHORTEST] = 0.0
            else:
                wide /= np.where(lengths > 0, lengths, 1.0)[:, None]
                lengths = np.where(lengths > 0, 1.0, 0.0)
            target[...] = wide
            self.is_whole = self.is_whole and bool((wide == np.rint(wide)).all())
            moments[...] = 0.0
            moments[:, COUNT] = 1.0
            moments[:, LENGTH] = lengths
            self.longest = max(self.longest, float(lengths.max(initial=0.0)))

    def lengths(self, leaves: Any) -> npt.NDArray[np.float64]:
        return self.sums.moments[leaves, LENGTH]

    def gone(self, leaves: Any) -> npt.NDArray[np.bool_]:
        """Which of these leaves were taken out, so that no search finds them."""
        return self.sums.gone[leaves] == 1

    def set_gone(self, leaves: Slots, gone: bool) -> None:
        self.sums.gone[leaves] = gone

    def drop(self, leaves: Slots) -> None:
        """Nothing to free: a slot stays until the tree is compacted."""

    def compact(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Keep these leaves and internal nodes only, under the numbers they have in the compacted tree."""
        s = self.sums
        self.sums = s._replace(
            means=_kept(s.means, leaves, internal, capacity, 0),
            moments=_kept(s.moments, leaves, internal, capacity, 0),
            bonds=_kept(s.bonds, leaves, internal, capacity, np.nan),
            stale=_kept(s.stale, leaves, internal, capacity, 0),
            gone=np.zeros(capacity, np.uint8),
            nodes=np.zeros(capacity, np.int32),
            answers=np.zeros(capacity),
        )
        self.capacity = capacity

    def own_arrays(self) -> None:
        """Copy arrays that were loaded read-only."""
        arrays = {name: value.copy() for name, value in self.sums._asdict().items() if name != "formula"}
        self.sums = VectorSummaries(**arrays, formula=self.sums.formula)

    def forget_summaries(self) -> None:
        """Make every internal summary be computed anew when it is next asked for."""
        self.sums.stale[self.capacity :] = 1
        self.sums.bonds[:] = np.nan


class ObjectSummaries:
    """Summaries of any kind: Python objects in lists, scored by the methods of a linkage.

    ``around``, if there is one, takes the leaves of a node to the leaves worth asking about it. With ``check``, every
    score is asked for both ways round.
    """

    def __init__(self, linkage: Linkage, check: bool = False):
        self.linkage, self.check = linkage, check
        self.items: Any = []
        self.bonds: Any = []
        self.stale: Any = []
        self.nodes: list[int] = []
        self.answers: list[float] = []
        self.around: Callable[[list[int]], Iterable[int]] | None = None

    def score(self, u: int, v: int) -> float:
        value = self._asked(self.linkage.score, u, v, self.items[v])
        if self.check:
            other = self._asked(self.linkage.score, v, u, self.items[u])
            if not math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-12):
                raise LinkageError(f"is not symmetric: f(a, b) is {value!r} and f(b, a) is {other!r}", u, v)
        return value

    def score_many(self, v: int, nodes: Sequence[int], n: int) -> None:
        self.answers[:n] = self.scores(v, nodes[:n])

    def scores(self, v: int, nodes: Sequence[int]) -> list[float]:
        """f(v, node) for each node, in one call if the linkage has ``scores``."""
        batched = getattr(self.linkage, "scores", None)
        if not callable(batched) or self.check or len(nodes) < 2:
            return [self.score(v, node) for node in nodes]
        values = self._called(batched, v, nodes[0], [self.items[node] for node in nodes])
        try:
            found = np.asarray(values, np.float64)
        except (TypeError, ValueError):
            found = np.empty(0)
        if found.shape != (len(nodes),):
            raise LinkageError(
                f"must return {len(nodes)} numbers from scores(); it returned {values!r:.80}", v, nodes[0]
            )
        if np.isnan(found).any():
            raise LinkageError("returned nan, which is no score", v, nodes[int(np.argmax(np.isnan(found)))])
        listed: list[float] = found.tolist()
        return listed

    def _asked(self, function: Callable[[Any, Any], Any], u: int, v: int, other: Any) -> float:
        value = self._called(function, u, v, other)
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise LinkageError(f"must return a number; it returned {value!r:.80}", u, v) from None
        if math.isnan(number):
            raise LinkageError("returned nan, which is no score", u, v)
        return number

    def _called(self, function: Callable[[Any, Any], Any], u: int, v: int, other: Any) -> Any:
        try:
            return function(self.items[u], other)
        except Exception as error:
            raise LinkageError(f"raised {type(error).__name__}: {error}", u, v) from error

    def merge(self, p: int, left: int, right: int) -> None:
        try:
            self.items[p] = self.linkage.merge(self.items[left], self.items[right])
        except Exception as error:
            raise LinkageError(f"raised {type(error).__name__} in merge(): {error}", left, right) from error

    def leaves_around(self, tree: Any, v: int) -> int:
        asked: Iterable[int] = range(tree.head[USED])
        if self.around is not None:
            asked = sorted(set(self.around(list(leaves_under(tree, v)))))
        found = [leaf for leaf in asked if size(tree, leaf) != NONE]
        self.nodes[: len(found)] = found
        return len(found)


def leaves_under(tree: Any, v: int) -> Iterator[int]:
    leaf = first_leaf(tree, v)
    while leaf != NONE:
        yield int(leaf)
        leaf = next_leaf(tree, leaf, v)


class RecordStore:
    """Summaries of records of any kind, by a linkage written in Python."""

    def __init__(self, linkage: Linkage, check: bool = False):
        self.linkage, self.capacity = linkage, 0
        self.sums = ObjectSummaries(linkage, check)
        self._gone: set[int] = set()

    def grow(self, capacity: int) -> None:
        old, room, s = self.capacity, capacity - self.capacity, self.sums

        def regrown(values: list[Any], fill: Any) -> list[Any]:
            return values[:old] + [fill] * room + values[old:] + [fill] * room

        s.items, s.bonds, s.stale = regrown(s.items, None), regrown(s.bonds, math.nan), regrown(s.stale, 0)
        s.nodes, s.answers = [NONE] * capacity, [math.nan] * capacity
        self.capacity = capacity

    def write(self, at: int, rows: Any) -> None:
        """Summarise records in the leaf slots from ``at`` on; if the linkage refuses one, none of them counts."""
        self._gone -= set(range(at, at + len(rows)))
        for i, record in enumerate(rows):
            try:
                self.sums.items[at + i] = self.linkage.leaf(record)
            except Exception as error:
                raise LinkageError(f"raised {type(error).__name__} in leaf(): {error}", at + i, None) from error

    def gone(self, leaves: Iterable[int]) -> npt.NDArray[np.bool_]:
        """Which of these leaves were taken out, so that no search finds them."""
        return np.array([leaf in self._gone for leaf in leaves], np.bool_)

    def set_gone(self, leaves: Slots, gone: bool) -> None:
        if gone:
            self._gone.update(leaves.tolist())
        else:
            self._gone.difference_update(leaves.tolist())

    def drop(self, leaves: Slots) -> None:
        """Let go of the records of leaves that were taken out."""
        for leaf in leaves.tolist():
            self.sums.items[leaf] = None

    def compact(self, leaves: Slots, internal: Slots, capacity: int) -> None:
        """Keep these leaves and internal nodes only, under the numbers they have in the compacted tree."""
        s = self.sums

        def kept(values: list[Any], fill: Any) -> list[Any]:
            front, back = [values[v] for v in leaves], [fill] + [values[v] for v in internal]
            return front + [fill] * (capacity - len(front)) + back[:capacity] + [fill] * (capacity - len(back))

        s.items, s.bonds, s.stale = kept(s.items, None), kept(s.bonds, math.nan), kept(s.stale, 0)
        s.nodes, s.answers = [NONE] * capacity, [math.nan] * capacity
        self.capacity = capacity
        self._gone = set()

    def own_arrays(self) -> None:
        """Lists are always ours."""

    def forget_summaries(self) -> None:
        """Make every internal summary be computed anew when it is next asked for."""
        self.sums.stale[self.capacity :] = [1] * self.capacity
        self.sums.bonds[:] = [math.nan] * len(self.sums.bonds)
