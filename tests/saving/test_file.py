"""A model that was saved and opened goes on exactly where it was, for every estimator."""

import os

import numpy as np
import pytest
import scipy.sparse

import grinch
from effort import at_night
from grinch import HAC, SCC, Birch, Grinch, MiniBatchHAC, Online, Perch, Rotate, Rules
from grinch.datasets import gaussian_mixture
from grinch.errors import NotSavable, SavedModelError
from interrupts import interrupting
from refusals import refused
from sparse_data import sparse_groups
from twins import assert_same, go_on, refitted, reopened, same_bits

X = gaussian_mixture(1200, n_features=8, n_classes=12, random_state=0)[0]
S = sparse_groups(1200)
MODELS = [
    *(Grinch(), Grinch("ward", noise=True), Grinch("centroid", search="index"), Grinch(mode=Rules.fast(cap=20))),
    *(Grinch("cosine", search="exact", mode="paper"), Grinch("ward", mode="exact"), Rotate("ward"), at_night(Online())),
    *(at_night(Grinch("average", metric="dot")), at_night(Grinch("cosine", threshold=0.5))),
    at_night(Grinch("average", metric="sqeuclidean", n_clusters=7)),
]
SPARSE_MODELS = [
    *(at_night(Grinch()), Grinch("ward", noise=True), Grinch("centroid", mode="exact"), at_night(Rotate("ward"))),
    *(Grinch("cosine", search="exact", mode="paper"), Grinch("tanimoto", threshold=0.2)),
    *(at_night(Grinch("average", metric=metric)) for metric in ("dot", "hellinger")),
    at_night(Grinch("average", metric="sqeuclidean", n_clusters=7)),
    Grinch(mode=Rules.fast(cap=20, most_entries=12)),
]


def assert_goes_on(model, rows, n, folder):
    """A model goes on where it was, after single points, batches, and all that can be done to it."""
    twin = refitted(model, rows[:n], folder)
    batches = [(rows[n : n + 1],), (rows[n + 1 : n + 90],)]
    if scipy.sparse.issparse(rows):
        batches.append((rows[n + 90 : n + 100].toarray(),))
    updated = ([3, 4, 70], rows[-3:])
    go_on((model, twin), batches, gone=list(range(10, 60)), updated=updated, queries=rows[-40:], refine=True)
    assert_same(model, reopened(twin, folder))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_an_engine_goes_on(model, tmp_path):
    assert_goes_on(model, X, 150 if model.get_params().get("mode") == "exact" else 300, tmp_path)


SPARSE_MODELS = [
    at_night(Grinch()),
    Grinch("ward", noise=True),
    at_night(Grinch("average", metric="dot")),
    at_night(Grinch("average", metric="sqeuclidean", n_clusters=7)),
    at_night(Grinch("average", metric="hellinger")),
    Grinch("cosine", search="exact", mode="paper"),
    Grinch("centroid", mode="exact"),
    Grinch("tanimoto", threshold=0.2),
    Grinch(mode=Rules.fast(cap=20, most_entries=12)),
    at_night(Rotate("ward")),
]


@pytest.mark.parametrize("model", SPARSE_MODELS, ids=repr)
def test_an_engine_on_sparse_rows_goes_on(model, tmp_path):
    n = 100 if model.get_params().get("mode") == "exact" else 300
    model.fit(S[:n])
    twin = reopened(model, tmp_path)
    go_on(
        (model, twin),
        [(S[n : n + 1],), (S[n + 1 : n + 90],), (S[n + 90 : n + 100].toarray(),)],
        gone=list(range(10, 60)),
        updated=([3, 4, 70], S[-3:]),
        queries=S[-40:],
        refine=True,
    )
    assert_same(model, reopened(twin, tmp_path))


@pytest.mark.parametrize("linkage", ["average", at_night("ward")])
def test_a_tree_that_was_handed_in_goes_on(linkage, tmp_path):
    model = Grinch(linkage).fit_tree(X[:200], HAC(linkage).fit(X[:200]).tree_)
    go_on((model, reopened(model, tmp_path)), [(X[200:260],)], gone=list(range(10, 40)), queries=X[-40:])


@pytest.mark.parametrize("when", ["not read", "labels read", "half removed", "compacted", "emptied"])
@pytest.mark.parametrize(("linkage", "rows"), [at_night("average", X), ("ward", X), ("average", S)])
def test_whenever_it_is_saved(linkage, rows, when, tmp_path):
    model = Grinch(linkage).fit(rows[:200])
    if when == "labels read":
        model.labels_
    if when in ("half removed", "compacted", "emptied"):
        model.remove(range(0, 200, 2))
    if when in ("compacted", "emptied"):
        model.remove(range(1, 101, 2))
        assert model.current_fit().builder.n_slots < 200
    if when == "emptied":
        model.remove(list(model.ids_))
    twin = reopened(model, tmp_path)
    if when == "labels read":
        # The tree that was read is not in the file, and to read it again asks for scores again, which are counted.
        model.current_fit()._tree = None
    go_on((model, twin), [(rows[200:350],)], gone=list(model.ids_)[:5], queries=rows[-20:], refine=True)
    assert_same(model, reopened(twin, tmp_path))


IDS = {
    "numbers": [10**30, -5, *range(100, 198)],
    "texts": [f"né-{i}" for i in range(99)] + ["\ud800"],
    "tuples": [("a", i, None, 1.5, b"x") for i in range(100)],
    "mixed": [True, "1", 2.5, None, *range(10, 106)],
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_ids(kind, shuffle, tmp_path):
    ids = IDS[kind]
    model = Grinch(shuffle=shuffle, random_state=np.random.RandomState(3)).fit(X[:100], ids=ids)
    twin = reopened(model, tmp_path)
    assert [type(name) for name in twin.ids_] == [type(name) for name in ids]
    go_on((model, twin), [(X[200:230], [f"new {i}" for i in range(30)])], gone=ids[:7], updated=(ids[50:52], X[:2]))
    refused("new 3", twin.partial_fit, X[:1], ids=["new 3"])
    model.fit(X[:50])
    twin.fit(X[:50])
    assert_same(model, twin)


OTHERS = [
    *(HAC(), HAC("ward", lean=True), HAC("cosine", n_clusters=4), HAC("average", metric="cityblock")),
    *(MiniBatchHAC(buffer_size=60), at_night(MiniBatchHAC("ward", buffer_size=60))),
    MiniBatchHAC("single", buffer_size=40, n_clusters=4),
    *(Perch(), Perch(metric="cosine", balance=True, n_clusters=5), Perch(search="beam", max_leaves=80)),
    *(Birch(n_clusters=4), Birch(metric="cosine", radius=0.3, branching_factor=5, n_clusters=4)),
    *(SCC(n_clusters=4), SCC(metric="cosine", rule="affinity", n_neighbors=5)),
]


@pytest.mark.parametrize("rows", ["float32", pytest.param("sparse", marks=pytest.mark.slow)])
@pytest.mark.parametrize("model", OTHERS, ids=repr)
def test_other_systems_go_on(model, rows, tmp_path):
    n, stop = (60, 90) if isinstance(model, Birch) else (120, 180)
    points = {"float32": X.astype(np.float32), "sparse": scipy.sparse.csr_matrix(X)}[rows]
    twin = refitted(model, points[:n], tmp_path)
    batches = [] if isinstance(model, HAC | SCC) else [(points[n : n + 10],), (points[n + 10 : stop],)]
    go_on((model, twin), batches, queries=points[-20:])
    assert_same(model, reopened(twin, tmp_path))


@pytest.mark.parametrize("kind", [Grinch, Rotate, Online, HAC, MiniBatchHAC, Perch, Birch, SCC])
def test_models_that_are_not_fitted(kind, tmp_path):
    model = reopened(kind(n_clusters=3, verbose=0), tmp_path)
    assert type(model) is kind
    assert model.get_params() == kind(n_clusters=3, verbose=0).get_params()
    assert_same(model.fit(X[:50]), kind(n_clusters=3).fit(X[:50]))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    ("kind", "rows"), [(Grinch, X), (Grinch, S), (HAC, X), (MiniBatchHAC, X), (Perch, X), (Birch, X), (SCC, X)]
)
def test_few_points(kind, rows, n, tmp_path):
    model = kind().fit(rows[:n])
    assert_same(model, reopened(model, tmp_path))


def test_parameters_that_changed_since_the_fit(tmp_path):
    model = Grinch("ward", n_clusters=3).fit(X[:60]).set_params(linkage="average", n_clusters=4)
    twin = reopened(model, tmp_path)
    assert twin.linkage == "average"
    assert same_bits(twin.labels_, model.labels_)
    refused("begun with linkage='ward'", twin.partial_fit, X[:5])
    assert_same(model.set_params(linkage="ward"), twin.set_params(linkage="ward"))
    model = Grinch(n_neighbors=10).fit(X[:60]).set_params(n_neighbors=30)
    assert_same(model, reopened(model, tmp_path))


def test_feature_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:40], columns=[f"c{i}" for i in range(8)])
    twin = reopened(Grinch().fit(frame), tmp_path)
    assert (twin.feature_names_in_.tolist(), twin.n_features_in_) == (list(frame.columns), 8)
    twin.partial_fit(frame)


@pytest.mark.slow
def test_cells_above_their_turn(tmp_path):
    points = gaussian_mixture(16_900, n_features=3, n_classes=40, random_state=1)[0]
    model = Grinch("ward", n_clusters=40).fit(points[:16_600])
    twin = reopened(model, tmp_path)
    go_on((model, twin), [(points[16_600:],)], gone=list(range(100, 400)), queries=points[:50])
    model.refine()
    assert_same(model, reopened(model, tmp_path))


def test_an_interrupted_polish_is_made_up_for(tmp_path, monkeypatch):
    def interrupted(engine, neighbors):
        raise KeyboardInterrupt

    model = Grinch()
    monkeypatch.setattr("grinch.refine.neighbor_cost.polish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:300])
    monkeypatch.undo()
    go_on((model, reopened(model, tmp_path)), [(X[300:500],)], queries=X[-5:])


def test_an_interrupted_fit_with_cells(tmp_path, monkeypatch):
    model = Grinch(search="index").fit(X[:300]).set_params(verbose=True)
    monkeypatch.setattr("grinch.progress.progress_bar", interrupting(after=300))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[300:])
    model.set_params(verbose=False)
    assert 300 < model.n_leaves_ < 1200
    go_on((model, reopened(model, tmp_path)), [(X[600:900],)], queries=X[-5:])


@pytest.mark.parametrize("rows", [X, S], ids=["dense", "sparse"])
def test_the_same_model_gives_the_same_file_and_a_loaded_one_leaves_it_alone(rows, tmp_path):
    path = tmp_path / "a"
    model = Grinch().fit(rows[:900])
    model.save(path)
    model.save(tmp_path / "b")
    before, loaded = path.read_bytes(), grinch.load(path)
    loaded.save(tmp_path / "c")
    assert before == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
    loaded.partial_fit(rows[900:]).remove(range(0, 100))
    assert path.read_bytes() == before
    loaded.save(path)
    assert_same(loaded, grinch.load(path))


def test_a_refused_save_changes_nothing(tmp_path):
    class Mine(Grinch):
        pass

    path = tmp_path / "model"
    Grinch().fit(X[:10]).save(path)
    before = path.read_bytes()
    for model, match in (
        (Grinch(threshold=object()), "parameter threshold cannot be written"),
        (Mine(), r"must be one of Grinch, .* got .*Mine"),
    ):
        refused(match, model.save, path, error=NotSavable)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]


def test_files_that_are_not_there_or_not_ours(tmp_path):
    with pytest.raises(FileNotFoundError):
        grinch.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError):
        Grinch().save(tmp_path / "no" / "folder")
    (tmp_path / "text").write_text("hello")
    refused(r"text is not a file that grinch wrote", grinch.load, tmp_path / "text", error=SavedModelError)
