"""The last stage: branches joined into one upper tree, that of the sample, scored by what the branches became."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch._types import Floats
from grinch.linkage.named import VectorLinkage, formula_score, merge_rows
from grinch.sharded.compose import Merges, without
from grinch.sharded.files import read_arrays, write_arrays
from grinch.sharded.job import Job, RunFolder
from grinch.sharded.stages import exact_top, skeleton, trees

STAGE, NAME = "top", "upper-tree"


def tasks(job: Job, sizes: list[int]) -> dict[str, tuple[Any, ...]]:
    return {NAME: (job, sizes)}


def run(job: Job, sizes: list[int]) -> dict[str, int]:
    """Join the branches; ``sizes`` are their numbers of points."""
    if job.is_exact and job.repair and len(sizes) > 1:
        return exact_top.run(job, [branch for branch, size in enumerate(sizes) if size])
    plan = skeleton.load(job.folder, job.stamp)
    kept = np.flatnonzero(np.array(sizes) > 0)
    top = without(plan.top, np.array(sizes) == 0)
    scores = _scores(job, top, kept.tolist())
    write_arrays(
        job.path(STAGE, "top.npz"),
        pairs=top.pairs,
        scores=top.scores if scores is None else scores,
        branches=kept,
        nodes=np.full(len(kept), -1),
    )
    return {"branches": len(kept)}


def load(run: RunFolder) -> tuple[Merges, np.ndarray, np.ndarray]:
    """The upper tree; by leaf of it, the branch, and the node in the branch's tree (-1: all of it)."""
    pairs, scores, branches, nodes = read_arrays(run.path(STAGE, "top.npz"), "pairs", "scores", "branches", "nodes")
    return Merges(pairs, scores), branches, nodes


def _scores(job: Job, top: Merges, branches: list[int]) -> Floats | None:
    """How near the two sides of each merge are, by their summaries; None where only the sample's word is known."""
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
