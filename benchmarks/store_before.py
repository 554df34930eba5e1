"""Stores of two versions side by side: the sources here and those of an earlier commit, in turns on one machine.

    python benchmarks/store_before.py SOURCES      folder src of the earlier version

Writes the medians of both to benchmarks/store_before.json: inserts at 100,000 points x 64, opening a million x 16, one
row predicted over HTTP beside an insert of 10,000, and steps of zooming in the explorer of a store. Both are open at
the same time and take turns call by call, so what else the machine does slows both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np

import explorer
import service
from written import write_figures

HERE = Path(__file__).parent
N, MANY, DIMS = 100_000, 1_000_000, 16
TIMES = {1: 300, 100: 40, 10_000: 5}
OPENINGS, INSERTS_BESIDE = 9, 3


# Each of these runs in a process of its own, with the sources of one version -----------------------------------------


def make(place: Path) -> None:
    """Make the stores that are measured; the tree of the large one is made by halves."""
    import grinch
    from grinch.tree import Tree

    service.make_store(place / "store", N)
    level, pairs, n_nodes = np.arange(MANY), [], MANY
    while len(level) > 1:
        some = level[: len(level) // 2 * 2].reshape(-1, 2)
        pairs.append(some)
        level = np.concatenate([n_nodes + np.arange(len(some)), level[2 * len(some) :]])
        n_nodes += len(some)
    X = np.sort(np.random.default_rng(0).normal(size=(MANY, DIMS)).astype(np.float32), axis=0)
    with grinch.open(place / "many", n_clusters=1_000) as store:
        store.adopt(X, Tree.from_merges(np.concatenate(pairs), np.zeros(MANY - 1)))


def work(place: Path) -> None:
    """Do what is asked for on standard input, line by line, and say how many milliseconds each took."""
    import grinch

    shutil.rmtree(place / "used", ignore_errors=True)
    shutil.copytree(place / "store", place / "used")
    at, X = 0, service.rows(70_000, 7)
    store = grinch.open(place / "used")
    for line in sys.stdin:
        if line == "open\n":
            took, opened = milliseconds(partial(grinch.open, place / "many"))
            opened.close()
        else:
            rows, ids = X[at : at + int(line)], [f"new-{i}" for i in range(at, at + int(line))]
            took, _ = milliseconds(partial(store.insert, rows, ids=ids))
            at += int(line)
        print(json.dumps(took), flush=True)
    store.close()


def milliseconds(call: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    """Return how long a call took, by the clock and by the processor, and what it returned."""
    began, used = time.perf_counter(), time.process_time()
    found = call()
    return (1e3 * (time.perf_counter() - began), 1e3 * (time.process_time() - used)), found


# ---------------------------------------------------------------------------------------------------------------------


class Version:
    """One of the two: a process with its sources that does what it is asked, and servers of its stores."""

    def __init__(self, sources: Path, place: Path):
        self.place = place
        cache = str(place.with_name(f"{place.name}-cache"))
        self.environment = {**os.environ, "PYTHONPATH": str(sources), "NUMBA_CACHE_DIR": cache}
        if not place.exists():
            place.mkdir(parents=True)
            subprocess.run(self._command("make"), check=True, env=self.environment)

    def _command(self, part: str) -> list[str]:
        return [sys.executable, __file__, str(self.place), "--part", part]

    def begin(self) -> None:
        self.worker = subprocess.Popen(
            self._command("work"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment
        )

    def ask(self, what: str) -> list[float]:
        assert self.worker.stdin is not None
        assert self.worker.stdout is not None
        self.worker.stdin.write(f"{what}\n")
        self.worker.stdin.flush()
        found: list[float] = json.loads(self.worker.stdout.readline())
        return found

    def over_http(self) -> dict[str, float]:
        """Milliseconds of predictions by a client, among them those while 10,000 points are inserted."""
        shutil.rmtree(self.place / "served", ignore_errors=True)
        shutil.copytree(self.place / "store", self.place / "served")
        os.environ |= self.environment
        server, port = service.start(self.place / "served")
        try:
            service.ask_with_clients(port, "predict", 1, 0.5, 10_000)
            return service.beside(port)
        finally:
            server.terminate()
            server.wait()


def alternately(versions: dict[str, Version], times: int, what: Callable[[Version], Any]) -> dict[str, list[Any]]:
    """Do something with each version in turns, the first one as often before as after the second."""
    found: dict[str, list[Any]] = {name: [] for name in versions}
    for number in range(times):
        for name in reversed(versions) if number % 2 else versions:
            found[name].append(what(versions[name]))
    return found


def zooming(versions: dict[str, Version]) -> dict[str, list[float]]:
    """Milliseconds of steps of zooming in stores that are open."""
    with ExitStack() as stack:
        asking = {}
        for name, version in versions.items():
            os.environ |= version.environment
            asking[name] = explorer.Asking(stack.enter_context(explorer.served(version.place / "store"))[0])
            for first in ("about", "view", "cut", "map"):
                asking[name].get(f"/api/{first}")
        found: dict[str, list[float]] = {name: [] for name in asking}
        for path in explorer.walks(N):
            for name in asking:
                found[name].append(asking[name].get(path)[1])
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", type=Path, help="folder src of the earlier version")
    parser.add_argument("--place", type=Path, help="where to make folders; stores that are there are used again")
    parser.add_argument("--out", type=Path, default=HERE / "store_before.json")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        PARTS[options.part](options.sources)
        return
    place = options.place or Path(tempfile.mkdtemp(prefix="store-before-"))
    sources = {"before": options.sources.resolve(), "after": HERE.parent / "src"}
    versions = {name: Version(sources[name], place / name) for name in sources}
    found: dict[str, Any] = {}
    for version in versions.values():
        version.begin()
    for size in (1, 100, 10_000):
        alternately(versions, 1, methodcaller("ask", str(size)))
    alternately(versions, 1, methodcaller("ask", "open"))
    for size, times in TIMES.items():
        title = f"insert of {size:,}"
        note(found, title, alternately(versions, times, methodcaller("ask", str(size))))
    note(found, f"opening {MANY:,}", alternately(versions, OPENINGS, methodcaller("ask", "open")))
    for version in versions.values():
        version.worker.communicate()
    note(found, "zoom step", {name: [[took] for took in some] for name, some in zooming(versions).items()})
    beside = alternately(versions, INSERTS_BESIDE, Version.over_http)
    for which in ("p50 ms", "p99 ms", "longest predict ms"):
        title = f"predict over HTTP beside an insert of 10,000, {which}"
        note(found, title, {name: [[each[which]] for each in some] for name, some in beside.items()})
    write_figures(options.out, found)
    if options.place is None:
        shutil.rmtree(place)


def note(found: dict[str, Any], title: str, times: dict[str, list[list[float]]]) -> None:
    """Note the medians of both versions, by the clock and if it is known by the processor, and of their ratio."""
    row: dict[str, float] = {"times": len(times["after"])}
    for i, clock in enumerate(("clock", "processor")[: len(times["after"][0])]):
        before, after = ([took[i] for took in times[name]] for name in ("before", "after"))
        pairs = [new / old for old, new in zip(before, after, strict=True) if old]
        row[f"before, ms by the {clock}"] = round(statistics.median(before), 2)
        row[f"after, ms by the {clock}"] = round(statistics.median(after), 2)
        row[f"ratio by the {clock}"] = round(statistics.median(pairs), 3)
    found[title] = row
    print(title, row, flush=True)


PARTS = {"make": make, "work": work}


if __name__ == "__main__":
    main()
