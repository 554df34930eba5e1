"""One method on one data set in a process of its own, so that its memory can be measured and its time limited.

Run by :mod:`grinch.compare.methods` as ``python -m grinch.compare.worker``. Each line of the standard input is a job
in JSON; it is run in a copy of this process, which has imported everything. Each line of the output is a message in
JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch.cuts import cut_best_f1
from grinch.estimators.checks import no_advice
from grinch.estimators.registry import make_system
from grinch.estimators.tree_clusterer import TreeClusterer
from grinch.metrics import dendrogram_purity, pairwise_f1
from grinch.running import peak_memory

resource: Any
try:
    import resource
except ImportError:  # Windows
    resource = None

# Elsewhere a copy of a process that has imported numpy need not work.
FORKS = sys.platform == "linux"


def run(job: dict[str, Any]) -> None:
    """Fit the method to each shuffled order and report on each."""
    if job["memory_limit"] is not None:
        limit_memory(int(job["memory_limit"]))
    vectors = np.load(job["vectors"], mmap_mode="r")
    labels = None if job["labels"] is None else np.load(job["labels"])
    method = {"name": job["method"], "linkage": job["linkage"], "metric": job["metric"], **job["settings"]}
    # Compiling is paid once on a machine, and is not what is to be compared.
    with no_advice():
        small = make_system(**method).fit(np.asarray(vectors[:300]))
    small.tree_.depths()
    if labels is not None:
        scores(small, labels[:300])
    points = np.array(vectors)
    before = 0
    for seed in job["seeds"]:
        order = np.random.default_rng(seed).permutation(len(vectors))
        points[...] = vectors[order]
        say(begun=seed)
        # Memory that an earlier fit gave back is still this process's, and counts again.
        before = before or reset_peak_memory()
        reset_peak_memory()
        start = time.perf_counter()
        with no_advice():
            model = make_system(**method).fit(points)
            tree = model.tree_
        seconds = time.perf_counter() - start
        found: dict[str, float] = {"seconds": seconds, "depth": float(tree.depths().max())}
        if peak := peak_memory():  # not every system says
            found["memory"] = max(peak - before, 0)
        if labels is not None:
            found.update(scores(model, labels[order]))
        say(seed=seed, found=found)


def scores(model: TreeClusterer, labels: npt.NDArray[Any]) -> dict[str, float]:
    purity = dendrogram_purity(model.tree_, labels, ties=model.purity_ties)
    return {"purity": purity, "f1": pairwise_f1(labels, cut_best_f1(model.tree_, labels))}


def say(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def limit_memory(size: int) -> None:
    """Let this process have no more than ``size`` bytes."""
    if resource is None:
        raise ValueError("memory_limit needs Linux or macOS; leave it out here")
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def reset_peak_memory() -> int:
    """Reset the peak where the system can, and return the memory in use."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def attempt(job: dict[str, Any]) -> None:
    """Run a job, and report what went wrong."""
    try:
        run(job)
    except MemoryError as error:
        say(failed="out of memory", why=str(error))
    except Exception as error:
        say(failed=type(error).__name__, why=str(error))


def attempt_in_a_copy(job: dict[str, Any]) -> int:
    """Run a job in a fork of this process; return its exit code, or minus the signal that ended it."""
    copy = os.fork()
    if copy == 0:
        attempt(job)
        # Nothing of the original's is to be tidied up by its copy.
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


def main() -> None:
    for line in sys.stdin:
        job, code = json.loads(line), 0
        if FORKS:
            code = attempt_in_a_copy(job)
        else:
            attempt(job)
        say(ended=code)


if __name__ == "__main__":
    main()
