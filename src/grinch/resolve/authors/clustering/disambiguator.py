"""Author ids that stay while records keep coming."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Self

from grinch.errors import unknown_name
from grinch.resolve.authors.clustering.block import INCREMENTAL, make_clusterer
from grinch.resolve.authors.clustering.cutting import cut_by_precision
from grinch.resolve.authors.clustering.identity import lasting_ids
from grinch.resolve.authors.learned.linkage import CorefLinkage
from grinch.resolve.authors.learned.model import Model
from grinch.resolve.authors.records.blocking import block_key
from grinch.resolve.authors.records.record import Record


class Disambiguator:
    """Tells authors apart, block by block, as records arrive.

    Parameters
    ----------
    model : Model
        Trained by :func:`~grinch.resolve.authors.training.train`.
    method : {"grinch", "rotate", "online"}, default="grinch"
        What builds the trees.
    threshold : float, optional
        The precision at which a pair is worth being put together (default: the model's).

    Attributes
    ----------
    labels_ : dict from record id to author id
        An author id is the block and a number, such as "w wang-3", as the command line writes them.
        A cluster that did not change keeps its author id. After a change an id goes with the largest part of its
        records: of a split, the larger part keeps it; of a merge, the larger side's stays. Ids are never used again.
    """

    def __init__(self, model: Model, method: str = "grinch", threshold: float | None = None):
        if method not in INCREMENTAL:
            raise unknown_name("method", method, INCREMENTAL)
        self.model, self.method, self.threshold = model, method, threshold

    def fit(self, records: Sequence[Record]) -> Self:
        """Begin anew with these records."""
        self.labels_: dict[str, str] = {}
        self._clusterers: dict[str, Any] = {}
        self._ever: defaultdict[str, set[str]] = defaultdict(set)
        return self.partial_fit(records)

    def partial_fit(self, records: Sequence[Record]) -> Self:
        """Insert more records; only the blocks they fall into are looked at."""
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
            # Rules may be needed by records still to come.
            witness = Record("", "", orcid="-")
            self._clusterers[block] = make_clusterer(self.method, CorefLinkage(self.model), [witness])
        clusterer = self._clusterers[block]
        clusterer.partial_fit(records, ids=[record.id for record in records])
        cut = self.model.threshold if self.threshold is None else self.threshold
        labels = cut_by_precision(clusterer.tree_, cut).tolist()
        found = {name: f"{block}-{label + 1}" for name, label in zip(clusterer.ids_, labels, strict=True)}
        before = {name: self.labels_.get(name) for name in found}
        lasting = lasting_ids(found, before, self._ever[block])
        self._ever[block].update(lasting.values())
        self.labels_.update({name: lasting[author] for name, author in found.items()})
