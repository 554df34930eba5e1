"""The automatic cut of the whole, by the neighbours that the workers found: integers and distances, and no vectors."""

from __future__ import annotations

import numpy as np

from grinch._types import Floats
from grinch.cuts import AutomaticCut, automatic_cut
from grinch.cuts.graph import NeighborGraph, weighted_by
from grinch.estimators.automatic import is_cut_by_heights, known_heights
from grinch.linkage.named import VectorLinkage
from grinch.sharded.compose import Merges
from grinch.sharded.job import Job
from grinch.sharded.stages import near, skeleton, top
from grinch.sharded.stages.near import Spread
from grinch.tree import NONE, Tree


def cut_whole(job: Job, tree: Tree, sizes: list[int]) -> AutomaticCut:
    """The cut whose clusters last longest, of the tree put together; ``sizes`` are those of the branches."""
    if tree.n_leaves < 3:
        return automatic_cut(tree, None, tree.heights())
    if not isinstance(job.linkage, VectorLinkage):
        return automatic_cut(tree, _graph(job, tree.n_leaves, None), tree.heights())
    merges, branches, _ = top.load(job)
    spreads = [near.load_spread(job, branch) for branch in branches.tolist()]
    counts = np.array([sizes[branch] for branch in branches.tolist()], np.float64)
    gaps, spread = _joined(merges, spreads, counts)
    heights = known_heights(tree, job.linkage)
    if not is_cut_by_heights(job.linkage):
        heights = np.zeros(tree.n_ids)
        heights[tree.n_leaves + 1 :] = np.concatenate([*(one.gaps for one in spreads), gaps])
        heights = tree.max_upward(heights)
    # The mean squared distance of all pairs is twice the variance.
    return automatic_cut(tree, _graph(job, tree.n_leaves, 2 * spread), heights)


def _graph(job: Job, n: int, typical: float | None) -> NeighborGraph:
    """Who is near whom; ``typical`` is the mean squared distance of two points, of vectors."""
    found, apart = None, None
    for shard in range(skeleton.load(job.folder, job.stamp).n_shards):
        numbers, some, distances = near.load(job, shard)
        if found is None or apart is None:
            found = np.full((n, some.shape[1]), NONE, np.int32)
            apart = np.full(found.shape if typical is not None else (0, 0), np.inf, np.float32)
        found[numbers] = some
        if typical is not None:
            apart[numbers] = distances
    assert found is not None
    return weighted_by(found, None if typical is None else apart, typical or 0.0)


def _joined(top: Merges, spreads: list[Spread], counts: Floats) -> tuple[Floats, float]:
    """By merge of the upper tree, the mean squared distance of its two sides; and the variance of all points."""
    n = len(spreads)
    means, within = [one.mean for one in spreads], [one.spread for one in spreads]
    sizes, gaps = counts.tolist(), np.empty(len(top.pairs))
    for k, (left, right) in enumerate(top.pairs.tolist()):
        step = means[right] - means[left]
        between, size = float(step @ step), sizes[left] + sizes[right]
        gaps[k] = between + within[left] + within[right]
        share = sizes[right] / size
        means.append(means[left] + share * step)
        within.append((1 - share) * within[left] + share * within[right] + share * (1 - share) * between)
        sizes.append(size)
    assert len(means) == 2 * n - 1
    return gaps, within[-1]
