"""The cut that follows its tree is always the cut of the tree handed out, and to look at it changes nothing."""

from __future__ import annotations

import copy
import pickle
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from effort import at_night, trials
from grinch import Grinch, Online, Rotate, cuts
from grinch.tree import links as move_log

# Few distinct values, for duplicates and ties.
rows = hnp.arrays(np.float32, st.tuples(st.integers(1, 12), st.just(2)), elements=st.sampled_from([-1, 0, 0.5, 2, 3]))


def infinitely_apart(a, b):
    """Groups with nothing in common are infinitely far apart."""
    a, b = {tuple(x) for x in a}, {tuple(x) for x in b}
    return len(a & b) / len(a | b) if a & b else -float("inf")


def assert_is_the_cut(model, n_clusters):
    by_hand = {"height": cuts.cut_n_clusters, "sizeable": cuts.cut_sizeable}[model.cut]
    np.testing.assert_array_equal(model.labels_, by_hand(model.tree_, n_clusters))


class Followed(RuleBasedStateMachine):
    """Two models to which the same is done; one of them is looked at."""

    parameters: ClassVar[dict[str, Any]]

    @initialize(mode=st.sampled_from(["fast", "exact"]), shuffle=st.booleans(), batch=rows)
    def begin(self, mode, shuffle, batch):
        chosen = {**self.parameters, "mode": mode, "n_neighbors": 4, "shuffle": shuffle, "random_state": 0}
        self.k, self.models = 3, [Grinch(**chosen, n_clusters=3), Grinch(**chosen, n_clusters=3)]
        self.do("fit", self.records(batch))

    def do(self, what, *arguments):
        for model in self.models:
            getattr(model, what)(*arguments)

    @rule(batch=rows)
    def insert(self, batch):
        self.do("partial_fit", self.records(batch))

    @rule(data=st.data())
    def remove(self, data):
        self.do("remove", [i for i in self.models[0].ids_ if data.draw(st.booleans())])

    @precondition(lambda self: self.models[0].n_leaves_ > 0)
    @rule(data=st.data(), batch=rows)
    def update(self, data, batch):
        ids = data.draw(st.permutations(self.models[0].ids_))[: len(batch)]
        self.do("update", ids, self.records(batch[: len(ids)]))

    @rule(passes=st.integers(1, 2))
    def refine(self, passes):
        self.do("refine", passes)

    @rule(k=st.integers(1, 30), cut=st.sampled_from(["sizeable", "height"]))
    def cut_into(self, k, cut):
        self.k = k
        for model in self.models:
            model.set_params(n_clusters=k, cut=cut)

    @rule()
    def read(self):
        assert_is_the_cut(self.models[0], self.k)

    @rule(batch=rows)
    def predict(self, batch):
        model = self.models[0]
        labels, tree = model.labels_, model.tree_
        found = model.predict(self.records(batch))
        assert set(found.tolist()) <= set(labels.tolist() or [-1])
        np.testing.assert_array_equal(model.labels_, labels)
        assert model.tree_.to_newick() == tree.to_newick()

    @rule(way=st.sampled_from([copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]))
    def go_on_with_a_copy(self, way):
        self.models[0] = way(self.models[0])

    def teardown(self):
        if hasattr(self, "models") and self.models[0].n_leaves_:
            assert_is_the_cut(self.models[0], self.k)
            assert self.models[0].tree_.to_newick() == self.models[1].tree_.to_newick()

    def records(self, batch):
        return batch if isinstance(self.parameters["linkage"], str) else batch.tolist()


def machine(**parameters):
    case = type("Machine", (Followed,), {"parameters": parameters}).TestCase
    case.settings = settings(stateful_step_count=25, max_examples=trials(6, 100))
    return case


TestCosine = machine(linkage="average")
TestSquares = machine(linkage="average", metric="sqeuclidean")
TestWithoutACeiling = machine(linkage="average", metric="dot")
TestWard = machine(linkage="ward")
TestInfinite = machine(linkage=infinitely_apart)


@pytest.mark.parametrize("k", [at_night(1), 2, at_night(8), 250])
@pytest.mark.parametrize("estimator", [Grinch, at_night(Rotate), at_night(Online)])
def test_single_points(rng, estimator, k):
    """Enough points for the tree to be polished, and to grow several times."""
    X = np.concatenate([rng.normal(size=(1500, 3)), np.repeat(rng.normal(size=(5, 3)), 20, axis=0)])
    X = rng.permutation(X)
    model = estimator(n_clusters=k).fit(X[:500])
    for i in range(500, len(X)):
        model.partial_fit(X[i : i + 1])
        if i % 7 == 0:
            assert_is_the_cut(model, k)


def test_more_moves_than_are_followed(rng, monkeypatch):
    monkeypatch.setattr(move_log, "MAX_MOVED", 100)
    X = rng.normal(size=(2000, 3))
    model = Grinch(n_clusters=5).fit(X[:1000])
    for first in (1000, 1010, 1500, 1505):
        assert_is_the_cut(model, 5)
        model.partial_fit(X[first:1999])
    assert_is_the_cut(model, 5)


def test_what_a_linkage_raises_while_labels_are_read(rng):
    is_wrong = []

    def linkage(a, b):
        if is_wrong:
            raise ArithmeticError("not today")
        return -abs(np.mean(a) - np.mean(b))

    points = rng.normal(size=40).tolist()
    model = Grinch(linkage, n_clusters=4).fit(points[:30])
    assert_is_the_cut(model, 4)
    model.partial_fit(points[30:])
    is_wrong.append(True)
    with pytest.raises(ValueError, match="not today"):
        model.labels_
    is_wrong.clear()
    assert_is_the_cut(model, 4)


def test_after_an_insert_that_was_undone(rng):
    count = []

    def linkage(a, b):
        if 1e9 in a or 1e9 in b:
            count.append(1)
            if len(count) > 45:
                raise ArithmeticError("too far")
        return -abs(np.mean(a) - np.mean(b))

    points = rng.normal(size=40).tolist()
    model = Grinch(linkage, n_clusters=4).fit(points)
    assert_is_the_cut(model, 4)
    with pytest.raises(ValueError, match="too far"):
        model.partial_fit([0.5, 1e9])
    assert model.n_leaves_ == 41
    assert_is_the_cut(model, 4)
