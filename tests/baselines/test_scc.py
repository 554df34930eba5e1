"""SCC, Affinity clustering and reciprocal nearest neighbours against networkx and sums over all pairs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from grinch import SCC, Tree, cluster_with
from grinch.baselines.scc import neighbor_similarities
from grinch.compare.worker import scores
from grinch.metrics import dendrogram_purity
from grinch.tree.rounds import rounds

drawn_graphs = st.tuples(st.integers(0, 10**6), st.integers(1, 25), st.floats(0.0, 0.6))


def drawn_graph(drawn):
    """A symmetric matrix; its entries are sums of powers of two, so that ties are frequent and sums exact."""
    seed, n, share = drawn
    rng = np.random.default_rng(seed)
    weights = np.triu((rng.random((n, n)) < share) * rng.integers(1, 17, (n, n)) / 16.0, 1)
    return weights + weights.T


def average(matrix, a, b):
    """Average linkage over all pairs; those without an edge count 0."""
    return np.mean([matrix[i, j] for i in a for j in b])


def rounds_by_brute_force(matrix, thresholds, strong):
    """The clusters after each round in which something joins."""
    clusters, waiting, found = [{i} for i in range(len(matrix))], list(thresholds), []
    while True:
        threshold = waiting.pop(0) if waiting else -np.inf
        arrows = nx.DiGraph()
        arrows.add_nodes_from(range(len(clusters)))
        has_edges = False
        for a, own in enumerate(clusters):
            scores = [-1.0 if a == b else average(matrix, own, other) for b, other in enumerate(clusters)]
            best = int(np.argmax(scores))
            has_edges |= scores[best] > 0
            if scores[best] > 0 and scores[best] >= threshold:
                arrows.add_edge(a, best)
        components = nx.strongly_connected_components if strong else nx.weakly_connected_components
        joined = [set().union(*(clusters[i] for i in part)) for part in components(arrows)]
        if len(joined) < len(clusters):
            clusters = sorted(joined, key=min)
            found.append({frozenset(each) for each in clusters})
        if not has_edges:
            return found


@given(drawn_graphs, st.booleans(), st.sampled_from([(), (1.0, 0.5, 0.1), (0.6, 0.6, 0.6, 0.2)]))
def test_rounds_are_components_of_the_best_arrows(drawn, strong, thresholds):
    matrix = drawn_graph(drawn)
    n, found, scores = len(matrix), [], [np.inf]
    clusters = np.arange(n)
    for labels, score in rounds(scipy.sparse.csr_matrix(matrix), thresholds, strong):
        clusters = labels[clusters]
        found.append({frozenset(np.flatnonzero(clusters == k).tolist()) for k in range(clusters.max() + 1)})
        assert score < scores[-1]
        scores.append(score)
    expected = rounds_by_brute_force(matrix, thresholds, strong)
    is_whole = n == 1 or (len(expected) > 0 and len(expected[-1]) == 1)
    assert found == expected if is_whole else found[:-1] == expected
    if not is_whole:
        # What no edge connects is joined last, at score 0.
        assert found[-1] == {frozenset(range(n))}
        assert scores[-1] == 0.0


@pytest.mark.parametrize("rule", ["scc", "affinity", "rnn"])
def test_the_tree_has_every_cluster_of_every_round(rule, rng):
    X = rng.normal(size=(70, 3)).astype(np.float32)
    tree = SCC(rule=rule, n_neighbors=6, metric="euclidean", thresholds=[0.9, 0.5, 0.2]).fit(X).tree_
    tree.check()
    nodes = {frozenset(tree.leaves(v).tolist()): v for v in tree.nodes()}
    thresholds = [0.9, 0.5, 0.2] if rule == "scc" else []
    clusters, graph = np.arange(70), neighbor_similarities(X, True, 6)
    for labels, score in rounds(graph, thresholds, rule == "rnn"):
        sizes, clusters = np.bincount(clusters), labels[clusters]
        for k in range(clusters.max() + 1):
            members = frozenset(np.flatnonzero(clusters == k).tolist())
            assert members in nodes
            if np.count_nonzero(labels == k) > 1:
                assert tree.scores[nodes[members]] == score
        assert len(sizes) > clusters.max() + 1


def test_similarities_are_those_of_the_nearest_neighbours(rng):
    X = rng.normal(size=(60, 4)) + 0.5
    squared = np.square(X[:, None] - X[None]).sum(axis=2)
    lengths = np.linalg.norm(X, axis=1)
    for is_euclidean, metric in ((True, "euclidean"), (False, "cosine")):
        near = NearestNeighbors(n_neighbors=5, metric=metric).fit(X).kneighbors(return_distance=False)
        mean = np.exp(np.mean([np.log(squared[i, j]) for i in range(60) for j in near[i]]))
        values = np.exp(-squared / mean) if is_euclidean else (X @ X.T) / np.outer(lengths, lengths)
        expected = np.zeros((60, 60))
        for i in range(60):
            for j in near[i]:
                expected[i, j] = expected[j, i] = max(values[i, j], 0.0)
        found = neighbor_similarities(X.astype(np.float32), is_euclidean, 5)
        np.testing.assert_allclose(found.toarray(), expected, atol=1e-5)
        larger = neighbor_similarities((1e12 * X).astype(np.float32), is_euclidean, 5)
        np.testing.assert_allclose(larger.toarray(), expected, atol=1e-5)


def real_purity(tree, y):
    """Dendrogram purity by all pairs, where a node and its parent of the same score are one node."""
    values = []
    for i in range(len(y)):
        for j in range(i):
            if y[i] == y[j]:
                v = tree.lca(i, j)
                while tree.parent(v) is not None and tree.scores[tree.parent(v)] == tree.scores[v]:
                    v = tree.parent(v)
                values.append(np.mean(y[tree.leaves(v)] == y[i]))
    return np.mean(values)


@given(st.integers(0, 10**6), st.sampled_from(["scc", "affinity", "rnn"]))
def test_purity_is_counted_on_the_real_arity(seed, rule):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 3, 30)
    tree = SCC(rule=rule, n_neighbors=3, metric="euclidean").fit(X).tree_
    assert dendrogram_purity(tree, y, ties="join") == pytest.approx(real_purity(tree, y))


def test_ties_are_joined_for_the_points_with_a_class_too():
    tree = Tree.from_merges(np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.5, 0.5, 0.2]))
    y = ["a", "a", "b", None]
    assert dendrogram_purity(tree, y) == 1.0 == dendrogram_purity(tree, y, ties="join")
    tied = Tree.from_merges(np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.5, 0.5, 0.5]))
    assert dendrogram_purity(tied, y, ties="join") == 0.5
    assert dendrogram_purity(tied, y, ties="join", unlabelled="ignore") == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="ties must be one of 'split', 'join'; got 'both'"):
        dendrogram_purity(tied, y, ties="both")


@pytest.mark.parametrize(("name", "expected"), [("scc", 0.889), ("affinity", 0.829)])
def test_purity_of_digits_is_what_others_measured(name, expected):
    X, y = load_digits(return_X_y=True)
    tree = cluster_with(name, X, metric="cosine").tree_
    assert dendrogram_purity(tree, y, ties="join") == pytest.approx(expected, abs=0.005)
    assert dendrogram_purity(tree, y) > expected - 0.005
    if name == "scc":
        other = SCC(metric="cosine", thresholds=np.geomspace(1, 1e-4, 100)).fit(X).tree_
        assert dendrogram_purity(other, y, ties="join") == pytest.approx(0.897, abs=0.005)


def test_settings_are_checked(rng):
    X = rng.normal(size=(10, 2))
    with pytest.raises(ValueError, match=r"rule must be one of 'scc', 'affinity', 'rnn'; got 'ssc'"):
        SCC(rule="ssc").fit(X)
    with pytest.raises(ValueError, match="metric must be one of 'euclidean', 'cosine'; got 'dot'"):
        SCC(metric="dot").fit(X)
    with pytest.raises(ValueError, match="n_neighbors must be a whole number of at least 1; got 0"):
        SCC(n_neighbors=0).fit(X)
    for wrong in ([0.1, 0.5], [np.nan], "high", 0.5):
        with pytest.raises(ValueError, match="thresholds must be falling numbers"):
            SCC(thresholds=wrong).fit(X)
    assert SCC(thresholds=[]).fit(X).tree_.to_newick() == SCC(rule="affinity").fit(X).tree_.to_newick()


def test_systems_are_compared_by_the_real_arity(rng):
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 3, 60)
    model = cluster_with("affinity", X, metric="euclidean")
    found = scores(model, y)["purity"]
    assert found == dendrogram_purity(model.tree_, y, ties="join") != dendrogram_purity(model.tree_, y)
