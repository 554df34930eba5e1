"""Is a store that is fed day by day as good as a fit from nothing, do ids stay, and what does its automatic cut cost?

    python benchmarks/days.py                              everything (about an hour); writes benchmarks/days.json
    python benchmarks/days.py --only intents digits        some sets, or "stalls" or "cost"; the others stay
    GRINCH_DATA must be set for intents and images.

Each set comes in a random order, in equal batches; every day the store is opened, one batch is inserted, and it is
closed. After each day, of the clusters of the store and of those of a fit of the same points from nothing:

- ``clusters`` and ``ari``, with the classes;
- ``stayed``: the share of the points of the day before that have the same id, and ``stayed_if_steady``: the same, of
  those whose cluster has, but for new points, changed by no more than a fifth (``steady`` is their share);
- ``flapped``: the share of all ids so far that were gone on some day, and are there again;
- ``cut``: whether the automatic cut was made that day; ``records``: the changes; ``told``: those of the digest, events
  and others that are counted; ``insert``, ``close``: seconds, and ``insert_cpu``: seconds of the processor.

``stalls``: the longest of many small inserts beside cuts and snapshots in the background. ``cost``: commits per second
with the automatic cut, and with one that is made once: by the clock, by processor time of the writer, and of all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

import grinch
import sets
from grinch import Grinch
from grinch.cuts.tracking import tracker
from grinch.datasets import gaussian_mixture
from identity import steady
from store import warm_up
from written import write_figures

OUT = Path(__file__).parent / "days.json"
Rows = tuple[np.ndarray, np.ndarray]


def separated(n: int) -> Rows:
    """A hundred groups in 32 dimensions that do not touch."""
    rng = np.random.default_rng(0)
    centres, y = rng.normal(size=(100, 32)) * 4, rng.integers(0, 100, n)
    return (centres[y] + rng.normal(size=(n, 32))).astype(np.float32), y


SETS: dict[str, tuple[int, Callable[[], Rows]]] = {
    "intents": (20, lambda: sets.data("intents")),
    "digits": (10, lambda: sets.data("digits")),
    "images": (20, lambda: sets.data("image features")),
    "separated": (10, lambda: separated(200_000)),
    "overlapping": (10, lambda: gaussian_mixture(200_000, n_classes=1000, n_features=32)),
}


def fed(name: str, place: Path, tell: Callable[[str], None]) -> list[dict[str, Any]]:
    """Feed a store day by day."""
    n_days, load = SETS[name]
    X, y = load()
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    days: list[dict[str, Any]] = []
    before, ever, gone, flapped = np.empty(0, np.int64), set[int](), set[int](), set[int]()
    for day, part in enumerate(np.array_split(np.arange(len(X)), n_days), 1):
        n = int(part[-1]) + 1
        with grinch.open(place / name) as store:
            version, began, used = store.version, time.perf_counter(), time.process_time()
            store.insert(X[part])
            inserted, cpu = time.perf_counter() - began, time.process_time() - used
        closed = time.perf_counter() - began - inserted
        with grinch.open(place / name, readonly=True) as store:
            labels, about = store.labels(), store.cuts()["default"]
            records, news = len(store.changes(since=version)), store.digest(since=version)
        fresh = Grinch().fit(X[:n]).labels_
        now, is_steady = set(labels.tolist()), steady(before, labels[: len(before)])
        same = before == labels[: len(before)]
        flapped |= gone & now
        ever, gone = ever | now, (ever | now) - now
        row = {
            "n": n,
            "clusters": len(now),
            "clusters_fresh": len(np.unique(fresh)),
            "ari": adjusted_rand_score(y[:n], labels),
            "ari_fresh": adjusted_rand_score(y[:n], fresh),
            "stayed": float(same.mean()) if len(same) else 1.0,
            "steady": float(is_steady.mean()) if len(same) else 1.0,
            "stayed_if_steady": float(same[is_steady].mean()) if is_steady.any() else 1.0,
            "flapped": len(flapped) / len(ever),
            "cut": about["points_changed"] == 0,
            "records": records,
            "told": len(news.events) + sum(news.rest.values()),
            "insert": inserted,
            "insert_cpu": cpu,
            "close": closed,
        }
        tell(f"{name}, day {day}: " + ", ".join(f"{key} {value:.4g}" for key, value in row.items()))
        days.append(row)
        before = labels
    shutil.rmtree(place / name)
    return days


def stalls(place: Path, tell: Callable[[str], None], n: int = 200_000) -> dict[str, Any]:
    """Insert batches of 100 while cuts and snapshots are made beside them."""
    X = gaussian_mixture(n, n_classes=1000, n_features=32)[0]
    found: list[dict[str, Any]] = []
    with grinch.open(place / "stalls") as store:
        store.insert(X[: n // 2])
        for first in range(n // 2, n, 100):
            version, began, used = store.version, time.perf_counter(), time.thread_time()
            store.insert(X[first : first + 100])
            taken, cpu = time.perf_counter() - began, time.thread_time() - used
            found.append({"n": first + 100, "seconds": taken, "cpu": cpu, "cut": store.version - version > 1})
        began = time.perf_counter()
        changed = store.cuts()["default"]["points_changed"]
    shutil.rmtree(place / "stalls")
    times = np.array([each["seconds"] for each in found])
    taking = [each["cpu"] for each in found if each["cut"]]
    row = {
        "n": n,
        "inserts": len(found),
        "median": float(np.median(times)),
        "median_cpu": float(np.median([each["cpu"] for each in found])),
        "p99": float(np.quantile(times, 0.99)),
        "longest": [found[i] for i in np.argsort(-times)[:5].tolist()],
        "cuts": len(taking),
        "taking_a_cut_cpu": max(taking, default=0.0),
        "longest_cpu": max(each["cpu"] for each in found),
        "changed_at_the_end": changed,
        "close": time.perf_counter() - began,
    }
    tell(f"stalls: {row}")
    return row


def cpu_of_all() -> float:
    """Seconds of the processor of this process and of forked ones that have ended."""
    times = os.times()
    return sum(times[:4])


def cost(place: Path, tell: Callable[[str], None], n: int = 50_000, batch: int = 50) -> dict[str, Any]:
    """Commits per second from a first batch to many times its size, with the cut made again and made once."""
    X, found = gaussian_mixture(n, n_classes=300, n_features=32)[0], {}
    shares = tracker.DUE_SHARE, tracker.SOON_SHARE
    for title, is_again in (("made again", True), ("made once", False), ("made again, once more", True)):
        with grinch.open(place / "cost") as store:
            store.insert(X[: n // 10])
            if not is_again:
                tracker.DUE_SHARE = tracker.SOON_SHARE = 0
            began, used, own = time.perf_counter(), cpu_of_all(), time.process_time()
            for first in range(n // 10, n, batch):
                store.insert(X[first : first + batch])
            seconds, cpu, own = time.perf_counter() - began, cpu_of_all() - used, time.process_time() - own
            commits = (n - n // 10) // batch
            tracker.DUE_SHARE, tracker.SOON_SHARE = shares
        shutil.rmtree(place / "cost")
        found[title] = {
            "commits_per_second": commits / seconds,
            "commits_per_cpu_second": commits / own,
            "commits_per_cpu_second_of_all": commits / cpu,
        }
        tell(f"cost, {title}: {found[title]}")
    return {"n": n, "batch": batch, **found}


PARTS: dict[str, Callable[[Path, Callable[[str], None]], Any]] = {"stalls": stalls, "cost": cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*SETS, *PARTS], default=[*SETS, *PARTS])
    parser.add_argument("--points", type=int, help="of stalls")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    found = json.loads(arguments.out.read_text(encoding="utf-8")) if arguments.out.exists() else {}
    place = Path(tempfile.mkdtemp(prefix="days-"))
    warm_up(place)
    for name in arguments.only:
        if name in ("intents", "images") and "GRINCH_DATA" not in os.environ:
            print(f"{name} is left out: GRINCH_DATA is not set")
        elif name == "stalls" and arguments.points:
            found[f"stalls {arguments.points:,}"] = stalls(place, print, arguments.points)
        else:
            found[name] = PARTS[name](place, print) if name in PARTS else fed(name, place, print)
        write_figures(arguments.out, found)
    shutil.rmtree(place)


if __name__ == "__main__":
    main()
