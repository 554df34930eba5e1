"""ShardedGrinch: one tree by many workers."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import NotFittedError

import grinch
from grinch import cuts
from grinch._checks import available_memory, check_flag, taken
from grinch._types import Labels
from grinch.core.rules import Rules
from grinch.errors import ShardError
from grinch.estimators.checks import advise_on_n_clusters, advise_on_points, advise_on_threshold, check_ids
from grinch.estimators.fit import Fit
from grinch.estimators.grinch import Grinch
from grinch.estimators.tree_clusterer import CUT_BY, TreeClusterer
from grinch.io.inputs import open_rows
from grinch.io.rows import SparseRows, joined
from grinch.io.write import digest
from grinch.linkage.named import VectorLinkage, metric_in_full
from grinch.running import Here, Stage, Workers
from grinch.sharded import job as jobs
from grinch.sharded import record
from grinch.sharded.job import Job
from grinch.sharded.pipeline import Run, has_graph, is_kept, run_graph, run_stages
from grinch.sharded.record import whole_tree
from grinch.sharded.stages import skeleton, top, trees
from grinch.sharded.stages.graph import cut_whole
from grinch.store import Store
from grinch.store import open as open_store
from grinch.tree import Tree

# What a model in memory takes of each point besides its vector and the summaries of nodes, in bytes.
BYTES_PER_POINT, TIMES_THE_VECTORS = 400, 3.2
# Up to this many points, this process finds neighbours before workers would have started.
MOST_HERE = 20_000
NOT_BUILT_BY = (*CUT_BY, "verbose")
STORED_AS = ("linkage", "metric", "mode", "n_neighbors", "search", "n_clusters", "threshold", "cut", "layer")


@dataclass(eq=False, repr=False)
class ShardedGrinch(ClusterMixin, BaseEstimator):
    """One cluster tree of more points than fit in one process, built by the workers of a Dask cluster.

    A tree of a sample is cut into branches, which are assigned to shards. Every point goes to the branch of the sampled
    points nearest to it, and moves on if its nearest neighbour is in another branch. Each branch gets a tree of all its
    points, in the place of the branch in the tree of the sample. The same points, the same ``n_shards`` and the same
    ``random_state`` give the same tree, whatever the number of workers.

    Parameters
    ----------
    n_shards : int or "auto", default="auto"
        Number of parts that are processed separately. ``"auto"``: one for every 125,000 points, at most 1,024.
    client : Client, str or None, default=None
        A dask client, or the address of a scheduler. Without one, a cluster of processes is started on this machine.
    n_workers : int, optional
        The number of those processes; by default, one for every core.
    memory_limit : int or str, optional
        Bytes that each of them may take, such as ``"6GB"``.
    folder : path, optional
        The folder of the stages of a run, which all workers must reach under the same path. The same ``fit`` with the
        same folder resumes after an interruption. By default a temporary folder, deleted with the model.
    columns : str or list of str, optional
        Of Parquet files and frames: the columns of numbers, or one of lists of numbers.
    sample_size : int or "auto", default="auto"
        Points of the sample: by default 100 times the root of the number of points, at least 20,000.
    repair : bool, default=True
        Move points whose nearest neighbour is in another branch to that branch; in ``mode="exact"``, join branches so
        that the guarantee of one tree holds for the whole.
    linkage, metric, mode, n_clusters, threshold, cut, layer, min_cluster_size, noise, search, n_neighbors, \
refine_passes, shuffle, random_state, check_linkage, verbose
        As for :class:`~grinch.Grinch`. With a linkage of your own, ``search`` (ByVector or ByKey) routes records.

    Attributes
    ----------
    tree_ : Tree
        The tree of all points, assembled when it is first read: about 50 bytes of memory a point.
    top_ : Tree
        The upper tree, whose leaf ``i`` is branch ``i``; the trees of branches are on disk (:meth:`branch`).
    labels_, n_clusters_, layers_, layer_persistence_
        As for :class:`~grinch.Grinch`; with ``n_clusters`` or ``threshold`` by the tree alone, else by the neighbours
        of each point in all shards, which workers search when they are first needed.
    branch_sizes_ : list of int
        Points of each branch.
    stages_ : dict of Stage
        Seconds, tasks, memory and bytes of each stage.
    n_moved_ : int
        Number of points that moved to another branch.
    n_leaves_, n_features_in_ : int
        Points, and features (0 for records).

    Examples
    --------
    >>> from grinch.datasets import gaussian_mixture
    >>> from grinch.sharded import ShardedGrinch
    >>> X, y = gaussian_mixture(2_000, n_classes=20)
    >>> model = ShardedGrinch(n_shards=4, n_workers=1, n_clusters=20).fit(X)  # doctest: +SKIP
    >>> model.tree_  # doctest: +SKIP
    <Tree with 2,000 leaves>
    """

    n_shards: int | str = "auto"
    client: Any = None
    _: KW_ONLY
    n_workers: int | None = None
    memory_limit: int | str | None = None
    folder: str | os.PathLike[str] | None = None
    columns: Sequence[str] | str | None = None
    sample_size: int | str = "auto"
    repair: bool = True
    linkage: Any = "average"
    metric: str | None = None
    mode: str | Rules = "fast"
    n_clusters: int | None = None
    threshold: float | None = None
    cut: str = "sizeable"
    layer: str | int = "auto"
    min_cluster_size: int = 1
    noise: bool = False
    search: Any = "auto"
    n_neighbors: int | None = None
    refine_passes: int = 0
    shuffle: bool = False
    random_state: int = 0
    check_linkage: bool = False
    verbose: bool | int = False

    # Fitting ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, ids: Any = None) -> Self:
        """Build the tree of X: an array, a memory map, files, a dask array or dataframe, or a list of records.

        ``y`` is ignored; ``ids`` name the points and must be unique. If it is interrupted or fails, finished tasks are
        kept in ``folder``, and the same call resumes.
        """
        return self.fit_and_cut(X, ids)

    def fit_and_cut(self, X: Any, ids: Any, is_cut: bool = False) -> Self:
        """Fit, and with ``is_cut`` also find the neighbours that the automatic cut needs, by the same workers."""
        model = self._checked_model()
        folder = jobs.check_folder(Path(tempfile.mkdtemp(prefix="grinch-") if self.folder is None else self.folder))
        # A folder of our own goes with the model, or with a fit that fails.
        forget = None if self.folder is not None else weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            with jobs.alone_in(folder):
                run, names = self._fit(X, ids, folder, model, is_cut)
        except BaseException as error:
            if forget is not None:
                forget()
            if isinstance(error, ShardError):
                kept_in = None if forget is not None else str(folder)
                raise ShardError(error.stage, error.task, error.cause, kept_in, error.n_others) from None
            raise
        self._run, self._names = run, names
        self._tree: Tree | None = None
        self._model: Grinch | None = None
        self._cut: cuts.AutomaticCut | None = None
        self.n_features_in_ = run.job.rows.n_features
        return self

    def _fit(self, X: Any, ids: Any, folder: Path, model: Grinch, is_cut: bool) -> tuple[Run, list[Any] | None]:
        linkage = model.checked_parameters().linkage
        is_on_records = not isinstance(linkage, VectorLinkage)
        with Workers(self.client, self.n_workers, self.memory_limit, bool(self.verbose)) as workers:
            records = True if is_on_records and not isinstance(self.linkage, str) else None
            rows = open_rows(X, folder, columns=self.columns, records=records, workers=workers)
            if not rows.n_rows:
                raise ValueError("X must have at least one point; got none")
            names = check_ids(ids, rows.n_rows, (), None)
            advise_on_n_clusters(self.n_clusters, rows.n_rows)
            advise_on_threshold(self.threshold, getattr(linkage, "ceiling", None), linkage)
            job = self._job(folder, rows, model)
            is_to_stay = self.folder is not None
            if is_to_stay:
                jobs.clear_others(folder, job.stamp)
                record.begin(job)
            run = run_stages(job, workers)
            if not is_on_records:
                advise_on_points(skeleton.sample_of(job), linkage)
            if is_to_stay:
                record.finish(run, names, self.n_clusters, self.threshold)
            if is_cut and not run.is_opened:
                run_graph(run, workers)
            return run, names

    def fit_predict(self, X: Any, y: Any = None, *, ids: Any = None) -> Labels:
        """Fit X and return its flat clusters; the same workers find the neighbours for the automatic cut."""
        is_automatic = self.n_clusters is None and self.threshold is None
        return self.fit_and_cut(X, ids, is_cut=is_automatic or bool(self.noise)).labels_

    def _checked_model(self) -> Grinch:
        check_flag("repair", self.repair)
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, (int, np.integer)):
            raise ValueError(
                "random_state must be a whole number, so that a run can go on where it ended; got"
                f" {self.random_state!r}"
            )
        names = [name for name in Grinch().get_params() if name not in ("verbose",)]
        model = Grinch(**{name: getattr(self, name) for name in names})
        linkage = model.checked_parameters().linkage
        if (
            not isinstance(linkage, VectorLinkage)
            and isinstance(self.search, str)
            and not isinstance(self.linkage, str)
        ):
            raise ValueError(
                "search must say how records find their shard: ByVector(embed) or ByKey(keys), for a linkage of your"
                f" own; got {self.search!r}"
            )
        return model

    def _job(self, folder: Path, rows: Any, model: Grinch) -> Job:
        n_shards = jobs.choose_n_shards(self.n_shards, rows.n_rows)
        size = jobs.choose_sample_size(self.sample_size, rows.n_rows, n_shards)
        built_by = {name: value for name, value in model.get_params().items() if name not in NOT_BUILT_BY}
        # A default that changes must not find the stages of another.
        built_by["metric"] = metric_in_full(self.linkage, self.metric)
        seed = int(self.random_state)
        stamp = digest(repr((grinch.__version__, rows.stamp, n_shards, size, seed, self.repair, _named(built_by))))
        return Job(jobs.stages_folder(folder, stamp), rows, model, n_shards, size, seed, bool(self.repair), stamp)

    # Results ------------------------------------------------------------------------------------------------------

    @property
    def tree_(self) -> Tree:
        self._check_fitted()
        if self._tree is None:
            self._tree = self._composed()
        return self._tree

    @property
    def top_(self) -> Tree:
        merges, _, _ = top.load(self._check_kept().job)
        return merges.tree(self._ceiling())

    @property
    def branch_sizes_(self) -> list[int]:
        return list(self._check_fitted().sizes)

    @property
    def stages_(self) -> dict[str, Stage]:
        return dict(self._check_fitted().stages)

    @property
    def n_moved_(self) -> int:
        return self._check_fitted().moved

    @property
    def n_leaves_(self) -> int:
        return sum(self._check_fitted().sizes)

    @property
    def folder_(self) -> Path:
        """The folder of the run."""
        return self._check_fitted().job.home

    @property
    def ids_(self) -> list[Any]:
        """The ids of the points, as they were given; positions if none were."""
        self._check_fitted()
        return list(range(self.n_leaves_)) if self._names is None else list(self._names)

    @property
    def labels_(self) -> Labels:
        """Flat clusters by point."""
        self._check_fitted()
        choice = cuts.Choice(**{name: getattr(self, name) for name in CUT_BY})
        return cuts.flat_labels(choice, self.tree_, self._automatic, lambda: None)[: self.n_leaves_]

    @property
    def n_clusters_(self) -> int:
        """The number of flat clusters in ``labels_``."""
        return int(self.labels_.max(initial=-1)) + 1

    @property
    def layers_(self) -> list[Labels]:
        """Flat clusters at each resolution that lasts, finest first; each has the clusters of the finer ones whole."""
        return [cuts.labels_of(self.tree_, layer.is_split, layer.becomes) for layer in self._layers()]

    @property
    def layer_persistence_(self) -> npt.NDArray[np.float64]:
        """The persistence of the clusters of each layer, from 0 to 1."""
        return np.array([layer.persistence for layer in self._layers()])

    def _layers(self) -> list[cuts.Layer]:
        return self._automatic().joined(None, self.min_cluster_size)

    def _automatic(self) -> cuts.AutomaticCut:
        """Return the cut whose clusters persist longest; workers find the neighbours it needs, once."""
        run = self._check_fitted()
        if self._cut is None and run.is_opened:
            # The upper tree has nodes of which no summary is kept.
            model = self.to_grinch()
            self._cut = model.read_fit(Fit.automatic)
        elif self._cut is None:
            self._check_kept()
            self._find_graph(run)
            self._cut = cut_whole(run.job, self.tree_, run.sizes)
        return self._cut

    def _find_graph(self, run: Run) -> None:
        if has_graph(run):
            return
        if self.n_leaves_ <= MOST_HERE:
            with jobs.alone_in(run.job.home):
                run_graph(run, Here())
            return
        with (
            jobs.alone_in(run.job.home),
            Workers(self.client, self.n_workers, self.memory_limit, bool(self.verbose)) as workers,
        ):
            run_graph(run, workers)

    def branch(self, i: int) -> tuple[Tree, Labels, Any]:
        """Return the tree of branch ``i``, the numbers of its points in the whole by leaf, and their rows."""
        run = self._check_kept()
        if not 0 <= i < len(run.sizes) or not run.sizes[i]:
            raise ValueError(f"i must be the number of a branch with points, 0 to {len(run.sizes) - 1}; got {i!r}")
        found = trees.load(run.job, i)
        return found.merges.tree(self._ceiling()), found.numbers, trees.rows_of(run.job, i)

    def to_grinch(self) -> Grinch:
        """Return the same tree as a :class:`~grinch.Grinch` model in memory.

        It takes about three times as much memory as the vectors.
        """
        run = self._check_fitted()
        if self._model is None:
            self._check_memory()
            model = Grinch(**{**run.job.model.get_params(), "verbose": self.verbose})
            self._model = model.fit_tree(self._rows(), self.tree_, ids=self._names)
        cut = {name: getattr(self, name) for name in CUT_BY}
        return self._model.set_params(**cut)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model in memory (:meth:`to_grinch`) to a file; :func:`grinch.load` opens it."""
        self.to_grinch().save(path)

    def to_store(self, folder: str | Path, *, payload: Any = None) -> Store:
        """Make a store of the tree as it is, which takes further points; :func:`grinch.open` opens it again.

        Parameters
        ----------
        folder : path
            A new or an empty folder.
        payload : list or frame, optional
            Anything that JSON can hold for each point, in the order in which they came.

        Examples
        --------
        >>> import tempfile
        >>> from distributed import Client
        >>> from grinch.datasets import gaussian_mixture
        >>> X, y = gaussian_mixture(500, n_classes=5)
        >>> with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as client:
        ...     model = ShardedGrinch(2, client, n_clusters=5).fit(X)
        >>> with model.to_store(tempfile.mkdtemp(), payload=y) as store:
        ...     store.insert(X[:3] + 0.01), len(store)
        (2, 503)
        """
        self._check_kept()
        own = {name: getattr(self, name) for name in STORED_AS}
        with open_store(folder, **own, verbose=self.verbose) as store, TemporaryFile(dir=folder) as file:
            store.adopt(self._rows(file), self.tree_, ids=self._names, payload=payload)
        # What was built is in memory; what is opened is read from the disk as it is needed.
        return open_store(folder, **own, verbose=self.verbose)

    def explore(self, **keywords: Any) -> Any:
        """Show the tree in a page (:meth:`grinch.Grinch.explore`).

        If the model does not fit in memory, the tree alone is shown, without map and predictions.
        """
        if not self._misses_memory():
            return self.to_grinch().explore(**keywords)
        # By the same keywords, which are all that the method looks at.
        return TreeClusterer.explore(cast(Any, self.tree_), **keywords)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_run")

    # Within -------------------------------------------------------------------------------------------------------

    def _check_fitted(self) -> Run:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This ShardedGrinch is not fitted yet; call fit first")
        return self._run

    def _check_kept(self) -> Run:
        """Return the run, whose files must still be there."""
        run = self._check_fitted()
        if not is_kept(run):
            raise FileNotFoundError(
                f"folder {str(run.job.home)!r} no longer has the stages of this fit: they were removed, or another"
                " run with other points or parameters used it since. Fit again, and give each run a folder of its own"
            )
        return run

    def _ceiling(self) -> float | None:
        return getattr(self._run.job.linkage, "ceiling", None)

    def _composed(self) -> Tree:
        tree = whole_tree(self._check_kept().job, self._ceiling())
        tree.names = None if self._names is None else list(self._names)
        return tree

    def _rows(self, file: IO[bytes] | None = None) -> Any:
        """Return all points in the order they came; dense rows mapped from a file, if one is given."""
        job = self._check_kept().job
        found = [
            (trees.load(job, i).numbers, trees.rows_of(job, i, is_mapped=True))
            for i, size in enumerate(self._run.sizes)
            if size
        ]
        first = found[0][1]
        if not isinstance(first, np.ndarray):  # records, or sparse rows
            return taken(joined([rows for _, rows in found]), np.argsort(np.concatenate([part for part, _ in found])))
        shape = self.n_leaves_, first.shape[1]
        whole = np.empty(shape, first.dtype) if file is None else np.memmap(file, first.dtype, "w+", shape=shape)
        for part, rows in found:
            whole[part] = rows
        return whole

    def _misses_memory(self) -> tuple[int, int] | None:
        """Return the bytes that the model would take and those that are free, if these are not enough."""
        room = available_memory()
        rows = self._run.job.rows
        # An entry of a sparse row takes as much as two numbers of a dense one.
        width = 2 * rows.n_entries / rows.n_rows if isinstance(rows, SparseRows) else self.n_features_in_
        need = int(self.n_leaves_ * (TIMES_THE_VECTORS * 4 * width + BYTES_PER_POINT))
        return (need, room) if room is not None and need > room else None

    def _check_memory(self) -> None:
        missed = self._misses_memory()
        if missed is not None:
            raise MemoryError(
                f"the model of {self.n_leaves_:,} points takes about {missed[0]:,} bytes of memory, and {missed[1]:,}"
                " are free. tree_, labels_ and layers_ need no model; read branches one by one: top_ and branch(i)"
            )


def _named(parameters: dict[str, Any]) -> list[tuple[str, str]]:
    """Return parameters as texts that are the same in another process; functions by their names."""
    return [(name, _name_of(value)) for name, value in sorted(parameters.items())]


def _name_of(value: Any) -> str:
    if value is None or isinstance(value, (str, int, float, bool, Rules)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return repr([_name_of(one) for one in value])
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
