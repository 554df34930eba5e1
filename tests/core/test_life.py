"""A model's life, by its public face only: whatever happens in whatever order, what it shows fits the points it has."""

from __future__ import annotations

from itertools import chain
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from effort import trials
from grinch import Grinch

# Few distinct values, for duplicates and ties.
rows = hnp.arrays(np.float32, st.tuples(st.integers(1, 8), st.just(2)), elements=st.sampled_from([-1, 0, 0.5, 2, 3]))


def mean_squared_distance(a, b):
    """Average linkage as a user would write it, on lists of records."""
    a, b = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
    return -float(((a[:, None] - b) ** 2).sum(axis=2).mean())


class Life(RuleBasedStateMachine):
    """The points a model should have, by id, beside the model that has them."""

    parameters: ClassVar[dict[str, Any]]

    @initialize(mode=st.sampled_from(["fast", "exact"]), named=st.booleans(), batch=rows)
    def begin(self, mode, named, batch):
        self.settings = {**self.parameters, "mode": mode, "n_clusters": 3, "n_neighbors": 4}
        self.model, self.named = Grinch(**self.settings), named
        self.points: dict[object, np.ndarray] = {}
        self.given, self.only_inserted = 0, True
        self.insert(batch)

    @rule(batch=rows)
    def insert(self, batch):
        ids = [f"point {self.given + i}" if self.named else self.given + i for i in range(len(batch))]
        self.model.partial_fit(self.records(batch), ids=ids if self.named else None)
        self.points |= dict(zip(ids, batch, strict=True))
        self.given += len(batch)

    @rule(data=st.data())
    def remove(self, data):
        ids = [i for i in self.points if data.draw(st.booleans())]
        self.model.remove(ids)
        self.points = {i: row for i, row in self.points.items() if i not in ids}
        self.only_inserted &= not ids

    @precondition(lambda self: self.points)
    @rule(data=st.data(), batch=rows)
    def update(self, data, batch):
        ids = data.draw(st.permutations(list(self.points)))[: len(batch)]
        self.model.update(ids, self.records(batch[: len(ids)]))
        self.points |= dict(zip(ids, batch, strict=False))
        self.only_inserted = False

    @rule(passes=st.integers(1, 2))
    def refine(self, passes):
        self.model.refine(passes)
        self.only_inserted = False

    @rule(batch=rows)
    def predict(self, batch):
        before = self.seen()
        predicted = self.model.predict(self.records(batch)).tolist()
        assert set(predicted) <= set(self.model.labels_.tolist() or [-1])
        assert self.seen() == before

    @rule(batch=rows)
    def refused(self, batch):
        before, known = self.seen(), list(self.points)
        with pytest.raises(ValueError, match="nobody"):
            self.model.remove([*known, "nobody"])
        with pytest.raises(ValueError, match="nobody"):
            self.model.update(["nobody"], self.records(batch[:1]))
        if known:
            with pytest.raises(ValueError, match="twice"):
                self.model.remove([known[0], known[0]])
            with pytest.raises(ValueError, match="row for each"):
                self.model.update(known[:1], self.records(np.vstack([batch, batch])))
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
        assert set(labels.tolist()) == set(range(min(3, len(self.points))))
        assert sorted(chain(*self.model.clusters_)) == sorted(self.points)

    @invariant()
    def scores_are_those_of_the_points_as_they_are(self):
        """No summary is stale: every node's score is what the linkage says of the records under its children."""
        tree, held = self.model.tree_, list(self.points.values())
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
    parameters: ClassVar = {"linkage": "average", "metric": "sqeuclidean"}


class PythonLife(Life):
    parameters: ClassVar = {"linkage": mean_squared_distance}


TestVectors = VectorLife.TestCase
TestPython = PythonLife.TestCase
TestVectors.settings = settings(max_examples=trials(12, 100), stateful_step_count=12, deadline=None)
TestPython.settings = settings(max_examples=trials(8, 60), stateful_step_count=10, deadline=None)


@pytest.mark.slow
class TestVectorsAtLength(VectorLife.TestCase):
    settings = settings(max_examples=200, stateful_step_count=30, deadline=None)


@pytest.mark.slow
class TestPythonAtLength(PythonLife.TestCase):
    settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
