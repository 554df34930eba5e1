"""Training a linkage as the paper does: cluster labelled names and learn the precision of the merges proposed.

The paper runs HAC on them. Here Grinch proposes merges too, for a model is to know the merges of the method it serves:
its trees pass through groups that HAC never looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.errors import unknown_name
from grinch.resolve.authors.clustering.cutting import cut_by_precision, pair_counts
from grinch.resolve.authors.groups.features import DIRECTIONS, RecordFeatures
from grinch.resolve.authors.groups.statistics import Statistics
from grinch.resolve.authors.learned.model import Model
from grinch.resolve.authors.learned.predictors import PREDICTORS
from grinch.resolve.authors.records.record import Record
from grinch.resolve.authors.rehearsal import Block, Lessons, lessons, sampled, tree_of
from grinch.tree import Tree

Matrix = npt.NDArray[np.float64]
Progress = Callable[[str], None]

# Larger blocks are learnt from in samples of this size, and so many blocks in a round.
MOST_RECORDS, MOST_BLOCKS = 300, 40
N_FOLDS = 3
# Whose merges are learnt from, and whose trees the threshold is chosen on.
PROPOSERS = ("hac", "grinch")


def train(
    records_by_block: Mapping[str, Sequence[Record]],
    kind: str = "boosting",
    rounds: int = 3,
    random_state: int = 0,
    progress: Progress | None = None,
    unlabelled: Sequence[Record] = (),
) -> Model:
    """A model of who wrote what, learnt from records whose authors are known.

    Parameters
    ----------
    records_by_block : mapping from name to records
        Labelled records, in the blocks in which they are to be told apart; at least two blocks with two authors each
        or more. Records without an author are left out.
    kind : {"boosting", "logistic"}, default="boosting"
        Gradient boosted trees, or logistic regression.
    rounds : int, default=3
        How often the merges that the current model proposes are learnt from, after a first round of random ones.
    random_state : int, default=0
        The samples drawn.
    progress : callable, optional
        Told, in words, what is being done.
    unlabelled : sequence of records
        More records to count what is rare on; their authors are not looked at.

    Returns
    -------
    Model
        With the threshold and calibration found on names that were held out, and ``report`` of how it went.
    """
    labelled = {name: [r for r in records if r.author is not None] for name, records in records_by_block.items()}
    seen = unlabelled or [record for records in records_by_block.values() for record in records]
    statistics = Statistics.of(seen, random_state=random_state)
    blocks = {
        name: Block(records, _numbered([r.author for r in records]), lambda: RecordFeatures(statistics))
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
    """As :func:`train`, from groups of any kind: see :class:`~grinch.resolve.authors.groups.pairs.PairFeatures`.

    ``directions`` say of features, by name, whether more of them speaks for a merge (1) or against it (-1).
    """
    if kind not in PREDICTORS:
        raise unknown_name("kind", kind, PREDICTORS)
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise ValueError(f"rounds must be a whole number of at least 1; got {rounds!r}")
    if len(blocks) < 2 or not any(len(set(block.authors.tolist())) > 1 for block in blocks.values()):
        raise ValueError(
            "records_by_block must hold at least two names with two labelled records each, and a name with two"
            f" authors, for one name is held out to choose the threshold on; got {len(blocks)} such names. Label more"
        )
    from threadpoolctl import threadpool_limits

    trainer = _Trainer(kind, rounds, directions or {}, statistics, progress or (lambda words: None))
    # The matrices are small: more threads only wait for each other.
    with threadpool_limits(1):
        return trainer.crossed(blocks, random_state)


class _Trainer:
    def __init__(
        self,
        kind: str,
        rounds: int,
        directions: Mapping[str, int],
        statistics: Statistics | None,
        progress: Progress,
    ):
        self.kind, self.rounds, self.directions = kind, rounds, directions
        self.statistics, self.progress = statistics, progress

    def crossed(self, blocks: Mapping[str, Block], random_state: int) -> Model:
        """A model of all blocks; its threshold and calibration from models that had not seen the name they judge."""
        rng = np.random.default_rng(random_state)
        names = list(rng.permutation(sorted(blocks)))
        n_folds = min(N_FOLDS, len(names))
        trees: list[tuple[Tree, npt.NDArray[np.int64]]] = []
        margins: list[Matrix] = []
        precision: list[Matrix] = []
        n_judged = 0
        for fold in range(n_folds):
            held_out = names[fold::n_folds]
            self.progress(f"fold {fold + 1} of {n_folds}: {len(names) - len(held_out)} names, {len(held_out)} held out")
            model, _ = self.fitted([blocks[name] for name in names if name not in held_out], rng)
            for name in _some(held_out, MOST_BLOCKS, rng):
                block = sampled(blocks[name], 2 * MOST_RECORDS, rng)
                n_judged += 1
                for method in PROPOSERS:
                    trees.append((tree_of(block, model, method), block.authors))
                    seen = lessons(sampled(block, MOST_RECORDS, rng), model, rng, method)
                    margins.append(model.predictor.margins(seen.rows))
                    precision.append(seen.precision)
        self.progress(f"all {len(names)} names")
        model, losses = self.fitted([blocks[name] for name in names], rng)
        slope, intercept = _platt(np.concatenate(margins), np.concatenate(precision))
        best, f1 = best_threshold(trees)
        threshold = float(1 / (1 + np.exp(-(slope * _log_odds(best) + intercept))))
        report = {
            "kind": self.kind,
            "names": len(names),
            "records": sum(len(block.records) for block in blocks.values()),
            "authors": sum(len(set(block.authors.tolist())) for block in blocks.values()),
            "rounds": losses,
            "held_out": {"folds": n_folds, "names": n_judged, "f1": f1},
            "threshold": threshold,
        }
        return Model(model.predictor, model.features, threshold, (slope, intercept), self.statistics, report)

    def fitted(self, blocks: Sequence[Block], rng: np.random.Generator) -> tuple[Model, list[dict[str, Any]]]:
        """Round after round, on all merges proposed so far; with the loss of each round on the merges new to it."""
        model: Model | None = None
        seen: list[Lessons] = []
        told = []
        for i in range(self.rounds + 1):
            chosen = [sampled(block, MOST_RECORDS, rng) for block in _some(blocks, MOST_BLOCKS, rng)]
            methods = PROPOSERS if model is not None else PROPOSERS[:1]
            new = Lessons.together([lessons(block, model, rng, method) for block in chosen for method in methods])
            loss = None if model is None else _cross_entropy(model.score(new.rows), new.precision)
            seen.append(new)
            model = self._predicting(Lessons.together(seen), blocks[0].new_groups().names)
            rows = sum(len(part.precision) for part in seen)
            told.append({"round": i, "rows": rows, "loss_before": loss})
            self.progress(f"round {i}: {rows} merges" + (f", loss {loss:.3f}" if loss is not None else ""))
        assert model is not None
        return model, told

    def _predicting(self, seen: Lessons, names: tuple[str, ...]) -> Model:
        directions = np.array([self.directions.get(name, 0) for name in names], np.int8)
        weights = np.ones(len(seen.precision))
        predictor = PREDICTORS[self.kind].fitted(seen.rows, seen.precision, weights, directions)
        return Model(predictor, names, statistics=self.statistics)


def best_threshold(trees: Sequence[tuple[Tree, npt.NDArray[np.int64]]]) -> tuple[float, float]:
    """The threshold with the greatest pairwise F1 over all trees together, and that F1."""
    steps = np.linspace(0.01, 0.99, 99)
    counts = np.zeros((len(steps), 3))
    for tree, authors in trees:
        counts += [pair_counts(authors, cut_by_precision(tree, step)) for step in steps]
    f1 = 2 * counts[:, 0] / np.maximum(counts[:, 1] + counts[:, 2], 1)
    best = int(np.argmax(f1))
    return float(steps[best]), float(f1[best])


def _numbered(authors: Sequence[Any]) -> npt.NDArray[np.int64]:
    return np.unique(np.array([str(author) for author in authors]), return_inverse=True)[1].astype(np.int64)


def _some(items: Sequence[Any], most: int, rng: np.random.Generator) -> list[Any]:
    if len(items) <= most:
        return list(items)
    return [items[i] for i in rng.choice(len(items), most, replace=False)]


def _log_odds(p: float) -> float:
    p = min(max(p, 1e-15), 1 - 1e-15)
    return float(np.log(p / (1 - p)))


def _cross_entropy(scores: Matrix, targets: Matrix) -> float:
    scores = np.clip(scores, 1e-9, 1 - 1e-9)
    return float(-(targets * np.log(scores) + (1 - targets) * np.log(1 - scores)).mean())


def _platt(margins: Matrix, precision: Matrix) -> tuple[float, float]:
    """Slope and intercept that make margins log-odds on what was held out."""
    from grinch.resolve.authors.learned.predictors import Logistic

    found = Logistic.fitted(margins[:, None], precision, np.ones(len(margins)), np.zeros(1, np.int8))
    # A slope below zero would turn the order of merges round.
    return max(float(found.weights[0]), 0.05), float(found.intercept[0])
