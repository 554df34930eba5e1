"""PERCH: its bounds, rotations and collapses against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch import Perch
from grinch.baselines import perch_moves
from grinch.baselines.perch import PerchBuilder
from grinch.baselines.perch_moves import MASKED, N_ENDS, NOT_MASKED, PerchRules
from grinch.tree.links import LEAVES, NONE, OFFSET, PARENT, sibling

PLAIN = PerchRules(balance=False, max_leaves=0, beam_width=0)


BALANCED = PLAIN._replace(balance=True)


def built(X, rules=PLAIN, exact_leaves=64, compiled=False):
    builder = PerchBuilder(rules, "euclidean", X.shape[1], exact_leaves, compiled)
    builder.insert(X)
    return builder


def leaves_under(builder, v):
    waiting, found = [v], []
    while waiting:
        node = waiting.pop()
        if node < builder.links.head[OFFSET]:
            found.append(node)
        else:
            waiting += builder.links.table[node, 1:3].tolist()
    return builder.boxes.points[found].astype(float)


def masked_by_brute_force(v, sib, aunt):
    far = np.sum((v[:, None] - sib[None]) ** 2, axis=2).max(axis=1)
    near = np.sum((v[:, None] - aunt[None]) ** 2, axis=2).min(axis=1)
    return bool((far > near).any())


def nodes_with_aunts(builder):
    offset, n = int(builder.links.head[OFFSET]), int(builder.links.head[LEAVES])
    for v in [*range(n), *range(offset + 1, offset + n)]:
        p = builder.links.table[v, PARENT]
        if p != NONE and builder.links.table[p, PARENT] != NONE:
            yield v, sibling(builder.links, v), sibling(builder.links, p)


small_data = st.tuples(st.integers(0, 10**6), st.integers(3, 24), st.integers(1, 4), st.booleans())


def make_data(drawn):
    seed, n, d, is_grid = drawn
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, d)).astype(float) if is_grid else rng.normal(size=(n, d))


@given(small_data)
def test_the_rotate_condition_is_brute_force_over_the_leaves(drawn):
    builder = built(make_data(drawn))
    for v, sib, aunt in nodes_with_aunts(builder):
        points = [leaves_under(builder, node) for node in (v, sib, aunt)]
        expected = MASKED if masked_by_brute_force(*points) else NOT_MASKED
        assert perch_moves.is_masked(builder.links, builder.boxes, v, sib, aunt) == expected


@given(small_data, st.integers(1, 3))
def test_with_a_small_sample_what_is_said_for_sure_is_true(drawn, exact_leaves):
    builder = built(make_data(drawn), exact_leaves=exact_leaves)
    for v, sib, aunt in nodes_with_aunts(builder):
        said = perch_moves.is_masked(builder.links, builder.boxes, v, sib, aunt)
        truth = masked_by_brute_force(*(leaves_under(builder, node) for node in (v, sib, aunt)))
        assert not (said == MASKED and not truth)
        assert not (said == NOT_MASKED and truth)


@given(small_data)
def test_boxes_are_tight_and_their_bounds_are_true(drawn):
    builder = built(make_data(drawn), BALANCED)
    links, boxes = builder.links, builder.boxes
    offset, n = int(links.head[OFFSET]), int(links.head[LEAVES])
    for v in range(offset + 1, offset + n):
        points = leaves_under(builder, v)
        np.testing.assert_array_equal(boxes.low[v - offset], points.min(axis=0).astype(np.float32))
        np.testing.assert_array_equal(boxes.high[v - offset], points.max(axis=0).astype(np.float32))
        assert boxes.witness[v - offset] < offset
        assert (boxes.points[boxes.witness[v - offset]] == points.astype(np.float32)).all(axis=1).any()
    for v, sib, _ in nodes_with_aunts(builder):
        apart = np.sum((leaves_under(builder, v)[:, None] - leaves_under(builder, sib)[None]) ** 2, axis=2)
        assert perch_moves.gap(links, boxes, v, sib) <= apart.min() * (1 + 1e-12)
        assert perch_moves.reach(links, boxes, v, sib) >= apart.max() * (1 - 1e-12)


@pytest.mark.parametrize(
    "rules",
    [
        PLAIN,
        BALANCED,
        PLAIN._replace(beam_width=4),
        PLAIN._replace(max_leaves=20),
        BALANCED._replace(max_leaves=20, beam_width=3),
    ],
    ids=str,
)
def test_compiled_and_interpreted_trees_are_the_same(rules, rng):
    X = rng.normal(size=(120, 3))
    slow, fast = (built(X, rules, exact_leaves=5, compiled=compiled) for compiled in (False, True))
    assert slow.tree().to_newick() == fast.tree().to_newick()
    assert slow.stats == fast.stats


@pytest.mark.parametrize("search", ["exact", "beam"])
def test_collapse_mode_keeps_few_leaves_and_all_points(search, rng):
    X = rng.normal(size=(300, 4))
    model = Perch(max_leaves=40, search=search).fit(X[:200]).partial_fit(X[200:])
    builder = model.current_fit().builder
    assert builder.boxes.counts[N_ENDS] == 40
    assert model.stats_["collapses"] == 260
    model.tree_.check()
    assert model.tree_.n_leaves == 300
    ends = builder.boxes.ends[:40].tolist()
    covered = np.concatenate([leaves_under(builder, v) for v in ends])
    assert len(covered) == 300
    for v in ends:
        np.testing.assert_allclose(builder.boxes.points[v], leaves_under(builder, v).mean(axis=0), atol=1e-4)


def test_a_wide_beam_finds_the_nearest_neighbour(rng):
    X = rng.normal(size=(150, 3))
    builder = built(X, PLAIN, compiled=True)
    boxes = builder.boxes._replace(beam=np.zeros(400, np.int32), gaps=np.zeros(400))
    for x in range(150):
        # It finds the point itself, at distance 0.
        assert perch_moves.beam_search(builder.links, boxes, x, 200) == x
