"""What all estimators share: one way to fit, one tree, one set of fitted names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any, NamedTuple, NoReturn, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from grinch import cuts
from grinch._types import Advance, count_rows
from grinch.cuts.flat import Mask
from grinch.errors import LinkageError
from grinch.estimators.builder import Builder
from grinch.estimators.checks import check_ids, check_records, check_vectors
from grinch.estimators.fit import Fit
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.summaries.vectors import dense_rows
from grinch.tree import Tree
from grinch.tree.live_cut import LiveCut

DEFAULT_N_CLUSTERS = 8

Method = TypeVar("Method", bound=Callable[..., Any])


def one_at_a_time(method: Method) -> Method:
    """A method of an estimator that waits until no other thread is in one, and that a linkage must not call."""

    @wraps(method)
    def waiting(self: Any, *arguments: Any, **keywords: Any) -> Any:
        # Set once, whoever comes first.
        with self.__dict__.setdefault("_lock", threading.RLock()):
            fitted = self.__dict__.get("_fitted")
            if fitted is not None and getattr(fitted.builder, "is_busy", False):
                raise RuntimeError(
                    "a linkage must not use the model that is asking it; give it a copy of what it needs"
                )
            return method(self, *arguments, **keywords)

    return cast(Method, waiting)


class Prepared(NamedTuple):
    """A fit before anything is stored: the points as the builder takes them, and how to make the builder."""

    rows: Any
    new_builder: Callable[[], Builder]


class TreeClusterer(ClusterMixin, BaseEstimator):
    """Fits a cluster tree to points, and cuts it into flat clusters.

    A subclass says, in ``_validate``, how its parameters and its input are checked and what builds the tree.
    """

    n_clusters: int | None
    threshold: float | None
    verbose: bool | int
    shuffle: bool = False
    random_state: Any = None
    # Parameters that may change while a tree grows; the others are what it is built by.
    _free: tuple[str, ...] = ("n_clusters", "threshold", "shuffle", "random_state", "verbose")

    def _validate(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted."""
        raise NotImplementedError

    # Fitting ------------------------------------------------------------------------------------------------------

    @one_at_a_time
    def fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Build the tree of X from nothing. ``y`` is ignored; ``ids`` name the points, each once."""
        with self._unchanged_if_refused():
            rows, new_builder = self._validate(X, reset=True)
            names = check_ids(ids, count_rows(rows), (), None)
            order = check_random_state(self.random_state).permutation(count_rows(rows)) if self.shuffle else None
            self._fitted = Fit(new_builder(), self._building())
            self._fitted.ids.extend(count_rows(rows), names, order)
            self._insert(rows if order is None else _taken(rows, order))
        return self

    # What was found -----------------------------------------------------------------------------------------------

    @property
    @one_at_a_time
    def tree_(self) -> Tree:
        return self._check_fitted().tree()

    @property
    @one_at_a_time
    def labels_(self) -> npt.NDArray[np.int64]:
        fitted, cut = self._check_fitted(), self._live_cut()
        return self._node_labels()[: self.n_leaves_].copy() if cut is None else fitted.labels(cut)

    @property
    @one_at_a_time
    def ids_(self) -> list[Any]:
        """The ids of the points, as they were given; positions if none were."""
        return self._check_fitted().point_ids()

    @property
    @one_at_a_time
    def clusters_(self) -> list[list[Any]]:
        """The ids of the points of each flat cluster."""
        clusters: list[list[Any]] = [[] for _ in range(int(self.labels_.max(initial=-1)) + 1)]
        for name, label in zip(self.ids_, self.labels_.tolist(), strict=True):
            clusters[label].append(name)
        return clusters

    @property
    @one_at_a_time
    def stats_(self) -> dict[str, int]:
        return self._check_fitted().builder.stats

    @property
    @one_at_a_time
    def n_leaves_(self) -> int:
        """How many points are in the tree."""
        return self._check_fitted().builder.n_leaves

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_lock"}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Within -------------------------------------------------------------------------------------------------------

    def _check_fitted(self) -> Fit:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet; call fit or partial_fit first")
        return self._fitted

    def _building(self) -> dict[str, Any]:
        """The parameters that a tree is built by; the others may change at any time."""
        return {name: value for name, value in self.get_params(deep=False).items() if name not in self._free}

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

    def _rows_for(self, linkage: VectorLinkage | Linkage, X: Any, reset: bool) -> Any:
        """X as a linkage takes it: rows of numbers for those on vectors, a list of records for others."""
        if isinstance(linkage, VectorLinkage):
            return check_vectors(self, X, reset)
        given = self.get_params(deep=False)["linkage"]
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

    def _live_cut(self) -> LiveCut | None:
        """The cut that follows the tree, for the plain cut into a number of clusters, where the builder keeps one."""
        fitted, n_clusters = self._check_fitted(), self.n_clusters
        cuts.check_cut(n_clusters, self.threshold)
        if self.threshold is not None:
            return None
        return fitted.live_cut(DEFAULT_N_CLUSTERS if n_clusters is None else n_clusters)

    def _node_labels(self) -> npt.NDArray[np.int64]:
        fitted, n_clusters = self._check_fitted(), self.n_clusters
        cuts.check_cut(n_clusters, self.threshold)
        if self.threshold is not None:
            threshold = self.threshold
            return fitted.node_labels(("threshold", threshold), lambda tree: cuts.splits_threshold(tree, threshold))
        k = DEFAULT_N_CLUSTERS if n_clusters is None else n_clusters
        return fitted.node_labels(self._cut_named(k), lambda tree: self._splits(tree, k))

    def _cut_named(self, n_clusters: int) -> tuple[Any, ...]:
        """What a cut into this many clusters depends on."""
        return (n_clusters,)

    def _splits(self, tree: Tree, n_clusters: int) -> Mask:
        """Where the cut into this many clusters goes through the tree."""
        return cuts.splits_n_clusters(tree, n_clusters)


class IncrementalClusterer(TreeClusterer):
    """A clusterer whose tree grows as points arrive."""

    @one_at_a_time
    def partial_fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Insert the points of X into the tree there is. ``y`` is ignored; ``ids`` name the points, each once."""
        first = not self.__sklearn_is_fitted__()
        with self._unchanged_if_refused():
            rows, new_builder = self._validate(X, reset=first)
            known: Container[Any] = () if ids is None or first else self._fitted.slot_of()
            names = check_ids(ids, count_rows(rows), known, None if first else self._fitted.is_named())
            if first:
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
