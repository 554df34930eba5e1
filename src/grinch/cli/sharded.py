"""Cluster files that are too large for one process: by processes of this machine, or by a dask cluster."""

from __future__ import annotations

import logging
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import typer

from grinch.cli.app import console, make_folder, say, title_of
from grinch.cli.ids import check_different
from grinch.cli.sharded_input import Input, find_input
from grinch.cli.sharded_results import makes_model, needs_neighbors, print_stages, room_for_cut, write_sharded
from grinch.cli.store import count_of
from grinch.errors import ShardError
from grinch.io.points import Asked
from grinch.running import Workers, import_distributed
from grinch.sharded import ShardedGrinch
from grinch.sharded.job import alone_in, choose_n_shards
from grinch.sharded.record import MARK, write_mark

# A worker takes more than half of it before its first point.
LEAST_MEMORY = 500_000_000
# What parameters of ShardedGrinch are called here.
OPTIONS = {
    "client": "--dask",
    "n_workers": "--workers",
    "memory_limit": "--memory",
    "n_shards": "--shards",
    "folder": "--work",
    "columns": "--columns",
    "X": "FILE",
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

    def check(self, method: str, drop: list[str] | None) -> None:
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
        import_distributed("clustering with --workers or --dask")
        _check_memory(self.memory)

    def refuse_texts(self) -> None:
        """Rows of texts are made by one process."""
        if self.are_asked_for:
            raise ValueError(
                "--workers and --dask read vectors, and texts are made into rows by one process: leave them out. A text"
                " beside vectors is kept by --payload COLUMN"
            )

    @property
    def n_shards(self) -> int | str:
        if self.shards == "auto" or not self.shards.isdecimal():
            return self.shards
        return int(self.shards)


def cluster_by_many(many: ManyWorkers, file: Path, asked: Asked, model: Any, out: Path, picture: bool) -> None:
    """Cluster FILE by many workers; ``model`` says how. What is finished is kept until all results are written."""
    with _in_options():
        found = find_input(file, many.columns, asked)
        n_shards = choose_n_shards(many.n_shards, found.rows.n_rows)
    check_different(found.ids, asked.id)
    make_folder(out)
    work = out / "work" if many.work is None else many.work
    sharded = ShardedGrinch(
        n_shards=n_shards,
        folder=work,
        columns=found.columns,
        **{name: value for name, value in model.get_params().items() if name in ShardedGrinch().get_params()},
    )
    with _kept(work), _in_options(), _going_on(work):
        _introduce(many, file, found, n_shards, sharded)
        seconds = _fit(sharded, many, found)
        print_stages(sharded)
        is_whole = write_sharded(sharded, found, seconds, out, picture)
    if many.work is None and is_whole:
        shutil.rmtree(work)
    else:
        say(
            f"The finished stages are kept in {work}/: the same command with another -k or -t cuts the same tree again."
        )


def _introduce(many: ManyWorkers, file: Path, found: Input, n_shards: int, sharded: ShardedGrinch) -> None:
    rows = found.rows
    say(f"{title_of(file)}: {rows.n_rows:,} points, {rows.n_features:,} features{found.shown()}")
    who = f"The workers of {many.dask}" if many.dask else f"{count_of(many.workers or 0, 'worker')} on this machine"
    say(f"{who}, {count_of(n_shards, 'shard')}. What is finished is kept in {sharded.folder}/")
    if needs_neighbors(sharded) and not makes_model(rows) and not room_for_cut(rows):
        say(
            "note: clusters that are chosen automatically need the neighbours of all points in memory, and there is not"
            " enough of it; without --clusters or --threshold, only the tree will be written"
        )


def _fit(sharded: ShardedGrinch, many: ManyWorkers, found: Input) -> float:
    """Fit, and stop the workers; the seconds by the clock, without those of starting them."""
    if many.dask:
        say(f"connecting to {many.dask} …")
    with _without_logs(), ExitStack() as opened:
        with _not_interrupted() if many.dask is None else nullcontext():
            workers = opened.enter_context(Workers(many.dask, many.workers, many.memory))
        if workers.dashboard_link:
            say(f"dashboard: {workers.dashboard_link}")
        # A process that is new spends seconds on imports, which are not those of the first stage.
        workers.client.run(exec, "import grinch.sharded", on_error="return")
        start = time.perf_counter()
        ids = None if found.ids is None else found.ids.tolist()
        is_cut = needs_neighbors(sharded) and not makes_model(found.rows) and room_for_cut(found.rows)
        sharded.set_params(client=workers.client)._fit_all(found.given, ids, is_cut)
        seconds = time.perf_counter() - start
    sharded.set_params(client=many.dask, n_workers=many.workers, memory_limit=many.memory)
    return seconds


@contextmanager
def _without_logs() -> Iterator[None]:
    """When a scheduler is lost, dask logs tracebacks; the error says it in a line."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Processes that are half started die of Ctrl-C with tracebacks: for these seconds, neither they nor we heed it."""
    if threading.current_thread() is not threading.main_thread():
        yield  # which gets no signals
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _kept(work: Path) -> Iterator[None]:
    """The folder of this run alone, as long as it lasts."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        is_ours = (work / MARK).exists() or not any(work.iterdir())
    except OSError as error:
        raise ValueError(
            f"--work must be a folder that can be made or written to; got {str(work)!r}: {error}"
        ) from None
    if not is_ours:
        raise ValueError(
            f"--work must be a new folder, an empty one, or that of an earlier run; {str(work)!r} has other files in"
            " it. Give another folder with --work"
        )
    with _in_options(), alone_in(work):
        is_of_ours = Path(sys.argv[0]).name in ("grinch", "grinch.exe", "__main__.py")
        write_mark(work, shlex.join(["grinch", *sys.argv[1:]]) if is_of_ours else None)
        yield


@contextmanager
def _going_on(work: Path) -> Iterator[None]:
    """Whatever ends a run, say that it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        console.print()
        say(f"Interrupted. What is finished is kept in {work}/: the same command goes on from there.")
        raise typer.Exit(130) from None
    except ShardError as error:
        others = f" ({error.n_others} more failed with it)" if error.n_others else ""
        raise ValueError(
            f"stage {error.stage} failed at {error.task}{others}: {error.cause.rstrip('.')}. What is finished is kept"
            f" in {work}/; once the cause is removed, the same command goes on from there"
        ) from None


@contextmanager
def _in_options() -> Iterator[None]:
    """What an error calls a parameter is the name of an option."""
    try:
        yield
    except ValueError as error:
        first, _, rest = str(error).partition(" ")
        name = first.rstrip(":,")
        if name not in OPTIONS:
            raise
        rest = rest.replace(": columns=", ": --columns ").replace("must be that of a", "must be the address of a")
        raise ValueError(f"{OPTIONS[name]}{first.removeprefix(name)} {rest}") from error


def _check_memory(memory: str | None) -> None:
    from dask.utils import parse_bytes

    if memory is None:
        return
    try:
        size = parse_bytes(memory)
    except ValueError:
        size = -1
    if size < LEAST_MEMORY:
        raise ValueError(f"--memory must be a size such as 6GB, and at least 500MB; got {memory!r}")
