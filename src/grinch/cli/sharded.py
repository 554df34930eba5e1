"""Cluster files that are too large for one process: in processes of this machine, or on a dask cluster."""

from __future__ import annotations

import logging
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
import typer

from grinch._checks import available_memory
from grinch.cli.app import console, make_folder, print_table, say, size_of, title_of
from grinch.cli.points import check_different
from grinch.cli.results import Results, lists_of, settings_of
from grinch.errors import ShardError
from grinch.io.inputs import SUFFIXES, found_paths, open_rows
from grinch.io.parquet import choose_columns, open_parquet
from grinch.io.points import Asked, FileError, blaming, check_names
from grinch.io.read import Points, read_points
from grinch.io.rows import Rows
from grinch.plots.style import counted
from grinch.running import Workers, import_distributed
from grinch.sharded import ShardedGrinch
from grinch.sharded.estimator import BYTES_PER_POINT, TIMES_THE_VECTORS
from grinch.sharded.job import alone_in, check_folder, choose_n_shards
from grinch.sharded.record import MARK, write_mark

# A worker takes more than half of it before its first point.
MIN_MEMORY = 500_000_000
# Names of features that are shown.
MAX_SHOWN = 4
# Beyond this many points, the model in memory takes longer than the workers did, and is not made.
MAX_FOR_MODEL = 1_000_000
# Of a tree that is composed and written; and of one that is cut by neighbours.
TREE_BYTES_PER_POINT, CUT_BYTES_PER_POINT = 150, 1_500
# Parameters of ShardedGrinch as options.
OPTIONS = {
    "client": "--dask",
    "n_workers": "--workers",
    "memory_limit": "--memory",
    "n_shards": "--shards",
    "folder": "--work",
    "columns": "--columns",
    "X": "FILE",
}
STAGES = {
    "input": "write the points to disk",
    "sample": "read a sample",
    "skeleton": "build its tree, assign branches to shards",
    "route": "send each point to its nearest branch",
    "neighbors": "search for nearer points in other shards",
    "moves": "decide which points move",
    "trees": "build the tree of each branch",
    "top": "join the branches",
    "near": "find neighbours, also in other shards",
    "graph": "join them",
}


class ManyWorkers(NamedTuple):
    """The options for many workers, as they were given."""

    workers: int | None
    dask: str | None
    shards: str
    columns: str | None
    memory: str | None
    work: Path | None

    @property
    def are_asked_for(self) -> bool:
        return self.workers is not None or self.dask is not None

    def check(self, method: str, drop: list[str] | None, is_text: bool) -> None:
        """Refuse what cannot be combined, before anything is read."""
        given = {"--columns": self.columns, "--memory": self.memory, "--work": self.work}
        given["--shards"] = None if self.shards == "auto" else self.shards
        if not self.are_asked_for:
            for option, value in given.items():
                if value is not None:
                    raise ValueError(f"{option} is for many workers: give --workers N or --dask ADDRESS as well")
            return
        if self.workers is not None and self.dask is not None:
            raise ValueError("--workers starts processes on this machine, and --dask uses those of a cluster: give one")
        if self.dask is not None and self.memory is not None:
            raise ValueError("--memory is for --workers; those of a dask cluster have what they were started with")
        if method != "grinch":
            raise ValueError(f"--workers and --dask build trees by --method grinch alone; got --method {method}")
        if drop and self.columns is not None:
            raise ValueError("--columns names the features, and --drop what is left out of all columns: give one")
        if is_text:
            raise ValueError(
                "--workers and --dask read vectors, and texts are made into rows by one process: leave them out. A text"
                " beside vectors is kept by --payload COLUMN"
            )
        import_distributed("clustering with --workers or --dask")
        _check_memory(self.memory)


def _check_memory(memory: str | None) -> None:
    from dask.utils import parse_bytes

    if memory is None:
        return
    try:
        size = parse_bytes(memory)
    except ValueError:
        size = -1
    if size < MIN_MEMORY:
        raise ValueError(f"--memory must be a size such as 6GB, and at least 500MB; got {memory!r}")


class ShardedInput(NamedTuple):
    """The input of workers: a path or a sparse matrix, and the columns beside the features."""

    given: Any
    rows: Rows | None
    """The rows of a path; None for a matrix."""
    columns: list[str] | str | None = None
    ids: npt.NDArray[Any] | None = None
    labels: npt.NDArray[Any] | None = None
    kept: dict[str, list[Any]] = {}  # noqa: RUF012 (nobody writes to it)

    @property
    def shape(self) -> tuple[int, int]:
        return self.given.shape if self.rows is None else (self.rows.n_rows, self.rows.n_features)

    def describe(self, file: Path) -> str:
        """Return a line about the file: its name, the numbers of points and features, and the names of these."""
        n, d = self.shape
        names, shown = self.columns, ""
        if isinstance(names, str):
            shown = f" (the lists of column {names})"
        elif names is not None:
            some = names if len(names) <= MAX_SHOWN else [*names[: MAX_SHOWN - 1], "…", names[-1]]
            shown = f" ({', '.join(some)})"
        return f"{title_of(file)}: {n:,} points, {d:,} features{shown}"

    def vectors(self) -> Any:
        """Return all vectors in memory."""
        if self.rows is None:
            return self.given
        return np.concatenate([self.rows.read(i) for i in range(len(self.rows.pieces))])

    def fits(self, bytes_per_point: float) -> bool:
        """Return whether there is enough memory for this many bytes per point."""
        room = available_memory()
        return room is None or self.shape[0] * bytes_per_point < room

    def makes_model(self) -> bool:
        """Return whether all points and their tree are brought into memory, for all that one process would write."""
        n, d = self.shape
        # An entry of a sparse row takes as much as two numbers of a dense one.
        width = 2 * self.given.nnz / n if self.rows is None else d
        return n <= MAX_FOR_MODEL and self.fits(TIMES_THE_VECTORS * 4 * width + BYTES_PER_POINT)


def find_input(file: Path, columns: str | None, asked: Asked) -> ShardedInput:
    """Return the rows of a .npy or Parquet file, or of all in a folder or a glob, or of a sparse matrix (.npz).

    Of the rows only the heads of files are read, and of the columns beside them those that are asked for; a sparse
    matrix is read whole.
    """
    if file.suffix.lower() == ".npz" and file.is_file():
        return _sparse_input(file, columns, asked)
    paths = _paths(file)
    if paths[0].suffix.lower() != ".parquet":
        options = {"--columns": columns, "--label": asked.label, "--id": asked.id, asked.keep_option: asked.keep}
        for option, value in {**options, "--drop": asked.drop}.items():
            if value:
                raise _no_columns(option, paths[0])
        return ShardedInput(file, open_rows(file, "."))
    chosen = _features(paths[0], columns, asked)
    rows = open_rows(file, ".", columns=chosen)
    ids, labels = (
        None if name is None else np.asarray(_values(paths, name).to_numpy()) for name in (asked.id, asked.label)
    )
    kept = {name: _values(paths, name).to_pylist() for name in asked.keep}
    return ShardedInput(file, rows, chosen, ids, labels, kept)


def _no_columns(option: str, file: Path) -> FileError:
    return FileError(f"{option} names columns, and FILE {file.name!r} has none; Parquet files have")


def _sparse_input(file: Path, columns: str | None, asked: Asked) -> ShardedInput:
    points = read_points(file, asked.label, asked.id, asked.drop, asked.keep)
    if not scipy.sparse.issparse(points.vectors):
        raise FileError(
            f"FILE {file.name!r} holds a dense matrix, which --workers and --dask read from .npy or Parquet: save it"
            " with numpy.save, or cluster it in one process: leave --workers and --dask out"
        )
    if columns is not None:
        raise _no_columns("--columns", file)
    return ShardedInput(points.vectors, None, None, points.ids, points.labels, points.kept)


def _paths(file: Path) -> list[Path]:
    paths = found_paths(file)
    if not paths[0].exists() and str(paths[0]) != "-":
        raise FileError(f"FILE {str(file)!r} does not exist")
    if any(path.suffix.lower() not in SUFFIXES for path in paths):
        raise FileError(
            "FILE must be .npy or Parquet with --workers and --dask (one, a folder of them, or a glob in quotes), which"
            f" workers read in parts, or a sparse matrix in .npz; got {str(file)!r}. Save it as Parquet, or"
            " cluster it in one process: leave --workers and --dask out"
        )
    return paths


def _features(path: Path, columns: str | None, asked: Asked) -> list[str] | str:
    """Return the columns of --columns, or all of numbers (or the only one of lists) that no other option names."""
    import pyarrow

    with blaming(path, ".parquet"), open_parquet(path) as file:
        schema = file.schema_arrow
    check_names(schema.names, asked)
    names = None
    if columns is not None:
        names = [columns] if columns in schema.names else [name.strip() for name in columns.split(",")]
    else:
        beside = {*asked.beside, *asked.drop}
        schema = pyarrow.schema([field for field in schema if field.name not in beside])
    found = choose_columns(schema, names, str(path))
    return found.names[0] if found.is_list else list(found.names)


def _values(paths: list[Path], name: str) -> Any:
    """Return one column of all files, in their order; nothing else of them is read."""
    import pyarrow

    chunks: list[Any] = []
    for path in paths:
        with open_parquet(str(path)) as file:
            if name not in file.schema_arrow.names:
                raise FileError(f"FILE must be files with the same columns; {str(path)!r} has no column {name!r}")
            chunks += file.read([name]).column(name).chunks
    return pyarrow.chunked_array(chunks)


def cluster_by_many(many: ManyWorkers, file: Path, asked: Asked, model: Any, out: Path, picture: bool) -> None:
    """Cluster FILE by many workers, with the settings of ``model``.

    Finished stages are kept until all results are written.
    """
    with _in_options():
        found = find_input(file, many.columns, asked)
        shards = int(many.shards) if many.shards.isdecimal() else many.shards
        n_shards = choose_n_shards(shards, found.shape[0])
    check_different(found.ids, asked.id)
    make_folder(out)
    work = out / "work" if many.work is None else many.work
    known = ShardedGrinch().get_params()
    settings = {name: value for name, value in model.get_params().items() if name in known}
    sharded = ShardedGrinch(n_shards=n_shards, folder=work, columns=found.columns, **settings)
    with _locked(work), _in_options(), _resumable(work):
        say(found.describe(file))
        who = f"The workers of {many.dask}" if many.dask else f"{counted(many.workers or 0, 'worker')} on this machine"
        say(f"{who}, {counted(n_shards, 'shard')}. Finished stages are kept in {sharded.folder}/")
        if needs_neighbors(sharded) and not found.makes_model() and not found.fits(CUT_BYTES_PER_POINT):
            say(
                "note: clusters that are chosen automatically need the neighbours of all points in memory, and there is"
                " not enough of it; without --clusters or --threshold, only the tree will be written"
            )
        seconds = _fit(sharded, many, found)
        print_stages(sharded)
        is_whole = write_sharded(sharded, found, seconds, out, picture)
    if many.work is None and is_whole:
        shutil.rmtree(work)
    else:
        say(f"Finished stages are kept in {work}/: the same command with another -k or -t cuts the same tree again.")


def needs_neighbors(sharded: ShardedGrinch) -> bool:
    """Return whether the clusters are chosen by more than the tree."""
    return (sharded.n_clusters is None and sharded.threshold is None) or sharded.noise


def _fit(sharded: ShardedGrinch, many: ManyWorkers, found: ShardedInput) -> float:
    """Fit, stop the workers, and return the seconds by the clock without those of starting them."""
    if many.dask:
        say(f"connecting to {many.dask} …")
    with ExitStack() as opened:
        # Of a lost scheduler, dask logs tracebacks; the error says it in a line.
        opened.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        # Processes that are being started would die of Ctrl-C with tracebacks.
        before = signal.getsignal(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_IGN if many.dask is None else before)
        try:
            workers = opened.enter_context(Workers(many.dask, many.workers, many.memory))
        finally:
            signal.signal(signal.SIGINT, before)
        if workers.dashboard_link:
            say(f"dashboard: {workers.dashboard_link}")
        # A process that is new spends seconds on imports, which are not those of the first stage.
        workers.client.run(exec, "import grinch.sharded", on_error="return")
        start = time.perf_counter()
        (ids,) = lists_of(found.ids)
        is_cut = needs_neighbors(sharded) and not found.makes_model() and found.fits(CUT_BYTES_PER_POINT)
        # The same workers find the neighbours that the cut needs.
        sharded.set_params(client=workers.client)
        (sharded.fit_predict if is_cut else sharded.fit)(found.given, ids=ids)
        seconds = time.perf_counter() - start
    sharded.set_params(client=many.dask, n_workers=many.workers, memory_limit=many.memory)
    return seconds


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Lock the folder of a run as long as it lasts."""
    with _in_options():
        check_folder(work)
    if not (work / MARK).exists() and any(work.iterdir()):
        raise ValueError(
            f"--work must be a new folder, an empty one, or that of an earlier run; {str(work)!r} has other files in"
            " it. Give another folder with --work"
        )
    with _in_options(), alone_in(work):
        is_command = Path(sys.argv[0]).name in ("grinch", "grinch.exe", "__main__.py")
        write_mark(work, shlex.join(["grinch", *sys.argv[1:]]) if is_command else None)
        yield


@contextmanager
def _resumable(work: Path) -> Iterator[None]:
    """Add to whatever ends a run that the same command resumes it."""
    try:
        yield
    except KeyboardInterrupt:
        console.print()
        say(f"Interrupted. Finished stages are kept in {work}/: the same command resumes from there.")
        raise typer.Exit(130) from None
    except ShardError as error:
        others = f" ({error.n_others} more failed with it)" if error.n_others else ""
        raise ValueError(
            f"stage {error.stage} failed at {error.task}{others}: {error.cause.rstrip('.')}. Finished stages are kept"
            f" in {work}/; once the cause is removed, the same command resumes from there"
        ) from None


@contextmanager
def _in_options() -> Iterator[None]:
    """Raise errors about a parameter as those about an option."""
    try:
        yield
    except ValueError as error:
        first, _, rest = str(error).partition(" ")
        name = first.rstrip(":,")
        if name not in OPTIONS:
            raise
        rest = rest.replace(": columns=", ": --columns ").replace("must be that of a", "must be the address of a")
        raise ValueError(f"{OPTIONS[name]}{first.removeprefix(name)} {rest}") from error


def print_stages(sharded: ShardedGrinch) -> None:
    """Print the time, tasks, bytes and memory of each stage."""
    stages = sharded.stages_
    is_resumed = any(stage.found for stage in stages.values())
    rows = []
    for name, stage in stages.items():
        before = [f"{stage.found:,}"] * is_resumed
        sizes = (size_of(size) if size else "" for size in (stage.read, stage.written, stage.peak_memory))
        rows.append((name, STAGES.get(name, ""), f"{stage.seconds:,.1f}", f"{stage.tasks:,}", *before, *sizes))
    headings = ("stage", "what it does", "seconds", "tasks", *["done before"] * is_resumed, "read", "written", "memory")
    console.print()
    print_table(headings, rows, left=headings[:2], last="what it does", wraps=True)
    say("(read, written: by all workers together; memory: the maximum of one worker)")


def write_sharded(sharded: ShardedGrinch, found: ShardedInput, seconds: float, out: Path, picture: bool) -> bool:
    """Write all that one process would, if there is memory for it; else the tree, and clusters if they need no more.

    Returns whether all of it was written.
    """
    more: dict[str, Any] = {
        "shards": sharded.n_shards,
        "branches": len(sharded.branch_sizes_),
        "moved": sharded.n_moved_,
        "stages": {name: asdict(stage) for name, stage in sharded.stages_.items()},
    }
    points = Points(None, found.ids, found.labels, found.kept)
    if found.makes_model():
        console.print("\nputting the tree together, and choosing clusters …")
        start = time.perf_counter()
        model = sharded.to_grinch()
        assert len(model.labels_)
        seconds += time.perf_counter() - start
        if picture:  # pictures show what is alike side by side
            points = points._replace(vectors=found.vectors())
        results = Results.of(model, points, seconds, more=more)
        results.print()
        results.write(out, picture)
        return True
    settings = {**settings_of(sharded), "folder": str(sharded.folder)}
    results = Results(shape=found.shape, seconds=seconds, settings=settings, points=points, more=more)
    if not found.fits(TREE_BYTES_PER_POINT):
        results.write(out, picture=False)
        say("note: the tree does not fit into memory; in Python, top_ and branch(i) of ShardedGrinch read parts of it")
        return False
    is_cut = not needs_neighbors(sharded) or found.fits(CUT_BYTES_PER_POINT)
    flat = sharded.labels_ if is_cut else None
    layers = sharded.layers_ if is_cut and "graph" in sharded.stages_ else ()
    results = replace(results, tree=sharded.tree_, flat=flat, layers=layers)
    results.print()
    results.write(out, picture=False)
    if not is_cut:
        say(
            "note: no clusters, for which the neighbours of all points must fit into memory; cut the tree with"
            " --clusters N or --threshold SCORE"
        )
    why = "" if found.shape[0] <= MAX_FOR_MODEL else f" and, of more than {MAX_FOR_MODEL:,} points, long"
    say(f"note: no model and pictures, which would take all points in memory{why}")
    return False
