"""One method on one data set in a process of its own, so that its memory can be measured and its time limited.

Run by :mod:`grinch.compare.methods` as ``python -m grinch.compare.worker``, with a job in JSON on the standard input;
each line of the output is a message in JSON.
"""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.cuts import cut_best_f1
from grinch.estimators.registry import make_system
from grinch.metrics import dendrogram_purity, pairwise_f1


def run(job: dict[str, Any]) -> None:
    """Fit the method to each shuffled order and report on each."""
    if job["memory_limit"] is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (int(job["memory_limit"]),) * 2)
    vectors = np.load(job["vectors"], mmap_mode="r")
    labels = None if job["labels"] is None else np.load(job["labels"])
    method = {"name": job["method"], "linkage": job["linkage"], "metric": job["metric"], **job["settings"]}
    # Compiling is paid once on a machine, and is not what is to be compared.
    small = make_system(**method).fit(np.asarray(vectors[:300])).tree_
    small.depths()
    if labels is not None:
        scores(small, labels[:300])
    points, before = np.array(vectors), 0
    for seed in job["seeds"]:
        order = np.random.default_rng(seed).permutation(len(vectors))
        points[...] = vectors[order]
        say(begun=seed)
        # Memory that an earlier fit gave back is still this process's, and counts again.
        before = before or reset_peak_memory()
        reset_peak_memory()
        start = time.perf_counter()
        tree = make_system(**method).fit(points).tree_
        seconds = time.perf_counter() - start
        memory = max(peak_memory() - before, 0)
        found: dict[str, float] = {"seconds": seconds, "memory": memory, "depth": float(tree.depths().max())}
        if labels is not None:
            found.update(scores(tree, labels[order]))
        say(seed=seed, found=found)


def scores(tree: Any, labels: npt.NDArray[Any]) -> dict[str, float]:
    return {"purity": dendrogram_purity(tree, labels), "f1": pairwise_f1(labels, cut_best_f1(tree, labels))}


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def peak_memory() -> int:
    """The most memory this process ever had, in bytes."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return used if sys.platform == "darwin" else used * 1024


def reset_peak_memory() -> int:
    """Forget earlier peaks, where the system can; the memory in use."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def main() -> None:
    try:
        run(json.loads(sys.stdin.read()))
    except MemoryError as error:
        say(failed="out of memory", why=str(error))
    except Exception as error:
        say(failed=f"{type(error).__name__}", why=str(error))


if __name__ == "__main__":
    main()
