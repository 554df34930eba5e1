"""One block of records into authors, by any of the systems, under a learned linkage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from grinch.errors import unknown_name
from grinch.estimators.registry import make_system
from grinch.linkage import WithRules
from grinch.neighbors import ByKey, ByVector
from grinch.resolve.authors.clustering.cutting import cut_by_precision
from grinch.resolve.authors.groups.features import RecordFeatures
from grinch.resolve.authors.groups.statistics import tokens_of
from grinch.resolve.authors.learned.linkage import CorefLinkage, Groups
from grinch.resolve.authors.learned.model import Model
from grinch.resolve.authors.records.record import Record
from grinch.tree import Tree

METHODS = ("grinch", "rotate", "online", "hac", "mb-hac")
INCREMENTAL = ("grinch", "rotate", "online")
# Candidates of a record: so many by topics and coauthors, and of each coauthor so many of the latest.
BY_VECTOR, BY_COAUTHOR = 25, 10
# Chosen on training names (docs/coref.md): at least the F1 of the engine's own settings, in half of the time.
GRINCH_SETTINGS: dict[str, Any] = {
    "n_neighbors": 10,
    "cap": 200,
    "single_elimination": True,
    # Measured without: a polished tree has all its summaries to be merged anew, which is dear here.
    "light_grafts": False,
    "polish": False,
}


class CloseCall(NamedTuple):
    """A merge near the threshold: its score, and the ids of the records on its two sides."""

    score: float
    left: list[str]
    right: list[str]


class BlockResult(NamedTuple):
    """The author of each record, by its id and numbered from 0; the tree; and the merges nearest to the threshold."""

    authors: dict[str, int]
    tree: Tree
    close_calls: list[CloseCall]


def ruled(linkage: CorefLinkage) -> WithRules:
    """The linkage with what is certain: one ORCID is one author; two ORCIDs, or two names of one paper, are two.

    >>> import numpy as np
    >>> from grinch.resolve.authors.learned.predictors import Logistic
    >>> from grinch.resolve.authors.groups.features import FEATURES
    >>> from grinch.resolve.authors.groups.statistics import Statistics
    >>> unsure = Model(Logistic(np.zeros(len(FEATURES)), np.zeros(1)), FEATURES, statistics=Statistics.of([]))
    >>> rules = ruled(CorefLinkage(unsure))
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
    return make_system(method, linkage=ruled(linkage) if has_rules else linkage, **settings)


def cluster_block(
    records: Sequence[Any],
    model: Model,
    method: str = "grinch",
    *,
    groups: Groups | None = None,
    threshold: float | None = None,
    n_close_calls: int = 20,
    **settings: Any,
) -> BlockResult:
    """Tell the authors of one block of records apart.

    Parameters
    ----------
    records : sequence of Record
        Those of one block, each id once. With ``groups``, whatever these take.
    model : Model
        Trained by :func:`~grinch.resolve.authors.training.train`.
    method : {"grinch", "rotate", "online", "hac", "mb-hac"}, default="grinch"
        What builds the tree.
    groups : Groups, optional
        For a model of precomputed features of pairs, :class:`~grinch.resolve.authors.groups.pairs.PairFeatures`.
    threshold : float, optional
        The precision at which a pair is worth being put together (default: the model's).
    n_close_calls : int, default=20
        How many merges near the threshold are told.
    **settings
        Of the method, such as ``buffer_size`` of "mb-hac".
    """
    ids = [record.id if isinstance(record, Record) else str(record) for record in records]
    if len(set(ids)) < len(ids):
        twice = next(name for i, name in enumerate(ids) if name in ids[:i])
        raise ValueError(f"records must have each id once; {twice!r} came twice. Drop or rename one of them")
    clusterer = make_clusterer(method, CorefLinkage(model, groups), records, **settings)
    tree = clusterer.fit(list(records)).tree_
    cut = model.threshold if threshold is None else threshold
    labels = cut_by_precision(tree, cut).tolist()
    return BlockResult(dict(zip(ids, labels, strict=True)), tree, close_calls(tree, ids, cut, n_close_calls))


def close_calls(tree: Tree, ids: Sequence[str], threshold: float, n: int) -> list[CloseCall]:
    """The n merges whose scores are nearest to the threshold, nearest first."""
    nodes = [int(v) for v in tree.preorder() if v >= tree.offset]
    nodes.sort(key=lambda v: abs(float(tree.scores[v]) - threshold))
    found = []
    for node in nodes[:n]:
        left, right = ([ids[leaf] for leaf in tree.leaves(child)] for child in tree.children(node))
        found.append(CloseCall(float(tree.scores[node]), left, right))
    return found


def _coauthors(record: Record) -> list[str]:
    return tokens_of(record)["coauthor"]


def _orcid(record: Record) -> str | None:
    return record.orcid
