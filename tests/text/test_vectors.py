"""Texts as rows, against scikit-learn's vectorizers, and in any chunking."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import normalize

from effort import trials
from grinch import Grinch
from grinch.cuts import cluster_terms
from grinch.errors import SavedModelError
from grinch.text import TextVectors, columns, vectors

TEXTS = ["The red apple is on the red table", "red tables", "", "stocks and bonds fell", "Äpfel, ÄPFEL!", None, "the"]
SOME = ["".join(part) for part in ("red apple", "stocks fell", "stocks rose again", "an apple a day")]
# Letters in several alphabets, spaces, combining marks, a lone surrogate, and what no word has in it.
LETTERS = st.text(alphabet="ab cd\néé中文١\u0301\ud800#.,'", max_size=30)


def same(one, other):
    assert one.shape == other.shape
    assert (one != other).nnz == 0
    assert one.dtype == other.dtype == np.float32


@pytest.mark.parametrize("words", [1, 2])
def test_rows_are_those_of_scikit_learn(words):
    texts = [text or "" for text in TEXTS]
    oracle = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, words)).fit(texts)
    made = TextVectors(words=words).fit(TEXTS)
    assert made.terms_ == oracle.get_feature_names_out().tolist()
    for some in (TEXTS, ["apple stocks unknown", "nothing"]):
        rows = made.transform(some)
        assert rows.has_sorted_indices
        np.testing.assert_allclose(rows.toarray(), oracle.transform([t or "" for t in some]).toarray(), rtol=1e-6)


def test_runs_of_characters_are_those_of_scikit_learn():
    texts = [text or "" for text in TEXTS]
    oracle = TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=(3, 4)).fit(texts)
    made = TextVectors(words=0, characters=(3, 4)).fit(TEXTS)
    assert made.terms_ == [f"#{run}" for run in oracle.get_feature_names_out()]
    np.testing.assert_allclose(made.transform(TEXTS).toarray(), oracle.transform(texts).toarray(), rtol=1e-6)


def test_words_and_characters_have_half_of_the_weight_each():
    both = TextVectors(characters=(3, 4)).fit_transform(SOME)
    alone = [TextVectors().fit_transform(SOME), TextVectors(words=0, characters=(3, 4)).fit_transform(SOME)]
    np.testing.assert_allclose(both.toarray(), scipy.sparse.hstack(alone).toarray() / np.sqrt(2), rtol=1e-6)


@pytest.mark.parametrize("width", [8, 2**18])
def test_hashing_is_that_of_scikit_learn(width):
    texts = [text or "" for text in TEXTS]
    oracle = HashingVectorizer(n_features=width, alternate_sign=False, norm=None).transform(texts)
    oracle.data = 1 + np.log(oracle.data)
    made = TextVectors(hashing=width, weights=False)
    same_up_to_rounding = abs(made.transform(TEXTS) - normalize(oracle)).max()
    assert same_up_to_rounding < 1e-6
    named = {term for term in made.terms_ if term is not None}
    assert named <= set(TfidfVectorizer().fit(texts).get_feature_names_out())
    assert len(named) == len(set(oracle.indices.tolist()))


def test_hashing_weighs_by_the_first_texts_and_knows_words_that_are_new():
    made = TextVectors(hashing=True)
    first = made.fit_transform(SOME)
    rows = made.transform(["stocks novelty"])
    weights = {made.terms_[column]: rows[0, column] for column in rows.indices}
    assert weights["novelty"] > weights["stocks"] > 0
    exact = TextVectors().fit_transform(SOME)
    np.testing.assert_allclose((first @ first.T).toarray(), (exact @ exact.T).toarray(), atol=1e-6)


@given(st.lists(LETTERS, min_size=1, max_size=12), st.lists(LETTERS, max_size=12), st.data())
@settings(max_examples=trials(60, 600))
def test_rows_do_not_depend_on_the_chunks(first, more, data):
    made = TextVectors(
        words=data.draw(st.integers(0, 2), "words"),
        characters=data.draw(st.sampled_from([(1, 2), (2, 3)]), "characters"),
        hashing=data.draw(st.sampled_from([False, 16, True]), "hashing"),
    )
    try:
        fitted = made.fit_transform(first)
    except ValueError as error:
        assert "must have letters" in str(error) or "must have words" in str(error)  # noqa: PT017
        return
    whole = made.transform(first + more)
    same(fitted, whole[: len(first)])
    chunks = data.draw(st.lists(st.integers(1, 6), max_size=8), "chunks")
    bounds = [0, *np.cumsum(chunks).tolist(), len(first) + len(more)]
    parts = [made.transform((first + more)[a:b]) for a, b in pairwise(bounds)]
    same(scipy.sparse.vstack(parts, format="csr"), whole)
    lengths = scipy.sparse.linalg.norm(whole, axis=1)
    assert ((abs(lengths - 1) < 1e-5) | (lengths == 0)).all()


def test_long_lists_are_worked_on_in_parts(monkeypatch):
    whole = TextVectors(hashing=64).fit(SOME).transform(SOME * 5)
    monkeypatch.setattr(vectors, "CHUNK", 3)
    same(TextVectors(hashing=64).fit(SOME).transform(iter(SOME * 5)), whole)


def test_terms_of_one_text_are_left_out_once_there_are_many(monkeypatch):
    monkeypatch.setattr(columns, "MANY_TEXTS", 1000)
    assert TextVectors().fit(["apple", "apple pie"]).terms_ == ["apple", "pie"]
    assert TextVectors().fit(["apple"] * 999 + ["apple pie"]).terms_ == ["apple"]
    # Where nothing would be left, all stay.
    assert len(TextVectors().fit([f"word{i}" for i in range(1000)]).terms_) == 1000


def test_nothing_but_stop_words_is_clustered_by_them():
    texts = ["the and of", "is it", "the and", "is it not"]
    made = TextVectors()
    model = Grinch(n_clusters=2).fit(made.fit_transform(texts))
    assert model.labels_.tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    assert made.keywords(made.transform(texts), model.labels_) == [[], []]
    assert made.keywords(made.transform(texts), model.labels_, 1, ignore=()) == [["and"], ["is"]]


def test_texts_without_a_known_word_are_zero_and_break_nothing():
    made = TextVectors().fit(SOME)
    X = scipy.sparse.vstack([made.transform(SOME), made.transform(["", "unknown", None])], format="csr")
    assert scipy.sparse.linalg.norm(X, axis=1)[4:].tolist() == [0, 0, 0]
    assert made.transform([]).shape == (0, X.shape[1])
    model = Grinch().fit(X)
    assert model.tree_.n_leaves == 7
    assert len(made.tree_keywords(X, model.tree_)) == model.tree_.n_ids


def test_composed_and_decomposed_letters_are_the_same_word():
    made = TextVectors().fit(["résumé", "other"])
    assert made.terms_ == ["other", "résumé"]
    assert made.transform(["re\u0301sume\u0301"]).nnz == 1


def test_one_text_of_a_million_words():
    made = TextVectors().fit(["w1 w2", "w3"])
    row = made.transform(["w1 w2 x " * 330_000])
    assert row.nnz == 2
    assert row[0, 0] == row[0, 1]


def test_keywords_name_no_runs_of_characters_and_no_stop_words():
    texts = ["the red apple", "the green apple", "the stocks fell", "the stocks rose"]
    made = TextVectors(words=2, characters=(3, 3))
    X = made.fit_transform(texts)
    found = made.keywords(X, [0, 0, 1, 1], n=20)
    assert found[0][0] == "apple"
    assert found[1][0] == "stocks"
    assert set(found[0]) == {"apple", "red", "green", "red apple", "green apple"}
    words = TextVectors()
    rows = words.fit_transform(texts)
    names = [None if term == "the" else term for term in words.terms_]
    oracle = cluster_terms(rows, [0, 0, 1, 1], names, 3)
    assert words.keywords(rows, [0, 0, 1, 1], 3) == [oracle[0], oracle[1]]


@pytest.mark.parametrize("settings", [{}, {"characters": (2, 3)}, {"hashing": 32}, {"hashing": 32, "weights": False}])
def test_a_file_makes_the_same_rows(settings, tmp_path):
    path = tmp_path / "text.npz"
    made = TextVectors(**settings).fit([*SOME, "中文 \ud800"])
    made.save(path)
    opened = TextVectors.load(path)
    assert opened.get_params() == made.get_params()
    assert opened.terms_ == made.terms_
    same(opened.transform(TEXTS), made.transform(TEXTS))
    with np.load(path, allow_pickle=False) as arrays:
        assert set(arrays) == {"about", "terms", "columns", "weights"}


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "text.npz"
    TextVectors().fit(SOME).save(path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 97):
        path.write_bytes(whole[:end])
        with pytest.raises(SavedModelError, match="damaged"):
            TextVectors.load(path)
    with pytest.raises(FileNotFoundError):
        TextVectors.load(tmp_path / "nowhere.npz")


def test_what_is_wrong_is_said():
    for texts, complaint in (
        ("one text", "Put a single text into a list"),
        ([3], r"texts\[0\] is 3"),
        ([], "the 0 that came have none"),
        (["a", "!"], "words of two letters or more"),
    ):
        with pytest.raises(ValueError, match=complaint):
            TextVectors().fit(texts)
    for bad, complaint in (
        ({"words": -1}, "words must be"),
        ({"words": 0}, "words must be at least 1, or characters"),
        ({"characters": (4, 3)}, "characters must be a pair"),
        ({"characters": "34"}, "characters must be a pair"),
        ({"hashing": 0}, "hashing must be"),
        ({"weights": "idf"}, "weights must be"),
    ):
        with pytest.raises(ValueError, match=complaint):
            TextVectors(**bad).fit(SOME)
    with pytest.raises(NotFittedError, match="call fit before"):
        TextVectors(hashing=True).transform(SOME)


def test_it_is_an_estimator_of_scikit_learn():
    from sklearn.pipeline import make_pipeline

    made = TextVectors(characters=(2, 3), hashing=64)
    assert clone(made).get_params() == made.get_params()
    labels = make_pipeline(TextVectors(), Grinch(n_clusters=2)).fit_predict(SOME)
    assert labels.tolist() == [0, 1, 1, 0]
