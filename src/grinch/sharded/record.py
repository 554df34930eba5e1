"""The record of a run in its folder: settings, ids and whether it is finished; and finished runs, opened to look at."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import grinch
from grinch import cuts
from grinch._checks import taken
from grinch._types import Ids, Labels
from grinch.io.read import FileError
from grinch.io.rows import joined
from grinch.io.write import replacing
from grinch.sharded.compose import compose_merges, subtree
from grinch.sharded.files import read_arrays, write_arrays
from grinch.sharded.job import Job, RunFolder, stages_folder
from grinch.sharded.pipeline import Run, are_trees_there
from grinch.sharded.stages import skeleton, top, trees
from grinch.tree import Tree

FILE, IDS, FORMAT = "run.json", "ids.npz", 1
# Says that a folder is one of runs of the command line, so that nothing else is taken for one, and removed.
MARK = "grinch-work"
# Branches whose sparse rows are kept for the next that asks.
MOST_KEPT = 4


@dataclass(frozen=True)
class Record:
    """The contents of ``run.json``.

    ``stamp``: all that the run depends on, in short; ``metric``: how its vectors are compared, None for records;
    ``ceiling``: the score of two identical points; ``ids``: "number" or "text", if they are kept; ``n_shards``,
    ``n_clusters`` and ``threshold`` as in :class:`ShardedGrinch`.
    """

    stamp: str
    is_finished: bool = False
    n_points: int = 0
    n_features: int = 0
    n_shards: int = 0
    metric: str | None = None
    ceiling: float | None = None
    ids: str | None = None
    n_clusters: int | None = None
    threshold: float | None = None
    format: int = FORMAT
    grinch: str = field(default_factory=lambda: grinch.__version__)

    def write(self, folder: Path) -> None:
        with replacing(folder / FILE) as out:
            json.dump(asdict(self), out, indent=1)


def read_record(folder: Path) -> Record | None:
    """Return what is known of the run in a folder; None if nothing is."""
    path = folder / FILE
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        if about["format"] > FORMAT:
            raise FileError(f"{path} was written by a later version of grinch, {about['grinch']}. Upgrade grinch")
        return Record(**about)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} is damaged: {error!r}. Remove it, and run the same fit again") from None


def begin(job: Job) -> None:
    """Write down that a run has begun, unless the same one was finished before."""
    try:
        known = read_record(job.home)
    except FileError:
        known = None
    if known is None or known.stamp != job.stamp or not known.is_finished:
        Record(job.stamp, n_points=job.rows.n_rows, n_features=job.rows.n_features).write(job.home)


def finish(run: Run, names: list[Any] | None, n_clusters: int | None, threshold: float | None) -> None:
    """Write down what a finished run was."""
    job = run.job
    Record(
        job.stamp,
        True,
        sum(run.sizes),
        job.rows.n_features,
        skeleton.load(job).n_shards,
        job.metric,
        getattr(job.linkage, "ceiling", None),
        _write_ids(job.home / IDS, names),
        None if n_clusters is None else int(n_clusters),
        None if threshold is None else float(threshold),
    ).write(job.home)


def _write_ids(path: Path, names: list[Any] | None) -> str | None:
    """Keep ids that are texts or whole numbers; others are those of this process."""
    path.unlink(missing_ok=True)
    if names and all(isinstance(name, str) for name in names):
        texts = [name.encode("utf-8", "surrogatepass") for name in names]
        ends = np.cumsum([len(text) for text in texts])
        write_arrays(path, text=np.frombuffer(b"".join(texts), np.uint8), ends=ends)
        return "text"
    is_number = names and all(isinstance(name, (int, np.integer)) and not isinstance(name, bool) for name in names)
    if names and is_number and all(-(2**63) <= name < 2**63 for name in names):
        write_arrays(path, numbers=np.array(names, np.int64))
        return "number"
    return None


def _read_ids(path: Path, kind: str) -> list[Any]:
    if kind == "number":
        return read_arrays(path, "numbers")[0].tolist()
    text, ends = read_arrays(path, "text", "ends")
    whole, starts = text.tobytes(), [0, *ends[:-1].tolist()]
    return [whole[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts, ends.tolist(), strict=True)]


def write_mark(folder: Path, command: str | None) -> None:
    """Mark a folder as one of runs, with the command that goes on."""
    with replacing(folder / MARK) as file:
        file.write("Stages of a run of grinch cluster with many workers. Remove the folder to begin again.\n")
        file.write(f"{command}\n" if command else "")


def is_run(folder: Path) -> bool:
    """Return whether a folder is that of a run, finished or not."""
    return (folder / FILE).exists() or (folder / MARK).exists()


def whole_tree(run: RunFolder, ceiling: float | None) -> Tree:
    """Return the tree of all points of a run, of its branches and the upper tree."""
    merges, branches, nodes = top.load(run)
    parts, numbers = [], []
    for branch, node in zip(branches.tolist(), nodes.tolist(), strict=True):
        found = trees.load(run, branch)
        part, leaves = found.merges, np.arange(len(found.numbers))
        if node >= 0:
            tree = found.merges.tree()
            part, leaves = subtree(tree, node + (node >= tree.n_leaves))
        parts.append(part)
        numbers.append(found.numbers[leaves])
    return compose_merges(merges, parts, numbers).tree(ceiling)


class FinishedRun:
    """A run that is looked at: its tree, with ids where they are kept, and its vectors, read as they are asked for.

    Records are kept as pickles, and are not read.
    """

    def __init__(self, folder: Path):
        about = read_record(folder)
        if about is None or not about.is_finished:
            raise FileError(f"PATH {str(folder)!r} is the folder of a run that is not finished. {_going_on(folder)}")
        self._run, self._about = RunFolder(stages_folder(folder, about.stamp)), about
        if not are_trees_there(self._run, about.stamp, about.n_shards):
            raise FileError(
                f"PATH {str(folder)!r} no longer has the trees of its run: files were removed, or another run used it."
                f" {_going_on(folder)}"
            )
        try:
            self.tree = whole_tree(self._run, about.ceiling)
            self.tree.names = None if about.ids is None else _read_ids(folder / IDS, about.ids)
        except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
            raise FileError(f"PATH {str(folder)!r} is damaged: {error!r}. {_going_on(folder)}") from None
        self._kept = lru_cache(MOST_KEPT)(lambda branch: trees.rows_of(self._run, branch, is_mapped=True))

    @property
    def labels(self) -> Labels | None:
        """The flat clusters, if the run had ``n_clusters`` or ``threshold``."""
        about = self._about
        if about.threshold is not None:
            return cuts.cut_threshold(self.tree, about.threshold)
        return None if about.n_clusters is None else cuts.cut_sizeable(self.tree, about.n_clusters)

    @property
    def n_features(self) -> int | None:
        return None if self.metric is None else self._about.n_features

    @property
    def metric(self) -> str | None:
        """The metric of vectors, "cosine" or "euclidean"; None for records."""
        return self._about.metric

    @cached_property
    def _places(self) -> tuple[Ids, Ids]:
        """The branch of each point, and which of its leaves it is."""
        owners, leaves = np.empty((2, self.tree.n_leaves), np.int32)
        for branch in np.unique(top.load(self._run)[1]).tolist():
            numbers = trees.load(self._run, branch).numbers
            owners[numbers], leaves[numbers] = branch, np.arange(len(numbers))
        return owners, leaves

    def rows_at(self, numbers: Any) -> Any:
        """Return the rows of these points, dense or CSR; None for records."""
        if self.metric is None:
            return None
        owners, leaves = (some[numbers] for some in self._places)
        parts, order = [], []
        for branch in np.unique(owners).tolist():
            at = np.flatnonzero(owners == branch)
            parts.append(taken(self._kept(branch), leaves[at]))
            order.append(at)
        if not parts:
            return np.empty((0, self._about.n_features), np.float32)
        return taken(joined(parts), np.argsort(np.concatenate(order)))


def _going_on(folder: Path) -> str:
    """Return a sentence on how the run in a folder is resumed."""
    try:
        lines = (folder / MARK).read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        lines = []
    again = lines[0] if lines else "the same grinch cluster command" if (folder / MARK).exists() else None
    if again is None:
        return f"Resume it with the same ShardedGrinch(..., folder={str(folder)!r}).fit(X)"
    return f"Resume it with: {again}"
