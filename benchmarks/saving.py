"""How large saved models are, and how long saving and loading takes: benchmarks/saving.json.

    python benchmarks/saving.py

The mixture is that of scale.py; the digits are scikit-learn's.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import grinch
from scale import mixture

OUT = Path(__file__).parent / "saving.json"
ATTEMPTS = 3


def measured(title: str, X: np.ndarray, linkage: str) -> dict[str, Any]:
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
        size = path.stat().st_size
    vectors = 4 * X.size
    return {
        "points": title,
        "linkage": linkage,
        "times the vectors": round(size / vectors, 3),
        "bytes a point": round(size / len(X), 1),
        "allowed, bytes a point": round(1.3 * vectors / len(X) + 60, 1),
        "save, s": round(min(save), 3),
        "load, s": round(min(load), 3),
    }


def main() -> None:
    digits = load_digits().data.astype(np.float32)
    wide = np.random.default_rng(0).normal(size=(64, 384)).astype(np.float32)
    data = {
        "1,797 x 64 (digits)": digits,
        "10,000 x 64": mixture(10_000)[0],
        "100,000 x 64": mixture(100_000)[0],
        "30,000 x 384": mixture(30_000)[0] @ wide,
    }
    measured("to compile", digits[:200], "ward")
    measured("to compile", digits[:200], "average")
    rows = [measured(title, X, linkage) for title, X in data.items() for linkage in ("average", "ward")]
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
