"""What all experiments share: how large they are, what data they run on, and what they leave behind."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from grinch import __version__
from grinch.datasets import Labelled, available, gaussian_mixture, load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]


class Scale(NamedTuple):
    """How much is done: the most points of a data set, the shuffled orders, the seconds a method may take."""

    name: str
    points: int
    orders: int
    time_limit: float


SCALES = {
    "full": Scale("full", 100_000, 5, 600.0),
    "quick": Scale("quick", 2_000, 2, 30.0),
    "tiny": Scale("tiny", 150, 1, 30.0),
}


@dataclass(frozen=True)
class Setting:
    """How an experiment is to be run."""

    scale: Scale = SCALES["quick"]
    folder: Path | None = None
    seed: int = 0
    say: Callable[[str], None] = lambda text: None

    def at_most(self, n: int) -> int:
        return min(n, self.scale.points)

    def load(self, name: str, n: int | None = None) -> Labelled:
        """A data set by name, or a sample of it if it has more points."""
        data, most = load(name, self.folder), self.at_most(n or self.scale.points)
        if len(data.labels) <= most:
            return data
        rows = np.random.default_rng(self.seed).permutation(len(data.labels))[:most]
        return Labelled(data.vectors[rows], data.labels[rows])

    def available(self, names: Sequence[str]) -> list[str]:
        there = available(self.folder)
        return [name for name in names if name in there]

    def aloi_like(self, n: int) -> tuple[str, Labelled]:
        """ALOI where it is at hand; else the nearest thing to many small compact classes."""
        for name in self.available(["aloi", "speaker_digits"]):
            return name, self.load(name, n)
        n = self.at_most(n)
        return "gaussian mixture", gaussian_mixture(n, n_classes=max(n // 8, 2), n_features=64, random_state=self.seed)


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
