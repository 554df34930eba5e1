"""The cuts of a store: those that an estimator with the same settings makes, with ids that stay."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import grinch
from grinch import Grinch, cuts
from grinch.legacy import convert
from store.made import same_partition

DIGITS = load_digits().data[np.random.default_rng(0).permutation(1797)].astype(np.float32)
CUTS: dict[str, dict[str, Any]] = {
    "default": {"n_clusters": 8},
    "by height": {"n_clusters": 8, "cut": "height"},
    "many": {"n_clusters": 60},
    "auto": {},
    "fine": {"layer": "fine"},
    "coarse": {"layer": "coarse"},
    "finest": {"layer": 0},
}


def changed_by(store, model):
    """Do the same to both, of several kinds, and stop after each."""
    for change in (
        lambda one, is_store: one.insert(DIGITS[400:420]) if is_store else one.partial_fit(DIGITS[400:420]),
        lambda one, is_store: one.remove(list(range(0, 60, 3))),
        lambda one, is_store: one.update(list(range(100, 120)), DIGITS[500:520]),
        lambda one, is_store: one.refine(),
        lambda one, is_store: one.insert(DIGITS[420:421]) if is_store else one.partial_fit(DIGITS[420:421]),
    ):
        change(store, True)
        change(model, False)
        yield


@pytest.mark.parametrize("linkage", ["average", "ward", "single"])
def test_cuts_are_those_of_the_estimator_and_ids_stay(tmp_path, linkage):
    store, model = grinch.open(tmp_path / "store", linkage=linkage, **CUTS["default"]), Grinch(linkage)
    with store:
        store.insert(DIGITS[:400])
        model.partial_fit(DIGITS[:400])
        for name, how in CUTS.items():
            if name != "default":
                store.add_cut(name, **how)
            assert same_partition(store.labels(name), model.set_params(**how).labels_)
            model.set_params(n_clusters=None, cut="sizeable", layer="auto")
        for _ in changed_by(store, model):
            for name, how in CUTS.items():
                if "n_clusters" in how:
                    assert same_partition(store.labels(name), model.set_params(**how).labels_)
                    model.set_params(n_clusters=None, cut="sizeable")
        for name in ("auto", "fine", "coarse", "finest"):
            assert store.would_recut(name).n_clusters == model.set_params(**CUTS[name]).n_clusters_
            store.recut(name)
            assert same_partition(store.labels(name), model.labels_)
            model.set_params(layer="auto")
            assert store.cuts()[name]["points_changed"] == 0
        truth = {name: store.labels(name).tolist() for name in CUTS}
        assert store.cuts()["coarse"]["layer"] == "coarse"
        assert store.cuts()["by height"]["cut"] == "height"
        with grinch.open(tmp_path / "store", readonly=True) as reader:
            assert {name: reader.labels(name).tolist() for name in CUTS} == truth
            assert reader.cuts() == store.cuts()
    with grinch.open(tmp_path / "store") as store:
        assert {name: store.labels(name).tolist() for name in CUTS} == truth
        store.check()


def groups_in(tree, labels, cluster):
    """The largest subtrees that are all in a cluster, by their leaves."""
    subtrees = [frozenset(tree.leaves(v).tolist()) for v in tree.nodes()]
    inside = [some for some in subtrees if set(labels[list(some)].tolist()) == {cluster}]
    return sorted((some for some in inside if not any(some < other for other in inside)), key=len)


def test_small_groups_stay_in_the_clusters_that_they_joined(tmp_path):
    with grinch.open(tmp_path) as store:
        store.insert(DIGITS[:400])
        labels = store.labels()
        groups = {cluster: groups_in(store.tree, labels, cluster) for cluster in set(labels.tolist())}
        joined = [cluster for cluster, some in groups.items() if len(some) > 1]
        whole = [cluster for cluster, some in groups.items() if len(some) == 1 and len(some[0]) > 5]
        assert joined
        assert whole
        # Copies of points of groups that joined a cluster, and of points elsewhere.
        for cluster in (*joined, whole[0]):
            version, size = store.version, int((store.labels() == cluster).sum())
            store.insert(DIGITS[[min(groups[cluster][0])]] + 0.01)
            (change,) = store.changes(since=version)
            assert (change.kind, change.cluster, change.size) == ("grew", cluster, size + 1)
            assert (store.labels()[:400] == labels).all()
        store.remove([min(groups[joined[0]][0])])
        assert [(change.kind, change.cluster) for change in store.changes(since=store.version - 1)] == [
            ("shrank", joined[0])
        ]


def test_a_number_beyond_the_layers_is_the_coarsest(tmp_path):
    with grinch.open(tmp_path, layer=50) as store:
        store.insert(DIGITS[:300])
        model = Grinch(layer="coarse").fit(DIGITS[:300])
        assert len(model.layers_) < 50
        assert same_partition(store.labels(), model.labels_)
        assert store.cuts()["default"]["layer"] == 50


def test_what_a_store_was_made_with_is_known_when_it_is_opened(tmp_path):
    grinch.open(tmp_path / "coarse", layer="coarse").close()
    grinch.open(tmp_path / "height", n_clusters=3, cut="height").close()
    grinch.open(tmp_path / "coarse", layer="coarse").close()
    grinch.open(tmp_path / "height", n_clusters=3).close()
    grinch.open(tmp_path / "height", cut="height").close()
    for name, how in (
        ("coarse", {"layer": "fine"}),
        ("coarse", {"n_clusters": 3}),
        ("height", {"layer": "fine"}),
        ("height", {"n_clusters": 3, "cut": "sizeable"}),
    ):
        with pytest.raises(ValueError, match="n_clusters, threshold, cut and layer are for a new store; this one was"):
            grinch.open(tmp_path / name, **how)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"layer": -1}, "layer must be one of 'auto', 'fine', 'coarse', or the number of a layer; got -1"),
        ({"layer": "finest"}, "layer must be one of"),
        ({"layer": "coarse", "n_clusters": 3}, "layer is for the automatic cut"),
        ({"cut": "deep", "n_clusters": 3}, "cut must be one of"),
    ],
)
def test_what_is_refused(tmp_path, how, message):
    with grinch.open(tmp_path / "store") as store:
        with pytest.raises(ValueError, match=message):
            store.add_cut("new", **how)
        assert (store.version, set(store.cuts())) == (0, {"default"})
    with pytest.raises(ValueError, match=message):
        grinch.open(tmp_path / "new", **how)
    assert not (tmp_path / "new").exists()


def test_stores_of_earlier_releases_are_cut_by_height(tmp_path):
    with zipfile.ZipFile(Path(__file__).parent / "data" / "format_1.zip") as archive:
        archive.extractall(tmp_path / "old")
    convert(tmp_path / "old", tmp_path / "new")
    with grinch.open(tmp_path / "new", n_clusters=4) as store:
        # As the release said that made it.
        assert "".join(map(str, store.labels())) == "01213111111111011111311011311111111101113111111301111131110"
        assert "".join(map(str, store.labels("fine"))) == "01213111111111411111511011611111111101113111111701111171118"
        assert [about["cut"] for about in store.cuts().values()] == ["height", "height"]
        store.insert(np.random.default_rng(1).normal(size=(30, 3)), ids=[f"q{i}" for i in range(30)])
        assert same_partition(store.labels(), cuts.cut_n_clusters(store.tree, 4))
        store.add_cut("new", n_clusters=4)
        assert same_partition(store.labels("new"), cuts.cut_sizeable(store.tree, 4))
    with grinch.open(tmp_path / "new") as store:
        assert [about["cut"] for about in store.cuts().values()] == ["height", "height", "sizeable"]
        assert same_partition(store.labels("new"), cuts.cut_sizeable(store.tree, 4))
