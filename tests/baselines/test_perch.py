"""PERCH: its trees, bounds and collapses against plain Python that knows the points only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch import Perch
from grinch.baselines import perch_moves
from grinch.baselines.perch import PerchBuilder
from grinch.baselines.perch_moves import N_ENDS, PerchRules
from grinch.tree.links import LEAVES, LEFT, NONE, OFFSET, PARENT, RIGHT, sibling

PLAIN = PerchRules(balance=False, max_leaves=0, beam_width=0)


BALANCED = PLAIN._replace(balance=True)


def built(X, rules=PLAIN, exact_leaves=64, compiled=False):
    builder = PerchBuilder(rules, "euclidean", X.shape[1], exact_leaves, compiled)
    builder.insert(X)
    return builder


class PlainPerch:
    """PERCH on nested lists: a node is the list of its children, a leaf the list of its number alone.

    Every box and every distance is computed from the points when it is asked for.
    """

    def __init__(self, X, few, balance):
        self.X, self.few, self.root, self.rotations, self.balance_rotations = X, few, [0], 0, 0
        for x in range(1, len(X)):
            nearest = int(np.square(X[:x] - X[x]).sum(axis=1).argmin())
            path = self.path_to(nearest)
            path[-1][:] = [[nearest], [x]]
            self.rotate_masked(nearest)
            if balance:
                self.rotate_for_balance(x)

    def path_to(self, leaf, node=None):
        """The nodes from the root to a leaf."""
        node = self.root if node is None else node
        if node == [leaf]:
            return [node]
        below = next(child for child in node if leaf in leaves_of(child))
        return [node, *self.path_to(leaf, below)]

    def points(self, node):
        return self.X[leaves_of(node)]

    def distances(self, u, v):
        """From the two corners of u to the points of v, or to the box of v at its nearest and its farthest."""
        points = self.points(v)
        for corner in (self.points(u).min(axis=0), self.points(u).max(axis=0)):
            if len(points) <= self.few:
                for point in points:
                    yield sum((corner - point) ** 2), sum((corner - point) ** 2)
            else:
                low, high = points.min(axis=0), points.max(axis=0)
                nearest = [c if a < c < b else a if c <= a else b for c, a, b in zip(corner, low, high, strict=True)]
                farthest = [a if c - a > b - c else b for c, a, b in zip(corner, low, high, strict=True)]
                yield sum((corner - nearest) ** 2), sum((corner - farthest) ** 2)

    def largest(self, u, v):
        return min(max(far for _, far in self.distances(a, b)) for a, b in ((u, v), (v, u)))

    def smallest(self, u, v):
        return max(min(near for near, _ in self.distances(a, b)) for a, b in ((u, v), (v, u)))

    def rotate_masked(self, leaf):
        depth = len(self.path_to(leaf)) - 1
        while depth >= 2:
            top, p, v = self.path_to(leaf)[depth - 2 : depth + 1]
            sib, aunt = other(p, v), other(top, p)
            if self.largest(v, aunt) < self.smallest(v, sib):
                self.rotations += 1
                top[:] = [[v, aunt], sib]
            elif v != [leaf]:
                return
            depth -= 1

    def rotate_for_balance(self, x):
        """Start at the sibling of x."""
        path = self.path_to(x)
        leaf = leaves_of(other(path[-2], path[-1]))[0]
        depth = len(path) - 1
        while depth >= 2:
            top, p, v = self.path_to(leaf)[depth - 2 : depth + 1]
            aunt = other(top, p)
            for one in sorted([v, other(p, v)], key=lambda node: len(leaves_of(node))):
                sib = other(p, one)
                now = abs(len(leaves_of(p)) - len(leaves_of(aunt)))
                then = abs(len(leaves_of(sib)) - len(leaves_of(one)) - len(leaves_of(aunt)))
                if then < now and self.largest(one, sib) > self.smallest(one, aunt):
                    self.balance_rotations += 1
                    top[:] = [[one, aunt], sib]
                    leaf = leaves_of(one)[0]
                    break
            depth -= 1


def leaves_of(node):
    return node if isinstance(node[0], int) else leaves_of(node[0]) + leaves_of(node[1])


def other(p, child):
    return next(each for each in p if each is not child)


def clusters_of(node):
    below = set() if isinstance(node[0], int) else clusters_of(node[0]) | clusters_of(node[1])
    return below | {frozenset(leaves_of(node))}


def leaves_under(builder, v):
    waiting, found = [v], []
    while waiting:
        node = waiting.pop()
        if node < builder.links.head[OFFSET]:
            found.append(node)
        else:
            waiting += builder.links.table[node, 1:3].tolist()
    return builder.boxes.points[found].astype(float)


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


@given(small_data, st.sampled_from([1, 2, 4, 16]), st.booleans())
def test_trees_are_those_of_plain_python(drawn, few, balance):
    X = make_data(drawn).astype(np.float32).astype(float)
    builder, plain = built(X, BALANCED if balance else PLAIN, few), PlainPerch(X, few, balance)
    links = builder.links
    assert {frozenset(links.leaves_under(v)) for v in (*range(len(X)), *links.nodes()[1])} == clusters_of(plain.root)
    assert builder.stats["rotations"] == plain.rotations
    assert builder.stats["balance_rotations"] == plain.balance_rotations


@given(small_data)
def test_boxes_are_tight_and_their_bounds_are_true(drawn):
    builder = built(make_data(drawn), BALANCED)
    links, boxes = builder.links, builder.boxes
    offset, n = int(links.head[OFFSET]), int(links.head[LEAVES])
    for v in range(offset + 1, offset + n):
        points = leaves_under(builder, v)
        np.testing.assert_array_equal(boxes.low[v - offset], points.min(axis=0).astype(np.float32))
        np.testing.assert_array_equal(boxes.high[v - offset], points.max(axis=0).astype(np.float32))
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


@given(small_data, st.integers(2, 8), st.booleans())
def test_the_closest_pair_of_ends_is_on_top_of_the_heap(drawn, max_leaves, balance):
    X = make_data(drawn)
    builder = built(X[:2], PLAIN._replace(max_leaves=max_leaves, balance=balance))
    for x in X[2:]:
        builder.insert(x[None])
        links, boxes, offset = builder.links, builder.boxes, builder.links.offset
        ends = set(boxes.ends[: boxes.counts[N_ENDS]].tolist())
        pairs = {v - offset for v in links.nodes()[1].tolist() if {links.table[v, LEFT], links.table[v, RIGHT]} <= ends}
        heap = boxes.pairs[1 : 1 + boxes.pairs[0]].tolist()
        assert sorted(heap) == sorted(pairs)
        assert boxes.pair_place[heap].tolist() == list(range(1, 1 + len(heap)))

        def size(pair, links=links, boxes=boxes, offset=offset):
            both = [leaves_under(builder, links.table[offset + pair, side]) for side in (LEFT, RIGHT)]
            corners = [(points.min(axis=0), points.max(axis=0)) for points in both]
            return sum(np.maximum(corners[0][1] - corners[1][0], corners[1][1] - corners[0][0]) ** 2), pair

        assert not heap or size(heap[0])[0] <= min(map(size, pairs))[0] * (1 + 1e-9)


def test_a_wide_beam_finds_the_nearest_neighbour(rng):
    X = rng.normal(size=(150, 3))
    builder = built(X, PLAIN, compiled=True)
    boxes = builder.boxes._replace(beam=np.zeros(400, np.int32), gaps=np.zeros(400))
    for x in range(150):
        # It finds the point itself, at distance 0.
        assert perch_moves.beam_search(builder.links, boxes, x, 200) == x
