"""Authors of one block: a clustering by the learned linkage, cut by expected precision, and its close calls."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from grinch._checks import check_name
from grinch._types import Labels
from grinch.core.rules import Rules
from grinch.estimators.registry import make_system
from grinch.linkage import WithRules
from grinch.neighbors import ByKey, ByVector
from grinch.resolve.authors.features import RecordFeatures, tokens_of
from grinch.resolve.authors.model import CorefLinkage, Groups, Model
from grinch.resolve.authors.precision_cut import cut_by_precision, rescore_large
from grinch.resolve.authors.record import Record, block_key
from grinch.tree import Tree


class CloseCall(NamedTuple):
    """Two groups of records by position, their score, and the distance of the score from the threshold."""

    margin: float
    score: float
    left: list[int]
    right: list[int]


def close_calls(tree: Tree, threshold: float, n: int, nodes: Iterable[int] | None = None) -> list[CloseCall]:
    """Return the n merges whose scores are nearest to the threshold, nearest first; of all nodes of a tree, or of some.

    >>> tree = Tree.from_merges(np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.25, 0.9, 0.8]))
    >>> close_calls(tree, 0.5, 1)
    [CloseCall(margin=0.25, score=0.25, left=[0], right=[1])]
    """
    merges = []
    for v in tree.preorder().tolist() if nodes is None else nodes:
        if not tree.is_leaf(v) and np.isfinite(tree.scores[v]):
            merges.append((abs(float(tree.scores[v]) - threshold), v))
    found = []
    for margin, v in heapq.nsmallest(n, merges):
        left, right = (tree.leaves(child).tolist() for child in tree.children(v))
        found.append(CloseCall(margin, float(tree.scores[v]), left, right))
    return found


def pair_counts(authors: npt.NDArray[np.int64], labels: Labels) -> npt.NDArray[np.float64]:
    """Count the pairs that are together in both, in the true authors, and in the clustering.

    >>> pair_counts(np.array([0, 0, 1]), np.array([0, 0, 0])).tolist()
    [1.0, 1.0, 3.0]
    """

    def pairs(codes: npt.NDArray[np.int64]) -> float:
        counts = np.unique(codes, return_counts=True)[1].astype(np.float64)
        return float((counts * (counts - 1)).sum() / 2)

    return np.array([pairs(authors * (int(labels.max(initial=0)) + 1) + labels), pairs(authors), pairs(labels)])


MOST_DIGITS = 15


def stable_ids(
    authors: Mapping[str, str], previous: Mapping[str, str | None], ever: Iterable[str] = ()
) -> dict[str, str]:
    """Map the author ids of this run to ids under which the authors of an earlier run keep theirs.

    An old id goes to the author that shares the most records with it. So an author that has not changed keeps its id,
    and of two parts into which an author was split the larger one keeps it. All others get ids not used before.

    Parameters
    ----------
    authors, previous : mapping of str to str
        Author by record id, in this run and in the earlier one.
    ever : iterable of str
        More ids that were once used, and must not be used again.

    Examples
    --------
    >>> before = {"1": "w wang-1", "2": "w wang-1", "3": "w wang-2"}
    >>> now = {"0": "w wang-1", "1": "w wang-2", "2": "w wang-2", "3": "w wang-3"}
    >>> stable_ids(now, before)
    {'w wang-2': 'w wang-1', 'w wang-3': 'w wang-2', 'w wang-1': 'w wang-3'}
    """
    shared = Counter((author, old) for record, author in authors.items() if (old := previous.get(record)))
    stable: dict[str, str] = {}
    taken: set[str] = set()
    for (author, old), _ in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if author not in stable and old not in taken:
            stable[author] = old
            taken.add(old)
    used = {old for old in previous.values() if old} | set(ever)
    highest: Counter[str] = Counter()
    for old in used:
        stem, number = _parts(old)
        highest[stem] = max(highest[stem], number)
    for author in dict.fromkeys(authors.values()):
        if author not in stable:
            stem, _ = _parts(author)
            highest[stem] += 1
            stable[author] = f"{stem}-{highest[stem]}"
    return stable


def _parts(author: str) -> tuple[str, int]:
    """Return block and number of an id. Digits too many for a number that we gave are part of the name."""
    stem, _, number = author.rpartition("-")
    is_number = number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS
    return (stem, int(number)) if is_number else (author, 0)


METHODS = ("grinch", "rotate", "online", "hac", "mb-hac")
INCREMENTAL = ("grinch", "rotate", "online")
# How many candidates a record gets: by its topics and coauthors together, and of each coauthor the latest records.
BY_VECTOR, BY_COAUTHOR = 25, 10
# Chosen on training names (docs/development/coref.md): at least the F1 of the default settings, in half the time.
GRINCH_SETTINGS: dict[str, Any] = {
    "n_neighbors": 10,
    # Without polishing, which merges all summaries of a tree again: slow here.
    "mode": Rules.fast(cap=1000, single_elimination=True, light_grafts=False, polish=False),
}


@dataclass(frozen=True)
class BlockResult:
    """The author of each record, by its id and numbered from 0; the tree; and the threshold it was cut at.

    The scores of the tree are the precision expected of each merge, of large ones estimated from their parts:
    :func:`~grinch.resolve.authors.precision_cut.rescore_large`.
    """

    authors: dict[str, int]
    tree: Tree
    threshold: float

    def close_calls(self, n: int = 20) -> list[CloseCall]:
        """Return the n merges nearest to the threshold, nearest first; records are positions in the block."""
        return close_calls(self.tree, self.threshold, n)


def with_rules(linkage: CorefLinkage) -> WithRules:
    """Add to the linkage what is certain: one ORCID is one author; two, or two records of one paper, are two.

    >>> import numpy as np
    >>> from grinch.resolve.authors.predictors import Logistic
    >>> from grinch.resolve.authors.features import FEATURES
    >>> from grinch.resolve.authors.features import Statistics
    >>> unsure = Model(Logistic(np.zeros(len(FEATURES)), np.zeros(1)), FEATURES, statistics=Statistics.of([]))
    >>> rules = with_rules(CorefLinkage(unsure))
    >>> a, b, c = (rules.leaf(Record(i, "W Wang", orcid=o)) for i, o in [("1", "x"), ("2", "x"), ("3", "y")])
    >>> rules.score(a, b) > 1, rules.score(a, c) < 0
    (True, True)
    """
    return WithRules(
        linkage,
        must=[lambda record: record.orcid],
        cannot_share=[lambda record: record.paper],
        cannot_differ=[lambda record: record.orcid],
    )


def make_clusterer(method: str, linkage: CorefLinkage, records: Sequence[Any], **settings: Any) -> Any:
    """Make an estimator by the name of its method, with candidates by topic and coauthor for the incremental ones."""
    check_name("method", method, METHODS)
    if method in INCREMENTAL and isinstance(linkage.groups, RecordFeatures):
        sources: list[Any] = [ByVector(linkage.groups.vectors, n=BY_VECTOR), ByKey(_coauthors, most=BY_COAUTHOR)]
        if any(record.orcid for record in records):
            sources.append(ByKey(_orcid, most=BY_COAUTHOR))
        settings.setdefault("search", sources)
    if method == "grinch":
        settings = {**GRINCH_SETTINGS, **settings}
    has_rules = any(isinstance(record, Record) and (record.orcid or record.paper) for record in records)
    return make_system(method, linkage=with_rules(linkage) if has_rules else linkage, **settings)


def cluster_block(
    records: Sequence[Any],
    model: Model,
    method: str = "grinch",
    *,
    groups: Groups | None = None,
    threshold: float | None = None,
    **settings: Any,
) -> BlockResult:
    """Find the authors of one block of records.

    Parameters
    ----------
    records : sequence of Record
        The records of one block, each id once. With ``groups``, whatever its ``leaf`` takes.
    model : Model
        Trained by :func:`~grinch.resolve.authors.training.train`.
    method : {"grinch", "rotate", "online", "hac", "mb-hac"}, default="grinch"
        How the tree is built.
    groups : Groups, optional
        For a model of precomputed features of pairs, :class:`~grinch.resolve.authors.kernels.PairFeatures`.
    threshold : float, optional
        The precision at which putting a pair together pays off (default: the model's).
    **settings
        Parameters of the method, such as ``buffer_size`` of "mb-hac".

    Examples
    --------
    A model made by hand, under which records that share a coauthor are of one author:

    >>> import numpy as np
    >>> from grinch.resolve.authors import FEATURES, Model, Record, Statistics, cluster_block
    >>> from grinch.resolve.authors.predictors import Logistic
    >>> weights = np.array([9.0 if name == "coauthor_shared" else 0.0 for name in FEATURES])
    >>> coauthors = {"1": "N Li", "2": "J Doe", "3": "N Li"}
    >>> records = [Record(name, "W Wang", coauthors=(other,)) for name, other in coauthors.items()]
    >>> model = Model(Logistic(weights, np.array([-3.0])), FEATURES, statistics=Statistics.of(records))
    >>> result = cluster_block(records, model)
    >>> result.authors
    {'1': 0, '2': 1, '3': 0}
    >>> [(call.left, call.right) for call in result.close_calls(1)]
    [([0, 2], [1])]
    """
    ids = [record.id if isinstance(record, Record) else str(record) for record in records]
    if len(set(ids)) < len(ids):
        twice = next(name for name, n in Counter(ids).items() if n > 1)
        raise ValueError(f"records must have each id once; {twice!r} came twice. Drop or rename one of them")
    linkage, records = CorefLinkage(model, groups), list(records)
    tree = rescore_large(make_clusterer(method, linkage, records, **settings).fit(records).tree_, linkage, records)
    cut = model.threshold if threshold is None else threshold
    return BlockResult(dict(zip(ids, cut_by_precision(tree, cut).tolist(), strict=True)), tree, cut)


def _coauthors(record: Record) -> list[str]:
    return tokens_of(record)["coauthor"]


def _orcid(record: Record) -> str | None:
    return record.orcid


class Disambiguator:
    """Finds authors, block by block, as records arrive.

    Parameters
    ----------
    model : Model
        Trained by :func:`~grinch.resolve.authors.training.train`.
    method : {"grinch", "rotate", "online"}, default="grinch"
        How the trees are built.
    threshold : float, optional
        The precision at which putting a pair together pays off (default: the model's).

    Attributes
    ----------
    labels_ : dict from record id to author id
        An author id is the block and a number, such as "w wang-3", as on the command line.
        A cluster that did not change keeps its author id. After a change an id goes with the largest part of its
        records: the larger part of a split keeps it, and a merge keeps that of its larger side. An id that is gone is
        never used again.

    Examples
    --------
    A model made by hand, under which records that share a coauthor are of one author:

    >>> import numpy as np
    >>> from grinch.resolve.authors import FEATURES, Disambiguator, Model, Record, Statistics
    >>> from grinch.resolve.authors.predictors import Logistic
    >>> weights = np.array([9.0 if name == "coauthor_shared" else 0.0 for name in FEATURES])
    >>> coauthors = {"1": "N Li", "2": "J Doe", "3": "N Li"}
    >>> records = [Record(name, "W Wang", coauthors=(other,)) for name, other in coauthors.items()]
    >>> model = Model(Logistic(weights, np.array([-3.0])), FEATURES, statistics=Statistics.of(records))
    >>> Disambiguator(model).fit(records[:2]).partial_fit(records[2:]).labels_
    {'1': 'w wang-1', '2': 'w wang-2', '3': 'w wang-1'}
    """

    def __init__(self, model: Model, method: str = "grinch", threshold: float | None = None):
        check_name("method", method, INCREMENTAL)
        self.model, self.method, self.threshold = model, method, threshold

    def fit(self, records: Sequence[Record]) -> Self:
        """Forget all records, and start with these."""
        self.labels_: dict[str, str] = {}
        self._blocks: dict[str, _Block] = {}
        self._ever: defaultdict[str, set[str]] = defaultdict(set)
        return self.partial_fit(records)

    def partial_fit(self, records: Sequence[Record]) -> Self:
        """Insert more records; only the blocks they belong to change."""
        if not hasattr(self, "labels_"):
            return self.fit(records)
        repeated = [
            name for name, n in Counter(record.id for record in records).items() if n > 1 or name in self.labels_
        ]
        if repeated:
            raise ValueError(f"records must have new ids, each once; got {repeated[0]!r} again. Drop or rename it")
        arrived: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            arrived[record.block or block_key(record.name)].append(record)
        for block, new in arrived.items():
            self._insert(block, new)
        return self

    def _insert(self, name: str, records: list[Record]) -> None:
        if name not in self._blocks:
            linkage = CorefLinkage(self.model)
            # As if a record had an ORCID, because later ones may: the clusterer is then made with the rules.
            clusterer = make_clusterer(self.method, linkage, [Record("", "", orcid="-")])
            self._blocks[name] = _Block(clusterer, linkage, [])
        block = self._blocks[name]
        block.clusterer.partial_fit(records, ids=[record.id for record in records])
        block.records.extend(records)
        cut = self.model.threshold if self.threshold is None else self.threshold
        labels = cut_by_precision(rescore_large(block.clusterer.tree_, block.linkage, block.records), cut).tolist()
        found = {each: f"{name}-{label + 1}" for each, label in zip(block.clusterer.ids_, labels, strict=True)}
        before = {each: self.labels_.get(each) for each in found}
        stable = stable_ids(found, before, self._ever[name])
        self._ever[name].update(stable.values())
        self.labels_.update({each: stable[author] for each, author in found.items()})


class _Block(NamedTuple):
    clusterer: Any
    linkage: CorefLinkage
    records: list[Record]
