"""What all experiments share: data, systems, scales, results, and how they are measured and drawn."""

from __future__ import annotations

import json
import os
import platform
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from experiments.cells import NOT_RUN, Cell, Cells, TimeUp
from experiments.keys import ENGINE, ROOMS, versions
from grinch import __version__
from grinch.datasets import Labelled, arrival, available, gaussian_mixture, load, paper_synthetic
from grinch.estimators.registry import make_system
from grinch.metrics import dendrogram_purity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from grinch.estimators.tree_clusterer import TreeClusterer

Row = dict[str, Any]
Curves = dict[str, tuple[list[float], list[float]]]

MIXTURE = "gaussian mixture"
# In the folder of the results, by the experiment that makes it.
UMAP_OF_MNIST = "mnist (UMAP)"
UMAP_FILE = "mnist-umap.npz"
SYNTHETIC = "synthetic"
# By name, the share of the bits of its class that a point has.
SYNTHETIC_SHARES = {SYNTHETIC: 0.1, "synthetic, 11 % of bits": 0.11}
SYNTHETIC_PER_CLASS = 25
# A tree of these has seen all there is to compile.
N_WARM_UP = 300
MOVES = ("rotations", "grafts", "restructurings")
# Beyond this all pairs take gigabytes; the chain of nearest neighbours makes the same tree in little memory.
MAX_HAC_PAIRS = 20_000
NO_SETTINGS: dict[str, Any] = {}


class Source(NamedTuple):
    """A data set by name, with at most ``most`` points; ``per_class`` is for the mixture, which is generated."""

    name: str
    most: int
    folder: Path | None
    seed: int
    per_class: int = 20


class System(NamedTuple):
    """A system by the name of its method, with settings; average linkage is the paper's, of cosines."""

    method: str
    linkage: str = "average"
    settings: Mapping[str, Any] = NO_SETTINGS
    metric: str = "cosine"


@lru_cache(maxsize=1)
def points_of(source: Source) -> Labelled:
    """Return all points, or a random sample if there are more than wanted."""
    if source.name == MIXTURE:
        n_classes = max(source.most // source.per_class, 2)
        return gaussian_mixture(source.most, n_classes=n_classes, random_state=source.seed)
    if source.name in SYNTHETIC_SHARES:
        n_classes, share = source.most // SYNTHETIC_PER_CLASS, SYNTHETIC_SHARES[source.name]
        return paper_synthetic(n_classes, SYNTHETIC_PER_CLASS, share=share, random_state=source.seed)
    if source.name == UMAP_OF_MNIST:
        assert source.folder is not None
        with np.load(source.folder / UMAP_FILE, allow_pickle=False) as file:
            data = Labelled(file["X"], file["y"])
    else:
        data = load(source.name, source.folder)
    if len(data.labels) <= source.most:
        return data
    rows = np.random.default_rng(source.seed).permutation(len(data.labels))[: source.most]
    return Labelled(data.vectors[rows], data.labels[rows])


class Description(NamedTuple):
    """The size of a data set, how many classes it has, and a digest of its values."""

    n: int
    n_classes: int
    digest: str


@lru_cache
def describe(source: Source) -> Description:
    """Return the size and the digest of a data set."""
    vectors, labels = points_of(source)
    names, codes = np.unique(labels, return_inverse=True)
    classes = codes.astype(np.int64)
    code = zlib.crc32(np.ascontiguousarray(vectors).tobytes(), zlib.crc32(classes.tobytes()))
    return Description(len(labels), len(names), f"{len(vectors)} x {vectors.shape[1]}, {code:08x}")


def in_order(source: Source, order: str | None, seed: int) -> Labelled:
    """Return the points in an order of arrival; None: as they are."""
    data = points_of(source)
    if order is None:
        return data
    rows = arrival(data.labels, order, seed)
    return Labelled(data.vectors[rows], data.labels[rows])


def measured_tree(source: Source, system: System, order: str | None, seed: int) -> dict[str, float]:
    """Return purity, processor time and moves of a system's tree."""
    X, y = in_order(source, order, seed)
    method, linkage, settings, metric = system
    # Compiled, or read from the cache, before the clock starts.
    make_system(method, linkage=linkage, metric=metric, **settings).fit(X[:N_WARM_UP])
    model = make_system(method, linkage=linkage, metric=metric, **settings)
    began = time.process_time()
    try:
        tree = model.fit(X).tree_
    except KeyboardInterrupt:
        raise TimeUp(how_far(model, len(X))) from None
    seconds = time.process_time() - began
    moves = {name: model.stats_[name] for name in MOVES if name in model.stats_}
    return {"purity": dendrogram_purity(tree, y, ties=model.purity_ties), "seconds": round(seconds, 3), **moves}


def how_far(model: TreeClusterer, n: int) -> dict[str, float]:
    """Return how many of n points an interrupted fit has joined."""
    with suppress(AttributeError, ValueError):
        return {"joined": 1 + int(np.sum(model.tree_.scores[model.tree_.internal_nodes()] > -np.inf)), "of": n}
    return {}


class Scale(NamedTuple):
    """The most points of a data set, the number of shuffled orders, and the processor time of a cell in seconds."""

    name: str
    points: int
    orders: int
    time_limit: float | None


SCALES = {
    "full": Scale("full", 100_000, 5, 600.0),
    "quick": Scale("quick", 2_000, 2, 30.0),
    "tiny": Scale("tiny", 150, 1, None),
}


@dataclass(frozen=True)
class Setting:
    """The scale, data and seed of an experiment, the beginning of its cells' names, and where they and results go."""

    scale: Scale = SCALES["quick"]
    folder: Path | None = None
    seed: int = 0
    say: Callable[[str], None] = lambda text: None
    cells: Cells = field(default_factory=Cells)
    prefix: str = ""
    out: Path | None = None

    def about_run(self, seconds: float) -> dict[str, Any]:
        """Return the settings, version and machine of a run."""
        run = {"seed": self.seed, "scale": self.scale.name, "seconds": round(seconds, 1), "version": __version__}
        processor = platform.processor() or platform.machine()
        machine = {"python": platform.python_version(), "processor": processor, "cores": os.cpu_count()}
        return {**run, "libraries": ", ".join(versions()), **machine}

    def source(self, name: str, n: int | None = None, per_class: int = 20) -> Source:
        """Return a data set by name, or a sample of it if it has more points than ``n`` or the scale."""
        return Source(name, min(n or self.scale.points, self.scale.points), self.folder, self.seed, per_class)

    def available(self, names: Sequence[str]) -> list[str]:
        """Return the names of the data sets that are there."""
        there = available(self.folder)
        return [name for name in names if name in there]

    def aloi_like(self, n: int) -> Source:
        """Return ALOI if it is there, or else a set like it: many small compact classes."""
        for name in self.available(["aloi", "speaker_digits"]):
            return self.source(name, n)
        return self.source(MIXTURE, n, per_class=8)

    def measure(
        self,
        cell: str,
        function: Callable[..., Any],
        *arguments: Any,
        data: str = "",
        rooms: Sequence[str] = ENGINE,
    ) -> Cell:
        """Return a cell of the table; ``rooms`` of the package compute it."""
        self.say(self.prefix + cell)
        return self.cells.measure(self.prefix + cell, function, *arguments, data=data, rooms=rooms)

    def tree(self, cell: str, source: Source, system: System, order: str | None = "random", seed: int = 0) -> Cell:
        """Measure the tree of a system on the data in one order of arrival; None: as they are."""
        arguments, digest = (source, system, order, seed), describe(source).digest
        return self.measure(cell, measured_tree, *arguments, data=digest, rooms=ROOMS[system.method])

    def trees(self, cell: str, source: Source, system: System, order: str, orders: int) -> list[Cell]:
        """Measure trees for several seeds of an order; after one that takes too long, the others would too."""
        found: list[Cell] = []
        for seed in range(self.seed, self.seed + orders):
            found.append(self.tree(f"{cell}, {seed}", source, system, order, seed))
            if found[-1].failure not in ("", NOT_RUN):
                break
        return found


@dataclass
class Result:
    """The result of an experiment: a table, curves if there are any, and remarks on them."""

    name: str
    title: str
    columns: list[str]
    rows: list[Row] = field(default_factory=list)
    curves: Curves = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path, draw: Callable[[Result], Figure | None]) -> None:
        """Write NAME.json, and NAME.png if there is something to draw."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure = draw(self)
        if figure is not None:
            figure.savefig(folder / f"{self.name}.png", dpi=130)
            plt.close(figure)

    def rows_by_data(self) -> dict[str, list[Row]]:
        """Return the rows of each data set, in the order of the table."""
        return {name: [row for row in self.rows if row["data"] == name] for name in (row["data"] for row in self.rows)}


def read_result(path: Path) -> Result:
    """Read a result that ``Result.write`` wrote."""
    return Result(**json.loads(path.read_text(encoding="utf-8")))


def mean_and_deviation(values: Sequence[float]) -> str:
    """Return a text such as 0.812 ± 0.004; a single value stands alone."""
    if not len(values):
        return ""
    mean = f"{np.mean(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values):.3f}"


def failure_of(cell: Cell) -> str:
    """Return why a cell has no figures, and how far it came.

    >>> failure_of(Cell({"joined": 1500, "of": 20000}, 600.0, "more than 10 min"))
    'more than 10 min (1,500 of 20,000 points)'
    """
    there = "joined" in cell.found
    return cell.failure + (" ({joined:,} of {of:,} points)".format(**cell.found) if there else "")


def figures(cells: Sequence[Cell], measure: str) -> list[float]:
    """Return the measure of every cell that was finished."""
    return [cell.found[measure] for cell in cells if not cell.failure]


def shown(cells: Sequence[Cell], measure: str) -> str:
    """Return mean and deviation of a measure, and why there are no more of them."""
    failures = [failure_of(cell) for cell in cells if cell.failure]
    return "; ".join(filter(None, [mean_and_deviation(figures(cells, measure)), *failures]))
