"""The decisions nearest to falling the other way, for a person to look at."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from grinch.resolve.authors.records.record import Record
from grinch.resolve.authors.results.evidence import evidence
from grinch.tree import Tree

# Of blocks with more authors only so many are compared with each other, those with most records.
MOST_AUTHORS = 1000


class Scorer(Protocol):
    """A linkage that is asked about one group and many others at once."""

    def leaf(self, record: Any) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any: ...

    def scores(self, a: Any, others: Sequence[Any]) -> npt.NDArray[np.float64]: ...


class Doubt(NamedTuple):
    """Two groups of records, by position, that were put together or kept apart, and their score."""

    margin: float
    score: float
    decision: str
    a: list[int]
    b: list[int]


def doubts(
    records: Sequence[Record],
    labels: npt.NDArray[np.integer],
    tree: Tree,
    linkage: Scorer,
    threshold: float,
    most: int,
) -> list[dict[str, Any]]:
    """The merges made inside authors, and those not made between authors, whose scores are nearest to the threshold.

    Each as plain data: the decision, score and margin (how far the score is from the threshold), the numbers of the
    authors of both sides, and the evidence (see :func:`~grinch.resolve.authors.results.evidence.evidence`).
    """
    found = [*_together(labels, tree, threshold, most), *_apart(records, labels, linkage, threshold, most)]
    found = heapq.nsmallest(most, found, key=lambda doubt: doubt.margin)
    return [
        {
            "decision": doubt.decision,
            "score": round(doubt.score, 4),
            "margin": round(doubt.margin, 4),
            "author a": int(labels[doubt.a[0]]),
            "author b": int(labels[doubt.b[0]]),
            **evidence([records[i] for i in doubt.a], [records[i] for i in doubt.b]),
        }
        for doubt in found
    ]


def _together(labels: npt.NDArray[np.integer], tree: Tree, threshold: float, most: int) -> Iterator[Doubt]:
    """The merges of the tree below the cut."""
    whose = dict(enumerate(labels.tolist()))
    merges = []
    for v in reversed(tree.preorder().tolist()):
        if not tree.is_leaf(v):
            left, right = (whose[child] for child in tree.children(v))
            whose[v] = left if left == right else None
            if whose[v] is not None and np.isfinite(tree.scores[v]):
                merges.append((abs(float(tree.scores[v]) - threshold), v))
    for margin, v in heapq.nsmallest(most, merges):
        a, b = (tree.leaves(child).tolist() for child in tree.children(v))
        yield Doubt(margin, float(tree.scores[v]), "together", a, b)


def _apart(
    records: Sequence[Record], labels: npt.NDArray[np.integer], linkage: Scorer, threshold: float, most: int
) -> Iterator[Doubt]:
    """Two authors of the block each."""
    members: dict[int, list[int]] = {}
    for i, label in enumerate(labels.tolist()):
        members.setdefault(label, []).append(i)
    groups = sorted(members.values(), key=len, reverse=True)[:MOST_AUTHORS]
    summaries = [reduce(linkage.merge, [linkage.leaf(records[i]) for i in group]) for group in groups]
    for i in range(1, len(groups)):
        scores = linkage.scores(summaries[i], summaries[:i])
        margins = np.abs(scores - threshold)
        for j in np.argsort(margins)[:most].tolist():
            yield Doubt(float(margins[j]), float(scores[j]), "apart", groups[j], groups[i])
