"""Merges to learn from: what a clustering proposes on records whose authors are known."""

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

# Of the groups that wait beside a new one, so many are looked at, and so many of the closest and of the others learnt.
LOOKED_AT, CLOSEST, OTHERS = 48, 2, 1


class Block(NamedTuple):
    """Records of one name, who wrote them (numbered), and how their groups are described."""

    records: list[Any]
    authors: npt.NDArray[np.int64]
    new_groups: Callable[[], Groups]


class Lessons(NamedTuple):
    """Features of proposed merges, and the precision of each: the share of its cross pairs that are one author's."""

    rows: Matrix
    precision: Matrix

    @classmethod
    def together(cls, parts: list[Lessons]) -> Lessons:
        return cls(np.concatenate([part.rows for part in parts]), np.concatenate([part.precision for part in parts]))


def tree_of(block: Block, model: Model, method: str = "hac") -> Tree:
    """What a method makes of a block under a model."""
    return make_clusterer(method, CorefLinkage(model, block.new_groups()), block.records).fit(block.records).tree_


def sampled(block: Block, most: int, rng: np.random.Generator) -> Block:
    """At most so many of the records."""
    if len(block.records) <= most:
        return block
    chosen = np.sort(rng.choice(len(block.records), most, replace=False))
    return Block([block.records[i] for i in chosen], block.authors[chosen], block.new_groups)


def lessons(block: Block, model: Model | None, rng: np.random.Generator, method: str = "hac") -> Lessons:
    """The merges of a method under the model, and others that were open to it.

    Without a model: merges at random, four of five of them within an author.
    """
    merges = _merges(tree_of(block, model, method)) if model is not None else _random_merges(block.authors, rng)
    n, groups = len(block.records), block.new_groups()
    summaries: dict[int, Any] = {i: groups.leaf(record) for i, record in enumerate(block.records)}
    counts = dict(enumerate(np.eye(int(block.authors.max()) + 1)[block.authors]))
    rows: list[Matrix] = []
    precision: list[float] = []

    def learn(node: int, others: list[int], features: Matrix) -> None:
        rows.append(features)
        size = counts[node].sum()
        precision.extend(float(counts[node] @ counts[other] / (size * counts[other].sum())) for other in others)

    for i, (left, right) in enumerate(merges):
        learn(left, [right], groups.features(summaries[left], [summaries[right]]))
        new = n + i
        summaries[new] = groups.merge(summaries.pop(left), summaries.pop(right))
        counts[new] = counts.pop(left) + counts.pop(right)
        waiting = [node for node in summaries if node != new]
        if waiting:
            others = rng.choice(waiting, min(LOOKED_AT, len(waiting)), replace=False).tolist()
            found = groups.features(summaries[new], [summaries[other] for other in others])
            closest = model.score(found) if model is not None else rng.random(len(others))
            kept = [*np.argsort(-closest)[:CLOSEST].tolist(), *rng.integers(len(others), size=OTHERS).tolist()]
            learn(new, [others[k] for k in kept], found[kept])
    if not rows:
        return Lessons(np.empty((0, len(groups.names))), np.empty(0))
    return Lessons(np.concatenate(rows), np.array(precision))


def _merges(tree: Tree) -> list[tuple[int, int]]:
    """The merges of HAC in their order; leaves are 0 to n - 1, and merge i makes node n + i."""
    return [(int(a), int(b)) for a, b in tree.to_scipy()[:, :2]] if tree.n_leaves > 1 else []


def _random_merges(authors: npt.NDArray[np.int64], rng: np.random.Generator) -> list[tuple[int, int]]:
    waiting, author = list(range(len(authors))), dict(enumerate(authors.tolist()))
    merges: list[tuple[int, int]] = []
    while len(waiting) > 1:
        u = waiting.pop(int(rng.integers(len(waiting))))
        same = [k for k, node in enumerate(waiting) if author[node] == author[u]]
        v = waiting.pop(int(rng.choice(same)) if same and rng.random() < 0.8 else int(rng.integers(len(waiting))))
        new = len(authors) + len(merges)
        merges.append((u, v))
        waiting.append(new)
        author[new] = author[u]
    return merges
