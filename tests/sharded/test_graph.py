"""The automatic cut of a tree by many workers: neighbours across shards, and no vectors in the process that cuts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import shard_runs
from effort import at_night
from grinch import Grinch, cuts
from grinch.cuts.graph import comparable, neighbor_graph, weighted
from grinch.cuts.persistence import mean_gaps
from grinch.datasets import gaussian_mixture
from grinch.neighbors import ByVector
from grinch.sharded import ShardedGrinch
from grinch.sharded.stages import graph as stage

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def apart():
    """Clusters that everyone finds."""
    rng = np.random.default_rng(2)
    y = rng.integers(0, 15, 1_000)
    return (3 * rng.normal(size=(15, 16))[y] + rng.normal(size=(1_000, 16))).astype(np.float32), y


@pytest.fixture(scope="module", params=["average", "ward"])
def fitted(request, cluster, apart):
    return new_model(cluster, request.param).fit(apart[0])


def new_model(cluster, linkage):
    metric = "cosine" if linkage == "average" else None
    return ShardedGrinch(4, cluster.client, sample_size=250, linkage=linkage, metric=metric)


@pytest.fixture
def without_a_model(monkeypatch):
    monkeypatch.setattr(ShardedGrinch, "to_grinch", lambda self: pytest.fail("all vectors were brought together"))


def seen_by(monkeypatch, model):
    """The graph and the heights that the cut of the whole is made by."""
    seen = {}

    def cut(tree, graph, heights):
        seen.update(graph=graph, heights=heights)
        return cuts.automatic_cut(tree, graph, heights)

    monkeypatch.setattr(stage, "automatic_cut", cut)
    model._cut = None
    assert len(model.labels_) == model.n_leaves_
    return seen["graph"], seen["heights"]


@pytest.mark.usefixtures("without_a_model")
def test_clusters_are_those_of_one_process(fitted, apart):
    X, y = apart
    one = Grinch(linkage=fitted.linkage).fit(X)
    assert adjusted_rand_score(fitted.labels_, y) > 0.95
    assert adjusted_rand_score(fitted.labels_, one.labels_) > 0.95
    layers, persistence = fitted.layers_, fitted.layer_persistence_
    assert len(layers) == len(persistence)
    assert any((layer == fitted.labels_).all() for layer in layers)
    for finer, coarser in pairwise(layers):
        assert len(np.unique(finer)) > len(np.unique(coarser))
        assert len({pair[0] for pair in zip(finer, coarser, strict=True)}) == len(
            set(zip(finer.tolist(), coarser.tolist(), strict=True))
        )


def test_the_graph_and_the_heights_are_those_of_the_whole(monkeypatch, fitted, apart):
    X, _ = apart
    metric = fitted.metric or "euclidean"
    rows = comparable(X, metric)
    graph, heights = seen_by(monkeypatch, fitted)
    np.testing.assert_allclose(graph.weights, weighted(graph.near, rows).weights, rtol=1e-4, atol=1e-6)
    gaps = mean_gaps(fitted.tree_, rows, "euclidean")
    np.testing.assert_allclose(heights, gaps / 2 if metric == "cosine" else gaps, rtol=1e-3, atol=1e-5)
    # Nobody is a neighbour of itself, or twice; and most of the nearest of all are there, nearest first.
    exact = neighbor_graph(X, metric).near
    shared = 0
    for i, (found, best) in enumerate(zip(graph.near.tolist(), exact.tolist(), strict=True)):
        there = [j for j in found if j >= 0]
        assert i not in there
        assert len(set(there)) == len(there)
        shared += len(set(there) & set(best))
    assert shared / exact.size > 0.9
    apart_by = ((rows[graph.near] - rows[:, None]) ** 2).sum(axis=2)
    assert (np.diff(np.where(graph.near < 0, 1e9, apart_by), axis=1)[graph.near[:, 1:] >= 0] > -1e-4).all()


def test_edges_cross_branches(cluster, monkeypatch):
    X, _ = gaussian_mixture(1_500, n_classes=30, n_features=32, random_state=1)
    model = ShardedGrinch(5, cluster.client, sample_size=400, metric="cosine").fit(X)
    graph, _ = seen_by(monkeypatch, model)
    branch = np.empty(len(X), np.int64)
    for i, size in enumerate(model.branch_sizes_):
        if size:
            branch[model.branch(i)[1]] = i
    exact = neighbor_graph(X).near
    across = branch[exact] != branch[:, None]
    found = np.array([[j in row for j in best] for row, best in zip(graph.near.tolist(), exact.tolist(), strict=True)])
    assert across.mean() > 0.2
    assert found[across].mean() > 0.35
    assert found[~across].mean() > 0.95


@pytest.mark.parametrize("fitted", ["average", at_night("ward")], indirect=True)
def test_workers_find_what_this_process_finds(cluster, fitted, apart, monkeypatch):
    model = new_model(cluster, fitted.linkage)
    assert model.fit_predict(apart[0]).tolist() == fitted.labels_.tolist()
    assert model.stages_[stage.JOINING].tasks == 4
    monkeypatch.setattr("grinch.sharded.estimator.MOST_HERE", 0)
    again = new_model(cluster, fitted.linkage).fit(apart[0])
    assert stage.JOINING not in again.stages_
    assert again.labels_.tolist() == fitted.labels_.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("fitted", ["average"], indirect=True)
@pytest.mark.parametrize("stage", [stage.ASKING, stage.JOINING])
def test_a_worker_killed_loses_nothing(processes, fitted, apart, stage, tmp_path):
    X = apart[0]
    model = new_model(processes, "average").set_params(folder=tmp_path / "run")
    with shard_runs.killing(processes.client, stage, tmp_path / "died"):
        labels = model.fit_predict(X)
    assert (tmp_path / "died").exists()
    assert labels.tolist() == fitted.labels_.tolist()
    again = new_model(processes, "average").set_params(folder=tmp_path / "run")
    again.fit_predict(X)
    assert all(one.found == one.tasks for one in again.stages_.values())


@pytest.mark.usefixtures("without_a_model")
def test_noise_is_found_without_vectors(fitted, apart):
    X, _ = apart
    try:
        labels = fitted.set_params(noise=True).labels_
        few = fitted.set_params(n_clusters=15).labels_
    finally:
        fitted.set_params(noise=False, n_clusters=None)
    assert labels.min() == -1 or (labels == fitted.labels_).all()
    assert few.max() < 15
    assert len(labels) == len(few) == len(X)


def test_records_are_cut_by_their_neighbours(cluster):
    words, y = shard_runs.words(200)
    search = ByVector(shard_runs.letters, 20)
    model = ShardedGrinch(2, cluster.client, linkage=shard_runs.CommonLetters(), search=search, sample_size=80)
    labels = model.fit(words).labels_
    one = Grinch(linkage=shard_runs.CommonLetters(), search=search).fit(words).labels_
    assert adjusted_rand_score(labels, y) > adjusted_rand_score(one, y) - 0.1


@pytest.mark.parametrize("n", [1, 2, *map(at_night, [3, 5])])
def test_few_points_and_copies(cluster, n):
    model = ShardedGrinch(3, cluster.client).fit(np.random.default_rng(0).normal(size=(n, 4)))
    assert sorted(model.tree_.leaves().tolist()) == list(range(n))
    assert model.labels_.shape == (n,)
    copies = ShardedGrinch(3, cluster.client).fit(np.ones((n, 4)))
    assert copies.labels_.tolist() == Grinch().fit(np.ones((n, 4))).labels_.tolist()
