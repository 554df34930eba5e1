"""Two versions side by side: the sources here and those of an earlier commit, in turns on one machine.

    python benchmarks/before.py COMMIT [--rounds 3]

Writes the medians of both to benchmarks/before.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from written import write_figures

HERE = Path(__file__).parent
ROOT = HERE.parent
START = """
import json, time
began = time.perf_counter()
import grinch
imported = time.perf_counter() - began
import numpy as np
X = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)
def fit():
    began, cpu = time.perf_counter(), time.process_time()
    grinch.Grinch(metric="cosine").fit(X).labels_
    return time.perf_counter() - began, time.process_time() - cpu
began, cpu = time.perf_counter(), time.process_time()
grinch.Grinch
loaded = time.perf_counter() - began
first, second = fit(), fit()
print(json.dumps({"import_s": imported, "load_s": loaded, "first_fit_s": first[0], "first_fit_cpu_s": first[1],
                  "second_fit_s": second[0], "second_fit_cpu_s": second[1]}))
"""


def run(sources: Path, cache: str, *arguments: str) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment, cwd=cache
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(sources: Path, cache: str) -> dict[str, dict[str, float]]:
    """One round: compiled from nothing, started again, and the two probes."""
    with tempfile.TemporaryDirectory() as empty:
        cold = run(sources, empty, "-c", START)
        warm = run(sources, empty, "-c", START)
    probe = str(HERE / "probe.py")
    return {
        "start": {
            "import_s": warm["import_s"],
            "load_s": warm["load_s"],
            "cold_compile_cpu_s": cold["first_fit_cpu_s"] - cold["second_fit_cpu_s"],
            "warm_first_fit_extra_s": warm["first_fit_s"] - warm["second_fit_s"],
        },
        "linkages": run(sources, cache, probe, "linkages"),
        "coreference": run(sources, cache, probe, "coreference"),
    }


def medians(rounds: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        part: {name: statistics.median(each[part][name] for each in rounds) for name in figures}
        for part, figures in rounds[0].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", help="the earlier version, as git names it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=HERE / "before.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "old"
        subprocess.run(
            ["git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(old), options.commit], check=True
        )
        try:
            caches = {name: tempfile.mkdtemp(dir=folder) for name in ("before", "after")}
            sources = {"before": old / "src", "after": ROOT / "src"}
            rounds: dict[str, list[Any]] = {"before": [], "after": []}
            for i in range(options.rounds):
                for name in rounds:
                    rounds[name].append(measured(sources[name], caches[name]))
                    print(f"round {i + 1}, {name}: {json.dumps(rounds[name][-1])}", flush=True)
        finally:
            subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(old)], check=True)
    results = {"commit": options.commit, **{name: medians(found) for name, found in rounds.items()}}
    write_figures(options.out, results)


if __name__ == "__main__":
    main()
