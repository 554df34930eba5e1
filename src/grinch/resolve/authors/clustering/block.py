"""One block of records into authors, by any of the systems, under a learned linkage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grinch.core.rules import Rules
from grinch.errors import unknown_name
from grinch.estimators.registry import make_system
from grinch.linkage import WithRules
from grinch.neighbors import ByKey, ByVector
from grinch.resolve.authors.clustering.close_calls import CloseCall, close_calls
from grinch.resolve.authors.clustering.cutting import cut_by_precision
from grinch.resolve.authors.groups.features import RecordFeatures
from grinch.resolve.authors.groups.statistics import tokens_of
from grinch.resolve.authors.learned.linkage import CorefLinkage, Groups
from grinch.resolve.authors.learned.model import Model
from grinch.resolve.authors.records.record import Record
from grinch.tree import Tree

METHODS = ("grinch", "rotate", "online", "hac", "mb-hac")
INCREMENTAL = ("grinch", "rotate", "online")
# How many candidates a record gets: by its topics and coauthors together, and of each coauthor the latest records.
BY_VECTOR, BY_COAUTHOR = 25, 10
# Chosen on training names (docs/coref.md): at least the F1 of the default settings, in half the time.
GRINCH_SETTINGS: dict[str, Any] = {
    "n_neighbors": 10,
    # Without polishing, which merges all summaries of a tree again: slow here.
    "mode": Rules.fast(cap=200, single_elimination=True, light_grafts=False, polish=False),
}


@dataclass(frozen=True)
class BlockResult:
    """The author of each record, by its id and numbered from 0; the tree; and the threshold it was cut at."""

    authors: dict[str, int]
    tree: Tree
    threshold: float

    def close_calls(self, n: int = 20) -> list[CloseCall]:
        """The n merges nearest to the threshold, nearest first; records are positions in the block."""
        return close_calls(self.tree, self.threshold, n)


def with_rules(linkage: CorefLinkage) -> WithRules:
    """The linkage with what is certain: one ORCID is one author; two ORCIDs, or two records of one paper, are two.

    >>> import numpy as np
    >>> from grinch.resolve.authors.learned.predictors import Logistic
    >>> from grinch.resolve.authors.groups.features import FEATURES
    >>> from grinch.resolve.authors.groups.statistics import Statistics
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
    """An estimator by the name of its method, with candidates by topic and coauthor for the incremental ones."""
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
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
        For a model of precomputed features of pairs, :class:`~grinch.resolve.authors.groups.pairs.PairFeatures`.
    threshold : float, optional
        The precision at which putting a pair together pays off (default: the model's).
    **settings
        Parameters of the method, such as ``buffer_size`` of "mb-hac".

    Examples
    --------
    A model made by hand, under which records that share a coauthor are of one author:

    >>> import numpy as np
    >>> from grinch.resolve.authors import FEATURES, Model, Record, Statistics, cluster_block
    >>> from grinch.resolve.authors.learned.predictors import Logistic
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
    clusterer = make_clusterer(method, CorefLinkage(model, groups), records, **settings)
    tree = clusterer.fit(list(records)).tree_
    cut = model.threshold if threshold is None else threshold
    return BlockResult(dict(zip(ids, cut_by_precision(tree, cut).tolist(), strict=True)), tree, cut)


def _coauthors(record: Record) -> list[str]:
    return tokens_of(record)["coauthor"]


def _orcid(record: Record) -> str | None:
    return record.orcid
