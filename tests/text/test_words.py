"""Keywords, against the formula written out on scikit-learn's counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from grinch.text import keywords
from grinch.text.keywords import ENGLISH


def by_scikit_learn(texts, labels, n, stop_words):
    """c-TF-IDF as BERTopic writes it: classes by words, on the joined texts of each cluster."""
    present = sorted({label for label in labels if label >= 0})
    joined = ["\n".join(t or "" for t, label in zip(texts, labels, strict=True) if label == c) for c in present]
    vectorizer = CountVectorizer(stop_words=stop_words)
    counts = vectorizer.fit_transform(joined).toarray()
    words = vectorizer.get_feature_names_out()
    weights = counts * np.log(1 + counts.sum(axis=1).mean() / counts.sum(axis=0))
    found = [[] for _ in range(max(present) + 1)]
    for c, row in zip(present, weights, strict=True):
        order = sorted(np.flatnonzero(row), key=lambda j: (-round(row[j], 9), words[j]))
        found[c] = [words[j] for j in order[:n]]
    return found


@pytest.mark.parametrize("stop_words", [None, ["Xx", "w3"], sorted(ENGLISH)])
def test_keywords_are_those_of_the_formula(rng, stop_words):
    vocabulary = [f"w{i}" for i in range(40)] + ["the", "and", "über", "Don't", "a", "C3PO"]
    chance = 1 / (1 + np.arange(len(vocabulary)))
    texts = [" ".join(rng.choice(vocabulary, 12, p=chance / chance.sum())) + "." for _ in range(120)]
    texts[3] = ""
    labels = rng.integers(-1, 7, 120)
    labels[labels == 4] = 2
    found = keywords(texts, labels, 6, stop_words)
    assert found == by_scikit_learn(texts, labels.tolist(), 6, stop_words)
    assert found[4] == []


@given(st.lists(st.tuples(st.text("ab \n", max_size=12), st.integers(0, 3)), min_size=1, max_size=12))
def test_keywords_of_any_texts(pairs):
    texts, labels = ["zz " + text for text, _ in pairs], [label for _, label in pairs]
    assert keywords(texts, labels, 5, None) == by_scikit_learn(texts, labels, 5, None)


def test_missing_texts_and_points_that_belong_nowhere_are_left_out():
    texts = ["red fox", None, np.nan, "red hen", "blue whale"]
    assert keywords(texts, [0, 0, 1, -1, 2], stop_words=["fox"]) == [["red"], [], ["blue", "whale"]]
    assert keywords([], []) == []
    assert keywords(["a b"], [-1]) == []


def test_words_of_ones_own_making():
    assert keywords(["ABBA", "CB"], [0, 1], 2, None, tokenize=list) == [["A", "B"], ["C", "B"]]


def test_stop_words_do_not_count():
    texts = ["the the the the cat", "the the the dog"]
    assert keywords(texts, [0, 1], 1) == [["cat"], ["dog"]]
    assert keywords(texts, [0, 1], 1, stop_words=None) == [["the"], ["dog"]]


def test_what_is_no_text_is_named():
    with pytest.raises(ValueError, match=r"texts must be strings, or None; texts\[1\] is 7"):
        keywords(["a", 7], [0, 0])
    with pytest.raises(ValueError, match="texts must have one entry for each of the 3 points; got 2"):
        keywords(["a", "b"], [0, 0, 1])
    with pytest.raises(ValueError, match="texts must be a sequence with a text for each point; got str"):
        keywords("ab", [0, 0])
    with pytest.raises(ValueError, match="stop_words must be 'english', a list of words, or None; got 'german'"):
        keywords(["a"], [0], stop_words="german")
    with pytest.raises(ValueError, match="n must be a whole number of at least 1; got 0"):
        keywords(["a"], [0], n=0)
    with pytest.raises(ValueError, match="tokenize must be a function from a text to its words, or None; got 'x'"):
        keywords(["a"], [0], tokenize="x")
