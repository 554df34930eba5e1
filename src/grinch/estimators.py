"""Grinch, and the same engine with moves turned off: Rotate and Online."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch import cuts
from grinch.builder import count_rows
from grinch.clusterer import IncrementalClusterer
from grinch.engine import Engine
from grinch.linkage.base import VectorLinkage
from grinch.linkage.named import linkage_of
from grinch.linkage.pairwise import Pairwise
from grinch.neighbors import ByVector, check_search
from grinch.settings import N_NEIGHBORS, SWITCHES, Rules, make_rules
from grinch.tree.links import NONE, PARENT
from grinch.validation import check_count


class Grinch(IncrementalClusterer):
    """Incremental hierarchical clustering under any linkage function.

    Points are inserted one by one into a binary cluster tree that repairs itself as they come, by rotating, grafting
    and restructuring (Monath, Kobren et al., KDD 2019). The same order of points gives the same tree, in whatever
    batches they come.

    Parameters
    ----------
    linkage : str, Linkage or callable, default="average"
        What similar means for two groups of points: ``"average"``, ``"cosine"`` (the cosine of the summed vectors),
        ``"centroid"``, ``"ward"``, ``"single"`` or ``"complete"``; any function ``f(a, b)`` of two lists of records,
        higher for closer; an object with ``leaf``, ``merge`` and ``score`` (see :mod:`grinch.linkage`); or a function
        that ``numba.njit`` compiled, of two :class:`~grinch.linkage.VectorGroup`.
    metric : str, optional
        For ``"average"``: ``"cosine"`` (default), ``"dot"``, ``"sqeuclidean"``, or a distance that scipy knows; for
        ``"single"`` and ``"complete"`` a distance that scipy knows (default ``"euclidean"``); for a compiled linkage,
        by what neighbours are looked for (default ``"cosine"``).
    mode : {"fast", "exact"}, default="fast"
        ``"exact"`` makes no approximation and carries the paper's guarantee; ``"fast"`` is for everyday use. Each of
        the settings below overrides its mode when it is not None.
    n_clusters : int, optional
        Cut the tree into this many flat clusters (default: 8, unless ``threshold`` is given).
    threshold : float, optional
        Cut the tree from the top at the first nodes whose children score at least this under the linkage.
    search : {"auto", "exact", "index"}, source or list of sources, default="auto"
        How neighbours are found: exactly (by matrix products for vectors, by asking a linkage about every point
        otherwise), or approximately by an index (``grinch[index]``). ``"auto"`` is exact up to 786,432 vectors and
        the index beyond. For a linkage of your own, :class:`~grinch.neighbors.ByVector`,
        :class:`~grinch.neighbors.ByKey`, or a list of them, name the candidates it is asked about.
    n_neighbors : int, default=25
        Neighbours found for each point; grafts choose among them.
    rotate, pull, graft, restructure : bool, optional
        Turn a move on or off.
    cap : int, float or dict, optional
        No move looks at nodes with more leaves than this; ``float("inf")`` for no cap. A dict gives a cap to each of
        ``"rotate"``, ``"graft"`` and ``"restructure"``.
    single_elimination : bool, optional
        Stop grafting for a point once two nodes both prefer their siblings.
    single_search : bool, optional
        Take the candidates of all grafts from the one neighbour search of the point.
    check_linkage : bool, default=False
        Ask a linkage written in Python both ways round, and refuse it if f(a, b) is not f(b, a). For trying out a
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
        Flat clusters, from 0, in the order in which their first points arrived.
    ids_ : list
        The ids given with the points, or their positions.
    clusters_ : list of lists
        The ids of the points of each flat cluster.
    stats_ : dict
        How many rotations, pulls, grafts tried and made, restructurings, swaps, scores and merges there were.
    n_features_in_ : int
        Number of features (for vectors).

    Examples
    --------
    >>> import numpy as np
    >>> from grinch import Grinch
    >>> X = np.array([[1, 0], [0, 1], [5, 0.1], [0.1, 4]])
    >>> model = Grinch(linkage="cosine", n_clusters=2).fit(X)
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

    def __init__(
        self,
        linkage: Any = "average",
        *,
        metric: str | None = None,
        mode: str = "fast",
        n_clusters: int | None = None,
        threshold: float | None = None,
        search: Any = "auto",
        n_neighbors: int = N_NEIGHBORS,
        rotate: bool | None = None,
        pull: bool | None = None,
        graft: bool | None = None,
        restructure: bool | None = None,
        cap: Any = None,
        single_elimination: bool | None = None,
        single_search: bool | None = None,
        check_linkage: bool = False,
        shuffle: bool = False,
        random_state: Any = None,
        verbose: bool | int = False,
    ):
        self.linkage = linkage
        self.metric = metric
        self.mode = mode
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.search = search
        self.n_neighbors = n_neighbors
        self.rotate = rotate
        self.pull = pull
        self.graft = graft
        self.restructure = restructure
        self.cap = cap
        self.single_elimination = single_elimination
        self.single_search = single_search
        self.check_linkage = check_linkage
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """The cluster each point would join, without inserting it.

        A point joins the cluster of the place where it would be attached. With a ``threshold``, a point that no
        cluster takes at that threshold gets -1.
        """
        fitted, engine = self._known(), self._engine()
        rows = self._checked(X, reset=False)
        labels = self._node_labels()
        if engine.n_leaves == 0:
            return np.full(count_rows(rows), -1, dtype=np.int64)
        places = engine.place(rows)
        nearest, sibling = (fitted.public_ids(nodes, engine.store.capacity) for nodes in places[:2])
        found = labels[sibling]
        if self.threshold is None:
            # Attached above the cut, the point would split a cluster off; it belongs with its nearest neighbour, if
            # the search named any.
            return np.where(found < 0, np.where(places.nearest == NONE, -1, labels[nearest]), found)
        parents = fitted.tree().links.table[sibling, PARENT]
        is_whole_cluster = (found >= 0) & ((parents == NONE) | (labels[parents] < 0))
        return np.where(is_whole_cluster & (places.score < self.threshold), -1, found)

    # Within -------------------------------------------------------------------------------------------------------

    def _engine(self) -> Engine:
        engine = self._known().builder
        assert isinstance(engine, Engine)
        return engine

    def _checked(self, X: Any, reset: bool) -> Any:
        linkage_of(self.linkage, self.metric)
        self._rules()
        check_search(self.search)
        check_count("n_neighbors", self.n_neighbors, 1)
        cuts.check_cut(self.n_clusters, self.threshold)
        return self._checked_records(X, self.linkage, self.metric, reset)

    def _rules(self) -> Rules:
        return make_rules(self.mode, self.cap, **{name: getattr(self, name) for name in SWITCHES})

    def _new_builder(self, rows: Any) -> Engine:
        linkage = linkage_of(self.linkage, self.metric)
        n_features = rows.shape[1] if isinstance(linkage, VectorLinkage) else 0
        rules = self._rules()
        search: Any = self.search
        if isinstance(linkage, Pairwise) and isinstance(search, str) and rules.single_search:
            # Candidates by matrix products where the distance allows; the linkage ranks them.
            near = {"euclidean": "sqeuclidean", "sqeuclidean": "sqeuclidean", "cosine": "cosine"}.get(
                str(linkage.distance)
            )
            if near is not None:
                search = ByVector(np.stack, self.n_neighbors, near, index=search == "index")
        return Engine(linkage, rules, search, self.n_neighbors, n_features, check=bool(self.check_linkage))


class Rotate(Grinch):
    """Grinch without grafts: each point goes beside its nearest neighbour and rotates upward while that improves.

    One of the systems the paper compares with. See :class:`Grinch` for the parameters and what is found.

    Examples
    --------
    >>> from grinch import Rotate
    >>> Rotate(n_clusters=2).fit_predict([[1, 0], [0, 1], [5, 0.1], [0.1, 4]]).tolist()
    [0, 1, 0, 1]
    """

    mode = "fast"
    n_neighbors = 1
    rotate = True
    pull = graft = restructure = False
    single_elimination = single_search = None

    def __init__(
        self,
        linkage: Any = "average",
        *,
        metric: str | None = None,
        n_clusters: int | None = None,
        threshold: float | None = None,
        search: Any = "auto",
        cap: Any = None,
        check_linkage: bool = False,
        shuffle: bool = False,
        random_state: Any = None,
        verbose: bool | int = False,
    ):
        self.linkage = linkage
        self.metric = metric
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.search = search
        self.cap = cap
        self.check_linkage = check_linkage
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose


class Online(Rotate):
    """The plainest incremental tree: each point becomes the sibling of its nearest neighbour, and that is all.

    One of the systems the paper compares with. See :class:`Grinch` for the parameters and what is found.

    Examples
    --------
    >>> from grinch import Online
    >>> Online(n_clusters=2).fit_predict([[1, 0], [0, 1], [5, 0.1], [0.1, 4]]).tolist()
    [0, 1, 0, 1]
    """

    rotate = False
    cap = None

    def __init__(
        self,
        linkage: Any = "average",
        *,
        metric: str | None = None,
        n_clusters: int | None = None,
        threshold: float | None = None,
        search: Any = "auto",
        check_linkage: bool = False,
        shuffle: bool = False,
        random_state: Any = None,
        verbose: bool | int = False,
    ):
        self.linkage = linkage
        self.metric = metric
        self.n_clusters = n_clusters
        self.threshold = threshold
        self.search = search
        self.check_linkage = check_linkage
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose
