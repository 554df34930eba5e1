"""Data sets by name: found, read, or explained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from grinch.datasets import CATALOG, available, load
from grinch.io.read import FileError
from refusals import refused

X = np.arange(12, dtype=np.uint8).reshape(6, 2)


Y = np.array([1, 1, 2, 2, 3, 3], np.int16)


SHIPPED = {"digits", "iris", "wine", "breast_cancer"}


@pytest.mark.parametrize("name", ["aloi", "ilsvrc12", "tiny_imagenet", "speaker", "pendigits", "mnist", "separated-2"])
def test_an_npz_is_found_in_the_folder_or_one_below_it(name, tmp_path):
    below = tmp_path / "some" / CATALOG[name].files[0]
    below.parent.mkdir()
    np.savez(below, X=X, y=Y)
    vectors, labels = load(name, tmp_path)
    assert vectors.dtype == np.float32
    assert vectors.tolist() == X.tolist()
    assert labels.tolist() == Y.tolist()
    np.savez(tmp_path / below.name, X=X + 1, y=Y)
    assert load(name, tmp_path).vectors[0, 0] == 1
    # A set whose file another one reads too comes along.
    shared = {other for other, d in CATALOG.items() if below.name in d.files}
    assert set(available(tmp_path)) == SHIPPED | shared


def test_the_folder_may_be_in_the_environment(tmp_path, monkeypatch):
    np.savez(tmp_path / "glass.npz", X=X, y=Y)
    monkeypatch.setenv("GRINCH_DATA", str(tmp_path))
    assert load("glass").vectors.shape == (6, 2)
    monkeypatch.setenv("GRINCH_DATA", str(tmp_path / "gone"))
    refused(r"GRINCH_DATA must be a folder with data sets; got .*gone", load, "glass", error=FileNotFoundError)
    assert load("iris").vectors.shape == (150, 4)


def test_aloi_comes_in_the_formats_it_is_published_in(tmp_path):
    (tmp_path / "aloi.csv").write_text(
        "label,a,b\n" + "".join(f"{y},{a},{b}\n" for y, (a, b) in zip(Y, X, strict=True))
    )
    assert load("aloi", tmp_path).vectors.tolist() == X.tolist()
    (tmp_path / "aloi.tsv").write_text("".join(f"7\t{y}\t{a}\t{b}\n" for y, (a, b) in zip(Y, X + 1, strict=True)))
    assert load("aloi", tmp_path).vectors.tolist() == (X + 1).tolist()
    assert load("aloi", tmp_path).labels.tolist() == [str(y) for y in Y]
    (tmp_path / "aloi.scale").write_text("".join(f"{y} 1:{a} 2:{b}\n" for y, (a, b) in zip(Y, X + 2, strict=True)))
    assert load("aloi", tmp_path).vectors.tolist() == (X + 2).tolist()
    assert load("aloi", tmp_path).labels.tolist() == Y.tolist()


def test_features_may_be_an_npy_with_labels_beside_it(tmp_path):
    np.save(tmp_path / "ilsvrc12.npy", X)
    refused(r"put their classes beside it, as ilsvrc12_labels\.npy", load, "ilsvrc12", tmp_path, error=FileError)
    np.save(tmp_path / "ilsvrc12_labels.npy", Y)
    assert load("ilsvrc12", tmp_path).vectors.tolist() == X.tolist()


def test_covtype_is_standardised_in_its_measurements_only(tmp_path, rng):
    rows = rng.integers(0, 5000, (50, 54)).astype(np.int16)
    rows[:, 3] = 7
    np.savez(tmp_path / "covtype20k.npz", X=rows, y=np.arange(50) % 7)
    vectors = load("covtype", tmp_path).vectors
    expected = (rows[:, :10] - rows[:, :10].mean(axis=0)) / np.where(
        rows[:, :10].std(axis=0) == 0, 1, rows[:, :10].std(axis=0)
    )
    np.testing.assert_allclose(vectors[:, :10], expected, atol=1e-5)
    assert (vectors[:, 3] == 0).all()
    assert np.array_equal(vectors[:, 10:], rows[:, 10:])
    # Standardised as a whole, sampled afterwards.
    few = load("covtype", tmp_path, n=5).vectors
    assert {tuple(row) for row in few} <= {tuple(row) for row in vectors}


def test_every_speaker_and_digit_may_be_a_class(tmp_path):
    np.savez(tmp_path / "audiomnist_resemblyzer256.npz", X=X, y=Y, digit=np.array([0, 9] * 3, np.int8))
    assert load("speaker", tmp_path).labels.tolist() == Y.tolist()
    assert load("speaker_digits", tmp_path).labels.tolist() == [10, 19, 20, 29, 30, 39]


def test_clinc150_drops_what_is_out_of_scope(tmp_path):
    names = np.array(["alarm", "oos", "weather"])
    np.savez(tmp_path / "clinc150.npz", X=X, y=Y - 1, classes=names)
    vectors, labels = load("clinc150", tmp_path)
    assert labels.tolist() == ["alarm", "alarm", "weather", "weather"]
    assert vectors.tolist() == X[[0, 1, 4, 5]].tolist()
    np.savez(tmp_path / "clinc150.npz", X=X, y=names[Y - 1])
    assert load("clinc150", tmp_path).labels.tolist() == labels.tolist()


def test_images_become_rows(tmp_path):
    np.savez(tmp_path / "mnist.npz", X=X.reshape(6, 1, 2), y=Y)
    assert load("mnist", tmp_path).vectors.shape == (6, 2)


def test_a_sample_is_random_and_repeatable(tmp_path):
    np.savez(tmp_path / "pendigits.npz", X=np.arange(1000).reshape(500, 2), y=np.arange(500))
    one, same, other = (load("pendigits", tmp_path, n=100, random_state=seed) for seed in (1, 1, 2))
    assert one.labels.tolist() == same.labels.tolist() != other.labels.tolist()
    assert len(set(one.labels.tolist())) == 100
    assert np.array_equal(one.vectors[:, 0], 2 * one.labels)
    for n in (0, -1, 2.5, True, "all"):
        refused("n must be a whole number of at least 1, or None", load, "pendigits", tmp_path, n=n)
    refused(r"n must be at most the 500 rows of 'pendigits'.*got 501", load, "pendigits", tmp_path, n=501)


@pytest.mark.parametrize("name", sorted(set(CATALOG) - SHIPPED))
def test_a_missing_file_is_asked_for_by_name_place_and_format(name, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        load(name, tmp_path)
    told = str(caught.value)
    for part in (*CATALOG[name].files, CATALOG[name].where, CATALOG[name].format, str(tmp_path)):
        assert part in told
    assert ("download=True" in told) == (name in ("covtype", "mnist"))
    refused("give its folder as folder= or in GRINCH_DATA", load, name, error=FileNotFoundError)


def test_wrong_names_and_wrong_files_are_explained(tmp_path):
    refused("did you mean 'pendigits'", load, "pendigit")
    np.savez(tmp_path / "glass.npz", data=X, y=Y)
    refused(r"glass\.npz must hold X and y.*it holds data, y", load, "glass", tmp_path, error=FileError)
    np.savez(tmp_path / "glass.npz", X=X, y=Y[:5])
    refused(r"one class for each point; it holds shapes \(6, 2\) and \(5,\)", load, "glass", tmp_path, error=FileError)
    (tmp_path / "glass.npz").write_bytes(b"PK\x03\x04 torn off")
    refused(r"'glass\.npz' cannot be read", load, "glass", tmp_path, error=FileError)


def test_nothing_is_downloaded_unless_asked_for(monkeypatch, tmp_path):
    import sklearn.datasets

    fetched = []

    def fetch(*_, **__):
        fetched.append(1)
        return X, Y

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    monkeypatch.setattr(sklearn.datasets, "fetch_covtype", fetch)
    for name in ("mnist", "covtype"):
        with pytest.raises(FileNotFoundError):
            load(name, tmp_path)
    assert not fetched
    assert load("mnist", download=True).vectors.tolist() == X.tolist()
    # What scikit-learn fetched before is used as it is.
    kept = tmp_path / "no-cache" / "covertype"
    kept.mkdir(parents=True)
    for part in ("samples_py3", "targets_py3"):
        (kept / part).touch()
    assert "covtype" in available()
    assert load("covtype").labels.tolist() == Y.tolist()
    assert len(fetched) == 2


@pytest.mark.parametrize(("name", "shape"), [("digits", (1797, 64)), ("iris", (150, 4)), ("wine", (178, 13))])
def test_scikit_learn_ships_some(name, shape):
    vectors, labels = load(name)
    assert vectors.shape == shape
    assert len(labels) == len(vectors)
    if name == "wine":
        np.testing.assert_allclose(vectors.std(axis=0), 1, rtol=1e-4)


def test_the_page_lists_every_set():
    page = Path(__file__).parents[2].joinpath("docs", "datasets.md").read_text(encoding="utf-8")
    for name, description in CATALOG.items():
        assert f"`{name}`" in page
        assert description.where in page


def test_importing_the_data_sets_is_light():
    code = "import sys, grinch.datasets; print({'sklearn', 'scipy', 'numba', 'matplotlib'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
