"""The protocol of DynHAC's paper: a hundredth of the points inserted into the tree of the others, then removed again.

Yu, Dhulipala, Łącki and Parotsidis, DynHAC: Fully Dynamic Approximate Hierarchical Agglomerative Clustering (2025).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from experiments.cells import Cell
from experiments.keys import ROOMS
from experiments.setting import (
    MAX_HAC_PAIRS,
    N_WARM_UP,
    UMAP_FILE,
    UMAP_OF_MNIST,
    Result,
    Setting,
    Source,
    describe,
    in_order,
    points_of,
)
from grinch import HAC, Grinch
from grinch._labels import label_codes
from grinch.cli.compare import Panel, draw_panels
from grinch.errors import missing_extra
from grinch.tree import Tree

# NMI, milliseconds per insert and per removal, and static HAC's NMI in DynHAC's paper: one core, and the search for
# neighbours is not counted. Of ALOI the set at hand is the nearest.
DYNHAC = {
    UMAP_OF_MNIST: (0.900, 8.7, 93.0, 0.915),
    "aloi": (0.887, 230.0, 1382.0, 0.889),
    "speaker_digits": (0.887, 230.0, 1382.0, 0.889),
}
NAMES = (
    *("aloi", "speaker_digits", "speaker", "tiny_imagenet", "clinc150", "covtype", "shuttle"),
    *("mnist", "usps", "pendigits", "segment", "coil20", "digits"),
)
SHARE = 0.01
UMAP_SEED = 42
COLUMNS = [
    *("data", "points", "NMI of 99 %", "NMI with all", "NMI after removal", "NMI of static HAC"),
    *("ms per insert (p50, p99)", "ms per removal (p50, p99)", "CPU seconds for 99 %", "CPU seconds of static HAC"),
    "DynHAC's paper",
]


def run(setting: Setting) -> Result:
    """Measure NMI and the time of inserts and removals on all sets that are there."""
    result = Result("dynhac", "DynHAC's protocol: the last hundredth inserted, then removed", list(COLUMNS))
    names = {"full": setting.available(NAMES), "quick": setting.available(NAMES)[-3:], "tiny": ["digits"]}
    sources = [setting.source(name) for name in names[setting.scale.name]]
    if setting.scale.name == "full" and "mnist" in names["full"]:
        embedded = embedded_mnist(setting, result.remarks)
        sources = [*([] if embedded is None else [embedded]), *sources]
    for source in sources:
        name, (n, _, data) = source.name, describe(source)
        ours = setting.measure(f"{name}, Grinch", inserted_and_removed, source, setting.seed, data=data)
        hac = setting.measure(f"{name}, static HAC", static_hac, source, setting.seed, data=data, rooms=ROOMS["hac"])
        result.rows.append(_row(name, n, ours, hac))
    result.remarks.append(
        "Average linkage under squared Euclidean distance; NMI at the best of all thresholds. Milliseconds are"
        " processor time on one core, our search for neighbours included; DynHAC's are without it. DynHAC's paper:"
        " NMI, milliseconds per insert and per removal, NMI of static HAC, on its own embedding of MNIST and on ALOI."
        " The first insert after a fit takes longest and is in the mean, which can be above p99."
    )
    return result


def _row(name: str, n: int, ours: Cell, hac: Cell) -> dict[str, Any]:
    row: dict[str, Any] = {**dict.fromkeys(COLUMNS, ""), "data": name, "points": n}
    row |= {"NMI with all": ours.failure, "NMI of static HAC": hac.failure}
    if not ours.failure:
        found = ours.found
        row |= {title: f"{found[key]:.3f}" for title, key in _NMI.items()}
        for what in ("insert", "removal"):
            row[f"ms per {what} (p50, p99)"] = "{mean:.2f} ({p50:.2f}, {p99:.2f})".format(**found[what])
        row["CPU seconds for 99 %"] = round(found["seconds"], 1)
    if not hac.failure:
        row["NMI of static HAC"] = f"{hac.found['nmi']:.3f}"
        row["CPU seconds of static HAC"] = round(hac.found["seconds"], 1)
    if name in DYNHAC:
        nmi, insert, removal, static = DYNHAC[name]
        row["DynHAC's paper"] = f"{nmi:.3f}, {insert:,g} and {removal:,g} ms, {static:.3f}"
    return row | {"ours": ours.found, "hac": hac.found}


_NMI = {"NMI of 99 %": "nmi_before", "NMI with all": "nmi", "NMI after removal": "nmi_after"}


def embedded_mnist(setting: Setting, remarks: list[str]) -> Source | None:
    """Return MNIST in two dimensions, which is made once and kept in the folder of the results."""
    if setting.out is None:
        remarks.append(f"Without {UMAP_OF_MNIST}: it is kept in the folder of the results, and there is none.")
        return None
    mnist = setting.source("mnist")
    path, code = setting.out / UMAP_FILE, describe(mnist).digest
    if path.exists():
        with np.load(path, allow_pickle=False) as kept:
            if str(kept["of"]) == code:
                return setting.source(UMAP_OF_MNIST)._replace(folder=setting.out)
    try:
        from umap import UMAP
    except ImportError:
        remarks.append(f"Without {UMAP_OF_MNIST}: {missing_extra('it', 'umap-learn', 'bench')}")
        return None
    setting.say("UMAP of mnist")
    vectors, labels = points_of(mnist)
    embedding = UMAP(random_state=UMAP_SEED, n_jobs=1).fit_transform(vectors)
    np.savez_compressed(path, X=embedding.astype(np.float32), y=labels, of=code)
    return setting.source(UMAP_OF_MNIST)._replace(folder=setting.out)


def inserted_and_removed(source: Source, seed: int) -> dict[str, Any]:
    """Return NMI before, in between and after, and the processor time of every insert and removal in milliseconds."""
    X, y = in_order(source, "random", seed)
    first = len(y) - max(int(SHARE * len(y)), 1)
    _warm_up(X)
    model = Grinch(metric="sqeuclidean")
    began = time.process_time()
    model.fit(X[:first])
    seconds = time.process_time() - began
    before = best_nmi(model.tree_, y[:first])
    insert = _timed(lambda i: model.partial_fit(X[i : i + 1]), range(first, len(y)))
    between = best_nmi(model.tree_, y)
    removal = _timed(lambda i: model.remove([i]), range(first, len(y)))
    after = best_nmi(model.tree_, y[model.ids_])
    figures = {"nmi_before": before, "nmi": between, "nmi_after": after, "seconds": seconds}
    return {**figures, "insert": insert, "removal": removal}


def _warm_up(X: npt.NDArray[np.float32]) -> None:
    """Compile, or read from the cache, all that is measured."""
    model = Grinch(metric="sqeuclidean").fit(X[:N_WARM_UP])
    model.partial_fit(X[:1])
    model.remove([0])


def _timed(change: Callable[[int], object], points: Sequence[int]) -> dict[str, float]:
    times = []
    # On one core, as in DynHAC's paper. Under a limit of processor time the clock of a process ticks every 4 ms only;
    # that of a thread is exact.
    with threadpool_limits(1):
        for i in points:
            began = time.thread_time()
            change(i)
            times.append(1000 * (time.thread_time() - began))
    p50, p99 = np.percentile(times, [50, 99])
    figures = {"mean": np.mean(times), "p50": p50, "p99": p99, "longest": max(times)}
    return {name: round(float(value), 4) for name, value in figures.items()}


def static_hac(source: Source, seed: int) -> dict[str, float]:
    """Return NMI and processor time of HAC on all points at once."""
    X, y = in_order(source, "random", seed)
    lean = len(y) > MAX_HAC_PAIRS
    HAC(metric="sqeuclidean", lean=lean).fit(X[:N_WARM_UP])
    began = time.process_time()
    tree = HAC(metric="sqeuclidean", lean=lean).fit(X).tree_
    return {"seconds": time.process_time() - began, "nmi": best_nmi(tree, y)}


def best_nmi(tree: Tree, labels: npt.ArrayLike) -> float:
    """Return the greatest normalised mutual information of a cut at a threshold, over all thresholds.

    A node is a cluster for thresholds above the scores of all its ancestors and up to its own, and what it adds to the
    entropies depends on nothing else: one sweep over the sorted scores sums them up for every cut.

    >>> from scipy.cluster.hierarchy import linkage
    >>> round(best_nmi(Tree.from_scipy(linkage([[0.0], [1.0], [7.0], [9.0]])), ["a", "a", "b", "b"]), 9)
    1.0
    """
    codes, n, nodes = label_codes(labels), tree.n_leaves, tree.internal_nodes()
    if n < 2:
        return 1.0
    scores, above = _scores_and_best_above(tree)
    steps = np.unique(scores[nodes])
    begin, end = np.searchsorted(steps, above[nodes], side="right"), np.searchsorted(steps, scores[nodes], side="right")
    begin[nodes == tree.root] = 0
    of_classes, shared = 0.0, np.zeros(tree.n_ids)
    for code in range(codes.max() + 1):
        is_of_class = np.zeros(tree.n_ids)
        is_of_class[:n] = codes == code
        counts = tree.sum_upward(is_of_class)
        shared += _n_log_n(counts)
        of_classes += float(_n_log_n(counts[tree.root : tree.root + 1])[0])
    clusters = _by_cut(begin, end, _n_log_n(tree.sizes().astype(np.float64))[nodes], len(steps))
    both = _by_cut(begin, end, shared[nodes], len(steps))
    # Entropies times n; those of clusters of one point are 0 in all sums.
    whole = n * np.log(n)
    entropies = 2 * whole - of_classes - clusters
    with np.errstate(invalid="ignore"):
        nmi = np.where(entropies > 1e-9 * whole, 2 * (entropies - (whole - both)) / entropies, 1.0)
    return float(nmi.max())


def _scores_and_best_above(tree: Tree) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return by node id its score and the greatest of its ancestors'; a node without a score is never split."""
    scores = np.where(np.isnan(tree.scores), np.inf, tree.scores)
    above, parents = [-np.inf] * tree.n_ids, tree.parents().tolist()
    known = scores.tolist()
    for v in tree.preorder().tolist():
        if v != tree.root:
            above[v] = max(above[parents[v]], known[parents[v]])
    return scores, np.array(above)


def _n_log_n(counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return counts * np.log(np.maximum(counts, 1.0))


def _by_cut(
    begin: npt.NDArray[np.intp], end: npt.NDArray[np.intp], values: npt.NDArray[np.float64], n_steps: int
) -> npt.NDArray[np.float64]:
    """Return the sum of the values of each cut's clusters, which are the nodes with begin <= cut < end."""
    is_ever = begin < end
    begins = np.bincount(begin[is_ever], values[is_ever], minlength=n_steps + 1)
    ends = np.bincount(end[is_ever], values[is_ever], minlength=n_steps + 1)
    return np.cumsum(begins - ends)


def draw(result: Result) -> Any:
    """Draw NMI and milliseconds of each set, beside the figures of DynHAC's paper."""
    nmi: list[dict[str, Any]] = []
    times: list[dict[str, Any]] = []
    for row in result.rows:
        data, ours, hac, paper = row["data"], row["ours"], row["hac"], DYNHAC.get(row["data"])
        nmi += [{"method": data, "NMI": ours["nmi"]}] if ours else []
        nmi += [{"method": f"{data}, static HAC", "NMI": hac["nmi"]}] if hac else []
        nmi += [{"method": f"{data}, DynHAC's paper", "NMI": paper[0]}] if paper else []
        for part, i in (("insert", 1), ("removal", 2)):
            times += [{"method": f"{data}, {part}", "ms": ours[part]["mean"]}] if ours else []
            times += [{"method": f"{data}, {part}, DynHAC's paper", "ms": paper[i]}] if paper else []
    panels = [Panel("", nmi, "NMI", "NMI at the best threshold"), Panel("", times, "ms", "milliseconds", False)]
    size = (8, 1.1 + 0.3 * len(times))
    return draw_panels(panels, 2, size, highlight=[row["data"] for row in result.rows]) if nmi else None
