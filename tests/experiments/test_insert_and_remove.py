"""DynHAC's protocol: points that come and go, and the mutual information of the best cut."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from effort import at_night, trials
from experiments import insert_and_remove, run_experiment
from experiments.insert_and_remove import best_nmi, inserted_and_removed
from experiments.setting import SCALES, UMAP_FILE, UMAP_OF_MNIST, Setting, describe, points_of
from grinch import HAC, Grinch, cuts
from grinch.datasets import load


@pytest.mark.parametrize(
    "model", [Grinch(metric="sqeuclidean"), at_night(Grinch()), HAC(metric="sqeuclidean", lean=True)]
)
def test_the_best_cut_is_the_best_of_all_thresholds(model):
    X, y = load("digits", n=trials(60, 150))
    tree = model.fit(X).tree_
    thresholds = np.unique(tree.scores[tree.internal_nodes()]).tolist()
    cut = [normalized_mutual_info_score(y, cuts.cut_threshold(tree, t)) for t in [*thresholds, thresholds[-1] + 1]]
    assert best_nmi(tree, y) == pytest.approx(max(cut))


def test_one_class_and_one_point_are_found():
    assert best_nmi(HAC().fit([[0.0], [1.0], [5.0]]).tree_, [7, 7, 7]) == pytest.approx(1.0)
    assert best_nmi(HAC().fit([[0.0]]).tree_, [7]) == 1.0


def test_the_last_hundredth_comes_and_goes():
    source = Setting(SCALES["quick"]).source("digits", 200)
    found = inserted_and_removed(source, 0)
    X, y = points_of(source)
    order = np.random.default_rng(0).permutation(200)
    others = Grinch(metric="sqeuclidean").fit(X[order[:198]])
    assert found["nmi_before"] == best_nmi(others.tree_, y[order[:198]])
    assert found["nmi"] == best_nmi(others.partial_fit(X[order[198:]]).tree_, y[order])
    assert found["nmi_after"] == pytest.approx(found["nmi_before"], abs=0.05)
    for part in ("insert", "removal"):
        assert 0 < found[part]["p50"] <= found[part]["p99"]


class FirstTwo:
    """In the place of UMAP."""

    def __init__(self, **settings):
        self.settings = settings

    def fit_transform(self, vectors):
        assert self.settings["random_state"] == 42
        return vectors[:, 20:22]


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """A folder with a small mnist, in the place of all data sets."""
    digits = load("digits", n=60)
    np.savez(tmp_path / "mnist.npz", X=digits.vectors, y=digits.labels)
    monkeypatch.setattr(insert_and_remove, "NAMES", ("mnist",))
    return Setting(SCALES["tiny"]._replace(name="full"), tmp_path, out=tmp_path)


def test_the_embedding_is_made_once_and_kept(mnist, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", type(sys)("umap"))
    sys.modules["umap"].UMAP = FirstTwo
    source = insert_and_remove.embedded_mnist(mnist, [])
    assert (source.name, describe(source).n) == (UMAP_OF_MNIST, 60)
    monkeypatch.setitem(sys.modules, "umap", None)
    assert insert_and_remove.embedded_mnist(mnist, []) == source
    np.savez(tmp_path / UMAP_FILE, X=np.zeros((60, 2)), y=np.zeros(60), of="other data")
    assert insert_and_remove.embedded_mnist(mnist, []) is None


def test_without_umap_its_row_is_left_out_and_the_remark_says_how_to_get_it(mnist, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    result = run_experiment("dynhac", mnist, tmp_path / "out")
    assert [row["data"] for row in result.rows] == ["mnist"]
    assert "pip install 'grinch[bench]'" in result.remarks[0]
    assert (tmp_path / "out" / "dynhac.png").stat().st_size > 5_000
