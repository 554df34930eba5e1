"""Training a linkage as the paper does: cluster labelled records and learn the precision of the proposed merges.

The paper takes the merges of HAC. Here those of Grinch are added, because its trees pass through groups that HAC never
looks at, and a model has to know the groups it will be asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count, check_name
from grinch.resolve.authors.block_clustering import make_clusterer, pair_counts
from grinch.resolve.authors.features import DIRECTIONS, RecordFeatures, Statistics
from grinch.resolve.authors.model import CorefLinkage, Groups, Model
from grinch.resolve.authors.precision_cut import cut_by_precision, rescore_large
from grinch.resolve.authors.predictors import PREDICTORS, Logistic
from grinch.resolve.authors.record import Record
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
    """Return the tree that a method builds of a block under a model."""
    return make_clusterer(method, CorefLinkage(model, block.new_groups()), block.records).fit(block.records).tree_


def tree_to_cut(block: Block, model: Model, method: str) -> Tree:
    """Return the tree with the scores that a cut goes by."""
    return rescore_large(tree_of(block, model, method), CorefLinkage(model, block.new_groups()), block.records)


def sample_records(block: Block, most: int, rng: np.random.Generator) -> Block:
    """Return the block itself, or a random sample of ``most`` of its records if it has more."""
    if len(block.records) <= most:
        return block
    chosen = np.sort(rng.choice(len(block.records), most, replace=False))
    return Block([block.records[i] for i in chosen], block.authors[chosen], block.new_groups)


def sample_merges(block: Block, model: Model | None, rng: np.random.Generator, method: str = "hac") -> MergeSamples:
    """Collect the merges that a method makes under the model, and after each some that could come next.

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
    """Return the merges of a tree from the bottom up; leaves are 0 to n - 1, and merge i makes node n + i."""
    return [(int(a), int(b)) for a, b in tree.to_scipy()[:, :2]] if tree.n_leaves > 1 else []


def _random_merges(authors: npt.NDArray[np.int64], rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return random merges, numbered as in :func:`_merges_of`. A group counts as its first record's author's."""
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


Progress = Callable[[str], None]
# Models with blocks of names that they had not seen, and of merges in these the margins and precision.
_HeldOut = tuple[list[tuple[Model, Block]], Matrix, Matrix]

# A round learns from at most this many blocks, and from a sample of this size of each block that is larger.
MOST_RECORDS, MOST_BLOCKS = 300, 40
# The threshold is chosen on larger samples, for it decides about the large groups of large blocks.
MOST_TO_CUT = 1500
N_FOLDS = 3
# The methods whose merges are learned from, and on whose trees the threshold is chosen.
PROPOSERS = ("hac", "grinch")


def train(
    records_by_block: Mapping[str, Sequence[Record]],
    kind: str = "boosting",
    rounds: int = 3,
    random_state: int = 0,
    progress: Progress | None = None,
    unlabelled: Sequence[Record] = (),
) -> Model:
    """Learn a model of who wrote what from records whose authors are known.

    Parameters
    ----------
    records_by_block : mapping from name to records
        Labelled records by block. At least two blocks need two labelled records, and one of them two authors. Records
        without an author only count for what is rare.
    kind : {"boosting", "logistic"}, default="boosting"
        Gradient boosted trees, or logistic regression.
    rounds : int, default=3
        How often the model learns from the merges that it proposes itself, after a first round on random merges.
    random_state : int, default=0
        Seed of the samples.
    progress : callable, optional
        Called with a line of text at every step.
    unlabelled : sequence of records
        Records to count what is rare on, instead of those of ``records_by_block``; their authors are not used.

    Returns
    -------
    Model
        With the threshold and calibration found on held-out names, and a ``report`` of the training.

    Examples
    --------
    >>> from grinch.resolve.authors import blocks, make_records, train
    >>> model = train(blocks(make_records(12, 3)), kind="logistic", rounds=1)
    >>> model.kind, 0 < model.threshold < 1
    ('logistic', True)
    """
    labelled = {name: [r for r in records if r.author is not None] for name, records in records_by_block.items()}
    seen = unlabelled or [record for records in records_by_block.values() for record in records]
    statistics = Statistics.of(seen, random_state=random_state)
    blocks = {
        name: Block(records, _author_codes(records), lambda: RecordFeatures(statistics))
        for name, records in labelled.items()
        if len(records) > 1
    }
    return train_blocks(blocks, kind, rounds, random_state, progress, DIRECTIONS, statistics)


def train_blocks(
    blocks: Mapping[str, Block],
    kind: str = "boosting",
    rounds: int = 3,
    random_state: int = 0,
    progress: Progress | None = None,
    directions: Mapping[str, int] | None = None,
    statistics: Statistics | None = None,
) -> Model:
    """Train as :func:`train` does, on groups of any kind; see :class:`~grinch.resolve.authors.kernels.PairFeatures`.

    ``directions`` says by the name of a feature whether larger values speak for a merge (1) or against it (-1).
    """
    check_name("kind", kind, PREDICTORS)
    rounds = check_count("rounds", rounds, 1)
    if len(blocks) < 2 or not any(len(set(block.authors.tolist())) > 1 for block in blocks.values()):
        raise ValueError(
            "records_by_block must hold at least two names with two labelled records each, one of them with two"
            " authors, because names are held out to choose the threshold;"
            f" got {len(blocks)} names with two labelled records. Label more records"
        )
    from threadpoolctl import threadpool_limits

    trainer = _Trainer(kind, rounds, directions or {}, statistics, progress or (lambda text: None))
    # The matrices are small: more threads only wait for each other.
    with threadpool_limits(1):
        return trainer.cross_fit(blocks, random_state)


@dataclass(frozen=True)
class _Trainer:
    kind: str
    rounds: int
    directions: Mapping[str, int]
    statistics: Statistics | None
    progress: Progress

    def cross_fit(self, blocks: Mapping[str, Block], random_state: int) -> Model:
        """Return a model of all blocks; its threshold and calibration come from models that had not seen the names."""
        rng = np.random.default_rng(random_state)
        names = list(rng.permutation(sorted(blocks)))
        held_out, margins, precision = self._hold_out(blocks, names, rng)
        self.progress(f"all {len(names)} names")
        model, rounds = self._fit_rounds([blocks[name] for name in names], rng)
        calibration = _platt(margins, precision)
        self.progress("threshold")
        threshold, f1 = best_threshold(
            [
                (tree_to_cut(block, replace(fold_model, calibration=calibration), method), block.authors)
                for fold_model, block in held_out
                for method in PROPOSERS
            ]
        )
        report = {
            "kind": self.kind,
            "names": len(names),
            "records": sum(len(block.records) for block in blocks.values()),
            "authors": sum(len(set(block.authors.tolist())) for block in blocks.values()),
            "rounds": rounds,
            "held_out": {"folds": min(N_FOLDS, len(names)), "names": len(held_out), "f1": f1},
            "threshold": threshold,
        }
        return Model(model.predictor, model.features, threshold, calibration, self.statistics, report)

    def _hold_out(self, blocks: Mapping[str, Block], names: list[str], rng: np.random.Generator) -> _HeldOut:
        """Return the blocks of each fold of the names with a model of the others, and merges proposed by it."""
        held_out: list[tuple[Model, Block]] = []
        margins, precision = list[Matrix](), list[Matrix]()
        for fold in range(n_folds := min(N_FOLDS, len(names))):
            out = names[fold::n_folds]
            self.progress(f"fold {fold + 1} of {n_folds}: {len(names) - len(out)} names, {len(out)} held out")
            model, _ = self._fit_rounds([blocks[name] for name in names if name not in out], rng)
            for name in _choose(out, MOST_BLOCKS, rng):
                block = sample_records(blocks[name], MOST_TO_CUT, rng)
                held_out.append((model, block))
                for method in PROPOSERS:
                    samples = sample_merges(sample_records(block, MOST_RECORDS, rng), model, rng, method)
                    margins.append(model.predictor.margins(samples.rows))
                    precision.append(samples.precision)
        return held_out, np.concatenate(margins), np.concatenate(precision)

    def _fit_rounds(self, blocks: Sequence[Block], rng: np.random.Generator) -> tuple[Model, list[dict[str, Any]]]:
        """Fit a model, round after round, to all merges proposed so far; return it and the loss of each round."""
        model: Model | None = None
        seen: list[MergeSamples] = []
        report = []
        for i in range(self.rounds + 1):
            chosen = [sample_records(block, MOST_RECORDS, rng) for block in _choose(blocks, MOST_BLOCKS, rng)]
            methods = PROPOSERS if model is not None else PROPOSERS[:1]
            new = MergeSamples.concatenate(
                [sample_merges(block, model, rng, method) for block in chosen for method in methods]
            )
            loss = None if model is None else _cross_entropy(model.score(new.rows), new.precision)
            seen.append(new)
            model = self._fit_predictor(MergeSamples.concatenate(seen), blocks[0].new_groups().names)
            rows = sum(len(part.precision) for part in seen)
            report.append({"round": i, "rows": rows, "loss_before": loss})
            self.progress(f"round {i}: {rows} merges" + (f", loss {loss:.3f}" if loss is not None else ""))
        assert model is not None
        return model, report

    def _fit_predictor(self, samples: MergeSamples, names: tuple[str, ...]) -> Model:
        if samples.precision.min() == 1 or samples.precision.max() == 0:
            raise ValueError(
                "records_by_block must hold several names with two authors and two records of one author, so that some"
                " are left to learn from when others are held out. Label more records"
            )
        directions = np.array([self.directions.get(name, 0) for name in names], np.int8)
        predictor = PREDICTORS[self.kind].fitted(samples.rows, samples.precision, directions)
        return Model(predictor, names, statistics=self.statistics)


def best_threshold(trees: Sequence[tuple[Tree, npt.NDArray[np.int64]]]) -> tuple[float, float]:
    """Return the threshold with the greatest pairwise F1 over all trees together, and that F1."""
    steps = np.linspace(0.01, 0.99, 99)
    counts = np.zeros((len(steps), 3))
    for tree, authors in trees:
        counts += [pair_counts(authors, cut_by_precision(tree, step)) for step in steps]
    f1 = 2 * counts[:, 0] / np.maximum(counts[:, 1] + counts[:, 2], 1)
    best = int(np.argmax(f1))
    return float(steps[best]), float(f1[best])


def _author_codes(records: Sequence[Record]) -> npt.NDArray[np.int64]:
    """Return the authors, numbered from 0."""
    return np.unique(np.array([str(r.author) for r in records]), return_inverse=True)[1].astype(np.int64)


def _choose(items: Sequence[Any], most: int, rng: np.random.Generator) -> list[Any]:
    if len(items) <= most:
        return list(items)
    return [items[i] for i in rng.choice(len(items), most, replace=False)]


def _cross_entropy(scores: Matrix, targets: Matrix) -> float:
    scores = np.clip(scores, 1e-9, 1 - 1e-9)
    return float(-(targets * np.log(scores) + (1 - targets) * np.log(1 - scores)).mean())


def _platt(margins: Matrix, precision: Matrix) -> tuple[float, float]:
    """Return the slope and intercept that turn margins into log-odds on the held-out names."""
    found = Logistic.fitted(margins[:, None], precision, np.zeros(1, np.int8))
    # A negative slope would reverse the order of merges.
    return max(float(found.weights[0]), 0.05), float(found.intercept[0])
