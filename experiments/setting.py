"""What all experiments share: how large they are, how they are measured, and what they leave behind."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from experiments.cells import Cell, Cells
from experiments.sources import MIXTURE, Source, System, digest, measured_tree
from grinch import __version__
from grinch.datasets import available

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]


class Scale(NamedTuple):
    """How much is done: the most points of a data set, the shuffled orders, the processor time of a cell in seconds."""

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
    """How an experiment is to be run."""

    scale: Scale = SCALES["quick"]
    folder: Path | None = None
    seed: int = 0
    say: Callable[[str], None] = lambda text: None
    cells: Cells = field(default_factory=Cells)
    out: Path | None = None

    def about(self) -> dict[str, Any]:
        """What a cell depends on besides its name and data."""
        limited = {"points": self.scale.points, "time_limit": self.scale.time_limit}
        return {"version": __version__, "seed": self.seed, "scale": self.scale.name, **limited}

    def source(self, name: str, n: int | None = None, per_class: int = 20) -> Source:
        """A data set by name, or a sample of it if it has more points than ``n`` or the scale."""
        most = min(n or self.scale.points, self.scale.points)
        return Source(name, most, self.folder, self.seed, per_class)

    def available(self, names: Sequence[str]) -> list[str]:
        there = available(self.folder)
        return [name for name in names if name in there]

    def aloi_like(self, n: int) -> Source:
        """ALOI where it is at hand; else the nearest thing to many small compact classes."""
        for name in self.available(["aloi", "speaker_digits"]):
            return self.source(name, n)
        return self.source(MIXTURE, n, per_class=8)

    def measure(self, cell: str, function: Callable[..., Any], *arguments: Any, data: str = "") -> Cell:
        """A cell of the table, measured now or earlier."""
        self.say(cell)
        return self.cells.measure(cell, function, *arguments, data=data)

    def tree(self, cell: str, source: Source, system: System, order: str | None = "random", seed: int = 0) -> Cell:
        """Purity, processor time and moves of a system's tree of the data in one order; None: as they are."""
        return self.measure(cell, measured_tree, source, system, order, seed, data=digest(source))

    def trees(self, cell: str, source: Source, system: System, order: str, orders: int) -> list[Cell]:
        """The same for several seeds of an order; after one that takes too long, the others would too."""
        found: list[Cell] = []
        for seed in range(self.seed, self.seed + orders):
            found.append(self.tree(f"{cell}, {seed}", source, system, order, seed))
            if found[-1].failure:
                break
        return found


@dataclass
class Result:
    """What an experiment found: a table, curves if there are any, and remarks on them."""

    name: str
    title: str
    columns: list[str]
    rows: list[Row] = field(default_factory=list)
    curves: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path, draw: Callable[[Result], Figure | None]) -> None:
        """NAME.json, and NAME.png if there is something to draw."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.json").write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        figure = draw(self)
        if figure is not None:
            figure.savefig(folder / f"{self.name}.png", dpi=130)
            plt.close(figure)


def read_result(path: Path) -> Result:
    return Result(**json.loads(path.read_text(encoding="utf-8")))


def about(setting: Setting, seconds: float) -> dict[str, Any]:
    """Where and how a result came about."""
    return {
        "seed": setting.seed,
        "scale": setting.scale.name,
        "seconds": round(seconds, 1),
        "version": __version__,
        "python": platform.python_version(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
    }


def mean_and_deviation(values: Sequence[float]) -> str:
    """Like 0.812 ± 0.004; a single value stands alone."""
    if not len(values):
        return ""
    mean = f"{np.mean(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values):.3f}"


def figures(cells: Sequence[Cell], measure: str) -> list[float]:
    """The measure of every cell that was finished."""
    return [cell.found[measure] for cell in cells if not cell.failure]


def shown(cells: Sequence[Cell], measure: str) -> str:
    """Mean and deviation of a measure, and why there are no more of them."""
    failures = [cell.failure for cell in cells if cell.failure]
    return "; ".join(filter(None, [mean_and_deviation(figures(cells, measure)), *failures]))


def end_at_one(ax: Axes) -> None:
    """No ticks beyond 1 on an axis of shares."""
    ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= 1])
