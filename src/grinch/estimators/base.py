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
from grinch._types import Advance, count_rows
from grinch.cuts.choice import Choice
from grinch.cuts.flat import Mask
from grinch.cuts.tracking import LiveCut
from grinch.errors import LinkageError
from grinch.estimators.advice import MIN_POINTS, advise_on_n_clusters, advise_on_points, advise_on_threshold
from grinch.estimators.automatic import automatic_cut_of, growing_tree, rows_of
from grinch.estimators.builder import Builder
from grinch.estimators.checks import check_ids, check_not_negative, check_records, check_vectors
from grinch.estimators.described import Described
from grinch.estimators.fit import Fit
from grinch.estimators.shown import NOT_FITTED, NotShown, Shown
from grinch.estimators.turns import Turns
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.named import is_average, metric_in_full
from grinch.summaries.vectors import dense_rows
from grinch.tree import Tree

# The parameters that say how a tree is cut.
CUT_BY = tuple(field.name for field in fields(Choice))
# What of an estimator is not needed to check input.
UNSEEN = ("_fitted", "_turns")

Method = TypeVar("Method", bound=Callable[..., Any])
Found = TypeVar("Found")
Seen = Fit | Shown
"""What a reader looks at: the fit itself, or beside a writer what was there before."""


def writing(method: Method) -> Method:
    """A method that changes an estimator: it waits until no other thread is in one, and a linkage must not call it."""

    @wraps(method)
    def alone(self: Any, *arguments: Any, **keywords: Any) -> Any:
        turns = turns_of(self)
        if turns.is_mine():
            refuse_linkage(self)
            return method(self, *arguments, **keywords)

        def change() -> Any:
            if "_fitted" not in self.__dict__:
                turns.show_not_fitted()
            return method(self, *arguments, **keywords)

        return turns.write(change)

    return cast(Method, alone)


def turns_of(estimator: Any) -> Turns:
    turns: Turns | None = estimator.__dict__.get("_turns")
    # Set once, whoever comes first.
    return estimator.__dict__.setdefault("_turns", Turns()) if turns is None else turns


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
    # Parameters that may change while a tree grows; the others are what it is built by.
    _free: tuple[str, ...] = (*CUT_BY, "shuffle", "random_state", "verbose")

    def _validate(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted."""
        raise NotImplementedError

    # Fitting ------------------------------------------------------------------------------------------------------

    @writing
    def fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Build the tree of X from nothing. ``y`` is ignored; ``ids`` name the points, each once."""
        face = self._face()
        with self._unchanged_if_refused():
            rows, new_builder, linkage = self._validate(X, reset=True)
            names = check_ids(ids, count_rows(rows), (), None)
            advise_on_points(rows, linkage)
            advise_on_n_clusters(self.n_clusters, count_rows(rows))
            order = check_random_state(self.random_state).permutation(count_rows(rows)) if self.shuffle else None
            self._begin(count_rows(rows), is_growing=True, face=face)
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
        return self._read(lambda seen: seen.tree())

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

        def labels(seen: Seen) -> list[npt.NDArray[np.int64]]:
            return [cuts.labels_of(seen.tree(), layer.is_split, layer.becomes) for layer in self._layers(seen)]

        return self._read(labels)

    @property
    def layer_persistence_(self) -> npt.NDArray[np.float64]:
        """How good each layer is, as a share of the best one: how long its clusters last and how far they are apart."""
        return self._read(lambda seen: np.array([layer.persistence for layer in self._layers(seen)]))

    @property
    def ids_(self) -> list[Any]:
        """The ids of the points, as they were given; positions if none were."""
        return self._read(lambda seen: seen.point_ids())

    @property
    def clusters_(self) -> list[list[Any]]:
        """The ids of the points of each flat cluster."""
        names, labels = self._read(lambda seen: (seen.point_ids(), self._labels(seen)))
        clusters: list[list[Any]] = [[] for _ in range(int(labels.max(initial=-1)) + 1)]
        for name, label in zip(names, labels.tolist(), strict=True):
            if label >= 0:
                clusters[label].append(name)
        return clusters

    @property
    def stats_(self) -> dict[str, int]:
        return self._read(lambda seen: dict(seen.stats))

    @property
    def n_leaves_(self) -> int:
        """How many points are in the tree."""
        return self._read(lambda seen: seen.n_leaves)

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
        # By name, for what saves models knows them, and not the other way round.
        import_module("grinch.saving.file").save(self, path)

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
        """Everything but who is using it; where other threads could go on, a copy, which they do not change."""
        state_of = super().__getstate__

        def state() -> dict[str, Any]:
            found = {name: value for name, value in state_of().items() if name != "_turns"}
            found["_default_metric"] = metric_in_full("average")
            if "_fitted" in found and threading.active_count() > 1:
                found["_fitted"] = copy.deepcopy(found["_fitted"])
            return found

        return turns_of(self).read(state, lambda shown: None)

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

    def _read(self, live: Callable[[Any], Found], beside: Callable[[Shown], Found | None] | None = None) -> Found:
        """What is found in the fit, or beside a writer in what it shows (by default in the same way)."""

        def inside() -> Found:
            refuse_linkage(self)
            return live(self._check_fitted())

        def look(shown: Shown) -> Found | None:
            if shown is NOT_FITTED:
                raise self._not_fitted()
            try:
                return (beside or live)(shown)
            except NotShown:
                return None

        return turns_of(self).read(inside, look)

    def _begin(self, count: int, is_growing: bool = False, face: Self | None = None) -> None:
        """As many points are about to be changed; let readers see what there is if that takes long.

        ``is_growing``: none of them is taken out. ``face`` is the estimator as it was, if it has changed by now.
        """

        def show() -> Shown | None:
            try:
                return self._fitted.show(face or self._face(), is_growing)
            except LinkageError:  # it is asked again by whoever reads
                return None

        turns_of(self).begin(count, show)

    def _face(self) -> Self:
        """The estimator without what it has fitted."""
        face = object.__new__(type(self))
        face.__dict__.update((name, value) for name, value in self.__dict__.items() if name not in UNSEEN)
        return face

    def _check_fitted(self) -> Fit:
        if not self.__sklearn_is_fitted__():
            raise self._not_fitted()
        return self._fitted

    def _not_fitted(self) -> NotFittedError:
        return NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit or partial_fit first")

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
        from grinch.progress.bar import progress_bar

        return progress_bar(what, total)

    def _raise_with_ids(self, error: LinkageError) -> NoReturn:
        """Raise what a linkage did wrong, with each point by its id."""
        ids = self._fitted.ids
        if ids.names is None:
            error.groups = [[ids.name_of(slot) for slot in group] for group in error.groups]
            raise error
        raise ValueError(error.message(ids.name_of)) from error

    def _labels(self, seen: Seen) -> npt.NDArray[np.int64]:
        cut = self._live_cut(seen)
        return self._node_labels(seen)[: seen.n_leaves].copy() if cut is None else cast(Fit, seen).labels(cut)

    def _choice(self) -> Choice:
        """How the tree is to be cut, if the parameters that say so are accepted."""
        return Choice(**{name: getattr(self, name) for name in CUT_BY})

    def _live_cut(self, seen: Seen) -> LiveCut | None:
        """The cut that follows the tree, for a cut that the tree alone decides, where the builder keeps one."""
        choice, tree = self._choice(), growing_tree(seen) if isinstance(seen, Fit) else None
        if tree is None or not LiveCut.can_follow(tree, choice):
            return None
        return cast(Fit, seen).live_cut(tree, choice)

    def _node_labels(self, seen: Seen) -> npt.NDArray[np.int64]:
        choice = self._choice()

        def found(tree: Tree) -> npt.NDArray[np.int64]:
            return cuts.flat_labels(
                choice, tree, lambda: self._automatic(seen), lambda: rows_of(seen), partial(self._splits, seen)
            )

        return seen.node_labels((choice, *self._cut_besides()), found)

    def _layers(self, seen: Seen) -> list[cuts.Layer]:
        return self._automatic(seen).joined(rows_of(seen), self._choice().min_cluster_size)

    def _automatic(self, seen: Seen) -> cuts.AutomaticCut:
        return seen.automatic(automatic_cut_of)

    def _cut_besides(self) -> tuple[Any, ...]:
        """What a cut depends on besides its :class:`Choice`."""
        return ()

    def _splits(self, seen: Seen, tree: Tree, n_clusters: int) -> Mask:
        """Where the cut by height into this many clusters goes through the tree."""
        return cuts.splits_n_clusters(tree, n_clusters)


class IncrementalClusterer(TreeClusterer):
    """A clusterer whose tree grows as points arrive."""

    @writing
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
            self._begin(count_rows(rows), is_growing=True)
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
