"""Grinch, and the same engine with moves turned off: Rotate and Online."""

from __future__ import annotations

import operator
import time
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import check_count, check_flag, check_name, count_rows
from grinch._interrupts import uninterrupted
from grinch._types import Slots
from grinch.core.engine import Engine
from grinch.core.rules import ONLINE, ROTATE, Rules, rules_of
from grinch.core.view import Places
from grinch.cuts.tracking import GrowingTree
from grinch.errors import LinkageError
from grinch.estimators.checks import check_ids, check_known_ids, hinting_at_columns, placing, with_columns
from grinch.estimators.fit import Fit
from grinch.estimators.tree_clusterer import IncrementalClusterer, Prepared, locked, parameters_of
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage, linkage_of
from grinch.linkage.pairwise import Pairwise
from grinch.neighbors import ByVector, check_search
from grinch.refine.neighbor_cost import Polisher
from grinch.refine.passes import POINTS, Refinement, Refiner
from grinch.saving.state import item
from grinch.summaries import SparseSummaries
from grinch.tree import NONE, Tree


class Checked(NamedTuple):
    """Parameters that were accepted, with the linkage, the rules and the number of neighbours that they mean."""

    given: list[Any]
    linkage: VectorLinkage | Linkage
    rules: Rules
    n_neighbors: int


@dataclass(eq=False, repr=False)
class Grinch(IncrementalClusterer):
    """Incremental hierarchical clustering under any linkage function.

    Points are inserted one by one into a binary cluster tree that repairs itself as they arrive, by rotating, grafting
    and restructuring (Monath, Kobren et al., KDD 2019). The same points in the same order give the same tree, in
    batches of any size.

    Parameters
    ----------
    linkage : str, Linkage or callable, default="average"
        The similarity of two groups of points: ``"average"``, ``"cosine"`` (the cosine of the summed vectors),
        ``"centroid"``, ``"ward"``, ``"tanimoto"`` (of the mean vectors: for fingerprints and other sets), ``"single"``
        or ``"complete"``; any function ``f(a, b)`` of two lists of records, higher for closer; an object with ``leaf``,
        ``merge`` and ``score`` (see :mod:`grinch.linkage`); or a function that ``numba.njit`` compiled, of two
        :class:`~grinch.linkage.VectorGroup`.
    metric : str, optional
        For ``"average"``: ``"sqeuclidean"`` (default), ``"cosine"`` (only directions count; on rows of length 1 it is
        the same linkage), ``"dot"``, ``"hellinger"`` (for counts: the cosine of their square roots), or a distance that
        scipy knows; for ``"single"`` and ``"complete"`` a distance that scipy knows (default ``"euclidean"``); for a
        compiled linkage, the metric of the neighbour search (default ``"cosine"``).
    mode : {"fast", "paper", "authors", "exact"} or Rules, default="fast"
        The moves and their reach: ``"fast"`` for everyday use, ``"paper"`` with the settings of the paper's large
        experiments, ``"authors"`` with those of its authors' script, ``"exact"`` without approximation, which carries
        the paper's guarantee; or rules of your own, such as ``Rules.fast(cap=100)`` (:class:`~grinch.Rules`).
    n_clusters : int, optional
        Cut the tree into this many flat clusters instead of the automatic cut.
    threshold : float, optional
        Cut the tree from the top at the first nodes whose children score at least this under the linkage.
    cut : {"sizeable", "height"}, default="sizeable"
        The splits that ``n_clusters`` takes: those that are high and have many points on both sides, where an outlier
        joins the branch that it left; or strictly the highest, where every outlier is a cluster.
    layer : {"auto", "fine", "coarse"} or int, default="auto"
        The layer of ``layers_`` that the automatic cut takes: the best, the finest, the coarsest, or a number from 0,
        the finest.
    min_cluster_size : int, default=1
        The smallest size of a cluster. Smaller groups join the nearest cluster of their branch or, with ``noise``, are
        labelled -1.
    noise : bool, default=False
        Label points that belong nowhere -1: those alone in their cluster, those with less than a quarter of their
        neighbours in it, and those much farther from their neighbours than is usual in it.
    search : {"auto", "exact", "index", "nsw"}, source or list of sources, default="auto"
        The search for neighbours: exact (by matrix products for vectors, otherwise by scoring every point), or
        approximate: by an index of cells for vectors, or by a navigable small world (``"nsw"``), a graph that needs
        only the linkage. ``"auto"`` is exact up to 16,384 vectors and continues with the index; under a linkage of your
        own it is exact up to 2,000 records and continues with the graph. For such a linkage,
        :class:`~grinch.neighbors.ByVector`, :class:`~grinch.neighbors.ByKey`, or a list of them, propose candidates.
    n_neighbors : int, optional
        Number of neighbours searched for each point; grafts choose among them. By default 25, and 50 in the paper's
        and the authors' mode.
    refine_passes : int, default=0
        Passes of :meth:`refine` at the end of ``fit`` (``partial_fit`` adds none).
    check_linkage : bool, default=False
        Call a linkage written in Python both ways, and raise an error if f(a, b) differs from f(b, a). For testing a
        new linkage; it doubles the cost.
    shuffle : bool, default=False
        Let ``fit`` insert the points in random order, for data sorted by class. Leaf ``i`` is still row ``i``.
    random_state : int, RandomState or None, default=None
        The order of ``shuffle``; nothing else is random.
    verbose : bool or int, default=False
        Show a progress bar with rate and time left.

    Attributes
    ----------
    tree_ : Tree
        The cluster tree; leaf ``i`` is the ``i``-th point. It is a copy that later points do not change.
    labels_ : ndarray of shape (n_points,)
        Flat clusters, from 0, in the order in which their first points arrived: those of the automatic cut, unless
        ``n_clusters`` or ``threshold`` is given.
    n_clusters_ : int
        The number of flat clusters.
    layers_ : list of ndarrays
        The flat clusters of all resolutions that persist, finest first, each within the next.
    layer_persistence_ : ndarray
        The quality of each layer as a share of the best, from 0 to 1.
    ids_ : list
        The ids given with the points, or their positions.
    clusters_ : list of lists
        The ids of the points of each flat cluster.
    refinements_ : list of Refinement
        The work and the gain of each call of :meth:`refine`.
    stats_ : dict
        Counts of rotations, pulls, grafts tried and made, restructurings, swaps, scores and merges.
    n_features_in_ : int
        Number of features (for vectors).

    Examples
    --------
    >>> import numpy as np
    >>> from grinch import Grinch
    >>> X = np.array([[1, 0], [0, 9], [2, 0.1], [0.1, 8]])
    >>> model = Grinch(n_clusters=2).fit(X)
    >>> model.labels_.tolist()
    [0, 1, 0, 1]
    >>> model.partial_fit([[3, 0.2]]).labels_.tolist()
    [0, 1, 0, 1, 0]
    >>> model.tree_
    <Tree with 5 leaves>

    Any function of two lists of records is a linkage:

    >>> def common_letters(a, b):
    ...     a, b = set("".join(a)), set("".join(b))
    ...     return len(a & b) / len(a | b)
    >>> Grinch(linkage=common_letters, n_clusters=2).fit_predict(["abc", "xyz", "bcd", "yzw"]).tolist()
    [0, 1, 0, 1]
    """

    linkage: Any = "average"
    _: KW_ONLY
    metric: str | None = None
    mode: str | Rules = "fast"
    cut: str = "sizeable"
    search: Any = "auto"
    n_neighbors: int | None = None
    refine_passes: int = 0
    check_linkage: bool = False

    _own_parts = ("linkage", "search")

    @locked
    def fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Build the tree of X. ``y`` is ignored; ``ids`` are unique names of the points."""
        super().fit(X, y, ids=ids)
        return self.refine(self.refine_passes) if self.refine_passes else self

    @locked
    def fit_tree(self, X: Any, tree: Tree, *, ids: Any = None) -> Self:
        """Start from an existing tree of the points of X, from any source; ``partial_fit`` continues from there.

        Leaf ``i`` of the tree is row ``i``. The tree is unchanged, except that its scores become those of the linkage.

        >>> from scipy.cluster.hierarchy import linkage
        >>> X = [[1, 0], [0, 9], [2, 0.1], [0.1, 8]]
        >>> model = Grinch(n_clusters=2).fit_tree(X, Tree.from_scipy(linkage(X)))
        >>> model.partial_fit([[3, 0.2]]).n_leaves_
        5
        """
        with self._unchanged_if_refused():
            rows, new_builder, _ = self.prepare(X, reset=True)
            if not isinstance(tree, Tree) or tree.n_leaves != count_rows(rows):
                raise ValueError(
                    f"tree must be a grinch.Tree with a leaf for each of the {count_rows(rows)} rows of X; got {tree!r}"
                )
            names = check_ids(ids, count_rows(rows), (), None)
            engine = new_builder()
            assert isinstance(engine, Engine)
            engine.adopt(rows, tree)
            self._fitted = Fit(engine, self._building())
            self._fitted.ids.extend(count_rows(rows), names)
        return self

    @locked
    def partial_fit(self, X: Any, y: Any = None, *, ids: Any = None, new_columns: bool = False) -> Self:
        """Insert the points of X into the current tree. ``y`` is ignored; ``ids`` are unique names of the points.

        With ``new_columns``, a sparse X may have more columns than the points in the tree, whose columns are the first
        ones and which are 0 in the others; or fewer, in which case its points are 0 in the last ones.

        >>> from scipy.sparse import csr_matrix
        >>> model = Grinch(n_clusters=2).fit(csr_matrix([[1, 0], [0, 1], [2, 0]]))
        >>> model.partial_fit(csr_matrix([[0, 1, 1]]), new_columns=True).labels_.tolist()
        [0, 1, 0, 1]
        """
        check_flag("new_columns", new_columns)
        if new_columns and self.__sklearn_is_fitted__():
            X = self.with_new_columns(X)
        if not new_columns or not self._keeps_sparse():
            return super().partial_fit(X, y, ids=ids)
        summaries, before = self.engine().summaries, vars(self)["n_features_in_"]
        self.n_features_in_ = max(before, getattr(X, "shape", (0, 0))[-1])
        try:
            return super().partial_fit(X, y, ids=ids)
        finally:
            # Refused, or interrupted: as many as there are points with.
            self.n_features_in_ = max(before, getattr(summaries, "n_features", 0))

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return the cluster that each point would join, without inserting it.

        A point joins the cluster of the place where it would be attached. With a ``threshold``, a point that fits no
        cluster gets -1.
        """
        with placing():
            return self.read_fit(lambda fitted: self._predict(fitted, X))

    def _predict(self, fitted: Fit, X: Any) -> npt.NDArray[np.int64]:
        engine, rows = self.engine(), self.prepare(X, reset=False).rows
        if engine.n_leaves == 0:
            return np.full(count_rows(rows), -1, dtype=np.int64)
        places, cut = engine.place(rows), fitted.live_cut(self._choice())
        if cut is not None:
            return _joined(cut.labels_of(places.sibling), cut.labels_of(places.nearest))
        nodes = [fitted.public_ids(engine.numbered(found)) for found in (places.nearest, places.sibling)]
        return self._labels_at(fitted, places, *nodes)

    def _labels_at(self, fitted: Fit, places: Places, nearest: Slots, sibling: Slots) -> npt.NDArray[np.int64]:
        """Return the clusters of places, given by the ids of the tree handed out."""
        labels = self._node_labels(fitted)
        found = labels[sibling]
        if self.threshold is None:
            return _joined(found, np.where(places.nearest == NONE, -1, labels[nearest]))
        parents = fitted.tree().parents()[sibling]
        is_whole_cluster = (found >= 0) & ((parents == NONE) | (labels[parents] < 0))
        return np.where(is_whole_cluster & (places.score < self.threshold), -1, found)

    @locked
    def remove(self, ids: Any) -> Self:
        """Remove points from the tree by their ids, and repair the places they leave.

        ``ids`` are values of ``ids_``: the ids given with the points, or their positions. The remaining points keep
        theirs, and no position is reused. It costs about as much as inserting as many points.

        >>> model = Grinch(n_clusters=2).fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]])
        >>> model.remove([1]).ids_
        [0, 2, 3]
        >>> model.labels_.tolist()
        [0, 0, 1]
        """
        fitted, engine = self.current_fit(), self.engine()
        slots = check_known_ids(ids, fitted.slot_of)
        self._take_out(fitted, engine, slots)
        return self

    @locked
    def update(self, ids: Any, X: Any) -> Self:
        """Replace points: row ``i`` of X becomes the point ``ids[i]``, which is placed again.

        >>> model = Grinch(n_clusters=2).fit([[1, 0], [0, 9], [2, 0.1], [0.1, 8]])
        >>> model.update([1], [[3, 0]]).labels_.tolist()
        [0, 0, 0, 1]
        """
        fitted, engine = self.current_fit(), self.engine()
        slots = check_known_ids(ids, fitted.slot_of)
        rows = self.prepare(X, reset=False).rows
        if count_rows(rows) != len(slots):
            raise ValueError(
                f"X must have a row for each of the {len(slots)} ids; got {count_rows(rows)}. Nothing was changed"
            )
        self._check_same_building()
        start = engine.n_slots
        # The new ones first: if one of them is refused, the old ones are all there still.
        fitted.ids.extend_like(slots)
        try:
            self._insert(rows)
        except BaseException:
            self._take_out(fitted, engine, np.arange(start, engine.n_slots), repair=False)
            raise
        try:
            self._take_out(fitted, engine, slots)
        except BaseException:
            left = np.array([slot for slot in slots.tolist() if engine.has(slot)], dtype=np.intp)
            self._take_out(fitted, engine, left, repair=False)
            raise
        return self

    @locked
    def refine(self, passes: int = 1, *, points: str = "all", budget_seconds: float | None = None) -> Self:
        """Improve the current tree: insert points again, now that all their neighbours are known.

        Each pass removes the points one by one and reinserts them beside the nearest of all points. Then nodes swap
        places with their aunts as long as that brings neighbours together and the linkage agrees (not with ``pull``, as
        in ``mode="exact"``, whose guarantee swaps would break, nor without grafts). A pass that does not help is
        undone, and is the last. ``refinements_`` reports the work and the gain. Ctrl-C leaves a valid tree of all
        points.

        Parameters
        ----------
        passes : int, default=1
            At most this many passes; the second gains much less than the first.
        points : {"all", "unsettled"}, default="all"
            ``"unsettled"``: those that hang highest first, without those whose sibling is a single point. For streams,
            together with ``budget_seconds``.
        budget_seconds : float, optional
            Stop after about this long.

        Examples
        --------
        >>> from grinch.datasets import gaussian_mixture
        >>> X, y = gaussian_mixture(300, n_classes=20)
        >>> report = Grinch().fit(X).refine().refinements_[-1]
        >>> report.reinserted, report.cost_after < report.cost_before
        (300, True)
        """
        fitted, engine = self.current_fit(), self.engine()
        check_count("passes", passes, 1)
        check_name("points", points, POINTS)
        if budget_seconds is not None and not (isinstance(budget_seconds, (int, float)) and budget_seconds > 0):
            raise ValueError(f"budget_seconds must be a number above 0, or None for no limit; got {budget_seconds!r}")
        if engine.n_leaves < 3:
            return self
        deadline = float("inf") if budget_seconds is None else time.perf_counter() + budget_seconds
        # A tree that carries the guarantee is not given what does not keep it.
        swaps = engine.rules.graft and not engine.rules.pull
        with self._progress("refining", passes * engine.n_leaves) as advance, self._settled(), engine.busy():
            try:
                fitted.refinements.append(Refiner(engine, deadline, swaps, advance).refine(passes, points))
            finally:
                engine.lose_moves()
        return self

    @property
    def refinements_(self) -> list[Refinement]:
        """The work and the gain of each call of ``refine`` since the tree was begun."""
        return self.read_fit(lambda fitted: list(fitted.refinements))

    # For other rooms of the package, in a thread that alone uses the model -------------------------------------------

    def engine(self) -> Engine:
        """Return the engine that builds the tree."""
        engine = self.current_fit().builder
        assert isinstance(engine, Engine)
        return engine

    def growing_tree(self) -> GrowingTree | None:
        """Return the tree under construction, for cuts that follow it; None before the first points."""
        return self._fitted.growing_tree() if self.__sklearn_is_fitted__() else None

    def places(self, X: Any) -> Places:
        """Return where points would be attached, by the nodes of the tree under construction, which has some points."""
        return self.engine().place(self.prepare(X, reset=False).rows)

    def with_new_columns(self, X: Any) -> Any:
        """Return X with at least as many columns as there are; refuses new ones unless rows are kept sparse."""
        known, width = getattr(self, "n_features_in_", 0), getattr(X, "shape", (0, 0))[-1]
        if self._keeps_sparse():
            return with_columns(X, max(known, width))
        if width > known:
            raise ValueError(
                f"new_columns needs a model that was begun with sparse rows; this one has dense rows of {known}"
                f" columns, and X has {width}. Start again with fit and a scipy.sparse matrix"
            )
        return X

    def close_gaps(self, at_once: bool = True) -> None:
        """Leave nothing in memory of points that were removed: at once, or when they are many."""
        with uninterrupted():
            kept = self.engine().compact(at_once)
            if kept is not None:
                self._fitted.ids.compact(kept)

    def prepare(self, X: Any, reset: bool) -> Prepared:
        """Check the parameters, then X; nothing changes before all of them are accepted."""
        _, linkage, rules, n_neighbors = self.checked_parameters(reset)
        with nullcontext() if reset or not self._keeps_sparse() else hinting_at_columns(X, self.n_features_in_):
            rows = self._rows_for(linkage, X, reset, stays_sparse=stays_sparse(linkage))

        def new_engine() -> Engine:
            return Engine(
                linkage,
                rules,
                search=self._candidates(linkage, rules, n_neighbors),
                n_neighbors=n_neighbors,
                n_features=rows.shape[1] if isinstance(linkage, VectorLinkage) else 0,
                check=bool(self.check_linkage),
                hook=Polisher() if rules.polish else None,
                is_sparse=stays_sparse(linkage) and scipy.sparse.issparse(rows),
            )

        return Prepared(rows, new_engine, linkage)

    def checked_parameters(self, reset: bool = True) -> Checked:
        """Check the parameters, unless they are those that were checked last for the current tree."""
        given = [getattr(self, name) for name in parameters_of(type(self))]
        fitted: Fit | None = None if reset else self.__dict__.get("_fitted")
        known: Checked | None = None if fitted is None else fitted.checked
        if known is not None and all(map(operator.is_, known.given, given)):
            return known
        linkage, rules = linkage_of(self.linkage, self.metric), rules_of(self.mode)
        check_search(self.search)
        n_neighbors = rules.n_candidates
        if self.n_neighbors is not None:
            n_neighbors = check_count("n_neighbors", self.n_neighbors, 1)
        check_count("refine_passes", self.refine_passes, 0)
        self._choice()
        checked = Checked(given, linkage, rules, n_neighbors)
        if fitted is not None:
            fitted.checked = checked
        return checked

    # Within -------------------------------------------------------------------------------------------------------

    def _take_out(self, fitted: Fit, engine: Engine, slots: npt.NDArray[np.intp], repair: bool = True) -> None:
        try:
            engine.remove(slots, repair)
        except LinkageError as error:
            self._raise_with_ids(error)
        finally:
            fitted.removed(slots)
        self.close_gaps(at_once=False)

    @classmethod
    def _builder_from_state(cls, state: Any, parameters: dict[str, Any]) -> Engine:
        linkage, search = linkage_of(parameters["linkage"], parameters["metric"]), parameters["search"]
        sources = () if isinstance(search, str) else search if isinstance(search, (list, tuple)) else (search,)
        gardener = item(state, "gardener")
        polisher = None if gardener is None else Polisher.from_state(gardener)
        return Engine.from_state(state, linkage, sources, polisher)

    def _validate_builder(self, builder: Any) -> None:
        builder.validate(int(self._fitted.parameters.get("n_neighbors", 1)))

    def _keeps_sparse(self) -> bool:
        return self.__sklearn_is_fitted__() and isinstance(self.engine().summaries, SparseSummaries)

    def _building(self) -> dict[str, Any]:
        found = super()._building()
        if "n_neighbors" in found:
            # By its number, for the default may change.
            found["n_neighbors"] = self.checked_parameters(reset=False).n_neighbors
        return found

    def _candidates(self, linkage: VectorLinkage | Linkage, rules: Rules, n_neighbors: int) -> Any:
        """Return where to search: for linkages over pairs of vectors by matrix products, if the distance allows it."""
        if not isinstance(linkage, Pairwise) or not isinstance(self.search, str) or not rules.single_search:
            return self.search
        near = {"euclidean": "sqeuclidean", "sqeuclidean": "sqeuclidean", "cosine": "cosine"}.get(str(linkage.distance))
        if near is None or self.search == "nsw":
            return self.search
        return ByVector(np.stack, n_neighbors, near, index=self.search == "index")


def stays_sparse(linkage: VectorLinkage | Linkage) -> bool:
    """Return whether sparse vectors need not be made dense: not for a compiled function, which sees whole means."""
    return isinstance(linkage, VectorLinkage) and not linkage.is_custom


def _joined(beside: npt.NDArray[np.int64], nearest: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the clusters of points from that of the node each would join, and that of its nearest neighbour.

    Attached above the cut, a point would split a cluster off; it belongs with its nearest neighbour, if the search
    named any.
    """
    return np.where(beside < 0, nearest, beside)


@dataclass(eq=False, repr=False)
class Rotate(Grinch):
    """Grinch without grafts: each point goes beside its nearest neighbour and rotates upward while that improves.

    One of the systems the paper compares with. See :class:`Grinch` for parameters and attributes.

    Examples
    --------
    >>> from grinch import Rotate
    >>> Rotate(n_clusters=2).fit_predict([[1, 0], [0, 9], [2, 0.1], [0.1, 8]]).tolist()
    [0, 1, 0, 1]
    """

    mode: ClassVar[Rules] = ROTATE  # type: ignore[misc]
    n_neighbors: ClassVar[int] = 1  # type: ignore[misc]
    refine_passes: ClassVar[int] = 0  # type: ignore[misc]


class Online(Rotate):
    """The plainest incremental tree: each point becomes the sibling of its nearest neighbour, and that is all.

    One of the systems the paper compares with. See :class:`Grinch` for parameters and attributes.

    Examples
    --------
    >>> from grinch import Online
    >>> Online(n_clusters=2).fit_predict([[1, 0], [0, 9], [2, 0.1], [0.1, 8]]).tolist()
    [0, 1, 0, 1]
    """

    mode: ClassVar[Rules] = ONLINE  # type: ignore[misc]
