"""Sparse rows in groups: columns of a group's own, and some that many rows have."""

from __future__ import annotations

import numpy as np
import scipy.sparse


def sparse_groups(n: int, n_features: int = 400, n_groups: int = 20, seed: int = 0, dtype=np.float64):
    """Rows of some ten entries, as a CSR matrix; every fiftieth has none."""
    rng = np.random.default_rng(seed)
    own = np.random.default_rng(n_groups).integers(n_features, size=(n_groups, 30))
    columns, sizes = [], []
    for i in range(n):
        common = np.minimum(rng.zipf(1.5, 3) - 1, n_features - 1)
        found = np.unique(np.concatenate([rng.choice(own[rng.integers(n_groups)], 8), common]))
        columns.append(found if i % 50 != 49 else found[:0])
        sizes.append(len(columns[-1]))
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    values = rng.integers(1, 1000, indptr[-1]) / 128
    return scipy.sparse.csr_matrix((values.astype(dtype), np.concatenate(columns), indptr), shape=(n, n_features))
