"""The closest decisions, for a person to look at."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from grinch.resolve.authors.clustering.close_calls import CloseCall, close_calls
from grinch.resolve.authors.records.record import Record
from grinch.resolve.authors.results.evidence import evidence
from grinch.tree import Tree

# In blocks with more authors than this, only those with the most records are compared with each other.
MOST_AUTHORS = 1000


class Scorer(Protocol):
    """A linkage that scores one group against many at once."""

    def leaf(self, record: Any) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any: ...

    def scores(self, a: Any, others: Sequence[Any]) -> npt.NDArray[np.float64]: ...


class Doubt(NamedTuple):
    """A close call, and whether its two groups were put together or kept apart."""

    decision: str
    call: CloseCall


def doubts(
    records: Sequence[Record],
    labels: npt.NDArray[np.integer],
    tree: Tree,
    linkage: Scorer,
    threshold: float,
    most: int,
) -> list[dict[str, Any]]:
    """The merges inside authors, and those not made between authors, whose scores are nearest to the threshold.

    Each as plain data: the decision, the score and its margin (its distance from the threshold), the numbers of the
    authors of both sides, and the evidence (see :func:`~grinch.resolve.authors.results.evidence.evidence`).
    """
    found = [*_together(labels, tree, threshold, most), *_apart(records, labels, linkage, threshold, most)]
    nearest = heapq.nsmallest(most, found, key=lambda doubt: doubt.call.margin)
    return [_described(doubt, records, labels) for doubt in nearest]


def _described(doubt: Doubt, records: Sequence[Record], labels: npt.NDArray[np.integer]) -> dict[str, Any]:
    margin, score, a, b = doubt.call
    return {
        "decision": doubt.decision,
        "score": round(score, 4),
        "margin": round(margin, 4),
        "author a": int(labels[a[0]]),
        "author b": int(labels[b[0]]),
        **evidence([records[i] for i in a], [records[i] for i in b]),
    }


def _together(labels: npt.NDArray[np.integer], tree: Tree, threshold: float, most: int) -> list[Doubt]:
    """The merges of the tree below the cut."""
    author_of = dict(enumerate(labels.tolist()))
    inside = []
    for v in reversed(tree.preorder().tolist()):
        if not tree.is_leaf(v):
            left, right = (author_of[child] for child in tree.children(v))
            author_of[v] = left if left == right else None
            if author_of[v] is not None:
                inside.append(v)
    return [Doubt("together", call) for call in close_calls(tree, threshold, most, inside)]


def _apart(
    records: Sequence[Record], labels: npt.NDArray[np.integer], linkage: Scorer, threshold: float, most: int
) -> Iterator[Doubt]:
    """Pairs of authors of the block."""
    members: dict[int, list[int]] = {}
    for i, label in enumerate(labels.tolist()):
        members.setdefault(label, []).append(i)
    groups = sorted(members.values(), key=len, reverse=True)[:MOST_AUTHORS]
    summaries = [reduce(linkage.merge, [linkage.leaf(records[i]) for i in group]) for group in groups]
    for i in range(1, len(groups)):
        scores = linkage.scores(summaries[i], summaries[:i])
        margins = np.abs(scores - threshold)
        for j in np.argsort(margins)[:most].tolist():
            yield Doubt("apart", CloseCall(float(margins[j]), float(scores[j]), groups[j], groups[i]))
