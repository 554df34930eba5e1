"""How well authors were told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from grinch.metrics import Scores, bcubed, pairwise_scores
from grinch.resolve.authors.clustering.cutting import pair_counts
from grinch.resolve.authors.records.names import parsed
from grinch.resolve.authors.records.record import Record


class Evaluation(NamedTuple):
    """Pairwise and B-cubed scores: over all records of all blocks (micro), and as the mean of the blocks (macro)."""

    pairwise: Scores
    pairwise_macro: Scores
    bcubed: Scores
    bcubed_macro: Scores
    n_records: int
    n_blocks: int


def evaluate(blocks: Mapping[str, tuple[Sequence[Any], Sequence[Any]]]) -> Evaluation:
    """Compare true and found authors, block by block; records of two blocks are never together.

    Parameters
    ----------
    blocks : mapping from name to (true authors, found authors)
        One of each for every record of the block. Records whose true author is None are left out.

    Examples
    --------
    >>> found = evaluate({"w wang": (["a", "a", "b"], [0, 0, 0]), "j li": (["c", "c"], [0, 0])})
    >>> round(found.pairwise.f1, 3), round(found.pairwise_macro.f1, 3), found.n_records
    (0.667, 0.75, 5)
    """
    known = [
        [(author, cluster) for author, cluster in zip(*both, strict=True) if author is not None]
        for both in blocks.values()
    ]
    if not any(known):
        raise ValueError("blocks must hold at least one record with its true author; got none")
    counts = np.zeros(3)
    pairwise, cubed, sizes = [], [], []
    for pairs in filter(None, known):
        true, found = (_codes(side) for side in zip(*pairs, strict=True))
        counts += pair_counts(true, found)
        pairwise.append(pairwise_scores(true, found))
        cubed.append(bcubed(true, found))
        sizes.append(len(pairs))
    both, in_true, in_found = counts.tolist()
    micro = Scores(
        both / in_found if in_found else 1.0,
        both / in_true if in_true else 1.0,
        2 * both / (in_true + in_found) if in_true + in_found else 1.0,
    )
    precision, recall = (float(np.average([each[i] for each in cubed], weights=sizes)) for i in (0, 1))
    cubed_micro = Scores(precision, recall, 2 * precision * recall / (precision + recall))
    return Evaluation(micro, _mean(pairwise), cubed_micro, _mean(cubed), sum(sizes), len(sizes))


def one_per_block(records: Sequence[Record]) -> list[int]:
    """The baseline that takes all records of a block for one author's."""
    return [0] * len(records)


def one_per_name(records: Sequence[Record]) -> list[str]:
    """The baseline that takes each full name for one author.

    >>> one_per_name([Record("1", "Wei Wang"), Record("2", "W. Wang")])
    ['wei wang', 'w wang']
    """
    names = (parsed(record.name) for record in records)
    return [" ".join((*name.first, name.last)) for name in names]


def _codes(labels: Sequence[Any]) -> Any:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)


def _mean(scores: Sequence[Scores]) -> Scores:
    return Scores(*(float(np.mean([each[i] for each in scores])) for i in range(3)))
