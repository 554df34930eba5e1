"""The first two stages: a sample of the points, read where they are, and its tree, with branches dealt to shards.

The tree of the whole will have the upper part of this one, and below each of its branches a tree of all points that
are nearest to one of the branch's points.
"""

from __future__ import annotations

import heapq
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from grinch._checks import count_rows
from grinch._types import Ids, Labels
from grinch.cuts import collapse
from grinch.estimators.checks import no_advice
from grinch.estimators.grinch import Grinch
from grinch.io.rows import joined, n_bytes
from grinch.linkage.named import VectorLinkage
from grinch.sharded.compose import MergeList, merges_of
from grinch.sharded.files import read_arrays, read_rows, write_arrays, write_rows
from grinch.sharded.job import BRANCHES_PER_SHARD, Job, shard_name
from grinch.tree import NONE, Tree

SAMPLE = "sample"


def sample_numbers(job: Job) -> npt.NDArray[np.int64]:
    """Return the sampled numbers, ascending: any is as likely as any other, whatever the order of the input."""
    numbers = np.random.default_rng(job.seed).choice(job.rows.n_rows, job.sample_size, replace=False, shuffle=False)
    return np.sort(numbers).astype(np.int64)


def run_sample(job: Job, piece: int) -> dict[str, int]:
    """Read the sampled points of a piece."""
    first, last = job.rows.pieces[piece]
    numbers = sample_numbers(job)
    numbers = numbers[np.searchsorted(numbers, first) : np.searchsorted(numbers, last)]
    rows = job.rows.take(numbers)
    return {
        "points": len(numbers),
        "read": n_bytes(rows),
        "written": write_rows(job.of_piece(SAMPLE, piece, ".rows"), rows),
    }


def sampled(job: Job) -> Any:
    """Return the sampled points, once all pieces are read."""
    parts = [read_rows(job.of_piece(SAMPLE, piece, ".rows")) for piece in range(job.n_pieces)]
    return joined([part for part in parts if count_rows(part)])


STAGE, NAME = "skeleton", "sample-tree"
# What leaves a branch on the way down to where it divides is no branch of its own if it is this much smaller.
CRUMB = 32
# Without a pass, how good the upper part is depends more on the order of arrival: docs/development/sharded.md.
REFINE_PASSES = 1


class Skeleton(NamedTuple):
    """Branches of the sample's tree: by sampled point, its branch; by branch, its shard; and the tree above them."""

    branch_of: Labels
    shard_of: Labels
    top: MergeList

    @property
    def n_branches(self) -> int:
        return len(self.shard_of)

    @property
    def n_shards(self) -> int:
        return int(self.shard_of.max()) + 1


def run(job: Job) -> dict[str, int]:
    """Fit the sample, choose branches, deal them to shards."""
    rows = sampled(job)
    with no_advice():
        model = _model(job).fit(rows)
    tree = model.tree_
    branches = _branches(tree, job.n_shards)
    found = np.full(tree.n_leaves, -1, np.int64)
    for number, node in enumerate(branches):
        found[tree.leaves(node)] = number
    # Numbers of clusters as a tree numbers them: leaf i of the upper tree is branch i.
    top = merges_of(collapse(tree, found).tree)
    branch_of = _without_crumbs(found, model.current_fit().neighbors())
    shard_of = _dealt(np.bincount(branch_of, minlength=len(branches)), job.n_shards)
    written = write_rows(job.path(STAGE, "rows"), rows)
    arrays = {"branch_of": branch_of, "shard_of": shard_of, "pairs": top.pairs, "scores": top.scores}
    written += write_arrays(job.path(STAGE, "skeleton.npz"), **arrays)
    return {"points": tree.n_leaves, "branches": len(branches), "written": written}


def load(job: Job) -> Skeleton:
    """Return the skeleton of a run."""
    return _load(job.folder, job.stamp)


@lru_cache(maxsize=2)
def _load(folder: Path, stamp: str) -> Skeleton:
    branch_of, shard_of, pairs, scores = read_arrays(
        folder / STAGE / "skeleton.npz", "branch_of", "shard_of", "pairs", "scores"
    )
    return Skeleton(branch_of, shard_of, MergeList(pairs, scores))


def shard_tasks(job: Job) -> dict[str, tuple[Any, ...]]:
    """Return a task for each shard, of the stages that go shard by shard."""
    return {shard_name(shard): (job, shard) for shard in range(load(job).n_shards)}


def sample_of(job: Job) -> Any:
    """Return the sampled points, in the order of ``branch_of``."""
    return read_rows(job.path(STAGE, "rows"))


def _model(job: Job) -> Grinch:
    """Return the model of the sample: of vectors a refined one, since the upper part of the whole comes from it."""
    passes = job.model.refine_passes
    if isinstance(job.linkage, VectorLinkage):
        passes = max(passes, REFINE_PASSES)
    found: Grinch = clone(job.model).set_params(verbose=False, refine_passes=passes)
    return found


def _branches(tree: Tree, n_shards: int) -> list[int]:
    """Return nodes with at most a certain number of points each; the few that leave on the way down are in none."""
    if n_shards == 1:
        return [tree.root]
    limit = max(tree.n_leaves // (n_shards * BRANCHES_PER_SHARD), 1)
    least = max(limit // CRUMB, 1)
    sizes, children = tree.sizes(), tree.child_pairs()
    stack, found = [tree.root], []
    while stack:
        v = stack.pop()
        while sizes[v] > limit and sizes[children[v]].min() < least:
            v = int(children[v][np.argmax(sizes[children[v]])])
        if sizes[v] <= limit:
            found.append(v)
        else:
            stack += children[v][::-1].tolist()
    return sorted(found, key=lambda node: int(tree.leaves(node)[0]))


def _without_crumbs(found: Labels, near: Ids) -> Labels:
    """Put points of no branch into that of their nearest neighbour, or of its nearest neighbour, and so on."""
    branch_of = found.copy()
    while (lost := np.flatnonzero(branch_of < 0)).size:
        of_neighbors = np.where(near[lost] == NONE, -1, branch_of[near[lost]])
        first = np.argmax(of_neighbors >= 0, axis=1)
        chosen = of_neighbors[np.arange(len(lost)), first] if of_neighbors.shape[1] else np.full(len(lost), -1)
        if (chosen < 0).all():
            branch_of[lost] = 0  # islands that know only each other
            break
        branch_of[lost] = chosen
    return branch_of


def _dealt(sizes: npt.NDArray[np.int64], n_shards: int) -> Labels:
    """Return the shard of each branch: the largest branches first, each to the shard with the fewest points."""
    shard_of = np.empty(len(sizes), np.int64)
    heap = [(0, shard) for shard in range(min(n_shards, len(sizes)))]
    for branch in np.argsort(-sizes, kind="stable").tolist():
        points, shard = heapq.heappop(heap)
        shard_of[branch] = shard
        heapq.heappush(heap, (points + int(sizes[branch]), shard))
    return shard_of
