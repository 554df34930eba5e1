"""Texts as rows, against scikit-learn's vectorizers, and in any chunking."""

from __future__ import annotations

import unicodedata
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
from grinch.errors import SavedModelError
from grinch.saving import container
from grinch.saving.json_values import json_bytes
from grinch.text import TextVectors, cluster_terms, keywords, vectors
from grinch.text.analysis import analyzer
from refusals import refused

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
@settings(max_examples=trials(30, 600))
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
    monkeypatch.setattr(vectors, "MANY_TEXTS", 1000)
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


def test_one_text_of_very_many_words():
    made = TextVectors().fit(["w1 w2", "w3"])
    row = made.transform(["w1 w2 x " * trials(100_000, 330_000)])
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
    path = tmp_path / "text.grinch"
    made = TextVectors(**settings).fit([*SOME, "中文 \ud800"])
    made.save(path)
    opened = TextVectors.load(path)
    assert opened.get_params() == made.get_params()
    assert opened.terms_ == made.terms_
    same(opened.transform(TEXTS), made.transform(TEXTS))


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "text.grinch"
    TextVectors().fit(SOME).save(path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 97):
        path.write_bytes(whole[:end])
        refused(r"damaged|not a file", TextVectors.load, path, error=SavedModelError)
    with pytest.raises(FileNotFoundError):
        TextVectors.load(tmp_path / "nowhere")


def tampered(path, settings=None, terms=None, **arrays):
    """Write another file, of which some parts were changed."""
    file, other = container.read(path), path.with_name("other")
    parts = {**file.arrays, **({} if terms is None else {"terms": json_bytes(terms)})}
    parts |= {name: change(parts[name]) for name, change in arrays.items()}
    header = file.header if settings is None else {**file.header, "settings": settings(file.header["settings"])}
    container.write(other, file.kind, header, parts)
    return other


# The terms are again, an, apple, day, fell, red, rose, stocks.
OWN_COLUMN = "every term must be in a column of its own"
TAMPERED = {
    "hashing huge": (
        {"settings": lambda old: {**old, "hashing": 10**12}},
        "hashing=1000000000000 do not fit 8 columns",
    ),
    "hashing": ({"settings": lambda old: {**old, "hashing": 8}}, OWN_COLUMN),
    "weights nan": ({"weights": lambda old: old * np.nan}, "weights must be from 1e-100"),
    "weights infinite": ({"weights": lambda old: old * np.inf}, "weights must be from 1e-100"),
    "weights 0": ({"weights": lambda old: old * 0}, "weights must be from 1e-100"),
    "weights negative": ({"weights": lambda old: -old}, "weights must be from 1e-100"),
    "weights many": ({"weights": lambda old: np.ones(10**6)}, "8 terms and hashing=False do not fit 1,000,000 columns"),
    "weights whole": ({"weights": lambda old: old.astype(np.int64)}, "must have 1 dimensions of <f8"),
    "columns negative": ({"columns": lambda old: old - 1}, OWN_COLUMN),
    "columns beyond": ({"columns": lambda old: old + 1}, OWN_COLUMN),
    "columns same": ({"columns": lambda old: old * 0}, OWN_COLUMN),
    "columns few": ({"columns": lambda old: old[:3]}, OWN_COLUMN),
    "terms twice": ({"terms": ["red"] * 8}, OWN_COLUMN),
    "terms no texts": ({"terms": [1, [2], None, {}, 5, 6, 7, 8]}, "terms must be a list of texts"),
    "terms unsorted": ({"terms": list("hgfedcba")}, "in alphabetical order"),
    "terms characters": ({"terms": [f"#{i}" for i in range(8)]}, "of the kinds that words and characters say"),
    "a term too few": ({"terms": list("abcdefg"), "columns": lambda old: old[:7]}, "7 terms and hashing=False do not"),
    "settings missing": ({"settings": lambda old: {}}, "settings must be characters, hashing, weights, words; got"),
    "settings more": ({"settings": lambda old: {**old, "foo": 1}}, "settings must be characters, hashing"),
    "settings list": ({"settings": lambda old: [1]}, "damaged"),
    "characters": ({"settings": lambda old: {**old, "characters": "ab"}}, "characters must be a pair"),
    "characters a number": ({"settings": lambda old: {**old, "characters": 3}}, "damaged"),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_file_that_was_tampered_with_is_refused(how, tmp_path):
    changes, complaint = TAMPERED[how]
    TextVectors().fit(SOME).save(tmp_path / "text.grinch")
    other = tampered(tmp_path / "text.grinch", **changes)
    with pytest.raises(SavedModelError, match=r"other is not what TextVectors\.save wrote") as refused:
        TextVectors.load(other)
    assert complaint in str(refused.value)


def test_what_is_wrong_is_said():
    for texts, complaint in (
        ("one text", "Put a single text into a list"),
        ([3], r"texts\[0\] is 3"),
        ([], "the 0 that came have none"),
        (["a", "!"], "words of two letters or more"),
    ):
        refused(complaint, TextVectors().fit, texts)
    for bad, complaint in (
        ({"words": -1}, "words must be"),
        ({"words": 0}, "words must be at least 1, or characters"),
        ({"characters": (4, 3)}, "characters must be a pair"),
        ({"characters": "34"}, "characters must be a pair"),
        ({"hashing": 0}, "hashing must be"),
        ({"weights": "idf"}, "weights must be"),
    ):
        refused(complaint, TextVectors(**bad).fit, SOME)
    refused("call fit before", TextVectors(hashing=True).transform, SOME, error=NotFittedError)


def test_it_is_an_estimator_of_scikit_learn():
    from sklearn.pipeline import make_pipeline

    made = TextVectors(characters=(2, 3), hashing=64)
    assert clone(made).get_params() == made.get_params()
    labels = make_pipeline(TextVectors(), Grinch(n_clusters=2)).fit_predict(SOME)
    assert labels.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("हिन्दी भाषा, सुंदर है", ["हिन्दी", "भाषा", "सुंदर", "है"]),
        ("שָׁלוֹם עולם", ["שָׁלוֹם", "עולם"]),
        ("مَرْحَبًا بالعالم", ["مَرْحَبًا", "بالعالم"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("กรุงเทพ", ["กรุ", "รุง", "งเ", "เท", "ทพ"]),
        ("\u0301 a\u0301b naïve", ["áb", "naïve"]),
    ],
)
def test_vowel_signs_belong_to_words(text, words):
    assert analyzer(1, None)(text) == [unicodedata.normalize("NFC", word) for word in words]


def test_scripts_without_spaces_are_pairs_of_characters():
    """As Lucene's CJKAnalyzer, whose own examples these are in part."""
    analyze = analyzer(1, None)
    assert analyze("我是中国人") == ["我是", "是中", "中国", "国人"]
    assert analyze("ラーメンを食べる。") == ["ラー", "ーメ", "メン", "ンを", "を食", "食べ", "べる"]
    assert analyze("猫, 𠀋𠀋 and iPhone发布会") == ["猫", "𠀋𠀋", "and", "iphone", "发布", "布会"]
    assert analyze("한국어 Äpfel día 3 a") == ["한국어", "äpfel", "día"]
    assert analyzer(2, None)("中国人") == ["中国", "国人", "中国 国人"]
    texts = ["苹果手机降价", "新苹果手机", "股市今天下跌", "股市明天下跌"]
    made = TextVectors()
    X = made.fit_transform(texts)
    assert [words[0] for words in made.keywords(X, [0, 0, 1, 1])] == ["手机", "下跌"]
    assert keywords(texts, [0, 0, 1, 1], 1) == [["手机"], ["下跌"]]


def test_without_words_runs_of_characters_are_the_keywords():
    made = TextVectors(words=0, characters=(3, 3))
    X = made.fit_transform(["the cats", "cat", "a dog", "dogs"])
    first, second = (set(words) for words in made.keywords(X, [0, 0, 1, 1], 9))
    assert {"_ca", "cat", "at_"} <= first
    assert {"_do", "dog", "og_"} <= second
    assert "the" not in first
