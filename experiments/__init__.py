"""The paper's tables and figures, reproduced beside the paper's own figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from experiments import (
    ablation,
    author_coreference,
    grafts,
    growth,
    insert_and_remove,
    large_scale,
    robustness,
    separated,
)
from experiments.cells import Cells
from experiments.setting import Result, Setting
from grinch.errors import unknown_name


class Experiment(NamedTuple):
    """An experiment: what measures it, and what draws its result."""

    run: Callable[[Setting], Result]
    draw: Callable[[Result], Any]


# By name, in the order of the paper; the last is of another one.
EXPERIMENTS = {
    "synthetic": Experiment(separated.run_synthetic, separated.draw_synthetic),
    "table1": Experiment(ablation.run, ablation.draw),
    "table2": Experiment(large_scale.run, large_scale.draw),
    "table3": Experiment(author_coreference.run, author_coreference.draw),
    "block-size": Experiment(growth.run_records, growth.draw),
    "table4": Experiment(robustness.run, robustness.draw),
    "purity-per-point": Experiment(grafts.run_curve, grafts.draw_curve),
    "grafts": Experiment(grafts.run_changes, grafts.draw_changes),
    "time": Experiment(growth.run_points, growth.draw),
    "recovery": Experiment(separated.run_recovery, separated.draw_recovery),
    "dynhac": Experiment(insert_and_remove.run, insert_and_remove.draw),
}


def run_experiment(
    name: str, setting: Setting, folder: Path | None = None, again: Sequence[str] = (), skip: Sequence[str] = ()
) -> Result:
    """Run one experiment; with ``folder``, write NAME.json and NAME.png there.

    Cells that are in the folder already are taken from there, except those that match a pattern of ``again``; those
    that match ``skip`` and are not there are not measured.
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    limit = setting.scale.time_limit
    with Cells(folder, prefix=f"{name}: ", limit=limit, about=setting.about(), again=again, skip=skip) as cells:
        result = EXPERIMENTS[name].run(replace(setting, cells=cells, out=folder))
    result.name, result.about = name, setting.about_run(time.perf_counter() - start)
    result.about |= {"cells measured": cells.n_measured, "cells taken over": cells.n_taken_over}
    if folder is not None:
        result.write(folder, EXPERIMENTS[name].draw)
    return result
