"""The paper's tables and figures, reproduced beside the paper's own figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
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
from experiments.cells import FILE, Cells
from experiments.setting import Result, Setting
from grinch._checks import check_name


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


def run_experiments(
    names: Sequence[str],
    setting: Setting,
    folder: Path | None = None,
    cells_at: Path | None = None,
    again: Sequence[str] = (),
    skip: Sequence[str] = (),
) -> Iterator[Result]:
    """Run experiments, and yield their results in turn; with ``folder``, write NAME.json and NAME.png there.

    Cells that are in the file ``cells_at`` (cells.jsonl of the folder) are taken from there if nothing that they depend
    on has changed, except those that match a pattern of ``again``; those that match ``skip`` and are not there are not
    measured. If all experiments run, cells that no table has any more leave the file.
    """
    for name in names:
        check_name("experiment", name, EXPERIMENTS)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        cells_at = cells_at or folder / FILE
    cells = Cells(cells_at, limit=setting.scale.time_limit, again=again, skip=skip)
    setting = replace(setting, cells=cells, out=folder)

    def run(name: str) -> Result:
        return EXPERIMENTS[name].run(replace(setting, prefix=f"{name}: "))

    if cells.limit is not None:
        while True:
            for name in names:
                run(name)
            if not cells.missing:
                break
            cells.measure_missing(setting.say)
    for name in names:
        start = time.perf_counter()
        result = run(name)
        result.name, result.about = name, setting.about_run(time.perf_counter() - start)
        mine = [key for key in cells.used if key[0].startswith(f"{name}: ")]
        new = [key for key in mine if key in cells.measured]
        result.about |= {"cells measured": len(new), "cells taken over": len(mine) - len(new)}
        if folder is not None:
            result.write(folder, EXPERIMENTS[name].draw)
        yield result
    if cells_at is not None and not skip and set(names) == set(EXPERIMENTS):
        cells.tidy()


def run_experiment(name: str, setting: Setting, folder: Path | None = None) -> Result:
    """Run one experiment; with ``folder``, write NAME.json and NAME.png there, and take finished cells from there."""
    return next(run_experiments([name], setting, folder))
