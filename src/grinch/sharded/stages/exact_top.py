"""The upper tree where trees carry the guarantee of the paper's theorem, so that the whole carries it too.

Suppose the linkage separates a graph: two groups with an edge between them score higher than two without. The tree of a
branch then has every connected part of its own points as a subtree. A node above such parts, whose one side has an edge
to somewhere else, is opened: by separation that side scores higher with whatever the edge leads to than with its
sibling. Once no node is to be opened, each is within one connected part, or a union of whole clusters. Trees of the
opened nodes, by the same engine and rules, are trees of a graph that the linkage separates; so what is left of each
cluster comes together. docs/development/sharded.md has the argument in full.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grinch._types import Floats
from grinch.core.engine import Engine
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.vector import COUNT, LENGTH, formula_score, merge_rows
from grinch.sharded.files import write_arrays
from grinch.sharded.job import Job
from grinch.sharded.stages import trees
from grinch.sharded.whole import Merges, merges_of


@dataclass(frozen=True)
class OfSummaries:
    """A linkage whose records are summaries of groups already."""

    linkage: Linkage

    def leaf(self, record: Any) -> Any:
        return record

    def merge(self, a: Any, b: Any) -> Any:
        return self.linkage.merge(a, b)

    def score(self, a: Any, b: Any) -> float:
        return self.linkage.score(a, b)


class VectorGroups:
    """A linkage on vectors for groups of them: a summary is a mean and its moments, as the formulas take them."""

    def __init__(self, linkage: VectorLinkage):
        self.linkage = linkage

    def leaf(self, record: Any) -> tuple[np.ndarray, np.ndarray]:
        wide = np.asarray(record, np.float64)
        length = float(np.sqrt(wide @ wide))
        if self.linkage.is_spherical and length > 0:
            wide, length = wide / length, 1.0
        moments = np.zeros(3)
        moments[COUNT], moments[LENGTH] = 1.0, length
        return wide.astype(np.float32), moments

    def merge(self, a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
        means, moments = _stacked(a, b, np.zeros_like(a[0]), np.zeros(3))
        merge_rows(self.linkage.formula, means, moments, 2, 0, 1)
        return means[2], moments[2]

    def score(self, a: Any, b: Any) -> float:
        means, moments = _stacked(a, b)
        return float(formula_score(self.linkage.formula, means, moments, 0, 1))


def _stacked(a: Any, b: Any, *more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    means, moments = (a[0], b[0], *more[:1]), (a[1], b[1], *more[1:])
    return np.stack(means), np.stack(moments)


def run(job: Job, branches: list[int]) -> dict[str, int]:
    """Open what has to be opened, and join all."""
    linkage = job.linkage
    if isinstance(linkage, VectorLinkage):
        if linkage.is_custom:
            raise ValueError(
                "mode='exact' on shards needs a linkage given by name, or an object with leaf, merge and score; got a"
                " compiled function. Use mode='fast'"
            )
        linkage = VectorGroups(linkage)
    forest = [_Branch(job, branch, linkage) for branch in branches]
    tops = _opened(forest, linkage)
    engine = Engine(OfSummaries(linkage), job.rules)
    engine.insert([forest[place].summaries[node] for place, node in tops])
    top = merges_of(engine.tree())
    write_arrays(
        job.path("top", "top.npz"),
        pairs=top.pairs,
        scores=top.scores,
        branches=np.array([branches[place] for place, _ in tops]),
        nodes=np.array([node for _, node in tops]),
    )
    return {"branches": len(branches), "opened": len(tops) - len(branches)}


class _Branch:
    """The tree of a branch as its merges, with the summary of every node; node n + k is merge k."""

    def __init__(self, job: Job, branch: int, linkage: Any):
        self.merges: Merges = trees.load(job, branch).merges
        self.summaries = [linkage.leaf(record) for record in trees.rows_of(job, branch)]
        for left, right in self.merges.pairs.tolist():
            self.summaries.append(linkage.merge(self.summaries[left], self.summaries[right]))

    @property
    def root(self) -> int:
        return len(self.summaries) - 1

    def sides(self, node: int) -> list[int]:
        """The two children of a node; none of a leaf."""
        n = self.merges.n_leaves
        return [] if node < n else self.merges.pairs[node - n].tolist()


def _opened(forest: list[_Branch], linkage: Any) -> list[tuple[int, int]]:
    """Nodes to be joined, by branch: roots, opened as long as one side prefers another node to its sibling."""
    tops = [(place, branch.root) for place, branch in enumerate(forest)]
    is_settled = False
    while not is_settled:
        is_settled, kept = True, []
        for i, (place, node) in enumerate(tops):
            sides = forest[place].sides(node)
            others = [forest[p].summaries[v] for j, (p, v) in enumerate(tops) if j != i]
            if sides and _prefers_another(linkage, [forest[place].summaries[side] for side in sides], others):
                kept += [(place, side) for side in sides]
                is_settled = False
            else:
                kept.append((place, node))
        tops = kept
    return tops


def _prefers_another(linkage: Any, sides: list[Any], elsewhere: list[Any]) -> bool:
    held = linkage.score(*sides)
    return any(_best(linkage, side, elsewhere) > held for side in sides)


def _best(linkage: Any, side: Any, elsewhere: list[Any]) -> float:
    scores: Floats = np.array([linkage.score(side, group) for group in elsewhere])
    return float(scores.max(initial=-np.inf))
