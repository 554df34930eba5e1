"""The paper's tables and figures, reproduced: one file for each, ours beside the paper's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from experiments import (
    ablation,
    author_coreference,
    block_size,
    graft_effect,
    insert_and_remove,
    large_scale,
    purity_curve,
    recovery,
    robustness,
    synthetic,
    time_against_n,
)
from experiments.cells import Cells
from experiments.setting import Result, Setting, about
from grinch.errors import unknown_name

# By name, in the order of the paper; the last is of another one.
EXPERIMENTS: dict[str, ModuleType] = {
    "synthetic": synthetic,
    "table1": ablation,
    "table2": large_scale,
    "table3": author_coreference,
    "block-size": block_size,
    "table4": robustness,
    "purity-per-point": purity_curve,
    "grafts": graft_effect,
    "time": time_against_n,
    "recovery": recovery,
    "dynhac": insert_and_remove,
}


def run_experiment(
    name: str, setting: Setting, folder: Path | None = None, again: Sequence[str] = (), skip: Sequence[str] = ()
) -> Result:
    """Run one experiment; with ``folder``, write NAME.json and NAME.png there.

    Cells that are in the folder already are taken from there, except those that match a pattern of ``again``; those
    that match ``skip`` and are not there are left open.
    """
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    module = EXPERIMENTS[name]
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    limit = setting.scale.time_limit
    with Cells(folder, prefix=f"{name}: ", limit=limit, about=setting.about(), again=again, skip=skip) as cells:
        result: Result = module.run(replace(setting, cells=cells, out=folder))
    result.name, result.about = name, about(setting, time.perf_counter() - start)
    result.about |= {"cells measured": cells.n_measured, "cells taken over": cells.n_taken_over}
    if folder is not None:
        result.write(folder, module.draw)
    return result
