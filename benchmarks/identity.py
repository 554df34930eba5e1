"""Do clusters keep their ids as points come, day by day, and what does it cost? Writes identity.json.

Ten batches of each labelled set, in a random order; after each of them the cuts are followed. Of the points that were
there the day before:

- ``kept``: the share that is in a cluster of the same id;
- ``kept_if_steady``: the same, of those whose cluster has, but for new points, changed by no more than a fifth;
- ``kept_by_number``: the share that has the same label in ``labels_``, which is what one had without ids;
- ``ari_day_to_day``: how far the clusters agree with those of the day before.

Run with GRINCH_DATA set; ``--times`` measures commits of 100 points at 100,000 points instead: some minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

import sets
from grinch import Grinch, cuts
from grinch.datasets import gaussian_mixture
from grinch.store.state import ClusterTracking
from written import write_figures

HERE = Path(__file__).parent
SETS = ("intents 5,000", "digits", "mixture 5,000", "usps 4,000")
DAYS = 10


def steady(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """By point, whether its cluster changed by no more than a fifth of its points."""
    _, old, old_sizes = np.unique(before, return_inverse=True, return_counts=True)
    _, new, new_sizes = np.unique(after, return_inverse=True, return_counts=True)
    _, pair, shared = np.unique(old * len(new_sizes) + new, return_inverse=True, return_counts=True)
    both = shared[pair]
    return np.asarray(old_sizes[old] - both + new_sizes[new] - both <= old_sizes[old] / 5)


def days(X: np.ndarray, y: np.ndarray, seed: int = 0) -> dict[str, Any]:
    """All cuts over ten days of one set."""
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order], y[order]
    parts = np.array_split(np.arange(len(X)), DAYS)
    model = Grinch(metric="cosine").partial_fit(X[parts[0]])
    tracking = ClusterTracking(model)
    scores = model.tree_.scores[model.tree_.internal_nodes()]
    how: dict[str, dict[str, Any]] = {
        "n_clusters": {"n_clusters": len(np.unique(y))},
        "threshold": {"threshold": float(np.quantile(scores, 0.2))},
        "automatic": {},
    }
    for name, given in how.items():
        tracking.add(name, **given)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in how}
    before = {name: (tracking.labels(name), own(model, **given)) for name, given in how.items()}
    for day, part in enumerate(parts[1:], 2):
        model.partial_fit(X[part])
        # Followed, and not made again.
        changes = tracking.commit(day, {})
        for name, given in how.items():
            labels, numbers = tracking.labels(name), own(model, **given)
            old, old_numbers = before[name]
            now, n = labels[: len(old)], len(labels)
            is_steady = steady(old, now)
            row = {
                "n": n,
                "n_clusters": len(np.unique(labels)),
                "kept": float((old == now).mean()),
                "kept_if_steady": float((old == now)[is_steady].mean()) if is_steady.any() else 1.0,
                "share_steady": float(is_steady.mean()),
                "kept_by_number": float((old_numbers == numbers[: len(old)]).mean()),
                "ari_day_to_day": float(adjusted_rand_score(old, now)),
                "ari_classes": float(adjusted_rand_score(y[:n], labels)),
                "changes": sum(change.cut == name for change in changes),
            }
            if name == "automatic":
                row["ari_classes_fresh"] = float(adjusted_rand_score(y[:n], numbers))
                row["n_clusters_fresh"] = len(np.unique(numbers))
                row["ari_with_fresh"] = float(adjusted_rand_score(labels, numbers))
                row["drift"] = tracking[name].drift.changed / max(tracking[name].drift.points, 1)
            rows[name].append(row)
            before[name] = labels, numbers
    return {"cuts": rows, "one_removed": one_removed(tracking, seed)}


def own(model: Grinch, n_clusters: int | None = None, threshold: float | None = None) -> np.ndarray:
    """The labels that the model has by itself."""
    if threshold is not None:
        return cuts.cut_threshold(model.tree_, threshold)
    return model.labels_ if n_clusters is None else cuts.cut_sizeable(model.tree_, n_clusters)


def one_removed(tracking: ClusterTracking, seed: int, times: int = 20) -> dict[str, dict[str, float]]:
    """Points are removed one by one: the share of the others that get another id, and another number in ``labels_``."""
    rng, model = np.random.default_rng(seed), tracking.model
    found: dict[str, dict[str, list[float]]] = {
        name: {"renamed": [], "renamed_if_steady": [], "renumbered": []} for name in tracking.names
    }
    for i in range(times):
        ids = np.array(model.ids_)
        before = {name: (tracking.labels(name), own(model, **_how(tracking, name))) for name in tracking.names}
        at = int(rng.integers(len(ids)))
        model.remove([int(ids[at])])
        tracking.commit(100 + i, {})
        for name, (labels, numbers) in before.items():
            old, now = np.delete(labels, at), tracking.labels(name)
            is_steady = steady(old, now)
            found[name]["renamed"].append(float((old != now).mean()))
            found[name]["renamed_if_steady"].append(float((old != now)[is_steady].mean()))
            own_now = own(model, **_how(tracking, name))
            found[name]["renumbered"].append(float((np.delete(numbers, at) != own_now).mean()))
    return {name: {key: float(np.mean(values)) for key, values in by.items()} for name, by in found.items()}


def _how(tracking: ClusterTracking, name: str) -> dict[str, Any]:
    how = tracking[name].how
    return {"n_clusters": how.n_clusters, "threshold": how.threshold}


def times(n: int = 100_000, commits: int = 60) -> dict[str, Any]:
    """Milliseconds of a commit of 100 points, and of inserting them, for each kind of cut."""
    X, _ = gaussian_mixture(n + 3 * 100 * (commits + 5), n_classes=n // 50, n_features=64, random_state=0)
    model = Grinch(metric="cosine").partial_fit(X[:n])
    scores = model.tree_.scores[model.tree_.internal_nodes()]
    how: dict[str, dict[str, Any]] = {
        "n_clusters": {"n_clusters": n // 50},
        "threshold": {"threshold": float(np.quantile(scores, 0.1))},
        "automatic": {},
    }
    found: dict[str, Any] = {"n": n}
    for name, given in how.items():
        tracking, taken, inserted, changes = ClusterTracking(model), [], [], 0
        begin = time.perf_counter()
        tracking.add(name, **given)
        added = time.perf_counter() - begin
        for version in range(commits + 5):
            at = model.n_leaves_
            begin = time.perf_counter()
            model.partial_fit(X[at : at + 100])
            middle, used = time.perf_counter(), time.thread_time()
            changes = len(tracking.commit(version, {}))
            taken.append((time.perf_counter() - middle, time.thread_time() - used))
            inserted.append(middle - begin)
        # The first ones compile.
        wall, cpu = (1e3 * np.array(taken[5:])).T
        found[name] = {
            "clusters": len(tracking.members(name)),
            "changes_in_the_last": changes,
            "add_seconds": added,
            "commit_ms": _summary(wall),
            "commit_cpu_ms": _summary(cpu),
            "insert_ms": _summary(1e3 * np.array(inserted[5:])),
        }
        print(name, json.dumps(found[name]), flush=True)
    return found


def _summary(values: np.ndarray) -> dict[str, float]:
    return {"median": float(np.median(values)), "slowest": float(values.max())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", action="store_true")
    given = parser.parse_args()
    path = HERE / "identity.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if given.times:
        known["times"] = times()
    else:
        known["sets"] = {}
        for name in SETS:
            known["sets"][name] = found = days(*sets.data(name))
            for cut, rows in found["cuts"].items():
                means = {key: round(float(np.mean([row[key] for row in rows])), 3) for key in rows[0]}
                print(name, cut, json.dumps(means), flush=True)
            print(name, "one removed", json.dumps(found["one_removed"]), flush=True)
    write_figures(path, known)


if __name__ == "__main__":
    main()
