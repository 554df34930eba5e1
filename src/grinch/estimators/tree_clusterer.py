"""The base classes of all estimators: fitting, reading the tree and its clusters, describing them, saving."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self, TypeVar, cast

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from grinch import cuts
from grinch._checks import check_count, count_rows, taken
from grinch._types import Advance, Floats, Labels, Mask
from grinch.cuts.choice import Choice
from grinch.errors import LinkageError, missing_extra
from grinch.estimators import checks, saved
from grinch.estimators.cluster_report import ClusterReport, agreement, memberships, simplified_silhouette
from grinch.estimators.distances import distances_to_clusters
from grinch.estimators.fit import Builder, Fit
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.saving.state import State, item, require
from grinch.summaries.vectors import dense_rows
from grinch.tree import Tree

if TYPE_CHECKING:
    import pandas

# The parameters that say how a tree is cut.
CUT_BY = tuple(field.name for field in fields(Choice))

Method = TypeVar("Method", bound=Callable[..., Any])
Found = TypeVar("Found")


def locked(method: Method) -> Method:
    """Make a method wait until no other thread is in one of the same estimator; a linkage must not call it."""

    @wraps(method)
    def alone(self: Any, *arguments: Any, **keywords: Any) -> Any:
        with lock_of(self):
            refuse_linkage(self)
            return method(self, *arguments, **keywords)

    return cast(Method, alone)


def lock_of(estimator: Any) -> Any:
    """Return the lock of an estimator, which every method holds that reads or changes what was fitted."""
    lock = estimator.__dict__.get("_lock")
    # Set once, by the first thread that comes.
    return estimator.__dict__.setdefault("_lock", threading.RLock()) if lock is None else lock


def refuse_linkage(estimator: Any) -> None:
    """Refuse a call from a linkage, which would see a tree in the middle of a change."""
    fitted = estimator.__dict__.get("_fitted")
    if fitted is not None and getattr(fitted.builder, "is_busy", False):
        raise RuntimeError("a linkage must not use the model that calls it; give it a copy of what it needs")


# By class: looking the names up takes longer than to insert a point.
_parameters: dict[type, list[str]] = {}


def parameters_of(estimator: type[BaseEstimator]) -> list[str]:
    """Return the names of the parameters of an estimator."""
    if estimator not in _parameters:
        _parameters[estimator] = list(estimator().get_params(deep=False))
    return _parameters[estimator]


class Prepared(NamedTuple):
    """A fit before anything is stored: the points as the builder takes them, its constructor, and the linkage."""

    rows: Any
    new_builder: Callable[[], Builder]
    linkage: VectorLinkage | Linkage


@dataclass(eq=False, repr=False, kw_only=True)
class TreeClusterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """An estimator that fits a cluster tree to points, and cuts it into flat clusters.

    The constructor of a dataclass stores the parameters, which is all that scikit-learn wants of it. A subclass
    implements :meth:`prepare`: how parameters and input are checked and what builds the tree.
    """

    n_clusters: int | None = None
    threshold: float | None = None
    layer: str | int = "auto"
    min_cluster_size: int = 1
    noise: bool = False
    verbose: bool | int = False

    # Of estimators without these parameters.
    cut = "height"
    shuffle = False
    random_state = None
    # What purity does with nodes of one score: counts them as they are, or as the one node that they stand for.
    purity_ties: ClassVar[str] = "split"
    # The parameters that may be objects of the user's own.
    _own_parts: ClassVar[tuple[str, ...]] = ("linkage",)
    # Parameters that may change while a tree grows; the others are what it is built by.
    _free: ClassVar[tuple[str, ...]] = (*CUT_BY, "shuffle", "random_state", "verbose")

    # Fitting ------------------------------------------------------------------------------------------------------

    @locked
    def fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Build the tree of X. ``y`` is ignored; ``ids`` are unique names of the points."""
        with self._unchanged_if_refused():
            rows, new_builder, linkage = self.prepare(X, reset=True)
            n = count_rows(rows)
            names = checks.check_ids(ids, n, (), None)
            checks.advise_on_points(rows, linkage)
            checks.advise_on_n_clusters(self.n_clusters, n)
            order = check_random_state(self.random_state).permutation(n) if self.shuffle else None
            self._fitted = Fit(new_builder(), self._building())
            self._fitted.ids.extend(n, names, order)
            self._insert(rows if order is None else taken(rows, order))
        if self.threshold is not None:
            checks.advise_on_threshold(self.threshold, self._best_score(linkage), linkage)
        return self

    def _best_score(self, linkage: VectorLinkage | Linkage) -> float | None:
        """Return the best score in the tree; the best there can be if points are few, or scores may be dear."""
        if not isinstance(linkage, VectorLinkage) or self.n_leaves_ < checks.MIN_POINTS:
            return getattr(linkage, "ceiling", None)
        return float(np.fmax.reduce(self._fitted.tree().scores))

    # Fitted attributes --------------------------------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        """The cluster tree; a copy that later points do not change."""
        return self.read_fit(Fit.tree)

    @property
    def labels_(self) -> Labels:
        """The flat cluster of each point; -1 for noise."""
        return self.read_fit(self._labels)

    @property
    def n_clusters_(self) -> int:
        """The number of flat clusters in ``labels_``."""
        return int(self.labels_.max(initial=-1)) + 1

    @property
    def layers_(self) -> list[Labels]:
        """Flat clusters at each resolution that persists, finest first; each is made of whole clusters of the finer.

        They do not depend on ``n_clusters`` and ``threshold``; the automatic cut is one of them.
        """

        def labels(fitted: Fit) -> list[Labels]:
            return [cuts.labels_of(fitted.tree(), layer.is_split, layer.becomes) for layer in self._layers(fitted)]

        return self.read_fit(labels)

    @property
    def layer_persistence_(self) -> Floats:
        """The quality of each layer as a share of the best: how long its clusters last and how far apart they are."""
        return self.read_fit(lambda fitted: np.array([layer.persistence for layer in self._layers(fitted)]))

    def _layers(self, fitted: Fit) -> list[cuts.Layer]:
        return fitted.automatic().joined(fitted.comparable_rows(), self._choice().min_cluster_size)

    @property
    def ids_(self) -> list[Any]:
        """The ids of the points, as they were given; positions if none were."""
        return self.read_fit(Fit.point_ids)

    @property
    def clusters_(self) -> list[list[Any]]:
        """The ids of the points of each flat cluster."""
        names, labels = self.read_fit(lambda fitted: (fitted.point_ids(), self._labels(fitted)))
        clusters: list[list[Any]] = [[] for _ in range(int(labels.max(initial=-1)) + 1)]
        for name, label in zip(names, labels.tolist(), strict=True):
            if label >= 0:
                clusters[label].append(name)
        return clusters

    @property
    def stats_(self) -> dict[str, int]:
        """Counts of the work that was done."""
        return self.read_fit(lambda fitted: dict(fitted.builder.stats))

    @property
    def n_leaves_(self) -> int:
        """The number of points in the tree."""
        return self.read_fit(lambda fitted: fitted.n_leaves)

    # The clusters -------------------------------------------------------------------------------------------------

    def summary(
        self, texts: Any = None, *, terms: Any = None, n_exemplars: int = 3, n_keywords: int = 5
    ) -> pandas.DataFrame:
        """Return the clusters of ``labels_`` as a table, one row each.

        Parameters
        ----------
        texts : sequence or mapping of str, optional
            A text for each point, in the order of ``ids_``, or by id: adds the column ``keywords``.
        terms : sequence of str or None, or mapping of str to int, optional
            The name of each column of X, such as ``readable_terms()`` of :class:`grinch.text.TextVectors`, or the
            column of each name, such as ``vocabulary_`` of a vectorizer of scikit-learn: adds the column
            ``keywords`` from the rows alone. Columns without a name (None) are left out.
        n_exemplars, n_keywords : int
            The largest number of exemplars and of keywords of a cluster.

        Returns
        -------
        pandas.DataFrame
            ``cluster``, the number in ``labels_``; ``size`` and ``share``, its points and their share of all;
            ``confidence``, from 0 to 1 (docs/clusters.md); ``exemplars``, the ids of its
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

        def described(fitted: Fit) -> ClusterReport:
            report = ClusterReport(fitted, self._node_labels(fitted))
            report.describe(fitted.points(), n_exemplars, terms, n_keywords)
            return report

        report = self.read_fit(described)
        if texts is not None:
            report.words = report.keywords(texts, n_keywords)
        return pandas.DataFrame(report.columns())

    def cluster_tree(self, texts: Any = None, *, labels: Any = None, n_keywords: int = 5) -> cuts.ClusterTree:
        """Return the tree above the clusters of ``labels_``, whose leaves are the clusters.

        With ``texts``, as in :meth:`summary`, clusters are named by their keywords; with ``labels``, the class of each
        point, by their commonest class. For a picture, see :func:`grinch.plots.plot_clusters`; ``to_networkx()`` makes
        a graph of it.

        >>> from grinch import Grinch
        >>> model = Grinch(n_clusters=2).fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]])
        >>> model.cluster_tree()
        <ClusterTree with 2 clusters of 4 points>
        """
        n_keywords = check_count("n_keywords", n_keywords, 1)
        report = self.read_fit(lambda fitted: ClusterReport(fitted, self._node_labels(fitted)))
        return report.tree_above(None if texts is None else report.keywords(texts, n_keywords), labels)

    def transform(self, X: Any) -> Floats:
        """Return the distance of each point to each cluster of ``labels_``, without inserting any.

        It is the distance to the centre, in the measure of the linkage: 1 minus the cosine with the mean direction (of
        square roots for ``"hellinger"``), 1 minus the Tanimoto coefficient with the mean, or the Euclidean distance to
        the mean; under other distances, that to the first exemplar of :meth:`summary`; under a linkage of your own,
        minus its score (from ``ceiling`` on, if it has one). docs/clusters.md has them all.

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
            kept = fitted.points()
            with fitted.asking():
                rows = self._rows_for(kept.linkage, X, reset=False, stays_sparse=scipy.sparse.issparse(kept.rows))
                return distances_to_clusters(rows, kept, self._node_labels(fitted), fitted.tree())

        return self.read_fit(measured)

    def predict(self, X: Any) -> Labels:
        """Return the nearest cluster of each point by :meth:`transform`; -1 if there are none."""
        distances = self.transform(X)
        return distances.argmin(axis=1) if distances.shape[1] else np.full(len(distances), -1, dtype=np.int64)

    def membership(self, X: Any) -> Floats:
        """Return the degree to which each point belongs to each cluster, by its distances; each row sums to 1.

        It is the membership of fuzzy c-means, proportional to 1 / distance⁴ by :meth:`transform`; where distances are
        below 0 (dot products, scores without a ceiling), to exp(-distance / their mean absolute deviation). The cluster
        of :meth:`predict` always has the highest degree: if the centre of another is nearer, both count as equally
        near.

        Returns
        -------
        ndarray of shape (n_points, n_clusters)

        Examples
        --------
        >>> from grinch import HAC
        >>> HAC(linkage="ward", n_clusters=2).fit([[0.0], [2], [9], [11]]).membership([[1.0], [4]]).round(2).tolist()
        [[1.0, 0.0], [0.94, 0.06]]
        """
        return memberships(self.predict(X), self.transform(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the quality of the clusters for X, higher for better: what ``GridSearchCV`` compares.

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
        if y is None:
            return simplified_silhouette(self.transform(X))
        return agreement(self.predict(X), y)

    @property
    def _n_features_out(self) -> int:
        """The number of columns of :meth:`transform`, for scikit-learn to name."""
        return self.n_clusters_

    def explore(
        self,
        *,
        texts: Any = None,
        labels: Any = None,
        payload: Any = None,
        images: str | os.PathLike[str] | None = None,
        text: str | None = None,
        image: str | None = None,
        label: str | None = None,
        x: str | None = None,
        y: str | None = None,
        height: int = 720,
    ) -> Any:
        """Show the tree in a page: inline in a notebook, or ``.open()`` in the browser.

        Parameters
        ----------
        texts : sequence or mapping, optional
            A text for each point, in the order of arrival, or by id.
        labels : sequence, optional
            The true class of each point.
        payload : sequence of dicts or DataFrame, optional
            Fields to show for each point, instead of ``texts``.
        images : path, optional
            The folder below which image files are read.
        text, image, label, x, y : str, optional
            The fields of the payload that are the text, an image (a URL, or a file below ``images``), the true class,
            and the place on the map. The first three are recognised where they have usual names.
        height : int
            Height in a notebook, in pixels.

        Returns
        -------
        Explorer
            With ``url``, ``open()``, ``save("page.html")`` and ``close()``. See docs/explorer.md.
        """
        from grinch import explore  # by the public face, for the service knows estimators and not the other way round

        fields = {"text": text, "image": image, "label": label, "x": x, "y": y}
        given = {"texts": texts, "labels": labels, "payload": payload, "images": images}
        return explore(self, **given, height=height, fields=fields)

    # Saving and copying -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, atomically. :func:`grinch.load` opens it, and the model continues where it was.

        A linkage or search of your own is saved by its name, ``module:name``; one without a name (a lambda, a function
        within another) must be passed to ``load``. See docs/saving.md.

        >>> import grinch, tempfile
        >>> path = tempfile.mkdtemp() + "/model.grinch"
        >>> grinch.Grinch(n_clusters=2).fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]]).save(path)
        >>> grinch.load(path).partial_fit([[3, 0.2]]).labels_.tolist()
        [0, 1, 0, 1, 0]
        """
        # Nobody changes the model meanwhile.
        with lock_of(self):
            saved.save(self, path)

    @locked
    def to_state(self) -> State:
        """Return what a file holds of the model. Arrays are its own: they change when the model does."""
        now = {name: getattr(self, name) for name in parameters_of(type(self))}
        columns, fitted = getattr(self, "feature_names_in_", None), self.__dict__.get("_fitted")
        return {
            "class": type(self).__name__,
            "parameters": saved.parameters_to_state(now),
            "n_features": self.__dict__.get("n_features_in_"),
            "feature_names": None if columns is None else [str(name) for name in columns],
            "fitted": fitted and {"parameters": saved.parameters_to_state(fitted.parameters, now), **fitted.to_state()},
        }

    @classmethod
    def from_state(cls, state: Any, *, linkage: Any = None, search: Any = None) -> Self:
        """Return the model of a state, which uses its arrays; ``linkage`` and ``search`` are those to hand in."""
        names, given = parameters_of(cls), {"linkage": linkage, "search": search}
        for what, value in given.items():
            if value is not None and what not in cls._own_parts:
                raise ValueError(f"{what} is for models that take one of your own; the saved model is a {cls.__name__}")
        now = saved.parameters_from_state(item(state, "parameters"), names, given)
        model = cls(**now)
        n_features, columns = item(state, "n_features"), item(state, "feature_names")
        if n_features is not None:
            require(type(n_features) is int and n_features >= 0, f"{n_features!r:.60} is no number of features")
            model.n_features_in_ = n_features
        if columns is not None:
            is_texts = isinstance(columns, list) and all(isinstance(each, str) for each in columns)
            require(is_texts and len(columns) == n_features, "there must be a text for each feature")
            model.feature_names_in_ = np.array(columns, object)
        fitted = item(state, "fitted")
        if fitted is not None:
            begun = saved.parameters_from_state(item(fitted, "parameters"), cls._names_of_building(), given, now)
            model._fitted = Fit.from_state(fitted, cls._builder_from_state(item(fitted, "builder"), begun), begun)
        return model

    @classmethod
    def _builder_from_state(cls, state: Any, parameters: dict[str, Any]) -> Builder:
        """Return the builder of a state, begun with these parameters."""
        raise NotImplementedError

    def validate(self) -> None:
        """Refuse a model whose state makes no sense; the work is in proportion to its points."""
        if "_fitted" in self.__dict__:
            self._validate_builder(self._fitted.builder)
            self._fitted.validate(self.__dict__.get("n_features_in_"))

    def _validate_builder(self, builder: Any) -> None:
        builder.validate()

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock; where other threads could go on, a copy, which they do not change."""
        with lock_of(self):
            state = {name: value for name, value in super().__getstate__().items() if name != "_lock"}
            if "_fitted" in state and threading.active_count() > 1:
                state["_fitted"] = copy.deepcopy(state["_fitted"])
            return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # For other rooms of the package (store, sharded, serve); not for users -----------------------------------------

    def prepare(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted.

        With ``reset``, X begins a new tree; otherwise it must be like the points before.
        """
        raise NotImplementedError

    def read_fit(self, ask: Callable[[Fit], Found]) -> Found:
        """Return ``ask(fit)``; other threads wait meanwhile."""
        with lock_of(self):
            refuse_linkage(self)
            return ask(self.current_fit())

    def current_fit(self) -> Fit:
        """Return the fit, to a thread that alone uses the model; raises ``NotFittedError`` if there is none."""
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit or partial_fit first")
        return self._fitted

    def without_fit(self) -> Self:
        """Return a copy of the estimator without its fit, which still knows the columns of X."""
        bare = object.__new__(type(self))
        bare.__dict__.update((name, value) for name, value in self.__dict__.items() if name not in ("_fitted", "_lock"))
        return bare

    # Within -------------------------------------------------------------------------------------------------------

    def _building(self) -> dict[str, Any]:
        """Return the parameters that a tree is built by; the others may change at any time."""
        return {name: getattr(self, name) for name in self._names_of_building()}

    @classmethod
    def _names_of_building(cls) -> list[str]:
        return [name for name in parameters_of(cls) if name not in cls._free]

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        """Restore what was fitted before after an error, unless points were inserted into a new tree."""
        names = ("_fitted", "n_features_in_", "feature_names_in_")
        before = {name: self.__dict__[name] for name in names if name in self.__dict__}
        try:
            yield
        except BaseException:
            new = self.__dict__.get("_fitted")
            if new is before.get("_fitted") or new is None or new.n_leaves == 0:
                for name in names:
                    self.__dict__.pop(name, None)
                self.__dict__.update(before)
            raise

    def _rows_for(self, linkage: VectorLinkage | Linkage, X: Any, reset: bool, stays_sparse: bool = False) -> Any:
        """Return X as a linkage takes it: rows of numbers for linkages of vectors, a list of records for others."""
        if isinstance(linkage, VectorLinkage):
            rows = checks.check_vectors(self, X, reset, stays_sparse)
            if linkage.is_of_roots:
                checks.check_not_negative(rows, linkage.metric)
            return rows
        given = getattr(self, "linkage")  # noqa: B009
        return (
            dense_rows(checks.check_vectors(self, X, reset))
            if isinstance(given, str)
            else checks.check_records(X, given)
        )

    def _insert(self, rows: Any) -> None:
        with self._progress("inserting", count_rows(rows)) as advance, self._settled():
            self._fitted.builder.insert(rows, advance)

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """Note afterwards that the builder has changed, and name points by their ids if a linkage fails."""
        try:
            yield
        except LinkageError as error:
            self._raise_with_ids(error)
        finally:
            self._fitted.settle()

    def _progress(self, what: str, total: int) -> AbstractContextManager[Advance | None]:
        if not self.verbose:
            return nullcontext()
        from grinch.progress import progress_bar

        return progress_bar(what, total)

    def _raise_with_ids(self, error: LinkageError) -> NoReturn:
        """Raise the error of a linkage, with each point by its id."""
        ids = self._fitted.ids
        if ids.names is None:
            error.groups = [[ids.name_of(slot) for slot in group] for group in error.groups]
            raise error
        raise ValueError(error.message(ids.name_of)) from error

    def _choice(self) -> Choice:
        """Return how the tree is to be cut, if the parameters that say so are accepted."""
        return Choice(**{name: getattr(self, name) for name in CUT_BY})

    def _labels(self, fitted: Fit) -> Labels:
        cut = fitted.live_cut(self._choice())
        return self._node_labels(fitted)[: fitted.n_leaves].copy() if cut is None else fitted.labels(cut)

    def _node_labels(self, fitted: Fit) -> Labels:
        """Return the flat clusters by node id of the tree handed out; -1 above the cut."""
        choice, splits = self._choice(), partial(self._splits, fitted)

        def found(tree: Tree) -> Labels:
            return cuts.flat_labels(choice, tree, fitted.automatic, fitted.comparable_rows, splits)

        return fitted.node_labels((choice, *self._cut_besides()), found)

    def _cut_besides(self) -> tuple[Any, ...]:
        """Return what a cut depends on besides its :class:`Choice`."""
        return ()

    def _splits(self, fitted: Fit, tree: Tree, n_clusters: int) -> Mask:
        """Return the nodes above the cut by height into this many clusters."""
        return cuts.splits_n_clusters(tree, n_clusters)


@dataclass(eq=False, repr=False, kw_only=True)
class IncrementalClusterer(TreeClusterer):
    """An estimator whose tree grows as points arrive."""

    shuffle: bool = False
    random_state: Any = None

    @locked
    def partial_fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Insert the points of X into the current tree. ``y`` is ignored; ``ids`` are unique names of the points."""
        first = not self.__sklearn_is_fitted__()
        with self._unchanged_if_refused():
            rows, new_builder, linkage = self.prepare(X, reset=first)
            known: Container[Any] = () if ids is None or first else self._fitted
            names = checks.check_ids(ids, count_rows(rows), known, None if first else self._fitted.is_named())
            if first:
                checks.advise_on_points(rows, linkage)
                checks.advise_on_threshold(self.threshold, getattr(linkage, "ceiling", None), linkage)
                self._fitted = Fit(new_builder(), self._building())
            self._check_same_building()
            self._fitted.ids.extend(count_rows(rows), names)
            self._insert(rows)
        return self

    def _check_same_building(self) -> None:
        for name, value in self._building().items():
            before = self._fitted.parameters[name]
            if value is not before and value != before:
                raise ValueError(
                    f"{name} cannot change while a tree grows: it was begun with {name}={before!r}, now it is"
                    f" {value!r}. Set it back, or start again with fit"
                )
