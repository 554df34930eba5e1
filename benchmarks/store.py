"""Cost of a store beside the bare estimator: inserts, opening, bytes, stalls, and following the clusters.

    python benchmarks/store.py                      all parts (about 15 minutes on two cores)
    python benchmarks/store.py --only rates bytes   some of them; the others stay as they are in benchmarks/store.json
    python benchmarks/store.py --only reopen --points 100000

Each part runs in a process of its own. The mixture is that of scale.py: 1,000 clusters in 64 dimensions. Folders are
made under --place (default: the system's folder for temporary files), so that is the disk that is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scale import mixture
from written import write_figures

OUT = Path(__file__).parent / "store.json"
POINTS, MANY = 100_000, 1_000_000


def warm_up(place: Path) -> None:
    """Compile what will be used, so that it is not measured."""
    import grinch

    X = mixture(20_000)[0]
    with grinch.open(place / "warm", metric="cosine") as store:
        store.insert(X[:18_000])
        for i in range(18_000, 18_010):
            store.insert(X[i : i + 1])
            store.labels()
    grinch.open(place / "warm").close()
    shutil.rmtree(place / "warm")


def batches(X: np.ndarray, start: int, stop: int, size: int) -> Iterator[np.ndarray]:
    for first in range(start, stop, size):
        yield X[first : min(first + size, stop)]


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    times.append(time.perf_counter() - began)


# Parts, each in a process of its own ---------------------------------------------------------------------------------


def rates(place: Path, n: int) -> dict[str, Any]:
    """Inserts per second up to n points, in batches of several sizes, beside ``partial_fit`` on the same rows."""
    import grinch

    X = mixture(n)[0]
    found: dict[str, Any] = {"points": n}
    for size, measured in ((10_000, n), (100, n // 5), (1, n // 50)):
        seconds: dict[str, list[float]] = {"estimator": [], "store": []}
        processor: dict[str, list[float]] = {"estimator": [], "store": []}
        for attempt in range(3):
            for name in seconds:
                folder = place / f"{name}-{size}-{attempt}"
                with grinch.open(folder, metric="cosine") as store:
                    model = grinch.Grinch(metric="cosine")
                    insert = store.insert if name == "store" else model.partial_fit
                    for batch in batches(X, 0, n - measured, 10_000):
                        insert(batch)
                    used = time.process_time()
                    with timed(seconds[name]):
                        for batch in batches(X, n - measured, n, size):
                            insert(batch)
                    processor[name].append(time.process_time() - used)
                shutil.rmtree(folder)
        speed = {name: measured / min(each) for name, each in seconds.items()}
        found[f"batches of {size}"] = {
            "points measured": measured,
            "estimator, points a second": round(speed["estimator"], 1),
            "store, points a second": round(speed["store"], 1),
            "ratio": round(speed["store"] / speed["estimator"], 3),
            "ratio by processor time": round(min(processor["estimator"]) / min(processor["store"]), 3),
            "seconds of each attempt": {name: [round(s, 2) for s in each] for name, each in seconds.items()},
            "processor seconds": {name: [round(s, 2) for s in each] for name, each in processor.items()},
        }
    return found


def reopen(place: Path, n: int) -> dict[str, Any]:
    """Milliseconds until a store of n points is open, from a process that has just started, and after some inserts."""
    import grinch

    folder = place / f"many-{n}"
    X = mixture(n + 1000)[0]
    made: list[float] = []
    if not folder.exists():
        with timed(made), grinch.open(folder, metric="cosine") as store:
            for batch in batches(X, 0, n, 10_000):
                store.insert(batch)
    found: dict[str, Any] = {"points": n, "seconds to make it": round(made[0], 1) if made else None}
    found["as closed"] = [_opened(folder) for _ in range(3)]
    found["as closed, not in the cache of the system"] = _opened(folder, is_cold=True)
    found["as a reader"] = [_opened(folder, readonly=True) for _ in range(3)]
    # A writer that dies: what came since the last snapshot is done again.
    code = (
        "import grinch, numpy as np, os, sys; X = np.load(sys.argv[2]); s = grinch.open(sys.argv[1]);"
        " [s.insert(X[i : i + 100]) for i in range(0, len(X), 100)]; os._exit(0)"
    )
    np.save(place / "more.npy", X[n:])
    subprocess.run([sys.executable, "-c", code, str(folder), str(place / "more.npy")], check=True)
    found["with 10 inserts of 100 points since the snapshot"] = _opened(folder, readonly=True)
    return found


def _opened(folder: Path, is_cold: bool = False, readonly: bool = False) -> dict[str, float]:
    """Milliseconds of opening, and of the first labels and the first insert after it, in a process of their own."""
    if is_cold:
        for path in folder.iterdir():
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)
    code = """
import sys, time, tempfile, numpy as np, grinch
with grinch.open(tempfile.mkdtemp(), metric="cosine") as warm:
    warm.insert(np.eye(64, dtype=np.float32)); warm.labels()
began = time.perf_counter()
store = grinch.open(sys.argv[1], readonly=sys.argv[2] == "True")
opened = time.perf_counter()
n = len(store)
store.labels()
labels = time.perf_counter()
print(f"{(opened - began) * 1e3:.1f} {(labels - opened) * 1e3:.1f} {n}")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(readonly)], check=True, capture_output=True, text=True
    )
    opened, labels, n = map(float, done.stdout.split())
    return {"open, ms": opened, "then labels, ms": labels, "points": n}


def size(place: Path, n: int) -> dict[str, Any]:
    """Bytes per point on disk, by part; 64 float32 are 256 of them."""
    import grinch

    X = mixture(n)[0]
    found: dict[str, Any] = {"points": n}
    for name, ids in (("numbered", None), ("ids of 12 characters", [f"ticket-{i:05}" for i in range(n)])):
        with grinch.open(place / name, metric="cosine") as store:
            for first in range(0, n, 10_000):
                store.insert(X[first : first + 10_000], ids=ids and ids[first : first + 10_000])
        with grinch.open(place / name, readonly=True) as store:
            parts = store.info()["bytes"]
        found[name] = {part: round(count / n, 1) for part, count in {**parts, "in all": sum(parts.values())}.items()}
        shutil.rmtree(place / name)
    return found


def stall(place: Path, n: int) -> dict[str, Any]:
    """Milliseconds of single inserts at n points, while snapshots are taken in the background and while none is."""
    import grinch
    from grinch.store import snapshots

    def is_writing() -> bool:
        return any(thread.name == "grinch-snapshot" for thread in threading.enumerate())

    X = mixture(n + 3000)[0]
    with grinch.open(place / "stall", metric="cosine") as store:
        for batch in batches(X, 0, n, 10_000):
            store.insert(batch)
        store.snapshot()
        # A snapshot every 500 points, so that there are several.
        snapshots.MIN_CHANGED, snapshots.CHANGED_SHARE = 500, 0.0
        aside: list[float] = []
        alone: list[float] = []
        for row in batches(X, n, n + 3000, 1):
            was_aside = is_writing()
            began = time.perf_counter()
            store.insert(row)
            took = 1e3 * (time.perf_counter() - began)
            (aside if was_aside or is_writing() else alone).append(took)
    shutil.rmtree(place / "stall")
    return {
        "points": n,
        "beside a snapshot": _spread(aside),
        "otherwise": _spread(alone),
    }


def _spread(times: list[float]) -> dict[str, float]:
    if not times:
        return {"inserts": 0}
    ordered = sorted(times)
    return {
        "inserts": len(times),
        "median, ms": round(statistics.median(times), 2),
        "99 %, ms": round(ordered[int(0.99 * (len(ordered) - 1))], 2),
        "slowest, ms": round(ordered[-1], 2),
    }


def beside(place: Path, n: int) -> dict[str, Any]:
    """Milliseconds of a thread's calls while 10,000 points are inserted at n points, numbered or with text ids."""
    import grinch

    X, found = mixture(n + 10_000)[0], dict[str, Any](points=n)
    for kind, ids in (("numbered", None), ("ids of 12 characters", [f"ticket-{i:05}" for i in range(len(X))])):
        with grinch.open(place / "beside", metric="cosine") as store:
            for first in range(0, n, 10_000):
                store.insert(X[first : first + 10_000][: n - first], ids=ids and ids[first : min(first + 10_000, n)])
        found[kind] = {}
        for title in ("unread", "read"):
            shutil.copytree(place / "beside", place / title)
            found[kind] |= _beside(place / title, X, ids and ids[n:], n, title)
            shutil.rmtree(place / title)
        shutil.rmtree(place / "beside")
    return found


def _beside(folder: Path, X: np.ndarray, ids: list[str] | None, n: int, title: str) -> dict[str, Any]:
    import grinch

    with grinch.open(folder) as store:
        calls: dict[str, Callable[[], Any]] = {
            "predict": partial(store.predict, X[:1]),
            "labels": store.labels,
            "clusters": store.clusters,
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        is_done = threading.Event()

        def read() -> None:
            while not is_done.is_set():
                for name, call in calls.items():
                    with timed(times[name]):
                        call()

        for call in calls.values():
            call()
        seconds: list[float] = []
        reader = threading.Thread(target=read)
        if title == "read":
            reader.start()
        with timed(seconds):
            store.insert(X[n:], ids=ids)
        is_done.set()
        if title == "read":
            reader.join()
    found: dict[str, Any] = {f"insert, {title}, s": round(seconds[0], 2)}
    return found | {name: _spread([1e3 * each for each in some]) for name, some in times.items() if some}


def follow(place: Path, n: int) -> dict[str, Any]:
    """Milliseconds per commit of 100 points at n points: matching clusters and noting changes, and reading them."""
    import grinch
    from grinch.store.state import ClusterTracking

    X = mixture(n + 3000)[0]
    found: dict[str, Any] = {"points": n}
    for title, n_clusters in (("automatic cut", None), ("n_clusters=1000", 1000)):
        with grinch.open(place / "follow", metric="cosine", n_clusters=n_clusters) as store:
            for batch in batches(X, 0, n, 10_000):
                store.insert(batch)
            matching: list[float] = []
            whole: list[float] = []
            reading: list[float] = []
            real = ClusterTracking.commit

            def commit(*values: Any, real: Any = real, matching: list[float] = matching) -> Any:
                with timed(matching):
                    return real(*values)

            ClusterTracking.commit = commit  # type: ignore[assignment, method-assign]
            n_changes = 0
            for batch in batches(X, n, n + 3000, 100):
                with timed(whole):
                    version = store.insert(batch)
                with timed(reading):
                    n_changes += len(store.changes(since=version - 1))
            ClusterTracking.commit = real  # type: ignore[method-assign]
            found[title] = {
                "clusters": len(set(store.labels().tolist())),
                "changes a commit": n_changes / len(whole),
                "matching, ms": round(1e3 * statistics.median(matching), 2),
                "matching, slowest, ms": round(1e3 * max(matching), 2),
                "store.changes, ms": round(1e3 * statistics.median(reading), 2),
                "whole commit, ms": round(1e3 * statistics.median(whole), 1),
            }
        shutil.rmtree(place / "follow")
    return found


PARTS = {
    "rates": (rates, POINTS),
    "reopen": (reopen, MANY),
    "bytes": (size, POINTS),
    "stall": (stall, POINTS),
    "beside": (beside, POINTS),
    "changes": (follow, POINTS),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--points", type=int, help="instead of 100,000 (reopen: 1,000,000)")
    parser.add_argument("--place", type=Path, help="where to make folders; what is there of a part is used again")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        part, n = PARTS[arguments.part]
        warm_up(arguments.place)
        print("\n" + json.dumps(part(arguments.place, arguments.points or n)))
        return
    place = arguments.place or Path(tempfile.mkdtemp(prefix="store-benchmark-"))
    place.mkdir(parents=True, exist_ok=True)
    for name in arguments.only:
        command = [sys.executable, __file__, "--part", name, "--place", str(place)]
        command += ["--points", str(arguments.points)] if arguments.points else []
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
        found[name] = json.loads(done.stdout.splitlines()[-1])
        found["machine"] = {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
        write_figures(arguments.out, found)
        print(name, json.dumps(found[name], indent=1))
    if not arguments.place:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
