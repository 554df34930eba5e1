"""What the clusters of a fitted tree are: a table of them, the tree above them, and how far points are from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import scipy.sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from grinch import cuts
from grinch._checks import check_count
from grinch._labels import label_codes
from grinch._types import Floats, Labels
from grinch.cuts.medoids import nearest_first
from grinch.errors import missing_extra
from grinch.estimators.distances import distances_to_clusters, tanimoto_to_own
from grinch.estimators.fit import Fit
from grinch.estimators.training_points import asking, kept_points
from grinch.linkage.named import VectorLinkage
from grinch.summaries.arrays import StoredPoints
from grinch.tree import NONE, Tree

if TYPE_CHECKING:
    import pandas

# For which distances the sums to all others of a cluster need no pairs; the first are those of directions.
DIRECTIONS, DIFFERENCES = ("cosine", "dot"), ("sqeuclidean", "euclidean")

# Distances beyond this count as equal.
FAR = 1e300


class Found(NamedTuple):
    """A tree and its cut, of one moment: the cluster by point; by cluster, how sure it is and its central points."""

    tree: Tree
    labels: Labels
    ids: list[Any]
    sure: Floats
    central: list[Labels]
    words: list[list[str]] | None = None


class Described(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """What a clusterer says of its clusters, and of the places of other points among them."""

    # What the estimator that this is part of has.
    _read: Any
    _node_labels: Any
    _automatic: Any
    _rows_for: Any

    # The clusters -------------------------------------------------------------------------------------------------

    def summary(
        self, texts: Any = None, *, terms: Any = None, n_exemplars: int = 3, n_keywords: int = 5
    ) -> pandas.DataFrame:
        """The clusters of ``labels_`` as a table, one row each.

        Parameters
        ----------
        texts : sequence or mapping of str, optional
            A text for each point, in the order of ``ids_``, or by id: adds the column ``keywords``.
        terms : sequence of str or None, or mapping of str to int, optional
            What each column of X is called, such as ``readable_terms()`` of :class:`grinch.text.TextVectors`, or the
            column of each name, such as ``vocabulary_`` of a vectorizer of scikit-learn: adds the column
            ``keywords`` from the rows alone. Columns without a name (None) are left out.
        n_exemplars, n_keywords : int
            How many are named for each cluster, at most.

        Returns
        -------
        pandas.DataFrame
            ``cluster``, the number in ``labels_``; ``size`` and ``share``, its points and their share of all;
            ``sure``, from 0 to 1, how long the cluster lasts (docs/clusters.md); ``exemplars``, the ids of its
            most central points, the most central first; ``keywords``, see :func:`grinch.text.keywords`, and
            :func:`grinch.text.cluster_terms` for those of ``terms``; ``node``, the node of ``tree_``; ``score``, the
            linkage of its two halves (nan for a single point), and ``parent_score``, that of the cluster and its
            sibling. Points with -1 are in no row.

        Examples
        --------
        >>> from grinch import Grinch
        >>> X = [[1, 0], [0, 9], [2, 0.1], [0.1, 8], [3, 0.2]]
        >>> model = Grinch(n_clusters=2).fit(X, ids=["a", "b", "c", "d", "e"])
        >>> model.summary(["red", "blue", "red", "blue", "red"])[["cluster", "size", "exemplars", "keywords"]]
           cluster  size  exemplars keywords
        0        0     3  [c, a, e]    [red]
        1        1     2     [b, d]   [blue]
        """
        n_exemplars, n_keywords = check_count("n_exemplars", n_exemplars, 1), check_count("n_keywords", n_keywords, 1)
        try:
            import pandas
        except ImportError:
            raise missing_extra("summary()", "pandas", "pandas") from None
        if texts is not None and terms is not None:
            raise ValueError("texts and terms are two ways to keywords: give one of them; got both")
        found = self._found(n_exemplars, terms, n_keywords)
        words = found.words if texts is None else _words(texts, found, n_keywords)
        return pandas.DataFrame(_columns(found, words))

    def cluster_tree(self, texts: Any = None, *, n_keywords: int = 5) -> cuts.ClusterTree:
        """The tree above the clusters of ``labels_``, whose leaves are the clusters.

        With ``texts``, as in :meth:`summary`, clusters are called by their keywords. For a picture, see
        :func:`grinch.plots.plot_clusters`; ``to_networkx()`` makes a graph of it.

        >>> from grinch import Grinch
        >>> model = Grinch(n_clusters=2).fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]])
        >>> model.cluster_tree()
        <ClusterTree with 2 clusters of 4 points>
        """
        n_keywords = check_count("n_keywords", n_keywords, 1)
        found = self._found(None)
        clusters = cuts.collapse(found.tree, found.labels)
        clusters = clusters.described(sure=found.sure[clusters.clusters])
        if texts is None:
            return clusters
        found_words = _words(texts, found, n_keywords)
        words = [found_words[number] for number in clusters.clusters.tolist()]
        names = [", ".join(own) or name for own, name in zip(words, clusters.names, strict=True)]
        return clusters.described(names, words)

    def _found(self, n_exemplars: int | None, terms: Any = None, n_keywords: int = 1) -> Found:
        """What there is to say of the clusters; with up to this many exemplars of each, or without any."""

        def found(fitted: Fit) -> Found:
            tree, labels = fitted.tree(), self._node_labels(fitted)
            kept = None if n_exemplars is None else kept_points(fitted)
            of_points = labels[: fitted.n_leaves].copy()
            central = [] if kept is None else _central(kept, tree, of_points, n_exemplars or 1)
            words = None if terms is None or kept is None else _terms(kept, of_points, terms, n_keywords)
            sure = self._sureness(fitted)[_cut_nodes(tree, labels)]
            return Found(tree, of_points, fitted.point_ids(), sure, central, words)

        return cast(Found, self._read(found))

    def _sureness(self, fitted: Fit) -> Floats:
        """By node id, how sure it is as a cluster, from 0 to 1."""
        return cast(Floats, self._automatic(fitted).sure)

    # Other points -------------------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Floats:
        """The distance of each point to each cluster of ``labels_``, without inserting any.

        It is the distance to the centre, by what the linkage measures with: 1 minus the cosine with the mean direction
        (of square roots for ``"hellinger"``), 1 minus the Tanimoto coefficient with the mean, or the Euclidean distance
        to the mean; under other distances, that to the first exemplar of :meth:`summary`;
        under a linkage of your own, minus its score (from ``ceiling`` on, if it has one). docs/clusters.md has them
        all.

        Returns
        -------
        ndarray of shape (n_points, n_clusters)

        Examples
        --------
        >>> from grinch import HAC
        >>> HAC(linkage="ward", n_clusters=2).fit([[0.0], [2], [9], [11]]).transform([[1.0], [9]]).tolist()
        [[0.0, 9.0], [8.0, 1.0]]
        """

        def measured(fitted: Fit) -> Floats:
            kept = kept_points(fitted)
            with asking(fitted):
                rows = self._rows_for(kept.linkage, X, reset=False, stays_sparse=scipy.sparse.issparse(kept.rows))
                return distances_to_clusters(rows, kept, self._node_labels(fitted), fitted.tree())

        return cast(Floats, self._read(measured))

    def predict(self, X: Any) -> Labels:
        """The nearest cluster of each point by :meth:`transform`; -1 if there are none."""
        distances = self.transform(X)
        return distances.argmin(axis=1) if distances.shape[1] else np.full(len(distances), -1, dtype=np.int64)

    def membership(self, X: Any) -> Floats:
        """How much each point belongs to each cluster, from its distances to all of them; each row sums to 1.

        It is that of fuzzy c-means, in proportion to 1 / distance⁴ by :meth:`transform`; where distances are below 0
        (dot products, scores without a ceiling), to exp(-distance / their mean absolute deviation). The cluster that
        :meth:`predict` names is the first, also where the centre of another is nearer: both count as near then.

        Returns
        -------
        ndarray of shape (n_points, n_clusters)

        Examples
        --------
        >>> from grinch import HAC
        >>> HAC(linkage="ward", n_clusters=2).fit([[0.0], [2], [9], [11]]).membership([[1.0], [4]]).round(2).tolist()
        [[1.0, 0.0], [0.94, 0.06]]
        """
        labels, distances = self.predict(X), np.clip(self.transform(X), -FAR, FAR)
        if distances.shape[1] == 0:
            return distances
        if distances.min(initial=0.0) < 0:
            distances -= distances.min(axis=1, keepdims=True)
            scale = np.abs(distances - distances.mean(axis=1, keepdims=True)).mean(axis=1, keepdims=True)
            weights = np.exp(-distances / np.where(scale > 0, scale, 1.0))
        else:
            # As shares of the smallest, so that nothing overflows; what is at a centre belongs to it alone.
            nearest = distances.min(axis=1, keepdims=True)
            ratios = np.divide(nearest, distances, out=np.zeros_like(distances), where=distances > 0)
            weights = np.where(nearest > 0, ratios**4, distances == 0)
        named = np.flatnonzero(labels >= 0)
        weights[named, labels[named]] = weights[named].max(axis=1) * (1 + 1e-9)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any = None) -> float:
        """How well the clusters suit X, higher for better: what ``GridSearchCV`` compares.

        With ``y``, the adjusted Rand index of :meth:`predict` and ``y``: points without a label (None or nan) are left
        out, and those that no cluster takes count as clusters of their own. Without ``y``, the simplified silhouette,
        the mean of (b - a) / max(|a|, |b|), where a is the distance to the nearest cluster and b that to the second;
        0 with fewer than two clusters.

        Examples
        --------
        >>> from grinch import HAC
        >>> model = HAC(n_clusters=2).fit([[0.0], [2], [9], [11]])
        >>> model.score([[2.0], [9.0]]), model.score([[1.0], [3], [8]], ["a", "a", "b"])
        (0.875, 1.0)
        """
        if y is not None:
            return _agreement(self.predict(X), y)
        distances = self.transform(X)
        if distances.shape[1] < 2:
            return 0.0
        # A linkage may forbid a merge, or demand it, by an infinite score.
        a, b = np.partition(np.clip(distances, -FAR, FAR), 1, axis=1)[:, :2].T
        scale = np.maximum(np.abs(a), np.abs(b))
        return float(np.mean(np.divide(b - a, scale, out=np.zeros_like(a), where=scale > 0)))

    @property
    def _n_features_out(self) -> int:
        """How many columns :meth:`transform` gives, for scikit-learn to name."""
        return int(self._read(lambda fitted: self._node_labels(fitted)[: fitted.n_leaves].max(initial=-1))) + 1


def _cut_nodes(tree: Tree, labels: Labels) -> Labels:
    """By cluster number, the node that the cut made it of, with points that belong nowhere since."""
    # The largest node of each cluster is the last in this order, and stays.
    nodes = tree.preorder()
    nodes = nodes[labels[nodes] >= 0]
    nodes = nodes[np.argsort(tree.sizes()[nodes], kind="stable")]
    found = np.zeros(int(labels.max(initial=-1)) + 1, np.int64)
    found[labels[nodes]] = nodes
    return found


def _central(kept: StoredPoints, tree: Tree, labels: Labels, n: int) -> list[Labels]:
    """The most central points of each cluster: by their vectors where the linkage allows it, otherwise by the tree."""
    linkage: Any = kept.linkage
    metric = linkage.leaf_metric if isinstance(linkage, VectorLinkage) else getattr(linkage, "distance", None)
    if metric == "tanimoto" and isinstance(linkage, VectorLinkage):
        return nearest_first(tanimoto_to_own(kept, labels), labels, n)
    if kept.is_vectors and metric in (*DIRECTIONS, *DIFFERENCES):
        return cuts.central_points(kept.rows, labels, n, "cosine" if metric in DIRECTIONS else "sqeuclidean")
    return cuts.central_leaves(tree, labels, n)


def _columns(found: Found, words: list[list[str]] | None) -> dict[str, Any]:
    """The table by columns, in order."""
    tree, nodes, sizes = found.tree, cuts.cluster_nodes(found.tree, found.labels), cuts.cluster_sizes(found.labels)
    clusters = np.flatnonzero(nodes >= 0)
    nodes = nodes[clusters]
    parents = tree.parents()[nodes]
    columns: dict[str, Any] = {
        "cluster": clusters,
        "size": sizes[clusters],
        "share": sizes[clusters] / max(tree.n_leaves, 1),
        "sure": found.sure[clusters],
        "exemplars": [[found.ids[point] for point in found.central[c].tolist()] for c in clusters.tolist()],
    }
    if words is not None:
        columns["keywords"] = [words[c] for c in clusters.tolist()]
    scores = tree.scores
    above = np.where(parents == NONE, np.nan, scores[parents])
    return {**columns, "node": nodes, "score": scores[nodes], "parent_score": above}


def _words(texts: Any, found: Found, n: int) -> list[list[str]]:
    """The keywords of each cluster."""
    given = [texts.get(name) for name in found.ids] if isinstance(texts, Mapping) else texts
    return cuts.keywords(given, found.labels, n)


def _terms(kept: StoredPoints, labels: Labels, terms: Any, n: int) -> list[list[str]]:
    """The columns that stand out in each cluster, by their names."""
    if not kept.is_vectors:
        raise ValueError("terms are names of columns, and the points of this model are records, which have none")
    found = cuts.cluster_terms(kept.as_given(), labels, terms, n)
    return [found[cluster] for cluster in range(len(found))]


def _agreement(labels: Labels, y: Any) -> float:
    from sklearn.metrics import adjusted_rand_score
    from sklearn.utils import check_consistent_length

    check_consistent_length(labels, y)
    codes = label_codes(y)
    alone = labels < 0
    labels = np.where(alone, labels.max(initial=-1) + np.cumsum(alone), labels)
    return float(adjusted_rand_score(codes[codes >= 0], labels[codes >= 0]))
