"""A model's life: whatever happens in whatever order, what it shows fits its points, and looking changes nothing."""

from __future__ import annotations

import copy
import pickle
from itertools import chain
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from effort import trials
from engines import PlacesNow, check_engine, engine_in
from grinch import Grinch, Rules, cuts
from refusals import refused

# Few distinct values, for duplicates and ties.
rows = hnp.arrays(np.float32, st.tuples(st.integers(1, 8), st.just(2)), elements=st.sampled_from([-1, 0, 0.5, 2, 3]))


def mean_squared_distance(a, b):
    """Average linkage as a user would write it, on lists of records."""
    a, b = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
    return -float(((a[:, None] - b) ** 2).sum(axis=2).mean())


def infinitely_apart(a, b):
    """Groups with nothing in common are infinitely far apart."""
    a, b = {tuple(x) for x in a}, {tuple(x) for x in b}
    return len(a & b) / len(a | b) if a & b else -float("inf")


SQUARES = {"linkage": "average", "metric": "sqeuclidean"}
# With caps below the number of points, scores of large nodes may lag.
KINDS = {
    "vectors": SQUARES,
    "index": {**SQUARES, "search": "index"},
    "cosine": {"linkage": "cosine"},
    "without a ceiling": {"linkage": "average", "metric": "dot"},
    "ward, capped": {"linkage": "ward", "mode": Rules.fast(cap=5)},
    "pairwise": {"linkage": "complete"},
    "function": {"linkage": mean_squared_distance},
    "infinite": {"linkage": infinitely_apart},
}
PYTHON = ["function", "infinite"]


class Life(RuleBasedStateMachine):
    """The points a model should have, by id, beside the model that has them, and a twin that is seldom looked at."""

    kinds: ClassVar[list[str]]

    @initialize(
        data=st.data(),
        mode=st.sampled_from(["fast", "exact"]),
        named=st.booleans(),
        compiled=st.booleans(),
        shuffle=st.booleans(),
        batch=rows,
    )
    def begin(self, data, mode, named, compiled, shuffle, batch):
        self.parameters = KINDS[data.draw(st.sampled_from(self.kinds))]
        self.settings = {"mode": mode, **self.parameters, "n_clusters": 3, "n_neighbors": 4}
        self.model, self.twin = (Grinch(**self.settings, shuffle=shuffle, random_state=0) for _ in range(2))
        self.points: dict[object, np.ndarray] = {}
        self.named, self.given, self.only_inserted, self.views = named, 0, not shuffle, []
        self.take("fit", batch)
        for model in (self.model, self.twin):
            engine_in(model).compiled = compiled

    def do(self, what, *arguments, **settings):
        for model in (self.model, self.twin):
            getattr(model, what)(*arguments, **settings)

    def take(self, how, batch):
        ids = [f"point {self.given + i}" if self.named else self.given + i for i in range(len(batch))]
        self.do(how, self.records(batch), ids=ids if self.named else None)
        self.points |= dict(zip(ids, batch, strict=True))
        self.given += len(batch)

    @rule(batch=rows)
    def insert(self, batch):
        self.take("partial_fit", batch)

    @rule(data=st.data())
    def remove(self, data):
        ids = [i for i in self.points if data.draw(st.booleans())]
        self.do("remove", ids)
        self.points = {i: row for i, row in self.points.items() if i not in ids}
        self.only_inserted &= not ids

    @precondition(lambda self: self.points)
    @rule(data=st.data(), batch=rows)
    def update(self, data, batch):
        ids = data.draw(st.permutations(list(self.points)))[: len(batch)]
        self.do("update", ids, self.records(batch[: len(ids)]))
        self.points |= dict(zip(ids, batch, strict=False))
        self.only_inserted = False

    @rule(passes=st.integers(1, 2), points=st.sampled_from(["all", "unsettled"]))
    def refine(self, passes, points):
        self.do("refine", passes, points=points)
        self.only_inserted = False

    @rule(k=st.integers(1, 30), cut=st.sampled_from(["sizeable", "height"]))
    def cut_into(self, k, cut):
        self.settings |= {"n_clusters": k, "cut": cut}
        self.do("set_params", n_clusters=k, cut=cut)

    @rule()
    def look_at_the_twin(self):
        self.check_cut(self.twin)

    def check_cut(self, model):
        """The cut that follows the tree is that of the whole tree."""
        by_hand = {"height": cuts.cut_n_clusters, "sizeable": cuts.cut_sizeable}[model.cut]
        np.testing.assert_array_equal(model.labels_, by_hand(model.tree_, model.n_clusters))

    def teardown(self):
        if getattr(self, "points", None):
            self.check_cut(self.twin)
            assert self.twin.tree_.to_newick() == self.model.tree_.to_newick()

    @rule(way=st.sampled_from([copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))]))
    def go_on_with_a_copy(self, way):
        self.model = way(self.model)

    @precondition(lambda self: self.points and self.parameters["linkage"] in ("average", "cosine", "ward"))
    @rule(batch=rows)
    def keep_a_view(self, batch):
        """What a view says, however few points there are, stays as it is."""
        self.views = [*self.views[-1:], PlacesNow(engine_in(self.model), batch)]

    @rule(batch=rows)
    def predict(self, batch):
        before = self.seen()
        predicted = self.model.predict(self.records(batch)).tolist()
        assert set(predicted) <= set(self.model.labels_.tolist() or [-1])
        assert self.seen() == before

    @rule(batch=rows)
    def refused(self, batch):
        before, known = self.seen(), list(self.points)
        refused("nobody", self.model.remove, [*known, "nobody"])
        refused("nobody", self.model.update, ["nobody"], self.records(batch[:1]))
        if known:
            refused("twice", self.model.remove, [known[0], known[0]])
            refused("row for each", self.model.update, known[:1], self.records(np.vstack([batch, batch])))
        assert self.seen() == before

    @precondition(lambda self: self.only_inserted)
    @rule()
    def any_chunks_give_the_tree_of_one_fit(self):
        whole = Grinch(**self.settings).fit(self.records(np.array(list(self.points.values()))))
        leaves = range(len(self.points))
        assert whole.tree_.to_newick(leaves) == self.model.tree_.to_newick(leaves)
        assert whole.labels_.tolist() == self.model.labels_.tolist()

    @invariant()
    def shows_the_points_it_has(self):
        tree, labels = self.model.tree_, self.model.labels_
        tree.check()
        assert self.model.ids_ == list(self.points)
        assert self.model.n_leaves_ == tree.n_leaves == len(self.points)
        assert labels.shape == (len(self.points),)
        assert set(labels.tolist()) == set(range(min(self.model.n_clusters, len(self.points))))
        self.check_cut(self.model)
        assert sorted(chain(*self.model.clusters_)) == sorted(self.points)
        check_engine(engine_in(self.model))
        for view in self.views:
            view.check()

    @invariant()
    def scores_are_those_of_the_points_as_they_are(self):
        """No summary is stale: every node's score is what the linkage says of the records under its children."""
        tree, held = self.model.tree_, list(self.points.values())
        if self.parameters["linkage"] is not mean_squared_distance and self.parameters.get("metric") != "sqeuclidean":
            return
        for v in tree.nodes():
            if not tree.is_leaf(v):
                a, b = ([held[i] for i in tree.leaves(child)] for child in tree.children(v))
                assert tree.scores[v] == pytest.approx(mean_squared_distance(a, b), rel=1e-4, abs=1e-4)

    def records(self, batch):
        return batch if isinstance(self.parameters["linkage"], str) else batch.tolist()

    def seen(self):
        tree = self.model.tree_ if self.points else None
        return tree and tree.to_newick(), self.model.labels_.tolist(), self.model.ids_


class VectorLife(Life):
    kinds: ClassVar = [kind for kind in KINDS if kind not in PYTHON]


class PythonLife(Life):
    kinds: ClassVar = PYTHON


TestVectors = VectorLife.TestCase
TestPython = PythonLife.TestCase
TestVectors.settings = settings(max_examples=trials(30, 500), stateful_step_count=trials(14, 30), deadline=None)
TestPython.settings = settings(max_examples=trials(14, 200), stateful_step_count=trials(10, 30), deadline=None)
