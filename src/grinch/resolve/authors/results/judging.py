"""How good authors are that were found for records, given the true ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grinch.metrics import pairwise_scores
from grinch.resolve.authors.records.names import folded
from grinch.resolve.authors.records.record import Record
from grinch.resolve.authors.results.evaluation import Evaluation, evaluate

Blocks = Mapping[str, Sequence[Record]]


def judge(blocks: Blocks, authors: Mapping[str, str | None]) -> Evaluation:
    """Compare authors, by record id, with those that the records know. Blocks are judged each by itself.

    A record whose true author is not known is not looked at; one for which no author was found is alone.

    >>> records = [Record(str(i), "W Wang", author=author) for i, author in enumerate("xxy", start=1)]
    >>> judge({"w wang": records}, {"1": "a", "2": "a", "3": "a"}).pairwise
    Scores(precision=0.3333333333333333, recall=1.0, f1=0.5)
    """
    known = {name: [record for record in group if record.author is not None] for name, group in blocks.items()}
    return evaluate(
        {
            name: ([r.author for r in group], [authors.get(r.id) or f"alone\0{r.id}" for r in group])
            for name, group in known.items()
        }
    )


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
    authors = [author for author, _ in known]
    return 1 - pairwise_scores(authors, [f"{author}\0{name}" for author, name in known]).recall
