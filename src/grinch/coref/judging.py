"""How good authors are that were found for records, given the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from grinch.coref.names import folded
from grinch.coref.records import Record
from grinch.metrics import bcubed, pairwise_scores
from grinch.metrics.pairs import Scores

Blocks = Mapping[str, Sequence[Record]]


class Judgement(NamedTuple):
    """Scores over the records of all blocks together (micro), and the mean of the blocks' F1 (macro)."""

    pairwise: Scores
    bcubed: Scores
    macro_pairwise_f1: float
    macro_bcubed_f1: float


def judge(blocks: Blocks, authors: Mapping[str, str | None]) -> Judgement:
    """Compare authors, by record id, with those that the records know. Blocks are judged each by itself.

    A record whose true author is not known is not looked at; one for which no author was found is alone.

    >>> records = [Record(str(i), "W Wang", author=author) for i, author in enumerate("xxy", start=1)]
    >>> judge({"w wang": records}, {"1": "a", "2": "a", "3": "a"}).pairwise
    Scores(precision=0.3333333333333333, recall=1.0, f1=0.5)
    """
    truth: list[tuple[str, str]] = []
    found: list[tuple[str, str]] = []
    by_block: list[tuple[float, float]] = []
    for name, group in blocks.items():
        known = [record for record in group if record.author is not None]
        if known:
            true_here = [(name, str(record.author)) for record in known]
            found_here = [(name, authors.get(record.id) or f"alone\0{record.id}") for record in known]
            by_block.append((_pairwise(true_here, found_here).f1, _bcubed(true_here, found_here).f1))
            truth += true_here
            found += found_here
    if not truth:
        raise ValueError("records must have authors to judge by; none has one")
    return Judgement(_pairwise(truth, found), _bcubed(truth, found), *map(float, np.mean(by_block, axis=0)))


def one_author_a_block(blocks: Blocks) -> dict[str, str]:
    """As if all who share a block were one."""
    return {record.id: name for name, group in blocks.items() for record in group}


def one_author_a_name(blocks: Blocks) -> dict[str, str]:
    """As if all who write their name alike were one."""
    return {record.id: folded(record.name) for group in blocks.values() for record in group}


def out_of_reach(blocks: Blocks) -> float:
    """The share of an author's pairs of records that are in different blocks, where no clustering can find them.

    >>> far = {"w wang": [Record("1", "W Wang", author="x")], "w wong": [Record("2", "W Wong", author="x")]}
    >>> out_of_reach(far)
    1.0
    """
    known = [(record.author, name) for name, group in blocks.items() for record in group if record.author is not None]
    return 1 - _pairwise([(author, "") for author, _ in known], known).recall


def _pairwise(truth: Sequence[tuple[str, str]], found: Sequence[tuple[str, str]]) -> Scores:
    return pairwise_scores(_codes(truth), _codes(found))


def _bcubed(truth: Sequence[tuple[str, str]], found: Sequence[tuple[str, str]]) -> Scores:
    return bcubed(_codes(truth), _codes(found))


def _codes(values: Sequence[tuple[str, str]]) -> list[int]:
    numbers: dict[tuple[str, str], int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]
