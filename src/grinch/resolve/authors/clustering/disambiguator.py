"""Author ids that stay while records keep coming."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Self

from grinch.errors import unknown_name
from grinch.resolve.authors.clustering.block import INCREMENTAL, make_clusterer
from grinch.resolve.authors.clustering.cutting import cut_by_precision
from grinch.resolve.authors.clustering.identity import stable_ids
from grinch.resolve.authors.learned.linkage import CorefLinkage
from grinch.resolve.authors.learned.model import Model
from grinch.resolve.authors.records.blocking import block_key
from grinch.resolve.authors.records.record import Record


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
    >>> from grinch.resolve.authors.learned.predictors import Logistic
    >>> weights = np.array([9.0 if name == "coauthor_shared" else 0.0 for name in FEATURES])
    >>> coauthors = {"1": "N Li", "2": "J Doe", "3": "N Li"}
    >>> records = [Record(name, "W Wang", coauthors=(other,)) for name, other in coauthors.items()]
    >>> model = Model(Logistic(weights, np.array([-3.0])), FEATURES, statistics=Statistics.of(records))
    >>> Disambiguator(model).fit(records[:2]).partial_fit(records[2:]).labels_
    {'1': 'w wang-1', '2': 'w wang-2', '3': 'w wang-1'}
    """

    def __init__(self, model: Model, method: str = "grinch", threshold: float | None = None):
        if method not in INCREMENTAL:
            raise unknown_name("method", method, INCREMENTAL)
        self.model, self.method, self.threshold = model, method, threshold

    def fit(self, records: Sequence[Record]) -> Self:
        """Forget all records, and start with these."""
        self.labels_: dict[str, str] = {}
        self._clusterers: dict[str, Any] = {}
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

    def _insert(self, block: str, records: list[Record]) -> None:
        if block not in self._clusterers:
            # As if a record had an ORCID, because later ones may: the clusterer is then made with the rules.
            with_orcid = Record("", "", orcid="-")
            self._clusterers[block] = make_clusterer(self.method, CorefLinkage(self.model), [with_orcid])
        clusterer = self._clusterers[block]
        clusterer.partial_fit(records, ids=[record.id for record in records])
        cut = self.model.threshold if self.threshold is None else self.threshold
        labels = cut_by_precision(clusterer.tree_, cut).tolist()
        found = {name: f"{block}-{label + 1}" for name, label in zip(clusterer.ids_, labels, strict=True)}
        before = {name: self.labels_.get(name) for name in found}
        stable = stable_ids(found, before, self._ever[block])
        self._ever[block].update(stable.values())
        self.labels_.update({name: stable[author] for name, author in found.items()})
