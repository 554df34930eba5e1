"""HAC on a buffer: HAC where the buffer holds all, and by hand where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from grinch import HAC, MiniBatchHAC
from grinch.linkage.named import linkage_of
from trees import groups


@pytest.mark.parametrize("linkage", ["average", "cosine", "ward", "single"])
@pytest.mark.parametrize("buffer_size", [60, 61, 1000])
def test_a_buffer_as_large_as_the_data_is_hac(linkage, buffer_size, rng):
    X = rng.normal(size=(60, 4))
    whole = HAC(linkage=linkage_of(linkage)).fit(X).tree_
    assert MiniBatchHAC(linkage, buffer_size=buffer_size).fit(X).tree_.to_newick() == whole.to_newick()


def test_a_buffer_as_large_as_the_data_is_hac_for_any_function(rng):
    numbers = rng.normal(size=40).tolist()

    def gap(a, b):
        return -abs(sum(a) / len(a) - sum(b) / len(b))

    assert MiniBatchHAC(gap, buffer_size=40).fit(numbers).tree_.to_newick() == HAC(gap).fit(numbers).tree_.to_newick()


def test_a_small_buffer_merges_the_best_pair_in_it(rng):
    """By hand: a list of at most b nodes; when it is full, its best pair is merged."""
    X = rng.normal(size=(50, 3)).astype(np.float32).astype(float)
    buffer, found = [], set()

    def score(a, b):
        return -np.mean([np.sum((X[i] - X[j]) ** 2) for i in a for j in b])

    def merge():
        _, a, b = max(((score(a, b), a, b) for i, a in enumerate(buffer) for b in buffer[:i]), key=lambda t: t[0])
        buffer.remove(a)
        buffer.remove(b)
        buffer.append(a | b)
        found.add(a | b)

    for i in range(50):
        if len(buffer) == 7:
            merge()
        buffer.append(frozenset([i]))
        found.add(buffer[-1])
    while len(buffer) > 1:
        merge()
    assert groups(MiniBatchHAC(metric="sqeuclidean", buffer_size=7).fit(X).tree_) == found
