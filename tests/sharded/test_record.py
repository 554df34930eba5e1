"""The folder of a run, looked at later: a finished one as a tree with its rows, an unfinished one by what goes on."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
import scipy.sparse

from grinch.io.read import FileError
from grinch.running import Here
from grinch.serve.model_backend import is_run, open_backend
from grinch.serve.views.viewer import Viewer
from grinch.sharded import ShardedGrinch, estimator, record
from grinch.sharded.stages import trees
from refusals import refused

pytest.importorskip("distributed", reason="dask is not installed: pip install 'grinch[dask]'")


class InThisProcess(Here):
    """Workers are not what is tested."""

    def __init__(self, *_):
        super().__init__()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.fixture(autouse=True)
def without_workers(monkeypatch):
    monkeypatch.setattr(estimator, "Workers", InThisProcess)


def points(n, seed=0):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(size=(8, 6)) * 5
    return (centres[rng.integers(8, size=n)] + rng.normal(size=(n, 6))).astype(np.float32)


def run_of(folder, X, ids=None, **settings):
    return ShardedGrinch(3, sample_size=120, folder=folder, **settings).fit(X, ids=ids)


@pytest.mark.parametrize("kind", ["text", "number", "none", "other"])
def test_a_finished_run_is_its_tree(tmp_path, kind):
    X = points(300)
    names = {"text": [f"p{i}ü" for i in range(300)], "number": list(range(1000, 1300)), "none": None}
    ids = names.get(kind, [("a", i) for i in range(300)])
    model = run_of(tmp_path / "run", X, ids, linkage="ward", n_clusters=8)
    assert is_run(tmp_path / "run")
    with closing(open_backend(tmp_path / "run")) as source:
        seen = source.read(lambda view: view.look())
        np.testing.assert_array_equal(seen.tree.child_pairs(), model.tree_.child_pairs())
        np.testing.assert_array_equal(seen.tree.scores, model.tree_.scores)
        np.testing.assert_array_equal(seen.tree.heights(), model.tree_.heights())
        np.testing.assert_array_equal(seen.cuts["labels"], model.labels_)
        shown = list(range(300)) if kind in ("none", "other") else ids
        assert [name for name, _ in source.points(seen.positions)] == shown
        asked = np.array([299, 0, 17, 17])
        np.testing.assert_array_equal(source.rows(asked), X[asked])
        assert (source.metric(), source.n_features) == ("euclidean", 6)
        viewer = Viewer(source)
        about = viewer.about()
        assert about["map"]["methods"][0] == "neighbors"
        assert not about["can_place"]
        assert viewer.map("neighbors")
        assert viewer.node(viewer.scene.tree.root)["size"] == 300
        viewer.name(viewer.scene.tree.root, "everything")
    with closing(open_backend(tmp_path / "run", payload=[{"title": f"t{i}"} for i in range(300)])) as source:
        viewer = Viewer(source)
        assert viewer.node(viewer.scene.tree.root)["title"] == "everything"
        assert viewer.search("t117")["hits"][0]["leaf"] == 117


def test_sparse_rows_stay_sparse(tmp_path):
    X = scipy.sparse.random(200, 40, 0.2, "csr", dtype=np.float32, random_state=0)
    run_of(tmp_path / "run", X, linkage="cosine")
    source = open_backend(tmp_path / "run")
    asked = np.array([150, 3, 99])
    assert scipy.sparse.issparse(source.rows(asked))
    np.testing.assert_allclose(source.rows(asked).toarray(), X[asked].toarray())
    assert source.read(lambda view: view.look()).cuts == {}
    assert Viewer(source).map("neighbors")


def test_an_unfinished_run_says_how_it_goes_on(tmp_path, monkeypatch):
    X, folder = points(200), tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(trees, "run", broken)
        refused("broken", run_of, folder, X, error=Exception)
    with pytest.raises(FileError, match=r"not finished. Resume it with the same ShardedGrinch\(\.\.\., folder=.*run'"):
        open_backend(folder)
    record.write_mark(folder, "grinch cluster points.npy --workers 2 --work run")
    with pytest.raises(FileError, match=r"Resume it with: grinch cluster points\.npy --workers 2"):
        open_backend(folder)
    model = run_of(folder, X)
    assert open_backend(folder).read(lambda view: view.bare_tree).n_leaves == 200
    # The same run again is finished all the time; another one is not.
    known = (folder / record.FILE).read_text()
    record.begin(model._run.job)
    assert (folder / record.FILE).read_text() == known
    next(folder.glob("stages-*/trees/shard-00000.json")).unlink()
    refused("no longer has the trees", open_backend, folder, error=FileError)
    for text, said in (("{", "damaged"), (known.replace('"format": 1', '"format": 2'), "later version")):
        (folder / record.FILE).write_text(text)
        refused(said, open_backend, folder, error=FileError)
    run_of(folder, X)
    assert open_backend(folder).read(lambda view: view.bare_tree).n_leaves == 200


def broken(job, shard):
    raise RuntimeError("broken")


def test_other_folders_are_no_runs(tmp_path):
    (tmp_path / "something").mkdir()
    assert not is_run(tmp_path / "something")
    refused("without a store or a run", open_backend, tmp_path / "something", error=FileError)


def test_a_temporary_folder_has_no_record():
    model = ShardedGrinch(2, sample_size=60).fit(points(80))
    assert not (model.folder_ / record.FILE).exists()
