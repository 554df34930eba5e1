"""The last stage: branches joined into one upper tree.

By default that of the sample, scored by what the branches became. Where trees carry the guarantee of the paper's
theorem, the whole carries it too. A linkage separates a graph if two groups whose union is connected score higher than
two whose union is not. Then the tree of a branch has every connected part of the branch's own points as a node. If such
a part goes on elsewhere, it is connected with a single point there, and not with its sibling; so it prefers that point,
and all nodes above it are opened. What is left are connected groups, and unions of whole clusters: points of a
graph that the linkage separates as well; so the same engine, by the same rules, brings together what belongs together.
docs/development/sharded.md has the argument in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from grinch._types import Floats, Labels, Mask
from grinch.core.engine import Engine
from grinch.core.rules import Rules
from grinch.linkage.base import Linkage, scores_of
from grinch.linkage.named import COUNT, LENGTH, VectorLinkage, formula_score, merge_rows, score_others
from grinch.linkage.weighted import VectorMeans
from grinch.sharded.compose import MergeList, merges_of, without
from grinch.sharded.files import read_arrays, write_arrays
from grinch.sharded.job import Job, RunFolder
from grinch.sharded.stages import skeleton, trees

STAGE, NAME = "top", "upper-tree"


def run(job: Job, sizes: list[int]) -> dict[str, int]:
    """Join the branches; ``sizes`` are their numbers of points."""
    if job.opens_branches(len(sizes)):
        return _run_exactly(job, [branch for branch, size in enumerate(sizes) if size])
    plan = skeleton.load(job)
    kept = np.flatnonzero(np.array(sizes) > 0)
    top = without(plan.top, np.array(sizes) == 0)
    scores = _scores(job, top, kept.tolist())
    _write(job, top if scores is None else top._replace(scores=scores), kept, np.full(len(kept), -1))
    return {"branches": len(kept)}


def _write(job: Job, top: MergeList, branches: Labels, nodes: Labels) -> None:
    path = job.path(STAGE, "top.npz")
    write_arrays(path, pairs=top.pairs, scores=top.scores, branches=branches, nodes=nodes)


def load(run: RunFolder) -> tuple[MergeList, np.ndarray, np.ndarray]:
    """Return the upper tree, and by leaf the branch and the node in the branch's tree (-1: all of it)."""
    pairs, scores, branches, nodes = read_arrays(run.path(STAGE, "top.npz"), "pairs", "scores", "branches", "nodes")
    return MergeList(pairs, scores), branches, nodes


def _scores(job: Job, top: MergeList, branches: list[int]) -> Floats | None:
    """Return the score of each merge by the summaries of its sides; None where only the sample's is known."""
    linkage = job.linkage
    if not isinstance(linkage, VectorLinkage) or linkage.is_custom or len(branches) < 2:
        return None
    # No more of them than this: all trees together may be larger than what a worker has.
    found = [trees.load_summary(job, branch) for branch in branches]
    n, n_features = len(found), len(found[0][0])
    means, moments = np.zeros((2 * n - 1, n_features), np.float32), np.zeros((2 * n - 1, 3))
    means[:n], moments[:n] = [mean for mean, _ in found], [moments for _, moments in found]
    scores = np.empty(n - 1)
    for k, (left, right) in enumerate(top.pairs.tolist()):
        scores[k] = formula_score(linkage.formula, means, moments, left, right)
        merge_rows(linkage.formula, means, moments, n + k, left, right)
    return scores


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

    def scores(self, a: Any, others: Sequence[Any]) -> Any:
        return scores_of(self.linkage, a, others)


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

    def scores(self, a: Any, others: Sequence[Any]) -> Floats:
        means = np.stack([a[0], *(other[0] for other in others)])
        moments = np.stack([a[1], *(other[1] for other in others)])
        scores = np.empty(len(others))
        score_others(self.linkage.formula, means, moments, scores)
        return scores


def _stacked(a: Any, b: Any, *more: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    means, moments = (a[0], b[0], *more[:1]), (a[1], b[1], *more[1:])
    return np.stack(means), np.stack(moments)


def _run_exactly(job: Job, branches: list[int]) -> dict[str, int]:
    """Open what has to be opened, and join all."""
    linkage = job.linkage
    if isinstance(linkage, VectorLinkage):
        if linkage.is_custom:
            raise ValueError(
                "mode='exact' on shards needs a linkage given by name, or an object with leaf, merge and score; got a"
                " compiled function. Use mode='fast'"
            )
        is_sparse = scipy.sparse.issparse(trees.rows_of(job, branches[0]))
        linkage = VectorMeans(linkage.name, linkage.metric) if is_sparse else VectorGroups(linkage)
    forest = [BranchNodes(trees.load(job, branch).merges, trees.rows_of(job, branch), linkage) for branch in branches]
    top, tops = join_exactly(forest, linkage, job.rules)
    _write(job, top, np.array([branches[place] for place, _ in tops]), np.array([node for _, node in tops]))
    return {"branches": len(branches), "opened": len(tops) - len(branches)}


class BranchNodes:
    """The tree of a branch as its merges, with the summary of every node; node n + k is merge k."""

    def __init__(self, merges: MergeList, records: Any, linkage: Any):
        self.merges = merges
        self.leaves = [linkage.leaf(record) for record in records]
        self.summaries = list(self.leaves)
        for left, right in self.merges.pairs.tolist():
            self.summaries.append(linkage.merge(self.summaries[left], self.summaries[right]))

    @property
    def root(self) -> int:
        return len(self.summaries) - 1

    def sides(self, node: int) -> list[int]:
        """Return the two children of a node."""
        return [int(side) for side in self.merges.pairs[node - len(self.leaves)]]

    def above(self, is_merge: Mask) -> Mask:
        """Return by node whether it is one of these merges, or has one below it."""
        n, found = len(self.leaves), np.zeros(len(self.summaries), np.bool_)
        for k, (left, right) in enumerate(self.merges.pairs.tolist()):
            found[n + k] = is_merge[k] or found[left] or found[right]
        return found


def join_exactly(forest: list[BranchNodes], linkage: Any, rules: Rules) -> tuple[MergeList, list[tuple[int, int]]]:
    """Return the upper tree of some nodes of branches, and by leaf the branch and the node in it."""
    tops = _opened(forest, linkage)
    engine = Engine(OfSummaries(linkage), rules)
    engine.insert([forest[place].summaries[node] for place, node in tops])
    return merges_of(engine.tree()), tops


def _opened(forest: list[BranchNodes], linkage: Any) -> list[tuple[int, int]]:
    """Return nodes to be joined, by branch: the highest with no node below that prefers a point elsewhere."""
    tops = []
    for place, branch in enumerate(forest):
        elsewhere = [leaf for other in forest if other is not branch for leaf in other.leaves]
        is_open = branch.above(_prefer_others(branch, elsewhere, linkage))
        stack = [branch.root]
        while stack:
            node = stack.pop()
            if is_open[node]:
                stack += branch.sides(node)[::-1]
            else:
                tops.append((place, node))
    return tops


def _prefer_others(branch: BranchNodes, elsewhere: list[Any], linkage: Any) -> Mask:
    """Return by merge whether one of its sides scores higher with a point elsewhere than with the other side."""
    found = np.zeros(len(branch.merges.pairs), np.bool_)
    if elsewhere:
        for k, pair in enumerate(branch.merges.pairs.tolist()):
            one, other = (branch.summaries[node] for node in pair)
            held = linkage.score(one, other)
            found[k] = any(scores_of(linkage, side, elsewhere).max() > held for side in (one, other))
    return found
