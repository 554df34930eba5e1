"""Time of the first calls from an empty cache of compiled code: each step after those before it, in one process.

python benchmarks/starting.py            print a table
python benchmarks/starting.py --write    and write benchmarks/starting.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from written import write_figures

FILE = Path(__file__).with_suffix(".json")
STEPS = {
    "import": "from grinch import Grinch; import grinch",
    "fit": "model = Grinch(metric='sqeuclidean').fit(X)",
    "labels_": "model.labels_",
    "predict": "model.predict(X[:20])",
    "partial_fit": "model.partial_fit(X[:20])",
    "remove": "model.remove([0, 1])",
    "fit, cosine": "Grinch(metric='cosine').fit(X).labels_",
    "fit, ward": "Grinch(linkage='ward').fit(X).labels_",
    "fit, n_clusters": "Grinch(n_clusters=5).fit(X).labels_",
    "refine": "model.refine()",
    "save": "model.save(folder + '/model.grinch')",
    "fit, sparse": "Grinch(metric='cosine').fit(S).labels_",
    "store": "store = grinch.open(folder + '/store'); store.insert(X[:300]); store.remove(store.ids[:2])",
}
PROGRAM = """
import json, sys, time
import numpy as np, scipy.sparse
folder, steps = sys.argv[1], json.loads(sys.argv[2])
rng = np.random.default_rng(0)
X = rng.normal(size=(20, 8))[rng.integers(0, 20, 2000)] * 6 + rng.normal(size=(2000, 8))
S = scipy.sparse.random(2000, 300, 0.05, format="csr", random_state=0)
for name, step in steps.items():
    cpu, wall = time.process_time(), time.perf_counter()
    exec(step)
    print(json.dumps([name, time.process_time() - cpu, time.perf_counter() - wall]), flush=True)
"""


def measure() -> dict[str, dict[str, float]]:
    """Return the seconds of each step from an empty cache, and from the full one in another process."""
    found: dict[str, dict[str, float]] = {name: {} for name in STEPS}
    with tempfile.TemporaryDirectory() as cache:
        for state in ("cold", "warm"):
            for name, cpu, wall in _run(cache):
                found[name] |= {f"{state}_cpu_s": round(cpu, 2), f"{state}_wall_s": round(wall, 2)}
    return found


def _run(cache: str) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", PROGRAM, folder, json.dumps(STEPS)]
        given = {**os.environ, "NUMBA_CACHE_DIR": cache}
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    is_written = parser.parse_args().write
    found = measure()
    print(f"{'':16} cold cpu    wall  warm cpu    wall")
    for name, seconds in found.items():
        print(f"{name:16} " + " ".join(f"{value:8.2f}" for value in seconds.values()))
    if is_written:
        write_figures(FILE, found)


if __name__ == "__main__":
    main()
