"""What all estimators share: one way to fit, one tree, one set of fitted names."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from functools import partial, wraps
from importlib import import_module
from typing import Any, NamedTuple, NoReturn, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from grinch import cuts
from grinch._checks import count_rows
from grinch._types import Advance, Mask
from grinch.cuts.choice import Choice
from grinch.cuts.tracking import LiveCut
from grinch.errors import LinkageError
from grinch.estimators import saved
from grinch.estimators.advice import MIN_POINTS, advise_on_n_clusters, advise_on_points, advise_on_threshold
from grinch.estimators.automatic import automatic_cut_of, growing_tree, rows_of
from grinch.estimators.builder import Builder
from grinch.estimators.checks import check_ids, check_not_negative, check_records, check_vectors
from grinch.estimators.cluster_report import Described
from grinch.estimators.fit import Fit
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage, is_average, metric_in_full
from grinch.saving.state import State, item, require
from grinch.summaries.vectors import dense_rows
from grinch.tree import Tree

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
    """A linkage sees a tree in the middle of a change."""
    fitted = estimator.__dict__.get("_fitted")
    if fitted is not None and getattr(fitted.builder, "is_busy", False):
        raise RuntimeError("a linkage must not use the model that is asking it; give it a copy of what it needs")


# By class: looking the names up takes longer than to insert a point.
_parameters: dict[type, list[str]] = {}


def parameters_of(estimator: type[BaseEstimator]) -> list[str]:
    """The names of the parameters of an estimator."""
    if estimator not in _parameters:
        _parameters[estimator] = estimator._get_param_names()
    return _parameters[estimator]


class Prepared(NamedTuple):
    """A fit before anything is stored: the points as the builder takes them, how to make it, and the linkage."""

    rows: Any
    new_builder: Callable[[], Builder]
    linkage: VectorLinkage | Linkage


class TreeClusterer(Described, ClusterMixin, BaseEstimator):
    """Fits a cluster tree to points, and cuts it into flat clusters.

    A subclass says, in ``_validate``, how its parameters and its input are checked and what builds the tree.
    """

    n_clusters: int | None
    threshold: float | None
    # As it was before there was a choice, for models pickled then.
    cut: str = "height"
    layer: str | int = "auto"
    min_cluster_size: int = 1
    noise: bool = False
    verbose: bool | int
    shuffle: bool = False
    random_state: Any = None
    _first_default_metric = "cosine"
    """The default of average linkage as long as pickles and files did not say which it was."""
    _own_parts: tuple[str, ...] = ("linkage",)
    """The parameters that may be objects of the user's own."""
    # Parameters that may change while a tree grows; the others are what it is built by.
    _free: tuple[str, ...] = (*CUT_BY, "shuffle", "random_state", "verbose")

    def _validate(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted."""
        raise NotImplementedError

    # Fitting ------------------------------------------------------------------------------------------------------

    @locked
    def fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Build the tree of X from nothing. ``y`` is ignored; ``ids`` name the points, each once."""
        with self._unchanged_if_refused():
            rows, new_builder, linkage = self._validate(X, reset=True)
            names = check_ids(ids, count_rows(rows), (), None)
            advise_on_points(rows, linkage)
            advise_on_n_clusters(self.n_clusters, count_rows(rows))
            order = check_random_state(self.random_state).permutation(count_rows(rows)) if self.shuffle else None
            self._fitted = Fit(new_builder(), self._building())
            self._fitted.ids.extend(count_rows(rows), names, order)
            self._insert(rows if order is None else _taken(rows, order))
        if self.threshold is not None:
            advise_on_threshold(self.threshold, self._best_score(linkage), linkage)
        return self

    def _best_score(self, linkage: VectorLinkage | Linkage) -> float | None:
        """Return the best score in the tree; the best there can be if points are few, or scores may be dear."""
        if not isinstance(linkage, VectorLinkage) or self.n_leaves_ < MIN_POINTS:
            return getattr(linkage, "ceiling", None)
        return float(np.fmax.reduce(self._fitted.tree().scores))

    # What was found -----------------------------------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        return self._read(lambda fitted: fitted.tree())

    @property
    def labels_(self) -> npt.NDArray[np.int64]:
        return self._read(self._labels)

    @property
    def n_clusters_(self) -> int:
        """How many flat clusters there are in ``labels_``."""
        return int(self.labels_.max(initial=-1)) + 1

    @property
    def layers_(self) -> list[npt.NDArray[np.int64]]:
        """Flat clusters at each resolution that lasts, finest first; each holds the clusters of the finer ones whole.

        Whatever ``n_clusters`` or ``threshold`` say; the automatic cut is one of them.
        """

        def labels(fitted: Fit) -> list[npt.NDArray[np.int64]]:
            return [cuts.labels_of(fitted.tree(), layer.is_split, layer.becomes) for layer in self._layers(fitted)]

        return self._read(labels)

    @property
    def layer_persistence_(self) -> npt.NDArray[np.float64]:
        """How good each layer is, as a share of the best one: how long its clusters last and how far they are apart."""
        return self._read(lambda fitted: np.array([layer.persistence for layer in self._layers(fitted)]))

    @property
    def ids_(self) -> list[Any]:
        """The ids of the points, as they were given; positions if none were."""
        return self._read(lambda fitted: fitted.point_ids())

    @property
    def clusters_(self) -> list[list[Any]]:
        """The ids of the points of each flat cluster."""
        names, labels = self._read(lambda fitted: (fitted.point_ids(), self._labels(fitted)))
        clusters: list[list[Any]] = [[] for _ in range(int(labels.max(initial=-1)) + 1)]
        for name, label in zip(names, labels.tolist(), strict=True):
            if label >= 0:
                clusters[label].append(name)
        return clusters

    @property
    def stats_(self) -> dict[str, int]:
        return self._read(lambda fitted: dict(fitted.stats))

    @property
    def n_leaves_(self) -> int:
        """How many points are in the tree."""
        return self._read(lambda fitted: fitted.n_leaves)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all; :func:`grinch.load` opens it, and it goes on where it was.

        A linkage or search of your own is saved by its name, ``module:name``; one without a name (a lambda, a function
        within another) has to be handed in again when the file is opened. See docs/saving.md.

        >>> import grinch, tempfile
        >>> path = tempfile.mkdtemp() + "/model.grinch"
        >>> grinch.Grinch(n_clusters=2).fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]]).save(path)
        >>> grinch.load(path).partial_fit([[3, 0.2]]).labels_.tolist()
        [0, 1, 0, 1, 0]
        """
        # Nobody changes the model meanwhile.
        with lock_of(self):
            saved.save(self, path)

    def to_state(self) -> State:
        """Return what a file holds of the model. Arrays are its own: they change when the model does."""
        with lock_of(self):
            refuse_linkage(self)
            now = {name: getattr(self, name) for name in parameters_of(type(self))}
            found = {
                "class": type(self).__name__,
                "parameters": saved.parameters_to_state(now),
                "n_features": self.__dict__.get("n_features_in_"),
                "feature_names": None,
                "fitted": None,
            }
            if "feature_names_in_" in self.__dict__:
                found["feature_names"] = [str(name) for name in self.feature_names_in_]
            if "_fitted" in self.__dict__:
                begun = saved.parameters_to_state(self._fitted.parameters, now)
                found["fitted"] = {"parameters": begun, **self._fitted.to_state()}
            return found

    @classmethod
    def from_state(cls, state: Any, *, linkage: Any = None, search: Any = None) -> Self:
        """Return the model of a state, which uses its arrays; ``linkage`` and ``search`` are those to hand in."""
        names = parameters_of(cls)
        for what, value in (("linkage", linkage), ("search", search)):
            if value is not None and what not in cls._own_parts:
                raise ValueError(f"{what} is for models that take one of your own; the saved model is a {cls.__name__}")
        given = {"linkage": linkage, "search": search}
        model = cls(**saved.parameters_from_state(item(state, "parameters"), names, given))
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
            now = {name: getattr(model, name) for name in names}
            begun = saved.parameters_from_state(item(fitted, "parameters"), list(model._building()), given, now)
            model._fitted = Fit.from_state(fitted, cls._builder_from_state(item(fitted, "builder"), begun), begun)
        return model

    @classmethod
    def _builder_from_state(cls, state: Any, parameters: dict[str, Any]) -> Builder:
        """Return what builds the tree, begun with these parameters, from its state."""
        raise NotImplementedError

    def validate(self) -> None:
        """Refuse a model whose state makes no sense; the work is in proportion to its points."""
        if "_fitted" in self.__dict__:
            self._validate_builder(self._fitted.builder)
            self._fitted.validate(self.__dict__.get("n_features_in_"))

    def _validate_builder(self, builder: Any) -> None:
        builder.validate()

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
        """Look at the tree in a page: inline in a notebook, or ``.open()`` in the browser.

        Parameters
        ----------
        texts : sequence or mapping, optional
            A text for each point, in the order they arrived; or by their ids.
        labels : sequence, optional
            The true class of each point.
        payload : sequence of dicts or DataFrame, optional
            Whatever is to be shown of each point, instead of ``texts``.
        images : path, optional
            The folder below which image files are read.
        text, image, label, x, y : str, optional
            The fields of the payload that are the text, an image (a URL, or a file below ``images``), the true class,
            and the place on the map. The first three are found by themselves where they have usual names.
        height : int
            Height in a notebook, in pixels.

        Returns
        -------
        Explorer
            With ``url``, ``open()``, ``save("page.html")`` and ``close()``. See docs/explorer.md.
        """
        return import_module("grinch.serve.notebook").explore(
            self,
            texts=texts,
            labels=labels,
            payload=payload,
            images=images,
            height=height,
            fields={"text": text, "image": image, "label": label, "x": x, "y": y},
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but the lock; where other threads could go on, a copy, which they do not change."""
        with lock_of(self):
            state = {name: value for name, value in super().__getstate__().items() if name != "_lock"}
            state["_default_metric"] = metric_in_full("average")
            if "_fitted" in state and threading.active_count() > 1:
                state["_fitted"] = copy.deepcopy(state["_fitted"])
            return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be what was pickled; without a metric, average linkage compares as it did by default at that time."""
        by_default = state.get("_default_metric", self._first_default_metric)
        super().__setstate__({name: value for name, value in state.items() if name != "_default_metric"})
        if by_default == metric_in_full("average"):
            return
        for parameters in (self.__dict__, self._fitted.parameters if "_fitted" in state else {}):
            if is_average(parameters.get("linkage")) and parameters["metric"] is None:
                parameters["metric"] = by_default

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Within -------------------------------------------------------------------------------------------------------

    def _read(self, ask: Callable[[Fit], Found]) -> Found:
        """Return what is found in the fit, while no other thread uses it."""
        with lock_of(self):
            refuse_linkage(self)
            return ask(self._check_fitted())

    def _face(self) -> Self:
        """Return the estimator without what it has fitted, to check input by."""
        face = object.__new__(type(self))
        face.__dict__.update((name, value) for name, value in self.__dict__.items() if name not in ("_fitted", "_lock"))
        return face

    def _check_fitted(self) -> Fit:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit or partial_fit first")
        return self._fitted

    def _building(self) -> dict[str, Any]:
        """The parameters that a tree is built by; the others may change at any time."""
        return {name: getattr(self, name) for name in parameters_of(type(self)) if name not in self._free}

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        """What was known of a fit before stays, unless points were inserted into a new tree."""
        names = ("_fitted", "n_features_in_", "feature_names_in_")
        before = {name: self.__dict__[name] for name in names if name in self.__dict__}
        try:
            yield
        except BaseException:
            new = self.__dict__.get("_fitted")
            if new is before.get("_fitted") or new is None or new.builder.n_leaves == 0:
                for name in names:
                    self.__dict__.pop(name, None)
                self.__dict__.update(before)
            raise

    def _rows_for(self, linkage: VectorLinkage | Linkage, X: Any, reset: bool, stays_sparse: bool = False) -> Any:
        """X as a linkage takes it: rows of numbers for those on vectors, a list of records for others."""
        if isinstance(linkage, VectorLinkage):
            rows = check_vectors(self, X, reset, stays_sparse)
            if linkage.is_of_roots:
                check_not_negative(rows, linkage.metric)
            return rows
        given = getattr(self, "linkage")  # noqa: B009
        return dense_rows(check_vectors(self, X, reset)) if isinstance(given, str) else check_records(X, given)

    def _insert(self, rows: Any) -> None:
        with self._progress("inserting", count_rows(rows)) as advance:
            try:
                self._fitted.builder.insert(rows, advance)
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
        """Raise what a linkage did wrong, with each point by its id."""
        ids = self._fitted.ids
        if ids.names is None:
            error.groups = [[ids.name_of(slot) for slot in group] for group in error.groups]
            raise error
        raise ValueError(error.message(ids.name_of)) from error

    def _labels(self, fitted: Fit) -> npt.NDArray[np.int64]:
        cut = self._live_cut(fitted)
        return self._node_labels(fitted)[: fitted.n_leaves].copy() if cut is None else fitted.labels(cut)

    def _choice(self) -> Choice:
        """How the tree is to be cut, if the parameters that say so are accepted."""
        return Choice(**{name: getattr(self, name) for name in CUT_BY})

    def _live_cut(self, fitted: Fit) -> LiveCut | None:
        """The cut that follows the tree, for a cut that the tree alone decides, where the builder keeps one."""
        choice, tree = self._choice(), growing_tree(fitted)
        if tree is None or not LiveCut.can_follow(tree, choice):
            return None
        return fitted.live_cut(tree, choice)

    def _node_labels(self, fitted: Fit) -> npt.NDArray[np.int64]:
        choice = self._choice()

        def found(tree: Tree) -> npt.NDArray[np.int64]:
            return cuts.flat_labels(
                choice, tree, lambda: self._automatic(fitted), lambda: rows_of(fitted), partial(self._splits, fitted)
            )

        return fitted.node_labels((choice, *self._cut_besides()), found)

    def _layers(self, fitted: Fit) -> list[cuts.Layer]:
        return self._automatic(fitted).joined(rows_of(fitted), self._choice().min_cluster_size)

    def _automatic(self, fitted: Fit) -> cuts.AutomaticCut:
        return fitted.automatic(automatic_cut_of)

    def _cut_besides(self) -> tuple[Any, ...]:
        """What a cut depends on besides its :class:`Choice`."""
        return ()

    def _splits(self, fitted: Fit, tree: Tree, n_clusters: int) -> Mask:
        """Where the cut by height into this many clusters goes through the tree."""
        return cuts.splits_n_clusters(tree, n_clusters)


class IncrementalClusterer(TreeClusterer):
    """A clusterer whose tree grows as points arrive."""

    @locked
    def partial_fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Insert the points of X into the tree there is. ``y`` is ignored; ``ids`` name the points, each once."""
        first = not self.__sklearn_is_fitted__()
        with self._unchanged_if_refused():
            rows, new_builder, linkage = self._validate(X, reset=first)
            known: Container[Any] = () if ids is None or first else self._fitted.slot_of()
            names = check_ids(ids, count_rows(rows), known, None if first else self._fitted.is_named())
            if first:
                advise_on_points(rows, linkage)
                advise_on_threshold(self.threshold, getattr(linkage, "ceiling", None), linkage)
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


def _taken(rows: Any, order: npt.NDArray[np.int64]) -> Any:
    return rows[order] if hasattr(rows, "shape") else [rows[i] for i in order]
