"""Files of format 1 are converted to what goes on exactly where they were, and so is what a default meant."""

import copy
import json
import pickle
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import grinch
import old_models
from commands import run_command
from grinch import HAC, Grinch, MiniBatchHAC, Rules
from grinch.errors import SavedModelError
from grinch.estimators.saved import model_from_state
from grinch.legacy import convert_file, read_old_snapshot
from grinch.resolve.authors import Model
from grinch.text import TextVectors
from refusals import refused
from twins import assert_same, go_on, reopened

FIXTURES = Path(__file__).parent / "fixtures"
FILES = sorted(path for path in FIXTURES.iterdir() if path.suffix in (".grinch", ".npz", ".model"))


def near(a, b):
    return -abs(sum(a) / len(a) - sum(b) / len(b))


def converted(name, folder):
    convert_file(FIXTURES / name, folder / "new")
    return folder / "new"


@pytest.mark.parametrize("name", old_models.MODELS)
def test_a_converted_model_goes_on(name, tmp_path):
    model, expected = grinch.load(converted(f"{name}.grinch", tmp_path)), old_models.made(name)
    _, points, later = old_models.MODELS[name]
    assert type(model) is type(expected)
    if points is None:
        assert model.get_params() == expected.get_params()
        return
    if name == "perch":
        # It rotated by another condition then.
        model.save(tmp_path / "again.grinch")
        expected = grinch.load(tmp_path / "again.grinch")
    if name == "cosine":
        # What the paper's mode was then.
        rules = Rules.authors(uncap_unrelated=True)
        expected = expected.set_params(mode=rules, n_neighbors=25).fit(points, ids=expected.ids_)
    n = 0 if later is None else old_models.points_in(later)
    ids = [f"q{i}" for i in range(n)]
    if name in ("pairwise", "parts"):
        # What a linkage remembers depends on random numbers.
        assert model.labels_.tolist() == expected.labels_.tolist()
        assert model.partial_fit(later, ids=ids).n_leaves_ == old_models.points_in(points) + n
        return
    queries = None if name in ("hac", "hac_pairs") else later
    go_on((model, expected), [] if later is None else [(later, ids)], queries=queries)


def test_converted_text_vectors_and_a_converted_coreference_model(tmp_path):
    vectors, expected = TextVectors.load(converted("text_vectors.npz", tmp_path)), old_models.text_vectors()
    assert (vectors.transform(old_models.TEXTS) != expected.transform(old_models.TEXTS)).nnz == 0
    (tmp_path / "new").unlink()
    model, expected = Model.load(converted("coreference.model", tmp_path)), old_models.coreference_model()
    rows = np.random.default_rng(0).normal(size=(20, len(expected.features)))
    np.testing.assert_array_equal(model.score(rows), expected.score(rows))
    np.testing.assert_array_equal(model.statistics.counts, expected.statistics.counts)
    assert (model.threshold, model.report) == (expected.threshold, expected.report)


def test_a_snapshot_is_read_as_one_of_today(tmp_path):
    with tarfile.open(FIXTURES / "store.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    (path,) = (tmp_path / "store").glob("snapshot-*.grinch")
    header, arrays = read_old_snapshot(path)
    assert header["version"] == 3
    assert header["model"]["class"] == "Grinch"
    assert len(arrays["row_of"]) >= 100
    assert arrays["model/fitted.builder.links.table"].dtype == np.int32
    refused(r"grinch convert \S*store NEW", grinch.open, tmp_path / "store")


@pytest.mark.parametrize("name", ["vectors", "records", "perch"])
def test_files_of_the_first_release(name, tmp_path):
    path = converted(f"format_1_{name}.grinch", tmp_path)
    model = grinch.load(path, **({"linkage": near} if name == "records" else {}))
    expected = json.loads((FIXTURES / f"format_1_{name}.json").read_text())
    assert model.ids_ == expected["ids"]
    assert model.tree_.to_newick(lengths=False) == expected["tree"]
    assert model.labels_.tolist() == expected["labels"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_reading_them_names_the_command(path):
    kind = {".npz": TextVectors.load, ".model": Model.load}.get(path.suffix, grinch.load)
    refused(rf"grinch convert \S*{path.name} NEW", kind, path, error=SavedModelError)


def test_the_command(tmp_path):
    shutil.copy(FIXTURES / "dense.grinch", tmp_path / "old.grinch")
    assert run_command("convert", "old.grinch", "new.grinch", cwd=tmp_path).returncode == 0
    assert_same(grinch.load(tmp_path / "new.grinch"), old_models.made("dense"))
    again = run_command("convert", "old.grinch", "new.grinch", cwd=tmp_path)
    assert again.returncode != 0
    assert "there already" in again.stderr
    # Some files need no conversion.
    (tmp_path / "text").write_text("something else")
    for name, match in (("new.grinch", "of today's format already"), ("text", "not a file that grinch wrote")):
        refused(match, convert_file, tmp_path / name, tmp_path / "newer", error=SavedModelError)


@pytest.mark.parametrize(
    "name", ["dense.grinch", "sparse.grinch", "cells.grinch", "text_vectors.npz", "coreference.model"]
)
def test_damaged_files_are_refused(name, tmp_path):
    content, rng = (FIXTURES / name).read_bytes(), np.random.default_rng(0)
    damaged = [content[:length] for length in rng.integers(0, len(content), 20).tolist()]
    for at in rng.integers(30, len(content), 20).tolist() if name.endswith(".grinch") else ():
        damaged.append(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
    for one in damaged:
        (tmp_path / name).write_bytes(one)
        refused(name, convert_file, tmp_path / name, tmp_path / "new", error=SavedModelError)
    assert not (tmp_path / "new").exists()


# Defaults -----------------------------------------------------------------------------------------------------------

# Files written when average linkage compared directions by default (in HAC, Euclidean distances): every model of
# ``MADE`` with ``metric=None`` and the first 30 points.
DATA = Path(__file__).parent / "data"


def directed_rows():
    """Three directions, at lengths from 1 to 1,000: what is near by direction is far by distance."""
    rng = np.random.default_rng(0)
    directions = np.eye(4)[rng.integers(0, 3, 40)] + 0.05 * rng.random((40, 4))
    return (directions * 10 ** rng.uniform(0, 3, (40, 1))).astype(np.float32)


X = directed_rows()
S = scipy.sparse.csr_matrix(np.where(X / X.max(axis=1, keepdims=True) > 0.05, X, 0))
MADE = {
    "dense": (Grinch(metric="cosine", cut="height", n_neighbors=25), X),
    "sparse": (Grinch(metric="cosine", cut="height", n_neighbors=25), S),
    "minibatch": (MiniBatchHAC(metric="cosine", buffer_size=8, cut="height"), X),
    "hac": (HAC(metric="euclidean", cut="height"), X),
}


@pytest.mark.parametrize("name", MADE)
def test_a_model_keeps_the_metric_it_was_made_with(name, tmp_path):
    expected, points = MADE[name]
    convert_file(DATA / f"default_{name}.grinch", tmp_path / "new")
    expected, model = clone(expected).fit(points[:30]), grinch.load(tmp_path / "new")
    assert model.get_params() == clone(model).get_params() == expected.get_params()
    assert_same(model, expected)
    again = reopened(model, tmp_path)
    assert again.metric == expected.metric
    if name != "hac":
        go_on((again, expected), [(points[30:],)], queries=points)
        assert again.labels_.tolist() != clone(expected).set_params(metric=None).fit(points).labels_.tolist()


def test_a_default_stays_one(tmp_path):
    model = Grinch().fit(X)
    assert reopened(model, tmp_path).get_params() == model.get_params()
    assert pickle.loads(pickle.dumps(model)).get_params() == copy.deepcopy(model).get_params() == model.get_params()
    assert reopened(Grinch(), tmp_path).metric is None
    # Both as they are now, and as the tree was begun.
    model.set_params(linkage="ward")
    twin = reopened(model, tmp_path).set_params(linkage="average")
    go_on((model.set_params(linkage="average"), twin), [(X[:5],)])
    # By a version in which no metric means something else, a file is read as what it meant when it was written.
    state = Grinch().to_state()
    state["parameters"]["metric"] = {"default": "dot"}
    assert model_from_state(state).metric == "dot"
    state["parameters"]["metric"] = {"other": "dot"}
    refused("'other' is no kind of parameter", model_from_state, state, error=SavedModelError)
    with grinch.open(tmp_path / "store") as store:
        store.insert(X)
    with grinch.open(tmp_path / "store", metric="sqeuclidean") as store:
        assert store.info()["metric"] == "sqeuclidean"
    refused("was made with metric='sqeuclidean', got 'cosine'", grinch.open, tmp_path / "store", metric="cosine")
