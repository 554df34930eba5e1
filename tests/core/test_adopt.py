"""Beginning with a tree that is there, and looking up who is near without inserting."""

from __future__ import annotations

import numpy as np
import pytest

from dense_linkages import DENSE
from grinch import Grinch
from grinch.core.engine import Engine
from grinch.core.rules import EXACT, FAST
from grinch.linkage.base import FunctionLinkage
from grinch.neighbors import ByKey
from grinch.tree.checks import check_links


def rows_of(n, seed=0):
    return np.random.default_rng(seed).normal(3, 1, (n, 6))


@pytest.mark.parametrize("linkage", DENSE, ids=lambda linkage: f"{linkage.name}-{linkage.metric}")
def test_a_tree_that_is_adopted_goes_on_like_the_one_that_grew(linkage):
    X = rows_of(120)
    grown, adopted = (Engine(linkage, EXACT, n_features=6) for _ in range(2))
    grown.insert(X[:80])
    adopted.adopt(X[:80], grown.tree())
    assert adopted.tree().to_newick() == grown.tree().to_newick()
    for engine in (grown, adopted):
        engine.insert(X[80:])
        engine.remove(np.arange(5, 25))
    check_links(adopted.links)
    assert adopted.tree().to_newick(lengths=False) == grown.tree().to_newick(lengths=False)


@pytest.mark.parametrize("n", [300, pytest.param(17_000, marks=pytest.mark.slow)])
def test_a_large_tree_is_adopted_with_its_index(n):
    X = rows_of(n).astype(np.float32)
    tree = Grinch().fit(X).tree_
    model = Grinch().fit_tree(X, tree)
    assert model.tree_.to_newick(lengths=False) == tree.to_newick(lengths=False)
    model.partial_fit(X[:50] + 1e-4)
    siblings = [model.tree_.sibling(n + i) for i in range(50)]
    # Each comes to stand near the point that it is nearly a copy of.
    assert np.mean([i in model.tree_.leaves(sibling) for i, sibling in enumerate(siblings)]) > 0.9


def test_records_are_adopted_with_what_was_near_them():
    def common(a, b):
        return len(set("".join(a)) & set("".join(b))) / len(set("".join(a)) | set("".join(b)))

    words = ["abc", "xyz", "bcd", "yzw", "abd", "xzw"]
    first = Grinch(linkage=common, search=ByKey(lambda word: list(word)), n_clusters=2).fit(words)
    second = Grinch(linkage=common, search=ByKey(lambda word: list(word)), n_clusters=2).fit_tree(words, first.tree_)
    assert second.labels_.tolist() == first.labels_.tolist() == [0, 1, 0, 1, 0, 1]
    assert second.partial_fit(["acd"]).labels_.tolist() == first.partial_fit(["acd"]).labels_.tolist()


def test_a_tree_of_other_points_is_refused():
    X = rows_of(10)
    tree = Grinch().fit(X[:9]).tree_
    model = Grinch().fit(X[:3])
    with pytest.raises(ValueError, match="with a leaf for each of the 10 rows"):
        model.fit_tree(X, tree)
    assert model.n_leaves_ == 3


@pytest.mark.parametrize("search", ["exact", "auto", "index"])
@pytest.mark.parametrize("linkage", [DENSE[0], DENSE[1]], ids=["cosine", "sqeuclidean"])
def test_who_is_near_is_found_without_any_tree(linkage, search):
    X, queries = rows_of(400), rows_of(300, seed=1)
    engine = Engine(linkage, FAST, search=search, n_neighbors=5, n_features=6)
    engine.adopt(X)
    assert engine.n_leaves == 0

    def scores(A, B):
        if linkage.metric == "cosine":
            unit = [M / np.linalg.norm(M, axis=1, keepdims=True) for M in (A, B)]
            return unit[0] @ unit[1].T
        return -((A[:, None] - B[None]) ** 2).sum(axis=2)

    found, all_scores = engine.look_up(queries, limit=400), scores(queries, X)
    best = all_scores.argmax(axis=1)
    assert np.mean(found.slots[:, 0] == best) > 0.95
    given = np.take_along_axis(all_scores, found.slots[:, :1].astype(np.int64), axis=1)[:, 0]
    assert found.score == pytest.approx(given, rel=1e-4, abs=1e-5)
    among = scores(X, X)
    np.fill_diagonal(among, -np.inf)
    some = np.arange(0, 400, 7)
    around = engine.look_around(some, limit=400)
    assert np.mean(around.slots[:, 0] == among[some].argmax(axis=1)) > 0.95
    assert around.score == pytest.approx(among[some, around.slots[:, 0]], rel=1e-4, abs=1e-5)


def test_nobody_is_near_where_a_source_names_nobody():
    engine = Engine(FunctionLinkage(lambda a, b: 1.0), FAST, search=ByKey(lambda word: word[0]), n_neighbors=3)
    engine.adopt(["apple", "bean"])
    found = engine.look_up(["avocado", "cherry"], limit=2)
    assert found.slots[:, 0].tolist() == [0, -1]
    assert found.score.tolist() == [1.0, -np.inf]
