"""Size of saved models, and time of saving and loading: benchmarks/saving.json.

    python benchmarks/saving.py [--quick]

The mixture is that of scale.py; the digits are scikit-learn's; sparse rows are of 40 words out of 20,000 each.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import load_digits

import grinch
from scale import mixture
from written import write_figures

OUT = Path(__file__).parent / "saving.json"
ATTEMPTS = 3


def near(a: list[float], b: list[float]) -> float:
    return -abs(sum(a) / len(a) - sum(b) / len(b))


def measured(title: str, X: Any, linkage: Any, n_bytes: int) -> dict[str, Any]:
    """Save and load a model of points that take ``n_bytes`` themselves."""
    model = grinch.Grinch(linkage, metric="cosine" if linkage == "average" else None).fit(X)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.grinch"
        save, load = [], []
        for _ in range(ATTEMPTS):
            began = time.perf_counter()
            model.save(path)
            saved = time.perf_counter()
            grinch.load(path)
            save.append(saved - began)
            load.append(time.perf_counter() - saved)
        size = path.stat().st_blocks * 512  # without holes
    return {
        "points": title,
        "linkage": linkage if isinstance(linkage, str) else "a function",
        "times the vectors": round(size / n_bytes, 3),
        "bytes a point": round(size / model.n_leaves_, 1),
        "save, s": round(min(save), 3),
        "load, s": round(min(load), 3),
    }


def words(n: int) -> Any:
    """Sparse rows in groups, as those of texts."""
    rng = np.random.default_rng(0)
    topics = rng.integers(0, 20_000, (50, 200))
    columns = topics[rng.integers(0, 50, n)[:, None], rng.integers(0, 200, (n, 40))].ravel()
    rows = scipy.sparse.csr_matrix((np.ones(40 * n, np.float32), columns, np.arange(0, 40 * n + 1, 40)), (n, 20_000))
    rows.sum_duplicates()
    return rows


def main() -> None:
    quick = "--quick" in sys.argv
    digits = load_digits().data.astype(np.float32)
    wide = np.random.default_rng(0).normal(size=(64, 384)).astype(np.float32)
    dense = {"1,797 x 64 (digits)": digits, "20,000 x 64": mixture(20_000)[0]}
    if not quick:
        dense |= {"100,000 x 64": mixture(100_000)[0], "30,000 x 384": mixture(30_000)[0] @ wide}
    for linkage in ("ward", "average", near):
        measured("to compile", digits[:200, 0].tolist() if linkage is near else digits[:200], linkage, 1)
    rows = [measured(title, X, linkage, X.nbytes) for title, X in dense.items() for linkage in ("average", "ward")]
    texts, numbers = words(5_000 if quick else 20_000), mixture(2_000)[0][:, 0].astype(float).tolist()
    rows.append(measured(f"{texts.shape[0]:,} texts", texts, "average", 8 * texts.nnz))
    rows.append(measured("2,000 records", numbers, near, 8 * len(numbers)))
    if not quick:
        write_figures(OUT, rows)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
