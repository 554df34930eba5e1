"""The paper's tables and figures, reproduced: one file for each, ours beside the paper's."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path

from grinch.errors import unknown_name
from grinch.experiments.setting import Result, Setting, about

# By name: the module, in the order of the paper.
EXPERIMENTS = {
    "synthetic": "synthetic",
    "table1": "ablation",
    "table2": "large_scale",
    "table3": "author_coreference",
    "block-size": "block_size",
    "table4": "robustness",
    "purity-per-point": "purity_curve",
    "grafts": "graft_effect",
    "time": "time_against_n",
    "recovery": "recovery",
}


def run_experiment(name: str, setting: Setting, folder: Path | None = None) -> Result:
    """Run one experiment; with ``folder``, write NAME.json and NAME.png there."""
    if name not in EXPERIMENTS:
        raise unknown_name("experiment", name, EXPERIMENTS)
    module = import_module(f"grinch.experiments.{EXPERIMENTS[name]}")
    start = time.perf_counter()
    result: Result = module.run(setting)
    result.name, result.about = name, about(setting, time.perf_counter() - start)
    if folder is not None:
        result.write(folder, module.draw)
    return result
