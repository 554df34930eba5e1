"""Warnings at fit about settings that do not suit the points: each when it is due, once, and never on ordinary data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_blobs, make_moons
from sklearn.preprocessing import StandardScaler, normalize

import grinch
from grinch import HAC, SCC, Birch, Grinch, MiniBatchHAC, Perch
from grinch.errors import SettingsWarning
from grinch.hints import suggest_linkage

SPREADS = "columns of X have very different spreads: .* in column 1 .* in column 0.* Standardise X"
COUNTS = "counts of very different lengths.* Give metric='cosine'"
DIRECTIONS = "metric='cosine' compares directions.* X has 2 columns.* Leave metric out"


def units(rng, scale=1e4, n=60):
    """Two columns in different units, such as years and dollars."""
    return rng.normal(size=(n, 2)) * [1, scale]


def counts(rng, longest=100):
    """Words of texts, of which some are much longer than others."""
    words = rng.integers(0, 50, size=(200, longest))
    sizes = np.geomspace(1, longest, 200).astype(int)
    rows = [np.bincount(words[i, : sizes[i]], minlength=50) for i in range(200)]
    return scipy.sparse.csr_matrix(np.array(rows, dtype=float))


def said(act):
    """Return the warnings of grinch about settings that an action gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        act()
    return [each for each in found if each.category is SettingsWarning]


def noise(width, n=60):
    return lambda rng: rng.normal(size=(n, width))


def lengths_of_one(make):
    return lambda rng: normalize(make(rng))


MODELS = (Grinch(), Grinch("single"), HAC(), MiniBatchHAC(), Perch(), Birch(), SCC())
NO_SCORE = r"threshold=0.5 is above every score \(at most -.* minus a distance"
WARNED = [
    *((model, units, SPREADS) for model in (*MODELS, Grinch("ward"))),
    (Grinch(), counts, COUNTS),
    (Grinch(metric="cosine"), noise(2), DIRECTIONS),
    (HAC(metric="cosine"), noise(3), "X has 3 columns"),
    *((m, noise(4), NO_SCORE) for m in (Grinch(threshold=0.5), HAC(threshold=0.5), Grinch("ward", threshold=0.5))),
    (Grinch(metric="cosine", threshold=0.9999), noise(8), r"threshold=0.9999 is above every score \(at most 0.9"),
    (Grinch("single", threshold=0.5), noise(4), r"threshold=0.5 is above every score \(at most 0\)"),
    (Grinch(n_clusters=31), noise(4), "n_clusters=31 is more than half of the 60 points"),
]


@pytest.mark.parametrize(("model", "make", "words"), WARNED)
def test_settings_that_do_not_suit_the_points(rng, model, make, words):
    with pytest.warns(SettingsWarning, match=words):
        model.fit(make(rng))


# Spreads and lengths that do not count, or are not so different; few points, which may well be all apart.
QUIET = [
    *((model, lambda rng: units(rng, scale=100)) for model in MODELS),
    (Grinch(), lambda rng: StandardScaler().fit_transform(units(rng))),
    *((m, lambda rng: np.tile(units(rng), 2)) for m in (Grinch(metric="cosine"), Grinch("cosine"))),
    *((Grinch(), lengths_of_one(make)) for make in (lambda rng: np.tile(units(rng), 2), counts)),
    *((Grinch(metric=metric), counts) for metric in ("cosine", "hellinger")),
    (Grinch(), lambda rng: counts(rng, longest=4)),
    (Grinch(metric="cosine"), noise(4)),
    (Grinch(metric="cosine"), lengths_of_one(noise(3))),
    *((m, noise(4)) for m in (Grinch(threshold=-1.0), HAC(threshold=-1.0), Grinch("ward", threshold=-1.0))),
    (Grinch(metric="cosine", threshold=0.9999), lambda rng: np.eye(4)),
    (Grinch(lambda a, b: -abs(a[0] - b[0]), threshold=0.5), lambda rng: list(range(30))),
    (Grinch(n_clusters=30), noise(4)),
]


@pytest.mark.parametrize(("model", "make"), QUIET)
def test_settings_that_suit_the_points(rng, model, make):
    assert said(lambda: model.fit(make(rng))) == []


def test_of_a_beginning_nobody_knows_what_will_come(rng):
    assert said(lambda: Grinch(metric="cosine", threshold=0.9999).partial_fit(rng.normal(size=(60, 8)))) == []
    with pytest.warns(SettingsWarning, match=r"threshold=1.5 is above every score \(at most 1\)"):
        Grinch(metric="cosine", threshold=1.5).partial_fit(np.eye(4))


def test_it_is_said_once_at_the_line_that_fits_and_never_when_reading(rng, tmp_path):
    X, model = units(rng), Grinch(n_clusters=50)
    found = said(lambda: model.fit_predict(X))
    assert len(found) == 2
    assert {each.filename for each in found} == {__file__}

    def use():
        model.partial_fit(X)
        assert len(model.labels_) == 120
        model.predict(X)
        model.summary()
        model.refine()
        model.save(tmp_path / "model.grinch")
        grinch.load(tmp_path / "model.grinch").predict(X)

    assert said(use) == []
    assert len(said(lambda: Grinch().partial_fit(X))) == 1


def test_a_store_says_it_when_points_first_come_and_not_when_it_is_opened(rng, tmp_path):
    X = units(rng)

    def begin():
        with grinch.open(tmp_path, threshold=0.5) as store:
            store.insert(X[:20])
            store.insert(X[20:])

    assert [str(each.message)[:10] for each in said(begin)] == ["threshold=", "the column"]

    def go_on():
        with grinch.open(tmp_path) as store:
            store.insert(X)
            store.labels()
        grinch.open(tmp_path, readonly=True).close()

    assert said(go_on) == []


def test_nothing_is_said_of_fits_that_nobody_asked_for(rng):
    assert said(lambda: suggest_linkage(units(rng), random_state=0)) == []


ORDINARY = {
    "iris": lambda: load_iris().data,
    "digits": lambda: load_digits().data,
    "blobs": lambda: make_blobs(300, random_state=0)[0],
    "moons": lambda: make_moons(300, noise=0.05, random_state=0)[0],
    "embeddings": lambda: normalize(np.random.default_rng(0).normal(size=(300, 64))).astype(np.float32),
    "standardised": lambda: StandardScaler().fit_transform(load_breast_cancer().data),
    "TF-IDF": lambda: normalize(counts(np.random.default_rng(0))),
    "flags": lambda: np.random.default_rng(0).integers(0, 2, size=(100, 3)),
    "constant columns": lambda: np.hstack([load_iris().data, np.full((150, 2), [[1e9, 0]])]),
    "copies": lambda: np.ones((50, 3)),
    "one column": lambda: np.random.default_rng(0).normal(size=(50, 1)),
    "no columns that vary, sparse": lambda: scipy.sparse.csr_matrix((50, 3)),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_points_are_not_warned_of(name):
    assert said(lambda: Grinch().fit(ORDINARY[name]())) == []
    assert said(lambda: Grinch(n_clusters=3).fit(ORDINARY[name]())) == []
