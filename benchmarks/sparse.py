"""Sparse vectors: how fast, how large, how pure, beside dense ones and other ways to cluster texts.

    python benchmarks/sparse.py synthetic      the paper's synthetic data in exact mode, sparse and dense
    python benchmarks/sparse.py intents        TF-IDF of 22,500 questions; needs GRINCH_DATA
    python benchmarks/sparse.py docstrings     TF-IDF of the docstrings of installed packages
    python benchmarks/sparse.py corpus         80,000 texts made of 400,000 words by Zipf's law
    python benchmarks/sparse.py columns        what leaving out common columns in the search changes
    python benchmarks/sparse.py entries        what shortened means change
    python benchmarks/sparse.py memory         where the memory goes
    python benchmarks/sparse.py corpus:sparse  only one of several

Every figure is measured in a process of its own and written to benchmarks/sparse.json at once.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from scale import peak
from written import write_figures

OUT = Path(__file__).parent / "sparse.json"
SYSTEMS = ("sparse", "sparse, whole means", "dense", "SVD-100, dense", "SVD-100, Birch", "BisectingKMeans")
PARTS: dict[str, tuple[str, ...]] = {
    "synthetic": ("0", "1", "2"),
    "intents": SYSTEMS,
    "docstrings": SYSTEMS,
    "corpus": tuple(name for name in SYSTEMS if name != "dense"),
    "columns": ("intents", "corpus 20,000"),
    "entries": ("intents", "corpus 20,000"),
    "memory": ("intents", "docstrings", "corpus"),
}


# Data ---------------------------------------------------------------------------------------------------------------


def corpus(
    n: int = 80_000, n_words: int = 400_000, n_topics: int = 1_000, share: float = 0.15
) -> tuple[Any, np.ndarray]:
    """Texts of some 65 words by Zipf's law, a share of them from a topic's own 300; as TF-IDF."""
    rng = np.random.default_rng(0)
    weights = rng.pareto(1.5, n_topics) + 1
    y = rng.choice(n_topics, n, p=weights / weights.sum())
    of_text = np.repeat(np.arange(n), rng.poisson(60, n) + 5)
    common = np.minimum((rng.pareto(0.9, len(of_text)) * 3).astype(np.int64), n_words - 1)
    own = np.minimum((rng.pareto(0.7, (n_topics, 300)) * 200).astype(np.int64), n_words - 1)
    rank = np.minimum((rng.pareto(1.0, len(of_text)) * 20).astype(np.int64), 299)
    words = np.where(rng.random(len(of_text)) < share, own[y[of_text], rank], common)
    counts = scipy.sparse.csr_matrix((np.ones(len(words), np.float32), (of_text, words)), shape=(n, n_words))
    return tf_idf(counts), y


def tf_idf(counts: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfTransformer

    found = TfidfTransformer(sublinear_tf=True).fit_transform(counts).astype(np.float32).tocsr()
    found.sort_indices()
    return found


def intents() -> tuple[Any, np.ndarray]:
    path = Path(os.environ["GRINCH_DATA"]) / "clinc150" / "clinc150_text.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    rows = [row for row in rows if row[1] != "oos"]
    return _of_texts([row[2] for row in rows], [row[1] for row in rows])


def docstrings() -> tuple[Any, np.ndarray]:
    from grinch.datasets.docstrings import load_docstrings

    found = load_docstrings()
    return _of_texts(found.texts, found.packages)


def _of_texts(texts: list[str], classes: list[str]) -> tuple[Any, np.ndarray]:
    from sklearn.feature_extraction.text import CountVectorizer

    order = np.random.default_rng(0).permutation(len(texts))
    X = tf_idf(CountVectorizer(dtype=np.float32).fit_transform([texts[i] for i in order]))
    return X, np.unique(np.array(classes)[order], return_inverse=True)[1]


def points_of(name: str) -> tuple[Any, np.ndarray]:
    if name == "corpus 20,000":
        return corpus(20_000, 200_000, 300)
    return {"intents": intents, "docstrings": docstrings, "corpus": corpus}[name]()


def size_of(X: Any) -> int:
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


# What is measured, each in a process of its own ---------------------------------------------------------------------


def synthetic(seed: str) -> dict[str, Any]:
    """Exact mode on the paper's data; both engines in one run, so that the ratio is of one machine."""
    from grinch import Grinch
    from grinch.datasets import paper_synthetic
    from grinch.metrics import dendrogram_purity

    small = paper_synthetic(10, sparse=True).vectors
    for rows in (small, small.toarray()):
        Grinch(linkage="cosine", mode="exact").fit(rows)
    X, y = paper_synthetic(random_state=int(seed), sparse=True)
    found: dict[str, Any] = {"points": X.shape[0], "columns": X.shape[1]}
    for name, rows in (("sparse", X), ("dense", X.toarray())):
        began, cpu = time.perf_counter(), time.process_time()
        model = Grinch(linkage="cosine", mode="exact").fit(rows)
        found[name] = {
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - cpu,
            "purity": float(dendrogram_purity(model.tree_, y)),
        }
    return found | {"ratio": found["dense"]["cpu_seconds"] / found["sparse"]["cpu_seconds"]}


def of_system(section: str, system: str) -> dict[str, Any]:
    from sklearn.metrics import adjusted_rand_score

    _fit(system, corpus(700, 2_000, 10)[0], 5)  # compiled, so that it is not measured
    X, y = points_of(section)
    k = int(y.max()) + 1
    before = _counted_from_here()
    began, cpu = time.perf_counter(), time.process_time()
    tree, labels = _fit(system, X, k)
    found = {
        "points": X.shape[0],
        "columns": X.shape[1],
        "entries_a_row": X.nnz / X.shape[0],
        "csr": size_of(X),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "memory": max(peak() - before, 0),
        "ari": float(adjusted_rand_score(y, labels)),
    }
    if tree is not None:
        from grinch.metrics import sampled_purity

        found["purity"] = float(sampled_purity(tree, y, random_state=0).purity)
    return found


def _fit(system: str, X: Any, k: int) -> tuple[Any, np.ndarray]:
    """The tree, if there is one, and the clusters at the true number of them."""
    from sklearn.cluster import BisectingKMeans
    from sklearn.decomposition import TruncatedSVD

    from grinch import Birch, Grinch, Rules

    if system == "BisectingKMeans":
        return None, BisectingKMeans(k, random_state=0).fit_predict(X)
    if system.startswith("SVD-100"):
        X = TruncatedSVD(100, random_state=0).fit_transform(X).astype(np.float32)
    elif system == "dense":
        X = X.toarray()
    if system.endswith("Birch"):
        model: Any = Birch(n_clusters=k)
    else:
        whole = system == "sparse, whole means"
        model = Grinch(metric="cosine", n_clusters=k, mode=Rules.fast(most_entries=float("inf")) if whole else "fast")
    model.fit(X)
    return model.tree_, model.labels_


def columns(name: str) -> dict[str, Any]:
    """Purity, recall and cost of a search by the columns that the fewest points have."""
    from grinch.neighbors.sparse import SparseSearch

    X, y = points_of(name)
    found: dict[str, Any] = {"points": X.shape[0], "columns": X.shape[1]}
    nearest = None
    for most in (2**62, 2**17, 2**15, 2**14, 2**13, 2**12, 2**11):
        engine, figures = _engine(X, y, most_points=most)
        search, slots = SparseSearch(engine.summaries, 25, most_points=most), np.arange(0, len(y), 20)
        search.catch_up(len(y))
        cpu = time.process_time()
        near = np.concatenate([part.candidates for part in search.nearest(slots, len(y))])
        spent = time.process_time() - cpu
        nearest = near if nearest is None else nearest
        recall = np.mean([len(np.intersect1d(a, b)) / 25 for a, b in zip(nearest, near, strict=True)])
        found["all" if most == 2**62 else str(most)] = {
            **figures,
            "recall": float(recall),
            "microseconds": 1e6 * spent / len(slots),
        }
    return found


def entries(name: str) -> dict[str, Any]:
    """Purity and memory by how many entries of a mean are kept."""
    X, y = points_of(name)
    found: dict[str, Any] = {"points": X.shape[0], "columns": X.shape[1]}
    for most in (2**62, 512, 256, 128, 64, 32):
        engine, figures = _engine(X, y, most_entries=most)
        summaries = engine.summaries
        share = int(summaries.arrays.row_sizes[summaries.capacity :].sum()) / X.nnz
        found["all" if most == 2**62 else str(most)] = {**figures, "entries of means": share}
    return found


def memory(name: str) -> dict[str, Any]:
    """Return the memory of a fitted model: its rows, the means of internal nodes, the index, and the nodes."""
    from grinch import Grinch

    Grinch(metric="cosine").fit(corpus(700, 2_000, 10)[0])
    X, _ = points_of(name)
    before = _counted_from_here()
    engine: Any = Grinch(metric="cosine").fit(X).engine()
    most, arrays, first = peak() - before, engine.summaries.arrays, engine.summaries.capacity
    rows = arrays.leaf_columns.nbytes + arrays.leaf_values.nbytes
    # malloc keeps eight bytes of its own with every block, in steps of sixteen.
    means = 8 * int(arrays.row_sizes[first:].sum(dtype=np.int64)) + 16 * int((arrays.row_starts[first:] != 0).sum())
    index = sum(part.nbytes for one in engine.search.postings.segments for part in one if isinstance(part, np.ndarray))
    return {
        "points": X.shape[0],
        "columns": X.shape[1],
        "csr": size_of(X),
        "rows": rows,
        "means": means,
        "index": index,
        "nodes": _arrays_in(arrays) - rows + _arrays_in(engine.links) + _arrays_in(vars(engine.search).values()),
        "most": most,
    }


def _arrays_in(some: Any) -> int:
    return sum(part.nbytes for part in some if isinstance(part, np.ndarray))


def _engine(X: Any, y: np.ndarray, most_entries: int | None = None, most_points: int | None = None) -> Any:
    from grinch.core.engine import Engine
    from grinch.core.rules import FAST
    from grinch.linkage.named import linkage_of
    from grinch.metrics import sampled_purity
    from grinch.refine.neighbor_cost import Polisher

    rules = FAST if most_entries is None else FAST._replace(most_entries=most_entries)
    engine: Any = Engine(
        linkage_of("average", "cosine"), rules, "auto", 25, X.shape[1], hook=Polisher(), is_sparse=True
    )
    if most_points is not None:
        engine.search.most_points = most_points
    cpu = time.process_time()
    engine.insert(X)
    spent = time.process_time() - cpu
    return engine, {"purity": float(sampled_purity(engine.tree(), y, random_state=0).purity), "cpu_seconds": spent}


def _counted_from_here() -> int:
    """The memory there is; from here on, the most of it is counted anew."""
    gc.collect()
    # What was freed and not given back would be used again, and not be seen.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _resident()


def _resident() -> int:
    """The memory that this process has now, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def measured(section: str, part: str) -> dict[str, Any]:
    alone = {"synthetic": synthetic, "columns": columns, "entries": entries, "memory": memory}
    if section in alone:
        return alone[section](part)
    return of_system(section, part)


# The command --------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="sections, or SECTION:PART; default: all")
    parser.add_argument("--inside", nargs=2, metavar=("SECTION", "PART"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        print(json.dumps(measured(*args.inside)))
        return
    for asked in args.what or list(PARTS):
        section, _, only = asked.partition(":")
        for part in [only] if only else PARTS[section]:
            command = [sys.executable, __file__, "--inside", section, part]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{asked}: {part} failed\n{done.stderr}")
            found = json.loads(done.stdout.strip().splitlines()[-1])
            results = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
            results.setdefault(section, {})[part] = found
            write_figures(OUT, results)
            print(section, part, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
