"""The engine on sparse vectors: the trees of the dense engine, in any chunking, and what shortened means change."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from effort import at_night, trials
from grinch.core.engine import Engine
from grinch.core.rules import EXACT, FAST, PAPER, Rules
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.linkage.sparse import DROPPED
from grinch.refine.neighbor_cost import Polisher
from grinch.summaries.arrays import STALE
from grinch.summaries.callbacks import ALLOCATE, addresses
from grinch.tree.checks import check_links
from grinch.tree.links import NO_LIMIT

LINKAGES = [linkage for metrics in VECTOR_LINKAGES.values() for linkage in metrics.values()]
WHOLE = FAST._replace(most_entries=NO_LIMIT)
# Whole numbers: with few of them, ties and copies are common, and both engines compute without rounding.
counts = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 40), st.integers(1, 12)), elements=st.sampled_from([0, 0, 0, 1, 2])
)


def engine(linkage, rules, n_features, is_sparse=True, search="exact", **options):
    hook = Polisher() if rules.polish else None
    return Engine(linkage, rules, search, 10, n_features, hook=hook, is_sparse=is_sparse, **options)


def built(linkage, rules, X, chunks=(), **options):
    tree = engine(linkage, rules, X.shape[1], **options)
    for part in np.split(np.arange(X.shape[0]), sorted(chunks)):
        if len(part):
            tree.insert(X[part])
    check_links(tree.links)
    return tree


def random_rows(n, d, density, seed):
    rng = np.random.default_rng(seed)
    return scipy.sparse.random(n, d, density, format="csr", random_state=seed, data_rvs=lambda k: rng.random(k) + 0.1)


def nodes_of(tree):
    return sorted(tree.tree().keys()[tree.tree().internal_nodes()].tolist())


@pytest.mark.parametrize("linkage", LINKAGES, ids=lambda linkage: f"{linkage.name}-{linkage.metric}")
@pytest.mark.parametrize("rules", [WHOLE, EXACT, at_night(PAPER)], ids=["fast", "exact", "paper"])
def test_the_tree_is_that_of_dense_rows(linkage, rules):
    X = random_rows(300 if rules is WHOLE else 120, 80, 0.08, seed=1)
    sparse, dense = built(linkage, rules, X), built(linkage, rules, X.toarray(), is_sparse=False)
    assert nodes_of(sparse) == nodes_of(dense)
    assert np.allclose(
        np.sort(sparse.tree().scores[sparse.tree().internal_nodes()]),
        np.sort(dense.tree().scores[dense.tree().internal_nodes()]),
        rtol=1e-4,
        atol=1e-5,
    )


@given(counts, st.sampled_from(LINKAGES), st.sampled_from([FAST, EXACT, PAPER]), st.data())
@settings(max_examples=trials(25, 300), deadline=None)
def test_any_chunking_gives_the_same_tree_and_so_does_interpreted_code(X, linkage, rules, data):
    rows = scipy.sparse.csr_matrix(X)
    chunks = data.draw(st.lists(st.integers(0, len(X)), max_size=4))
    whole, parts = built(linkage, rules, rows), built(linkage, rules, rows, chunks)
    assert whole.tree().keys().tolist() == parts.tree().keys().tolist()
    assert whole.tree().scores.tolist() == parts.tree().scores.tolist() or np.isnan(whole.tree().scores).any()
    if len(X) <= 12:
        interpreted = built(linkage, rules, rows, compiled=False)
        assert interpreted.tree().keys().tolist() == whole.tree().keys().tolist()


def means_of(tree, X):
    """True mean and kept row of every internal node."""
    summaries = tree.summaries
    columns, values = summaries.rows_of(np.arange(summaries.capacity, 2 * summaries.capacity))
    sizes = summaries.arrays.row_sizes[summaries.capacity :]
    ends = np.cumsum(sizes)
    fresh = tree.links.nodes()[1]
    for node in fresh[summaries.arrays.stale[fresh] & STALE == 0].tolist():  # nobody asked for the root's
        i = node - summaries.capacity
        kept = np.zeros(X.shape[1])
        kept[columns[ends[i] - sizes[i] : ends[i]]] = values[ends[i] - sizes[i] : ends[i]]
        yield node, X[tree.links.leaves_under(node)].mean(axis=0), kept, int(sizes[i])


@pytest.mark.parametrize("linkage", LINKAGES[:5], ids=lambda linkage: f"{linkage.name}-{linkage.metric}")
def test_what_is_dropped_of_a_mean_is_bounded(linkage):
    X, most = random_rows(250, 120, 0.1, seed=2).astype(np.float32), 16
    tree = built(linkage, EXACT._replace(single_search=True, most_entries=most), X)
    tree.tree()  # brings all summaries up to date
    moments = tree.summaries.arrays.moments
    stored = tree.summaries.leaf_matrix(np.arange(250)).toarray().astype(np.float64)
    means = {node: mean for node, mean, _, _ in means_of(tree, stored)}
    rows = {node: kept for node, _, kept, _ in means_of(tree, stored)}
    is_short = 0
    for node, mean, kept, size in means_of(tree, stored):
        assert size <= max(most, np.count_nonzero(stored, axis=1).max())
        assert np.linalg.norm(mean - kept) <= moments[node, DROPPED] + 1e-5
        is_short += moments[node, DROPPED] > 0
    assert is_short > 50
    nodes = list(means)
    for a, b in zip(nodes, nodes[7:], strict=False):
        r_a, r_b = moments[a, DROPPED], moments[b, DROPPED]
        bound = r_a * np.linalg.norm(means[b]) + r_b * np.linalg.norm(means[a]) + r_a * r_b
        assert abs(means[a] @ means[b] - rows[a] @ rows[b]) <= bound + 1e-5


def test_without_a_limit_nothing_is_dropped():
    tree = built(LINKAGES[1], EXACT, random_rows(80, 50, 0.1, seed=3))
    assert not tree.summaries.arrays.moments[:, DROPPED].any()


def test_removal_and_compaction_keep_the_rows():
    X = random_rows(300, 60, 0.1, seed=5).astype(np.float32)
    tree = built(VECTOR_LINKAGES["ward"]["sqeuclidean"], FAST, X)
    gone = np.random.default_rng(0).permutation(300)[:200]
    tree.remove(np.sort(gone))
    kept = tree.compact(at_once=True)
    assert (tree.summaries.leaf_matrix(np.arange(100)) != X[kept]).nnz == 0
    tree.insert(X[gone[:50]])
    check_links(tree.links)
    assert (tree.summaries.leaf_matrix(np.arange(150))[100:] != X[gone[:50]]).nnz == 0


def test_memory_is_given_back():
    X = random_rows(200, 60, 0.1, seed=6)
    tree = built(LINKAGES[1], FAST, X)
    starts, capacity = tree.summaries.arrays.row_starts, tree.summaries.capacity
    assert np.count_nonzero(starts[capacity:]) > 100
    del tree
    gc.collect()
    assert not starts[capacity:].any()


def test_no_memory_for_a_summary_is_said_and_changes_nothing(monkeypatch):
    X = random_rows(60, 40, 0.1, seed=7)
    tree = built(LINKAGES[1], FAST, X[:50])
    before = tree.tree().keys().tolist()
    import ctypes

    calls = addresses()

    nothing = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda n: 0)
    calls[ALLOCATE] = ctypes.cast(nothing, ctypes.c_void_p).value
    before_calls = tree.summaries.arrays.calls
    tree.summaries.arrays = tree.summaries.arrays._replace(calls=calls)
    with pytest.raises(MemoryError, match="no memory is left"):
        tree.insert(X[50:])
    tree.summaries.arrays = tree.summaries.arrays._replace(calls=before_calls)
    check_links(tree.links)
    assert tree.tree().keys().tolist()[:50] == before[:50]
    tree.insert(X[tree.n_leaves :])
    assert tree.n_leaves == 60


def test_rules_say_what_most_entries_may_be():
    assert Rules.fast(most_entries=float("inf")).most_entries == NO_LIMIT
    with pytest.raises(ValueError, match="most_entries must be a whole number of entries"):
        Rules.fast(most_entries=0)
