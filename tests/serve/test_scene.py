"""One version of a tree as it is shown, by brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch import Grinch, Tree, cuts
from grinch.plots.colors import TONES
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views.scene import MAX_PATH, known_range
from serve.looked import chain, groups_of, labels_of_cut, points, scene_of, tree_of
from trees import random_trees

# Cuts -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 15, 120])
def test_cuts_into_k_are_those_into_sizeable_clusters(n):
    tree = tree_of(n) if n > 1 else Tree.from_newick("a;")
    scene = scene_of(tree)
    least = 2 if n > 20 else 1
    for k in range(1, scene.max_k + 1):
        cut = scene.cut(f"k:{k}")
        assert len(cut) == k
        # Points that join a cluster from elsewhere are not shown in it.
        shown, whole = labels_of_cut(scene, cut), cuts.cut_sizeable(tree, k, least)
        assert len(np.unique(np.stack([shown, whole])[:, shown >= 0], axis=1).T) == k == whole.max() + 1
        assert sorted(map(len, groups_of(shown))) <= sorted(map(len, groups_of(whole)))
        assert (np.diff(cut.starts) > 0).all()
        np.testing.assert_array_equal(cut.sizes, [tree.size(v) for v in cut.nodes.tolist()])
    with pytest.raises(ValueError, match=f"k:1 to k:{scene.max_k}"):
        scene.cut(f"k:{scene.max_k + 1}")


@pytest.mark.parametrize(
    "name", ["", "k:", "k:0", "k:-1", "k:²", "k:1e3", "k:" + "9" * 5000, "cut:", "cut:none", "layer:0", "x"]
)
def test_cuts_there_are_none_of_are_refused(name):
    with pytest.raises(ValueError, match="cut must be one of cut:flat, k:1 to k:"):
        scene_of(tree_of(30), flat=np.zeros(30, int)).cut(name)


NUMBERS = np.array([700, 3, 12, 5_000_000, 0, 41, 8, 9, 6, -1])


@pytest.mark.parametrize("numbers", [np.array([*range(9), -1]), NUMBERS], ids=["in order", "any numbers"])
@pytest.mark.parametrize("noise", [False, True])
def test_the_cut_of_labels_has_their_clusters(noise, numbers):
    model = Grinch(n_clusters=9, cut="height", noise=noise).fit(points(150)[0])
    labels = numbers[model.labels_]
    assert not noise or (labels < 0).any()
    scene = scene_of(model.tree_, **{"flat": labels})
    cut = scene.cut("cut:flat")
    assert sorted(cut.clusters.tolist()) == sorted(set(labels[labels >= 0].tolist()))
    found = labels_of_cut(scene, cut)
    np.testing.assert_array_equal(found[labels >= 0], labels[labels >= 0])
    assert noise or (found == labels).all()


def test_layers_nest_and_are_those_of_the_model():
    model = Grinch().fit(points(200)[0])
    source = ModelBackend(model)
    scene = scene_of(model.tree_)
    layers = source.layers()[1]
    assert len(layers) == len(model.layers_) >= 1
    scene.layers = {f"layer:{i}": layer.labels for i, layer in enumerate(layers)}

    for i, expected in enumerate(model.layers_):
        found = labels_of_cut(scene, scene.cut(f"layer:{i}"))
        np.testing.assert_array_equal(found, expected)
        assert layers[i].persistence == model.layer_persistence_[i]
    for finer, coarser in itertools.pairwise(model.layers_):
        # All points of a finer cluster are in the same coarser one.
        assert len(np.unique(np.stack([finer, coarser]), axis=1).T) == len(set(finer.tolist()))


def test_all_noise_is_a_cut_without_clusters():
    scene = scene_of(tree_of(10), **{"none": np.full(10, -1)})
    cut = scene.cut("cut:none")
    assert len(cut) == 0
    assert cut.at(np.arange(10)).tolist() == [-1] * 10
    assert scene.clusters_of(np.array([scene.tree.root]), cut).tolist() == [-1]


# Colors ---------------------------------------------------------------------------------------------------------------


def test_the_hue_goes_with_the_place_in_the_tree_and_not_with_the_cut():
    scene = scene_of(tree_of(200))
    coarse, fine = (scene.cut(name).colors.astype(int) // len(TONES) for name in ("k:3", "k:12"))
    for hues in (coarse, fine):
        assert (np.diff(hues) >= 0).all()
    shared = set(scene.cut("k:3").nodes.tolist()) & set(scene.cut("k:12").nodes.tolist())
    for v in shared:
        assert coarse[scene.cut("k:3").nodes == v] == fine[scene.cut("k:12").nodes == v]


def test_labels_have_the_hues_of_their_order_in_the_tree():
    tree = tree_of(60)
    place = scene_of(tree).place
    labels = np.array([2, 0, 1])[place * 3 // 60]
    hues = scene_of(tree, labels=labels.tolist()).label_colors.astype(int) // len(TONES)
    assert hues[2] < hues[0] < hues[1]


# Labels and arrival ---------------------------------------------------------------------------------------------------


@given(random_trees(), st.data())
def test_labels_of_nodes(tree, data):
    labels = data.draw(st.lists(st.integers(-1, 3), min_size=tree.n_leaves, max_size=tree.n_leaves))
    best, counts = scene_of(tree, labels=labels).commonest
    for v in tree.nodes():
        own = [labels[leaf] for leaf in tree.leaves(v).tolist() if labels[leaf] >= 0]
        assert counts[v] == max((own.count(label) for label in own), default=0)
        assert own.count(int(best[v])) == counts[v] if own else best[v] == -1


@given(random_trees(), st.data())
def test_fresh_points_and_mean_arrival(tree, data):
    n = tree.n_leaves
    arrived = np.sort(data.draw(st.lists(st.integers(0, 6), min_size=n, max_size=n)))
    since = data.draw(st.integers(0, 7))
    scene, nodes = scene_of(tree, arrived=arrived), np.array(list(tree.nodes()))
    assert scene.fresh(nodes, since).tolist() == [int((arrived[tree.leaves(v)] > since).sum()) for v in nodes]
    assert not scene.fresh(nodes, None).any()
    span = arrived.max() - arrived.min()
    when = (arrived - arrived.min()) / span if span else np.arange(n) / max(n - 1, 1)
    np.testing.assert_allclose(scene.mean_arrival(nodes), [when[tree.leaves(v)].mean() for v in nodes], atol=1e-12)


def test_arrival_by_time_where_some_are_not_known():
    tree = tree_of(4)
    times = np.array([np.nan, 100.0, 150.0, 200.0])
    np.testing.assert_allclose(scene_of(tree, times=times).arrival, [0, 0, 0.5, 1])
    np.testing.assert_allclose(scene_of(tree, times=np.full(4, np.nan)).arrival, [0, 1 / 3, 2 / 3, 1])
    assert known_range(times) == (100.0, 200.0)
    assert known_range(times[:1]) is None


# Nodes ----------------------------------------------------------------------------------------------------------------


@given(random_trees(60), st.data())
def test_a_path_leads_from_the_root_to_the_node(tree, data):
    scene, v = scene_of(tree), data.draw(st.sampled_from(list(tree.nodes())))
    path = scene.path(v)
    assert (path[0], path[-1]) == (tree.root, v)
    assert len(path) <= MAX_PATH
    above = [*tree.ancestors(v)][::-1]
    assert [u for u in above if u in path] == path[:-1]


def test_the_path_of_a_chain_is_short():
    assert len(scene_of(chain(3_000)).path(0)) <= MAX_PATH


@given(random_trees(), st.data())
def test_the_ancestor_whose_size_is_nearest(tree, data):
    leaf, size = data.draw(st.integers(0, tree.n_leaves - 1)), data.draw(st.integers(1, 25))
    found = scene_of(tree).ancestor_of_size(leaf, size)
    chain = [leaf, *tree.ancestors(leaf)]
    assert found in chain
    assert abs(tree.size(found) - size) == min(abs(tree.size(v) - size) for v in chain)


@given(random_trees(), st.data())
def test_nodes_have_the_cluster_they_are_inside_of(tree, data):
    scene = scene_of(tree)
    cut = scene.cut(f"k:{data.draw(st.integers(1, scene.max_k))}")
    nodes = np.array(list(tree.nodes()))
    for v, found in zip(nodes.tolist(), scene.clusters_of(nodes, cut).tolist(), strict=True):
        inside = [i for i, top in enumerate(cut.nodes.tolist()) if tree.lca(v, top) == top]
        assert found == (inside[0] if inside else -1)
