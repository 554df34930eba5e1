"""The learned linkage of author coreference: features, model, training, clustering, stable ids."""

import itertools
import pickle
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import trials
from grinch import HAC, Tree
from grinch.resolve.authors.block_clustering import (
    Disambiguator,
    cluster_block,
    pair_counts,
)
from grinch.resolve.authors.evaluation import evaluate, one_per_name
from grinch.resolve.authors.features import FEATURES, RecordFeatures, Statistics
from grinch.resolve.authors.kernels import PairFeatures
from grinch.resolve.authors.model import CorefLinkage, Model
from grinch.resolve.authors.precision_cut import cut_by_precision, rescore_large
from grinch.resolve.authors.predictors import Logistic, Trees
from grinch.resolve.authors.record import Record
from grinch.resolve.authors.runs import resolve
from grinch.resolve.authors.training import train
from refusals import refused

pytest.importorskip("rapidfuzz")

WORDS = ["tree", "forest", "graph", "soup", "bread", "logic", "proof", "cell", "gene", "market", "robot", "vision"]


def authored(rng, name, author, n):
    """Records of one author, who has coauthors, topics and venues of their own."""
    friends = [f"{c}{author} Friend{c}{author}" for c in "ABC"]
    topic = rng.choice(WORDS, 4, replace=False).tolist()
    own = {"venue": f"Journal of {topic[0]}", "author": f"{name}-{author}", "block": name}
    for i in range(n):
        title = " ".join(rng.choice(topic, 3))
        coauthors = tuple(rng.choice(friends, 2, replace=False).tolist()) if rng.random() < 0.9 else ()
        year = 2000 + 5 * (author % 4) + int(rng.integers(5))
        yield Record(f"{name}-{author}-{i}", name, title, coauthors, year=year, **own)


@pytest.fixture(scope="module")
def blocks():
    """Six names of four authors."""
    rng, made = np.random.default_rng(0), {}
    for b in range(6):
        records = [r for a in range(4) for r in authored(rng, f"W Name{b}", 10 * b + a, 8)]
        made[f"W Name{b}"] = [records[i] for i in rng.permutation(len(records))]
    return made


@pytest.fixture(scope="module")
def model(blocks):
    return train({name: blocks[name] for name in list(blocks)[:4]}, kind="logistic", rounds=1)


some_records = st.lists(
    st.builds(
        Record,
        id=st.uuids().map(str),
        name=st.sampled_from(["Wei Wang", "Wen Wang", "W Wang", "W J Wang", "Wang"]),
        title=st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join),
        coauthors=st.lists(st.sampled_from(["Li Chen", "L Chen", "Bo Li"]), max_size=3).map(tuple),
        venue=st.sampled_from(["", "KDD", "Journal of Trees"]),
        year=st.none() | st.integers(1990, 2020),
        affiliation=st.sampled_from(["", "University of Trees"]),
        orcid=st.sampled_from([None, "a", "b"]),
    ),
    min_size=3,
    max_size=8,
)


@settings(max_examples=trials(15, 300), deadline=None)
@given(some_records, st.randoms(use_true_random=False))
def test_a_merged_summary_is_the_same_in_whatever_order_it_was_merged(records, random):
    groups = RecordFeatures(Statistics.of(records))
    leaves = [groups.leaf(record) for record in records]
    rest = leaves[1:]
    one = reduce(groups.merge, rest)
    random.shuffle(rest)
    half = len(rest) // 2
    other = groups.merge(reduce(groups.merge, rest[:half]), reduce(groups.merge, rest[half:]))
    rows = [groups.features(leaves[0], [each])[0] for each in (one, other)]
    np.testing.assert_allclose(*rows, atol=1e-6)
    np.testing.assert_allclose(groups.features(one, [leaves[0]])[0], rows[0], atol=1e-6)
    np.testing.assert_allclose(groups.features(leaves[0], [one, *leaves[1:], other])[-1], rows[1], atol=1e-6)


def test_features_of_a_union_equal_those_counted_over_its_members():
    records = [
        Record("1", "Wei Wang", coauthors=("Li Chen", "Bo Li"), year=2001),
        Record("2", "Wen Wang", coauthors=("Bo Li",), year=2005),
        Record("3", "W Wang", coauthors=("Ann Lee",), year=2010),
        Record("4", "Wei Wang", coauthors=("Ann Lee", "Bo Li")),
    ]
    groups = RecordFeatures(Statistics.of(records))
    a, b, c, d = map(groups.leaf, records)
    found = dict(zip(FEATURES, groups.features(groups.merge(a, b), [groups.merge(c, d)])[0].tolist(), strict=True))
    assert found["coauthor_shared"] == pytest.approx(np.log1p(1))
    assert found["given_conflict"] == pytest.approx(1 / 4)
    assert found["given_known"] == pytest.approx(2 / 4)
    assert found["given_equal"] == pytest.approx(1 / 2)
    assert (found["year_gap"], found["year_span"], found["year_distance"]) == (5.0, 9.0, 7.0)
    assert found["smaller"] == found["larger"] == pytest.approx(np.log(2))
    assert found["affiliation_known"] == found["affiliation_cosine"] == 0.0


def test_pair_features_equal_brute_force():
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(9, 9, 3)).astype(np.float32)
    pairs = pairs + pairs.transpose(1, 0, 2)
    groups = PairFeatures(pairs)
    members = [[0, 4, 5], [1], [2, 3, 6, 7, 8]]
    made = [reduce(groups.merge, map(groups.leaf, each)) for each in members]
    for i, j in itertools.permutations(range(3), 2):
        cross = pairs[np.ix_(members[i], members[j])].reshape(-1, 3).astype(float)
        expected = np.stack([cross.mean(axis=0), cross.min(axis=0), cross.max(axis=0)], axis=1).ravel()
        found = groups.features(made[i], [made[j]])[0]
        np.testing.assert_allclose(found[:9], expected, atol=1e-5)
        np.testing.assert_allclose(found[9:], np.log(sorted([len(members[i]), len(members[j])])))


@pytest.mark.parametrize("kind", ["logistic", pytest.param("boosting", marks=pytest.mark.slow)])
def test_training_learns(blocks, kind):
    model = train({name: blocks[name] for name in list(blocks)[:4]}, kind=kind, rounds=1)
    found = {}
    for name in list(blocks)[4 : trials(5, 6)]:
        for method in ("grinch", "hac"):
            result = cluster_block(blocks[name], model, method)
            true = [record.author for record in blocks[name]]
            found[f"{name} {method}"] = true, [result.authors[record.id] for record in blocks[name]]
    assert evaluate(found).pairwise.f1 > 0.75
    assert model.report["held_out"]["f1"] > 0.75


def test_batched_scores_equal_single_ones_and_those_of_a_pickled_linkage(model, blocks):
    linkage = CorefLinkage(model)
    leaves = [linkage.leaf(record) for record in blocks["W Name5"]]
    many = linkage.scores(leaves[0], leaves[1:])
    np.testing.assert_allclose(many, [linkage.score(leaves[0], each) for each in leaves[1:]], rtol=1e-12)
    again = pickle.loads(pickle.dumps(linkage))
    np.testing.assert_array_equal(again.scores(leaves[0], leaves[1:]), many)


def gain(tree, v, threshold):
    """What a node adds to the gain of its cluster."""
    left, right = (tree.size(child) for child in tree.children(v))
    return left * right * (tree.scores[v] - threshold)


def best_gain(tree, node, threshold):
    """The gain of the best cut below a node, and of the node as one cluster, by trying both everywhere."""
    if node < tree.n_leaves:
        return 0.0, 0.0
    (l_best, l_whole), (r_best, r_whole) = (best_gain(tree, child, threshold) for child in tree.children(node))
    whole = l_whole + r_whole + gain(tree, node, threshold)
    return max(whole, l_best + r_best), whole


def test_the_cut_gains_most():
    rng = np.random.default_rng(0)
    for _ in range(20):
        tree = HAC(linkage=lambda a, b: rng.random(), n_clusters=2).fit(list(range(9))).tree_
        labels = cut_by_precision(tree, 0.5)
        inside = [v for v in tree.nodes() if v >= tree.n_leaves and len({labels[leaf] for leaf in tree.leaves(v)}) == 1]
        assert sum(gain(tree, v, 0.5) for v in inside) == pytest.approx(best_gain(tree, tree.root, 0.5)[0])
    # Of a single point.
    assert pair_counts(np.array([0]), np.array([0])).tolist() == [0, 0, 0]
    one = Tree.from_merges(np.empty((0, 2), np.int64), np.empty(0))
    assert cut_by_precision(one, 0.5).tolist() == [0]


def mean_over_record_pairs(tree, v, linkage, records, branch):
    """The mean over all pairs of records across a merge, each scored as the branches that they are in."""

    def branch_of(leaf):
        node = leaf
        while tree.size(tree.parent(node)) <= branch:
            node = tree.parent(node)
        return reduce(linkage.merge, [linkage.leaf(records[i]) for i in tree.leaves(node)])

    left, right = (list(map(branch_of, tree.leaves(child).tolist())) for child in tree.children(v))
    return np.mean([linkage.score(a, b) for a in left for b in right])


@given(st.integers(0, 2**32 - 1), st.integers(2, 24), st.integers(1, 9))
@settings(max_examples=trials(30, 300), deadline=None)
def test_a_large_merge_scores_the_mean_over_its_pairs_of_branches(seed, n, branch):
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(n, n, 2))
    groups = PairFeatures(pairs + pairs.transpose(1, 0, 2))
    linkage = CorefLinkage(Model(Logistic(rng.normal(size=8), rng.normal(size=1)), groups.names), groups)
    roots, merges = list(range(n)), []
    while len(roots) > 1:
        merges.append([roots.pop(int(rng.integers(len(roots)))) for _ in range(2)])
        roots.append(n + len(merges) - 1)
    records, scores = rng.permutation(n), rng.random(n - 1)
    # Of a rule.
    scores[rng.random(n - 1) < 0.1] += 1e6
    tree = Tree.from_merges(np.array(merges), scores)
    rescored = rescore_large(tree, linkage, records, branch)
    assert rescored.child_pairs().tolist() == tree.child_pairs().tolist()
    for v in tree.internal_nodes().tolist():
        known = tree.size(v) <= branch or tree.scores[v] > 1
        expected = tree.scores[v] if known else mean_over_record_pairs(tree, v, linkage, records, branch)
        assert rescored.scores[v] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("method", ["grinch", "hac"])
def test_a_model_that_is_sure_of_any_two_large_groups_does_not_join_them(method):
    authors = np.arange(120) % 2
    groups = PairFeatures(np.where(authors[:, None] == authors, 1.0, -1.0)[:, :, None], ["same"])
    # With more than 40 records on the smaller side yes, else whether the mean is above 0.
    steps = {"feature": [3, 0, -1, -1, -1], "cut": [np.log(40), 0, 0, 0, 0], "value": [0, 0, -4, 4, 5]}
    trees = Trees(5, **steps, left=[1, 2, 0, 0, 0], right=[4, 3, 0, 0, 0], roots=[0], base=[0.0])
    model = Model(trees, groups.names)
    linkage = CorefLinkage(model, groups)
    a, b = (reduce(linkage.merge, map(linkage.leaf, np.flatnonzero(authors == side))) for side in (0, 1))
    assert linkage.score(a, b) > 0.99
    found = cluster_block(list(range(120)), model, method, groups=groups)
    assert list(found.authors.values()) == authors.tolist()
    assert found.tree.scores[found.tree.root] == pytest.approx(1 / (1 + np.exp(4)))


def test_ids_stay_where_clusters_did_not_change(model):
    rng = np.random.default_rng(3)
    first = [record for author in range(3) for record in authored(rng, "W Wang", author, 6)]
    known = Disambiguator(model).fit(first)
    before = dict(known.labels_)
    assert len(set(before.values())) >= 2
    elsewhere = list(authored(rng, "J Smith", 50, 5))
    known.partial_fit(elsewhere)
    assert {name: known.labels_[name] for name in before} == before
    newcomer = list(authored(rng, "W Wang", 90, 6))
    known.partial_fit(newcomer)
    old, new = members(before), members(known.labels_)
    same = [author for author, names in old.items() if names in new.values()]
    assert same
    assert all(new[author] == old[author] for author in same)
    # The id of one who changed is with the largest part of its records, or that part goes by an id it has more of.
    for author in set(old) - set(same):
        heir = max(new, key=lambda other: (len(new[other] & old[author]), other == author))
        assert heir == author or len(new[heir] & old.get(heir, set())) >= len(new[heir] & old[author])
    assert set(known.labels_) == {r.id for r in (*first, *elsewhere, *newcomer)}
    refused("again", known.partial_fit, first[:1])


def members(labels):
    """The records of each author."""
    return {author: {name for name, own in labels.items() if own == author} for author in set(labels.values())}


@pytest.mark.parametrize("method", ["grinch", "hac"])
def test_orcids_and_papers_decide(method):
    """A model that takes everything for one author, or nothing, is overruled."""
    statistics = Statistics.of([])
    lenient, strict = (
        Model(Logistic(np.zeros(len(FEATURES)), np.array([margin])), FEATURES, 0.5, statistics=statistics)
        for margin in (3.0, -3.0)
    )
    records = [Record(str(i), "W Wang", orcid="ab"[i % 2]) for i in range(6)]
    assert list(cluster_block(records, strict, method).authors.values()) == [0, 1, 0, 1, 0, 1]
    assert list(cluster_block(records, lenient, method).authors.values()) == [0, 1, 0, 1, 0, 1]
    twins = [Record("1", "W Wang", paper="p"), Record("2", "W Wang", paper="p")]
    assert list(cluster_block(twins, lenient, method).authors.values()) == [0, 1]


def test_what_cannot_be_used_is_refused(model, blocks):
    one = blocks["W Name0"]
    alone = {name: [r for r in blocks[name] if r.author == blocks[name][0].author] for name in ("W Name1", "W Name2")}
    for message, use in {
        "kind must be one of": lambda: train(blocks, kind="boost"),
        "at least two names": lambda: train({"W Name0": one}),
        "rounds must be a whole number of at least 1; got 0": lambda: train(blocks, rounds=0),
        "several names with two authors": lambda: train({"W Name0": one, **alone}, kind="logistic", rounds=1),
        "threshold must be a finite number": lambda: cluster_block(one, model, threshold=float("nan")),
        "review must be a whole number of at least 0; got -1": lambda: resolve(blocks, model, review=-1),
        "method must be one of .*got 'hacc'": lambda: cluster_block(one, model, "hacc"),
        "came twice": lambda: cluster_block([Record("1", "A B"), Record("1", "A B")], model),
        "method must be one of .*got 'hac'": lambda: Disambiguator(model, "hac"),
        "groups must give": lambda: CorefLinkage(model, PairFeatures(np.zeros((2, 2, 1)))),
    }.items():
        refused(message, use)


def test_evaluation_takes_any_labels_and_leaves_out_what_is_not_known():
    found = evaluate({"a": (["x", "x", "y", None], [("w",), ("w",), ("w", "j"), ("w",)]), "b": ([None], [0])})
    assert found.pairwise == found.pairwise_macro == found.bcubed == (1.0, 1.0, 1.0)
    assert (found.n_records, found.n_blocks) == (3, 1)
    names = one_per_name([Record("1", "Wei Wang"), Record("2", "W. J. Wang")])
    assert evaluate({"a": (["x", "x"], names)}).pairwise.recall == 0.0
    refused("at least one record", evaluate, {"a": ([None], [0])})


def test_close_calls_are_those_nearest_to_the_threshold(model, blocks):
    result = cluster_block(blocks["W Name5"], model)
    found = result.close_calls(5)
    tree = result.tree
    inner = [v for v in tree.nodes() if not tree.is_leaf(v)]
    every = sorted(abs(tree.scores[v] - model.threshold) for v in inner)
    assert [each.margin for each in found] == pytest.approx(every[:5])
    assert [abs(each.score - model.threshold) for each in found] == [each.margin for each in found]
    groups = {(frozenset(tree.leaves(a)), frozenset(tree.leaves(b))) for a, b in map(tree.children, inner)}
    assert all((frozenset(each.left), frozenset(each.right)) in groups for each in found)
    assert result.close_calls(0) == []
    found = resolve({"W Name5": blocks["W Name5"]}, model, review=0)
    assert (len(found.authors), found.doubts, found.failures) == (len(blocks["W Name5"]), [], {})
