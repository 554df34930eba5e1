"""Keywords, against their formulas written out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from effort import trials
from grinch import Grinch, Tree
from grinch.text import branch_terms, cluster_terms, keywords
from grinch.text.keywords import ENGLISH
from refusals import refused
from trees import chain, random_tree


def by_hand(rows, everywhere, names, n):
    """Of some rows, the names whose mean m weighs most by m log(1 + m / M)."""
    mean, overall = rows.mean(axis=0), everywhere.mean(axis=0)
    weights = {j: mean[j] * np.log1p(mean[j] / overall[j]) for j in np.flatnonzero(mean)}
    known = [j for j in weights if names[j] is not None]
    return [names[j] for j in sorted(known, key=lambda j: (-round(weights[j], 12), j))[:n]]


def some_rows(rng, n, width):
    return rng.poisson(0.4, (n, width)).astype(float) * rng.integers(1, 4, width)


@pytest.mark.parametrize("n_leaves", [1, 2, 3, 40])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_every_branch_has_the_keywords_of_its_leaves(rng, n_leaves, kind):
    tree, X = random_tree(rng, n_leaves), some_rows(rng, n_leaves, 12)
    names = [None if j % 5 == 3 else f"w{j}" for j in range(12)]
    found = branch_terms(tree, kind(X), names, n=4)
    assert len(found) == tree.n_ids
    for node in tree.nodes():
        assert found[node] == by_hand(X[tree.leaves(node)], X, names, 4)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=trials(25, 300))
def test_every_cluster_has_the_keywords_of_its_rows(seed):
    rng = np.random.default_rng(seed)
    X, labels = some_rows(rng, 30, 9), rng.integers(-1, 5, 30)
    names = [f"w{j}" for j in range(9)]
    found = cluster_terms(scipy.sparse.csr_array(X), labels, names, n=3)
    assert len(found) == labels.max(initial=-1) + 1
    for cluster in range(len(found)):
        own = X[labels == cluster]
        assert found[cluster] == (by_hand(own, X, names, 3) if len(own) else [])


def test_a_tree_as_deep_as_it_has_points(rng):
    n = 20_000
    X = scipy.sparse.random_array((n, 50), density=0.02, format="csr", rng=rng)
    tree = chain(n)
    found = branch_terms(tree, X, [f"w{j}" for j in range(50)], n=2)
    assert found[-3:-1] == [found[len(found) - 3], found[len(found) - 2]]
    dense = X.toarray()
    for size in (2, 77, 12_345, n):
        node = tree.lca(0, size - 1)
        assert found[node] == by_hand(dense[:size], dense, [f"w{j}" for j in range(50)], 2)


def test_rows_without_anything_in_them(rng):
    tree = random_tree(rng, 5)
    found = branch_terms(tree, scipy.sparse.csr_array((5, 3)), ["a", "b", "c"])
    assert [found[node] for node in tree.nodes()] == [[]] * 9
    assert len(cluster_terms(np.empty((0, 2)), [], ["a", "b"])) == 0


def test_what_cannot_be_named_is_refused():
    refused("names must have one entry for each of the 2 columns; got 1", cluster_terms, [[1, 2]], [0], ["a"])
    refused("X must have one row for each of the 2 points", cluster_terms, [[1, 2]], [0, 1], ["a", "b"])
    for bad in (-1.0, np.nan, np.inf):
        refused("X must be finite numbers from 0 on", cluster_terms, [[1, bad]], [0], ["a", "b"])


def test_a_mapping_goes_by_its_values():
    """As vectorizers of scikit-learn have it, in the order in which words were seen."""
    X, tree = [[2, 0], [3, 0], [0, 1]], Tree.from_scipy([[0, 1, 1.0, 2], [2, 3, 2.0, 3]])
    vocabulary = {"stock": np.int64(1), "cat": np.int64(0)}
    found = cluster_terms(X, [0, 0, 1], vocabulary)
    assert (found[0], found[1]) == (["cat"], ["stock"])
    assert branch_terms(tree, X, vocabulary)[tree.lca(0, 1)] == ["cat"]
    assert Grinch(n_clusters=2).fit(X).summary(terms=vocabulary)["keywords"].tolist() == [["cat"], ["stock"]]
    assert cluster_terms(X, [0, 0, 1], {"stock": 1})[0] == []


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ({"cat": 0, "dog": 2}, "from 0 to 1; 'dog' is mapped to 2"),
        ({"cat": 0, "dog": -1}, "'dog' is mapped to -1"),
        ({"cat": 0, "dog": 0}, "'cat' and 'dog' are both 0"),
        ({0: "cat", 1: "dog"}, "names must map the name of each column to its number"),
        ({"cat", "dog"}, "names must be a list with the name of each column.*; got set"),
        ("ab", "got str"),
    ],
)
def test_names_that_do_not_fit_are_refused(names, complaint):
    refused(complaint, cluster_terms, [[1, 0]], [0], names)


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
    refused(r"texts must be strings, or None; texts\[1\] is 7", keywords, ["a", 7], [0, 0])
    refused("texts must have one entry for each of the 3 points; got 2", keywords, ["a", "b"], [0, 0, 1])
    refused("texts must be a sequence with a text for each point; got str", keywords, "ab", [0, 0])
    with pytest.raises(ValueError, match="stop_words must be 'english', a list of words, or None; got 'german'"):
        keywords(["a"], [0], stop_words="german")
    refused("n must be a whole number of at least 1; got 0", keywords, ["a"], [0], n=0)
    with pytest.raises(ValueError, match="tokenize must be a function from a text to its words, or None; got 'x'"):
        keywords(["a"], [0], tokenize="x")
