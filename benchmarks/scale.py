"""Cost of an insert as a tree grows: to a million points and beyond, point by point, and beside the peers.

    python benchmarks/scale.py                 all but five million points (about 15 minutes on two cores)
    python benchmarks/scale.py fit five        only some of it; "five" needs 8 GB of memory and 10 minutes
    python benchmarks/scale.py peers:EVoC      only one of several

Every figure is measured in a process of its own and written to benchmarks/scale.json at once. The mixture has 1,000
clusters of Pareto sizes in 64 dimensions, with noise of 1.3.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from written import write_figures

OUT = Path(__file__).parent / "scale.json"


def mixture(n: int, n_features: int = 64, out: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    weights = rng.pareto(1.5, 1000) + 1
    centres = rng.normal(size=(1000, n_features))
    y = rng.choice(1000, n, p=weights / weights.sum())
    X = np.empty((n, n_features), np.float32) if out is None else out
    for first in range(0, n, 100_000):
        part = y[first : first + 100_000]
        X[first : first + len(part)] = centres[part] + 1.3 * rng.normal(size=(len(part), n_features))
    return X, y


def warm_up() -> None:
    """Compile what will be used, so that it is not measured."""
    from grinch import Grinch

    X = mixture(20_000)[0]
    model = Grinch(metric="cosine", n_clusters=10).fit(X[:-9])
    for i in range(1, 10):
        model.partial_fit(X[-i : len(X) - i + 1]).labels_  # noqa: B018
        model.predict(X[:1])
    model.remove([3])


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def purity(tree: Any, y: np.ndarray) -> float:
    from grinch.metrics import dendrogram_purity

    return float(dendrogram_purity(tree, y))


# Each of these runs in a process of its own --------------------------------------------------------------------------


def tree_part(n: int) -> dict[str, float]:
    """Microseconds of CPU an insert spends in the tree, over the last tenth; default candidates found beforehand."""
    from grinch.core.engine import Engine
    from grinch.core.rules import FAST
    from grinch.linkage.named import linkage_of
    from grinch.refine.neighbor_cost import Polisher

    X, y = mixture(n)
    engine = Engine(linkage_of("average", "cosine"), FAST, "auto", FAST.n_candidates, X.shape[1], hook=Polisher())
    engine.reserve(n)
    engine.summaries.write(0, X)
    began = time.process_time()
    found = list(engine.search.stream(0, n))
    search = time.process_time() - began
    before, began = engine.stats, time.thread_time()
    for first, candidates in found:
        if first <= 0.9 * n < first + len(candidates):
            before, began, start = engine.stats, time.thread_time(), first
        engine._insert_found(first, candidates)
    spent, count = time.thread_time() - began, n - start
    counts = {f"{name}_per_insert": (engine.stats[name] - before[name]) / count for name in ("scores", "merges")}
    result = {"us_per_insert": spent / count * 1e6, **counts, "search_cpu_us_per_point": search / n * 1e6}
    return {**result, "depth": int(engine.tree().depths().max()), "purity": purity(engine.tree(), y)}


def fit(n: int) -> dict[str, float]:
    """Seconds, purity and memory (over what there was before, by that of the points) of a whole fit."""
    from grinch import Grinch

    warm_up()
    X, y = mixture(n)
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    began, cpu = time.perf_counter(), time.process_time()
    model = Grinch(metric="cosine").fit(X)
    result = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    result["memory"] = (peak() - before) / X.nbytes
    return {**result, "purity": purity(model.tree_, y)}


def after(n: int) -> dict[str, Any]:
    """Measure what follows a fit: the automatic cut, a refinement, and the cut again with known neighbours."""
    from sklearn.metrics import adjusted_rand_score

    from grinch import Grinch

    warm_up()
    X, y = mixture(n)
    small = Grinch(metric="cosine").fit(X[:20_000]).refine()
    assert len(small.labels_)
    result: dict[str, Any] = {}
    model = Grinch(metric="cosine")

    def clocked(name: str, action: Callable[[], Any]) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        action()
        result[name] = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}

    clocked("fit", lambda: model.fit(X))
    clocked("automatic cut", lambda: model.labels_)
    result["automatic cut"]["ari"] = adjusted_rand_score(y, model.labels_)
    model.partial_fit(X[:1])  # so that neighbours have to be looked for again
    clocked("refine", model.refine)
    clocked("automatic cut, refined", lambda: model.labels_)
    result["automatic cut, refined"]["ari"] = adjusted_rand_score(y, model.labels_[:n])
    return result


def five() -> dict[str, float]:
    """Five million points of 32 dimensions from a memory map."""
    from grinch import Grinch

    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        X, y = mixture(5_000_000, 32, np.lib.format.open_memmap(path, "w+", np.float32, (5_000_000, 32)))
        size = X.nbytes
        del X
        Path("/proc/self/clear_refs").write_text("5")
        before = peak()
        began, cpu = time.perf_counter(), time.process_time()
        model = Grinch(metric="cosine").fit(np.load(path, mmap_mode="r"))
        result = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
        result["memory"] = (peak() - before) / size
        return {**result, "purity": purity(model.tree_, y)}


def timed(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1e3


def spread(times: list[float]) -> dict[str, float]:
    return {"p50": float(np.median(times)), "p99": float(np.percentile(times, 99)), "longest": max(times)}


def single(n: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a single insert at n points, with labels read after each, and of a look-up."""
    from grinch import Grinch

    warm_up()
    X = mixture(n + 8_000)[0]
    model = Grinch(metric="cosine", n_clusters=100).fit(X[:n])
    rows = iter(np.split(X[n:], 8_000))
    model.partial_fit(next(rows)).predict(X[:1])
    inserts = [timed(lambda: model.partial_fit(next(rows))) for _ in range(3_000)]
    model.labels_  # noqa: B018 (from here on the cut is followed)
    labelled = [timed(lambda: model.partial_fit(next(rows)).labels_) for _ in range(3_000)]
    looked_up = [timed(lambda: model.predict(next(rows))) for _ in range(900)]
    both = [timed(lambda: model.partial_fit(next(rows)).predict(X[:1])) for _ in range(900)]
    return {
        "partial_fit": spread(inserts),
        "partial_fit, labels_": spread(labelled),
        "predict": spread(looked_up),
        "partial_fit, predict": spread(both),
    }


def stream(n: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each of n single inserts, from n points on."""
    from grinch import Grinch

    warm_up()
    X = mixture(2 * n)[0]
    model, rows = Grinch(metric="cosine", n_clusters=100).fit(X[:n]), iter(np.split(X[n:], n))
    return {"partial_fit": spread([timed(lambda: model.partial_fit(next(rows))) for _ in range(n)])}


def window(n: int) -> dict[str, Any]:
    """A window of 2,000 points over n: the newest in, the oldest out. Milliseconds, and megabytes on the way."""
    from grinch import Grinch

    warm_up()
    X = mixture(n)[0]
    model = Grinch(metric="cosine", n_clusters=10).fit(X[:2_000])
    inserts, removals, memory = np.zeros(n - 2_000), np.zeros(n - 2_000), {}
    for i in range(2_000, n):
        inserts[i - 2_000] = timed(lambda: model.partial_fit(X[i : i + 1]))  # noqa: B023
        removals[i - 2_000] = timed(lambda: model.remove([i - 2_000]))  # noqa: B023
        if i % 20_000 == 0:
            status = Path("/proc/self/status").read_text().splitlines()
            memory[i] = next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024
    return {"partial_fit": spread(inserts.tolist()), "remove": spread(removals.tolist()), "megabytes": memory}


def peer(name: str) -> dict[str, float]:
    """Seconds, and the share of a point's cluster that is of its class, at 100,000 points; trees by their purity."""
    X, y = mixture(100_000)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    run, small = PEERS[name], X[:3_000]
    run(small)
    began, cpu = time.perf_counter(), time.process_time()
    labels, linkage = run(X)
    result = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    if linkage is not None:
        from grinch import Tree

        result["purity"] = purity(Tree.from_scipy(linkage), y)
    result |= {"ari": adjusted(labels, y), "clusters": int(labels.max() + 1), "noise": float((labels < 0).mean())}
    return result


def adjusted(labels: np.ndarray, y: np.ndarray) -> float:
    """The adjusted Rand index; every point that is noise counts as a cluster of its own."""
    from sklearn.metrics import adjusted_rand_score

    own = np.where(labels < 0, labels.max() + 1 + np.arange(len(labels)), labels)
    return float(adjusted_rand_score(y, own))


def run_grinch(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from grinch import Grinch

    model = Grinch(metric="cosine", n_clusters=1000).fit(X)
    return model.labels_, model.tree_.to_scipy()


def run_evoc(X: np.ndarray) -> tuple[np.ndarray, None]:
    import evoc

    return np.asarray(evoc.EVoC().fit_predict(X)), None


def run_fast_hdbscan(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import fast_hdbscan

    model = fast_hdbscan.HDBSCAN(min_cluster_size=5).fit(X)
    return model.labels_, np.asarray(model._single_linkage_tree)


def run_fishdbc(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from fishdbc import FISHDBC

    model = FISHDBC.from_metric("euclidean")
    model.update(X)
    found = model.cluster()
    return np.asarray(found.labels), np.asarray(found.single_linkage_tree)


PEERS = {
    "grinch": run_grinch,
    "EVoC": run_evoc,
    "fast_hdbscan": run_fast_hdbscan,
    "FISHDBC": run_fishdbc,
}
TASKS: dict[str, tuple[Callable[..., dict[str, Any]], list[Any]]] = {
    "tree_part": (tree_part, [100_000, 1_000_000]),
    "fit": (fit, [100_000, 500_000, 1_000_000]),
    "after": (after, [100_000]),
    "single": (single, [100_000]),
    "stream": (stream, [100_000]),
    "window": (window, [100_000]),
    "peers": (peer, list(PEERS)),
    "five": (five, []),
}


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        task, wanted = sys.argv[2], sys.argv[3:]
        function, arguments = TASKS[task]
        print(json.dumps(function(*(a for a in arguments if str(a) in wanted))))
        return
    for asked in sys.argv[1:] or [name for name in TASKS if name != "five"]:
        name, _, only = asked.partition(":")
        for argument in [only] if only else TASKS[name][1] or [""]:
            command = [sys.executable, __file__, "--inside", name, str(argument)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            results = json.loads(OUT.read_text()) if OUT.exists() else {}
            answer = done.stdout.strip().splitlines()
            found = json.loads(answer[-1]) if answer else {"error": done.stderr.strip().splitlines()[-1]}
            results.setdefault(name, {})[str(argument)] = found
            write_figures(OUT, results)
            print(name, argument, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
