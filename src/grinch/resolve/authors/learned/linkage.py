"""A model as a linkage that grinch clusters by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from grinch.resolve.authors.groups.features import RecordFeatures
from grinch.resolve.authors.learned.model import Model

Matrix = npt.NDArray[np.float64]


class Groups(Protocol):
    """Summaries of groups, and the features of two of them: of records, or from precomputed features of pairs."""

    names: tuple[str, ...]

    def leaf(self, record: Any) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any: ...

    def features(self, a: Any, others: Sequence[Any]) -> Matrix: ...


class CorefLinkage:
    """The precision that a model expects of merging two groups.

    Parameters
    ----------
    model : Model
        Trained by :func:`~grinch.resolve.authors.training.train`.
    groups : Groups, optional
        What is kept of a group (default:
        :class:`~grinch.resolve.authors.groups.features.RecordFeatures` with the model's statistics). Use one object
        for one clustering.
    """

    def __init__(self, model: Model, groups: Groups | None = None):
        if groups is None:
            if model.statistics is None:
                raise ValueError(
                    "groups must be given for a model that was trained on features of pairs: PairFeatures(...)"
                )
            groups = RecordFeatures(model.statistics)
        if groups.names != model.features:
            raise ValueError(
                f"groups must give the {len(model.features)} features that the model was trained on; they give"
                f" {len(groups.names)}: {', '.join(groups.names[:4])} …"
            )
        self.model, self.groups = model, groups

    def leaf(self, record: Any) -> Any:
        return self.groups.leaf(record)

    def merge(self, a: Any, b: Any) -> Any:
        return self.groups.merge(a, b)

    def score(self, a: Any, b: Any) -> float:
        return float(self.scores(a, [b])[0])

    def scores(self, a: Any, others: Sequence[Any]) -> Matrix:
        """One call of the model for all of them."""
        return self.model.score(self.groups.features(a, others))
