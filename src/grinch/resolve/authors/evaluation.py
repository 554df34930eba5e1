"""Evaluation of authors against the true ones, baselines, and review of the closest decisions."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from grinch.metrics import Scores, bcubed, pairwise_scores
from grinch.resolve.authors.block_clustering import CloseCall, close_calls
from grinch.resolve.authors.names import folded, parsed
from grinch.resolve.authors.record import Record, block_key
from grinch.tree import Tree

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
    known = [[pair for pair in zip(*both, strict=True) if pair[0] is not None] for both in blocks.values()]
    sizes = [len(pairs) for pairs in known if pairs]
    if not sizes:
        raise ValueError("blocks must hold at least one record with its true author; got none")
    # An author of two blocks counts as two.
    true, found = (_codes([(i, pair[side]) for i, pairs in enumerate(known) for pair in pairs]) for side in (0, 1))
    cuts = np.cumsum(sizes)[:-1]

    def scored(measure: Callable[[Any, Any], Scores]) -> tuple[Scores, Scores]:
        return measure(true, found), _mean(list(map(measure, np.split(true, cuts), np.split(found, cuts))))

    return Evaluation(*scored(pairwise_scores), *scored(bcubed), sum(sizes), len(sizes))


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
    """Return the share of pairs of records of one author that lie in different blocks, out of reach of any clustering.

    >>> apart = {"w wang": [Record("1", "W Wang", author="x")], "w wong": [Record("2", "W Wong", author="x")]}
    >>> unreachable_share(apart)
    1.0
    """
    known = [(record.author, name) for name, group in blocks.items() for record in group if record.author is not None]
    authors = [author for author, _ in known]
    return 1 - pairwise_scores(authors, [f"{author}\0{name}" for author, name in known]).recall


# Baselines ------------------------------------------------------------------------------------------------------------


def one_per_block(records: Sequence[Record]) -> list[int]:
    """Take all records of a block as one author."""
    return [0] * len(records)


def one_per_name(records: Sequence[Record]) -> list[str]:
    """Take all records with the same first and last names as one author.

    >>> one_per_name([Record("1", "Wei Wang"), Record("2", "W. Wang"), Record("3", "Wang, Wei")])
    ['wei wang', 'w wang', 'wei wang']
    """
    names = (parsed(record.name) for record in records)
    return [" ".join((*name.first, name.last)) for name in names]


def one_per_spelling(records: Sequence[Record]) -> list[str]:
    """Take all records with the same spelling of the name as one author, ignoring accents and case.

    >>> one_per_spelling([Record("1", "Wei Wang"), Record("2", "W. Wang"), Record("3", "Wang, Wei")])
    ['wei wang', 'w. wang', 'wang, wei']
    """
    return [folded(record.name) for record in records]


def _codes(labels: Sequence[Any]) -> npt.NDArray[np.int64]:
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)


def _mean(scores: Sequence[Scores]) -> Scores:
    return Scores(*(float(np.mean([each[i] for each in scores])) for i in range(3)))


# Words that titles of any kind have.
SMALL_WORDS = frozenset(("about", "based", "between", "from", "into", "over", "towards", "under", "using", "with"))
MOST = 6


def evidence(a: Sequence[Record], b: Sequence[Record]) -> dict[str, str]:
    """Describe what two groups of records have in common, and each of them.

    >>> a = [Record("1", "Wei Wang", "Grafting of trees", ("Na Li", "J. Doe"), "KDD", 2019)]
    >>> b = [Record("2", "W. Wang", "Trees in the wild", ("Jane Doe",), "ICML", 2021), Record("3", "W. Wang")]
    >>> for what, found in evidence(a, b).items():
    ...     if found:
    ...         print(f"{what}: {found}")
    names a: Wei Wang
    names b: W. Wang (2)
    records a: 1
    records b: 2
    years a: 2019
    years b: 2021
    same coauthors: Jane Doe
    same words: trees
    example a: Grafting of trees
    example b: Trees in the wild
    ids a: 1
    ids b: 2 3
    """
    sides = {"a": a, "b": b}
    return {
        **{f"names {side}": _counted(record.name for record in group) for side, group in sides.items()},
        **{f"records {side}": str(len(group)) for side, group in sides.items()},
        **{f"years {side}": _span([r.year for r in group if r.year is not None]) for side, group in sides.items()},
        "same coauthors": _common(a, b, lambda record: record.coauthors, block_key),
        "same venues": _common(a, b, lambda record: (record.venue,), folded),
        "same affiliations": _common(a, b, lambda record: record.affiliation.split("; "), folded),
        "same words": _common(a, b, _words, folded),
        "same orcid": _common(a, b, lambda record: (record.orcid or "",), folded),
        **{f"example {side}": next((r.title for r in group if r.title), "") for side, group in sides.items()},
        **{f"ids {side}": _listed([record.id for record in group], " ") for side, group in sides.items()},
    }


def _words(record: Record) -> Iterable[str]:
    words = re.findall(r"\w{4,}", " ".join([record.title, *record.keywords]).lower())
    return [word for word in words if word not in SMALL_WORDS]


def _common(
    a: Sequence[Record], b: Sequence[Record], values: Callable[[Record], Iterable[str]], key: Callable[[str], str]
) -> str:
    """Return the values that both have, the most frequent first, each in its longest spelling."""
    counts: list[Counter[str]] = []
    written: dict[str, str] = {}
    for group in (a, b):
        counts.append(Counter())
        for record in group:
            for value in values(record):
                if value:
                    counts[-1][key(value)] += 1
                    written[key(value)] = max(written.get(key(value), ""), value, key=len)
    both = counts[0] & counts[1]
    return _listed([written[each] for each, _ in both.most_common()], "; ")


def _counted(names: Iterable[str]) -> str:
    counted = [name if n == 1 else f"{name} ({n})" for name, n in Counter(names).most_common()]
    return _listed(counted, "; ")


def _listed(values: Sequence[str], between: str) -> str:
    more = f"{between}… {len(values)} in all" if len(values) > MOST else ""
    return between.join(values[:MOST]) + more


def _span(years: Sequence[int]) -> str:
    if not years:
        return ""
    return str(min(years)) if min(years) == max(years) else f"{min(years)}–{max(years)}"


# In blocks with more authors than this, only those with the most records are compared with each other.
MOST_AUTHORS = 1000


class Scorer(Protocol):
    """A linkage that scores one group against many at once."""

    def leaf(self, record: Any) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any: ...

    def scores(self, a: Any, others: Sequence[Any]) -> npt.NDArray[np.float64]: ...


class Doubt(NamedTuple):
    """A close call, and whether its two groups were put together or kept apart."""

    decision: str
    call: CloseCall


def doubts(
    records: Sequence[Record], labels: npt.NDArray[np.integer], tree: Tree, linkage: Scorer, threshold: float, most: int
) -> list[dict[str, Any]]:
    """Return the merges inside authors, and those not made between authors, whose scores are nearest to the threshold.

    Each as plain data: the decision, the score and its margin (its distance from the threshold), the numbers of the
    authors of both sides, and the evidence (see :func:`~grinch.resolve.authors.evaluation.evidence`).
    """
    found = [*_together(labels, tree, threshold, most), *_apart(records, labels, linkage, threshold, most)]
    nearest = heapq.nsmallest(most, found, key=lambda doubt: doubt.call.margin)
    return [_described(doubt, records, labels) for doubt in nearest]


def _described(doubt: Doubt, records: Sequence[Record], labels: npt.NDArray[np.integer]) -> dict[str, Any]:
    margin, score, a, b = doubt.call
    return {
        "decision": doubt.decision,
        "score": round(score, 4),
        "margin": round(margin, 4),
        "author a": int(labels[a[0]]),
        "author b": int(labels[b[0]]),
        **evidence([records[i] for i in a], [records[i] for i in b]),
    }


def _together(labels: npt.NDArray[np.integer], tree: Tree, threshold: float, most: int) -> list[Doubt]:
    """Return the merges of the tree below the cut."""
    author_of = dict(enumerate(labels.tolist()))
    inside = []
    for v in reversed(tree.preorder().tolist()):
        if not tree.is_leaf(v):
            left, right = (author_of[child] for child in tree.children(v))
            author_of[v] = left if left == right else None
            if author_of[v] is not None:
                inside.append(v)
    return [Doubt("together", call) for call in close_calls(tree, threshold, most, inside)]


def _apart(
    records: Sequence[Record], labels: npt.NDArray[np.integer], linkage: Scorer, threshold: float, most: int
) -> Iterator[Doubt]:
    """Yield pairs of authors of the block."""
    members: dict[int, list[int]] = {}
    for i, label in enumerate(labels.tolist()):
        members.setdefault(label, []).append(i)
    groups = sorted(members.values(), key=len, reverse=True)[:MOST_AUTHORS]
    summaries = [reduce(linkage.merge, [linkage.leaf(records[i]) for i in group]) for group in groups]
    for i in range(1, len(groups)):
        scores = linkage.scores(summaries[i], summaries[:i])
        margins = np.abs(scores - threshold)
        for j in np.argsort(margins)[:most].tolist():
            yield Doubt("apart", CloseCall(float(margins[j]), float(scores[j]), groups[j], groups[i]))
