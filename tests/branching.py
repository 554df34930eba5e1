"""Sharded stores for tests: points in groups, what a store must hold, and one that is left by a killed process."""

from __future__ import annotations

import numpy as np

CENTRES = np.random.default_rng(3).normal(size=(8, 5)) * 4


def grouped(seed: int, n: int) -> np.ndarray:
    """Points around eight centres."""
    rng = np.random.default_rng(seed)
    return (CENTRES[rng.integers(8, size=n)] + rng.normal(size=(n, 5)) * 0.5).astype(np.float32)


def compare(store, rows, payloads):
    """A store holds just these points, by id, in this order of arrival; each in one branch and in the tree."""
    assert store.n_points == len(store) == len(rows) == sum(store.branches.values())
    assert store.ids == list(rows)
    names = [name for branch in store._branches for name in branch.store.ids]
    assert sorted(names) == sorted(rows)
    tree = store.tree
    tree.check()
    assert tree.n_leaves == len(rows)
    if rows:
        some = list(rows)[::2]
        vectors = store.vectors(some)
        np.testing.assert_array_equal(getattr(vectors, "toarray", lambda: vectors)(), [rows[name] for name in some])
        assert store.payload(some) == [payloads.get(name) for name in some]
        assert len(np.unique(store.labels(n_clusters=2))) == min(2, len(rows))


def die(store) -> None:
    """What is left of a store when its process is killed: the files as they are, and no locks."""
    for branch in store._branches:
        branch.store._wait_for_aside()
        branch.store._database.close()
        branch.store._database = None
        branch.store._lock.release()
    store._is_open = False
    store._lock.release()
