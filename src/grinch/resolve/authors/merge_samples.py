"""Merges to learn from: those that a clustering makes of labelled records, and some that it passes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.resolve.authors.clustering.block import make_clusterer
from grinch.resolve.authors.learned.linkage import CorefLinkage, Groups
from grinch.resolve.authors.learned.model import Model
from grinch.tree import Tree

Matrix = npt.NDArray[np.float64]

# After each merge: how many other groups the new one is compared with, and how many of those comparisons are kept, the
# closest ones and random ones.
N_COMPARED, N_CLOSEST, N_RANDOM = 48, 2, 1
# Without a model, merges are random; this share of them stays within one author, where there is a choice.
SHARE_WITHIN = 0.8


class Block(NamedTuple):
    """Records of one name, their authors (numbered from 0), and what makes an object that describes their groups."""

    records: list[Any]
    authors: npt.NDArray[np.int64]
    new_groups: Callable[[], Groups]


class MergeSamples(NamedTuple):
    """Features of merges, a row each, and the precision of each: the share of its cross pairs that share an author."""

    rows: Matrix
    precision: Matrix

    @classmethod
    def concatenate(cls, parts: list[MergeSamples]) -> MergeSamples:
        return cls(np.concatenate([part.rows for part in parts]), np.concatenate([part.precision for part in parts]))


def tree_of(block: Block, model: Model, method: str = "hac") -> Tree:
    """The tree that a method builds of a block under a model."""
    return make_clusterer(method, CorefLinkage(model, block.new_groups()), block.records).fit(block.records).tree_


def sample_records(block: Block, most: int, rng: np.random.Generator) -> Block:
    """The block itself, or a random sample of ``most`` of its records if it has more."""
    if len(block.records) <= most:
        return block
    chosen = np.sort(rng.choice(len(block.records), most, replace=False))
    return Block([block.records[i] for i in chosen], block.authors[chosen], block.new_groups)


def sample_merges(block: Block, model: Model | None, rng: np.random.Generator, method: str = "hac") -> MergeSamples:
    """The merges that a method makes under the model, and after each of them some that the new group could make next.

    Without a model: random merges, four of five of them within an author.
    """
    merges = _merges_of(tree_of(block, model, method)) if model is not None else _random_merges(block.authors, rng)
    n, groups = len(block.records), block.new_groups()
    summaries: dict[int, Any] = {i: groups.leaf(record) for i, record in enumerate(block.records)}
    by_author = dict(enumerate(np.eye(int(block.authors.max()) + 1)[block.authors]))
    rows: list[Matrix] = []
    precision: list[float] = []

    def add(node: int, others: list[int], features: Matrix) -> None:
        rows.append(features)
        size = by_author[node].sum()
        precision.extend(float(by_author[node] @ by_author[b] / (size * by_author[b].sum())) for b in others)

    for i, (left, right) in enumerate(merges):
        add(left, [right], groups.features(summaries[left], [summaries[right]]))
        new = n + i
        summaries[new] = groups.merge(summaries.pop(left), summaries.pop(right))
        by_author[new] = by_author.pop(left) + by_author.pop(right)
        others = [node for node in summaries if node != new]
        if others:
            compared = rng.choice(others, min(N_COMPARED, len(others)), replace=False).tolist()
            found = groups.features(summaries[new], [summaries[other] for other in compared])
            closeness = model.score(found) if model is not None else rng.random(len(compared))
            kept = [*np.argsort(-closeness)[:N_CLOSEST].tolist(), *rng.integers(len(compared), size=N_RANDOM).tolist()]
            add(new, [compared[k] for k in kept], found[kept])
    if not rows:
        return MergeSamples(np.empty((0, len(groups.names))), np.empty(0))
    return MergeSamples(np.concatenate(rows), np.array(precision))


def _merges_of(tree: Tree) -> list[tuple[int, int]]:
    """The merges of a tree from the bottom up; leaves are 0 to n - 1, and merge i makes node n + i."""
    return [(int(a), int(b)) for a, b in tree.to_scipy()[:, :2]] if tree.n_leaves > 1 else []


def _random_merges(authors: npt.NDArray[np.int64], rng: np.random.Generator) -> list[tuple[int, int]]:
    """Numbered as in :func:`_merges_of`. A group counts as its first record's author's."""
    roots, author = list(range(len(authors))), dict(enumerate(authors.tolist()))
    merges: list[tuple[int, int]] = []
    while len(roots) > 1:
        u = roots.pop(int(rng.integers(len(roots))))
        same = [k for k, node in enumerate(roots) if author[node] == author[u]]
        is_within = same and rng.random() < SHARE_WITHIN
        v = roots.pop(int(rng.choice(same)) if is_within else int(rng.integers(len(roots))))
        new = len(authors) + len(merges)
        merges.append((u, v))
        roots.append(new)
        author[new] = author[u]
    return merges
