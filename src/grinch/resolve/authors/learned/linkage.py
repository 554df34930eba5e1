"""A model as a linkage that grinch clusters by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from grinch.linkage import Learned
from grinch.resolve.authors.groups.features import RecordFeatures
from grinch.resolve.authors.learned.model import Model

Matrix = npt.NDArray[np.float64]


class Groups(Protocol):
    """Summaries of groups, and the features of two of them: of records, or from precomputed features of pairs."""

    names: tuple[str, ...]

    def leaf(self, record: Any) -> Any: ...

    def merge(self, a: Any, b: Any) -> Any: ...

    def features(self, a: Any, others: Sequence[Any]) -> Matrix: ...


class CorefLinkage(Learned):
    """The precision that a model expects of merging two groups.

    Parameters
    ----------
    model : Model
        Trained by :func:`~grinch.resolve.authors.training.train`.
    groups : Groups, optional
        What is kept of a group (default:
        :class:`~grinch.resolve.authors.groups.features.RecordFeatures` with the model's statistics). Every clustering
        needs an object of its own.

    Examples
    --------
    >>> from grinch.resolve.authors.groups.pairs import PairFeatures
    >>> from grinch.resolve.authors.learned.predictors import Logistic
    >>> near = PairFeatures(np.array([[0, 4], [4, 0]], float)[:, :, None], ["near"])
    >>> mean_of_near = Logistic(np.array([1.0, 0, 0, 0, 0]), np.array([-4.0]))
    >>> linkage = CorefLinkage(Model(mean_of_near, near.names), near)
    >>> linkage.score(linkage.leaf(0), linkage.leaf(1))
    0.5
    """

    def __init__(self, model: Model, groups: Groups | None = None):
        if groups is None:
            if model.statistics is None:
                raise ValueError("groups must be given for a model of precomputed features of pairs: PairFeatures(...)")
            groups = RecordFeatures(model.statistics)
        if groups.names != model.features:
            raise ValueError(
                f"groups must give the {len(model.features)} features that the model was trained on; they give"
                f" {len(groups.names)}: {', '.join(groups.names[:4])} …"
            )
        super().__init__(model.score, groups, groups.features)
