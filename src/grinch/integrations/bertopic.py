"""Topics for BERTopic: clusters of a growing tree, with numbers that stay from batch to batch."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import BaseEstimator, ClusterMixin, clone

from grinch._checks import count_rows
from grinch._types import Labels
from grinch.estimators.grinch import Grinch
from grinch.store.queries import DEFAULT_CUT
from grinch.store.state import ClusterTracking


class GrinchTopics(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """The clustering of a BERTopic model, for ``fit``, ``transform`` and ``partial_fit``.

    ``BERTopic(hdbscan_model=GrinchTopics())``: the first batch makes topics, later ones join them or make new ones,
    and a topic that is still the same keeps its number, by the rule of :meth:`grinch.Store.clusters`. With
    ``partial_fit``, take BERTopic's online parts for the rest: ``umap_model=IncrementalPCA(...)`` or one that does
    nothing, and ``vectorizer_model=OnlineCountVectorizer()``.

    Parameters
    ----------
    model : Grinch, optional
        An unfitted model with other settings than the default ones; it stays as it is.

    Attributes
    ----------
    labels_ : array of shape (n_points_of_the_last_batch,)
        The topic of each point of the last batch; -1 for points that belong nowhere.
    model_ : Grinch
        The model over all points.

    Examples
    --------
    >>> topics = GrinchTopics(Grinch(n_clusters=2))
    >>> topics.fit([[1, 0], [0, 9], [2, 0.1]]).labels_.tolist()
    [0, 1, 0]
    >>> topics.partial_fit([[0, 8], [1, 0.1]]).labels_.tolist(), topics.predict([[0, 7]]).tolist()
    ([1, 0], [1])
    """

    def __init__(self, model: Grinch | None = None):
        self.model = model

    def fit(self, X: Any, y: Any = None) -> Self:
        """Make topics of these points alone."""
        self.model_ = Grinch() if self.model is None else clone(self.model)
        self._tracking = ClusterTracking(self.model_)
        how = {name: getattr(self.model_, name) for name in ("n_clusters", "threshold", "cut", "layer")}
        self._tracking.add(DEFAULT_CUT, **how)
        self._version = 0
        return self.partial_fit(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Insert more points; topics that are still the same keep their numbers."""
        if not hasattr(self, "_tracking"):
            return self.fit(X)
        self.model_.partial_fit(X)
        self._version += 1
        self._tracking.commit(self._version)
        self.labels_ = self._tracking.labels(DEFAULT_CUT)[-count_rows(X) :] if count_rows(X) else self._none()
        return self

    def predict(self, X: Any) -> Labels:
        """Return the topic that each point would join; -1 for none."""
        return self._tracking.predict(DEFAULT_CUT, X)

    def _none(self) -> Labels:
        return self._tracking.labels(DEFAULT_CUT)[:0]
