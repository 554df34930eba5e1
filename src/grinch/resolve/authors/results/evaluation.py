"""How good the authors are that were found, given the true ones; and baselines to compare them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.metrics import Scores, bcubed, pairwise_scores
from grinch.resolve.authors.clustering.cutting import pair_counts
from grinch.resolve.authors.records.names import folded, parsed
from grinch.resolve.authors.records.record import Record

Blocks = Mapping[str, Sequence[Record]]


class Evaluation(NamedTuple):
    """Pairwise and B-cubed scores: over the records of all blocks (micro), and as the mean over blocks (macro)."""

    pairwise: Scores
    pairwise_macro: Scores
    bcubed: Scores
    bcubed_macro: Scores
    n_records: int
    n_blocks: int


def evaluate(blocks: Mapping[str, tuple[Sequence[Any], Sequence[Any]]]) -> Evaluation:
    """Compare true and found authors, block by block; records of different blocks never count as a pair.

    Parameters
    ----------
    blocks : mapping from name to (true authors, found authors)
        One of each per record. Records whose true author is None are left out.

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


def evaluate_authors(blocks: Blocks, authors: Mapping[str, Any]) -> Evaluation:
    """Compare found authors, by record id, with the true authors of the records, block by block.

    A record whose true author is unknown is left out; one without a found author counts as an author of its own.

    >>> records = [Record(str(i), "W Wang", author=author) for i, author in enumerate("xxy", start=1)]
    >>> evaluate_authors({"w wang": records}, {"1": "a", "2": "a", "3": "a"}).pairwise
    Scores(precision=0.3333333333333333, recall=1.0, f1=0.5)
    """

    def found(record: Record) -> Any:
        author = authors.get(record.id)
        return ("alone", record.id) if author in (None, "") else author

    return evaluate({name: ([r.author for r in group], list(map(found, group))) for name, group in blocks.items()})


def unreachable_share(blocks: Blocks) -> float:
    """The share of the pairs of records of one author that are in different blocks, where no clustering finds them.

    >>> apart = {"w wang": [Record("1", "W Wang", author="x")], "w wong": [Record("2", "W Wong", author="x")]}
    >>> unreachable_share(apart)
    1.0
    """
    known = [(record.author, name) for name, group in blocks.items() for record in group if record.author is not None]
    authors = [author for author, _ in known]
    return 1 - pairwise_scores(authors, [f"{author}\0{name}" for author, name in known]).recall


# Baselines ------------------------------------------------------------------------------------------------------------


def one_per_block(records: Sequence[Record]) -> list[int]:
    """All records of a block are one author's."""
    return [0] * len(records)


def one_per_name(records: Sequence[Record]) -> list[str]:
    """All records with the same first and last names are one author's.

    >>> one_per_name([Record("1", "Wei Wang"), Record("2", "W. Wang"), Record("3", "Wang, Wei")])
    ['wei wang', 'w wang', 'wei wang']
    """
    names = (parsed(record.name) for record in records)
    return [" ".join((*name.first, name.last)) for name in names]


def one_per_spelling(records: Sequence[Record]) -> list[str]:
    """All records whose name is written in the same way are one author's; accents and case do not count.

    >>> one_per_spelling([Record("1", "Wei Wang"), Record("2", "W. Wang"), Record("3", "Wang, Wei")])
    ['wei wang', 'w. wang', 'wang, wei']
    """
    return [folded(record.name) for record in records]


def _codes(labels: Sequence[Any]) -> npt.NDArray[np.int64]:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)


def _mean(scores: Sequence[Scores]) -> Scores:
    return Scores(*(float(np.mean([each[i] for each in scores])) for i in range(3)))
