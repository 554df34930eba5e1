"""Cost of a store that begins with the tree of a finished run: benchmarks/to_store.json.

    python benchmarks/to_store.py                          1,000,000 points
    python benchmarks/to_store.py 1000000 3000000 10000000

Points of 32 dimensions stand around centres, 100 each, in random order. Their tree is made by halves, for what a store
costs does not depend on how good a tree is, and cut into 1,000 clusters. Making and using the store are measured in
processes of their own, and sizes that are not asked for stay in the file as they are.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import grinch
from grinch.tree import Tree
from scale import peak
from written import write_figures

OUT = Path(__file__).parent / "to_store.json"
DIMS, GROUP, N_CLUSTERS, SINGLES, WARM = 32, 100, 1_000, 21, 20_000


def around_centres(centres: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (centres + 0.3 * rng.normal(size=(len(centres), DIMS))).astype(np.float32)


def centres_of(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(-(-n // GROUP), DIMS))


def points(n: int, path: Path) -> tuple[np.ndarray, Tree]:
    """Return n points, mapped from a file as ShardedGrinch.to_store has them, and a tree over them."""
    order, centres = np.random.default_rng(2).permutation(n), centres_of(n)
    X = np.memmap(path, np.float32, "w+", shape=(n, DIMS))
    for first in range(0, n, 100_000):
        at = np.arange(first, min(first + 100_000, n))
        X[order[at]] = around_centres(centres[at // GROUP])
    level, pairs, n_nodes = order, [], n
    while len(level) > 1:
        some = level[: len(level) // 2 * 2].reshape(-1, 2)
        pairs.append(some)
        level = np.concatenate([n_nodes + np.arange(len(some)), level[2 * len(some) :]])
        n_nodes += len(some)
    return X, Tree.from_merges(np.concatenate(pairs), np.zeros(n - 1))


# Each of these runs in a process of its own --------------------------------------------------------------------------


def adopt(n: int, folder: Path) -> dict[str, float]:
    """Make the store."""
    X, tree = points(n, folder.with_name("rows"))
    began = time.perf_counter()
    with grinch.open(folder, n_clusters=N_CLUSTERS) as store:
        store.adopt(X, tree)
    took = time.perf_counter() - began
    on_disk = sum(path.stat().st_blocks * 512 for path in folder.iterdir())
    return {"seconds": round(took, 2), "bytes a point": round(on_disk / n, 1), "memory": peak()}


def insert(n: int, folder: Path) -> dict[str, float]:
    """Open the store, and insert points that stand around the same centres."""
    centres = centres_of(n)
    some = around_centres(centres[np.random.default_rng(3).integers(0, len(centres), SINGLES + 1_000)])
    began = time.perf_counter()
    with grinch.open(folder) as store:
        opened = time.perf_counter() - began
        took = [_seconds(store, some[i : i + 1]) for i in range(SINGLES)]
        thousand = _seconds(store, some[SINGLES:])
        return {
            "open": round(opened, 3),
            "first insert": round(took[0], 4),
            "insert 1": round(float(np.median(took[1:])), 4),
            "insert 1,000": round(thousand, 3),
            "memory": peak(),
        }


def _seconds(store: Any, rows: np.ndarray) -> float:
    began = time.perf_counter()
    store.insert(rows)
    return time.perf_counter() - began


# ---------------------------------------------------------------------------------------------------------------------

PARTS = {"adopt": adopt, "insert": insert}


def _run(part: str, n: int, folder: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--part", part, str(n), folder]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def warm_up() -> None:
    """Load all compiled code that is needed, so that it is not measured."""
    with tempfile.TemporaryDirectory() as folder:
        for part in PARTS.values():
            part(WARM, Path(folder) / "store")


def main(sizes: list[int]) -> None:
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            found = {part: _run(part, n, folder) for part in PARTS}
        known = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
        known[str(n)] = found
        rows = dict(sorted(known.items(), key=lambda row: int(row[0])))
        write_figures(OUT, rows)
        print(n, found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--part"]:
        warm_up()
        print(json.dumps(PARTS[sys.argv[2]](int(sys.argv[3]), Path(sys.argv[4]) / "store")))
    else:
        main([int(n) for n in sys.argv[1:]] or [1_000_000])
