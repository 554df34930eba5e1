"""The engine against a transcription of the paper that shares no line with it: the same tree, under all rules."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from core.both import CAPS, SWITCHES, Arbitrary, Ends, all_rules, by_engine, by_paper, similarity
from core.vectors import NAMED, NearTies, brute_force, exact_sums, summed_dot
from effort import at_night, trials
from grinch.core.rules import EXACT
from grinch.linkage.named import linkage_of
from grinch.tree.links import NO_LIMIT
from separation import KINDS, SeparatingLinkage, arrival

kinds = st.sampled_from(sorted(KINDS))
seeds = st.integers(0, 2**32 - 1)
ks = st.sampled_from([1, 2, 3, 5, 25])
# Many ties, some, none.
levels = st.sampled_from([2, 3, 6, None])
integers = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 20), st.integers(1, 3)), elements=st.sampled_from([-1, 0, 1, 2])
)


def assert_same_tree(linkage, rules, records, k=25):
    assert by_engine(linkage, rules, records, k) == by_paper(similarity(linkage, records), rules, records, k)


def separating(seed, kind, n):
    rng = random.Random(seed)
    graph = KINDS[kind](rng, n)
    return SeparatingLinkage(graph, seed), arrival(rng, graph, hubs_last=rng.random() < 0.5)


# Any function of two sets ------------------------------------------------------------------------------------------


@given(rules=all_rules, n=st.integers(1, trials(20, 40)), seed=seeds, levels=levels, k=ks)
@settings(max_examples=trials(120, 3_000))
def test_arbitrary_scores(rules, n, seed, levels, k):
    assert_same_tree(Arbitrary(seed, levels), rules, range(n), k)


@given(rules=all_rules, kind=kinds, n=st.integers(1, 20), seed=seeds, k=ks)
@settings(max_examples=trials(50, 500))
def test_a_linkage_that_separates_a_graph(rules, kind, n, seed, k):
    linkage, order = separating(seed, kind, n)
    assert_same_tree(linkage, rules, order, k)


@pytest.mark.parametrize("cap", [4, at_night(NO_LIMIT)])
@pytest.mark.parametrize("levels", [at_night(3), None])
def test_every_combination_of_switches(levels, cap):
    # Growing caps make no difference to so few points; they have tests of their own.
    switches = [name for name in SWITCHES if name != "growing_caps"]
    all_of_them = itertools.product([False, True], repeat=len(switches))
    for chosen in itertools.islice(all_of_them, 0, None, trials(5, 1)):
        rules = EXACT._replace(**dict(zip(switches, chosen, strict=True)), **dict.fromkeys(CAPS, cap))
        assert_same_tree(Arbitrary(7, levels), rules, range(12), 4)


@pytest.mark.slow
def test_growing_caps_start_at_100():
    linkage, records, rules = Arbitrary(0), range(125), EXACT._replace(single_search=True, growing_caps=True)
    assert_same_tree(linkage, rules, records, 10)
    assert by_engine(linkage, rules, records, 10) != by_engine(linkage, rules._replace(growing_caps=False), records, 10)


# Vectors ------------------------------------------------------------------------------------------------------------


@given(rules=all_rules, X=integers, k=ks)
@settings(max_examples=trials(50, 2_000))
def test_vectors_in_exact_arithmetic(rules, X, k):
    assert by_engine(linkage_of(summed_dot, "dot"), rules, X, k) == by_paper(exact_sums(X), rules, X, k)


@given(rules=all_rules, X=integers, k=ks, name=st.sampled_from(["single", "complete"]))
def test_single_and_complete_linkage_of_whole_numbers(rules, X, k, name):
    def f(a, b):
        return -(max if name == "complete" else min)(np.abs(X[i] - X[j]).sum() for i in a for j in b)

    assert by_engine(linkage_of(name, "cityblock"), rules, X, k) == by_paper(f, rules, X, k)


@pytest.mark.parametrize(("name", "metric"), NAMED)
@given(rules=all_rules, n=st.integers(1, 20), seed=seeds, k=ks)
@settings(max_examples=trials(10, 200))
def test_vector_linkages(name, metric, rules, n, seed, k):
    X = np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32) + np.float32(0.5)
    f = NearTies(brute_force(name, metric, X))
    expected = by_paper(f, rules, X, k)
    assume(not f.found)
    assert by_engine(linkage_of(name, metric), rules, X, k) == expected


# At length ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_growing_caps_grow_with_the_tree():
    """Past 1,000 points they are above 100."""
    records, linkage = random.Random(0).sample(range(1150), 1150), Ends(0)
    rules = EXACT._replace(single_search=True, growing_caps=True)
    capped = rules._replace(growing_caps=False, **dict.fromkeys(CAPS, 100))
    assert_same_tree(linkage, rules, records, 5)
    assert by_engine(linkage, rules, records, 5) != by_engine(linkage, capped, records, 5)
