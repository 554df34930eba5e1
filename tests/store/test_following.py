"""Cuts that follow a model, against the model's own cuts and plain Python over sets of positions."""

from __future__ import annotations

import json
import pickle
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sklearn.datasets import load_digits

from grinch import Grinch, cuts
from grinch.store.changes import KINDS
from grinch.store.following import FEW, Followed
from grinch.tree import follow
from oracle import changes_between, ids_after

CUTS: dict[str, dict[str, Any]] = {
    "one": {"n_clusters": 1},
    "three": {"n_clusters": 3},
    "near": {"threshold": 0.6},
    "far": {"threshold": -0.2},
    "auto": {},
}
# Few distinct values, for duplicates and ties; and many, for trees of some depth.
few = hnp.arrays(np.float32, st.tuples(st.integers(1, 12), st.just(2)), elements=st.sampled_from([-1, 0, 0.5, 2, 3]))
many = st.tuples(st.integers(1, 50), st.integers(0, 2**32 - 1)).map(
    lambda drawn: np.random.default_rng(drawn[1]).normal(size=(drawn[0], 2)).astype(np.float32)
)
batches = st.one_of(few, many)


def same_partition(one, other):
    """Whether two arrays of labels name the same clusters."""
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))


def own_labels(model, n_clusters=None, threshold=None):
    """The labels that the model itself would have."""
    if threshold is not None:
        return cuts.cut_threshold(model.tree_, threshold)
    if n_clusters is not None:
        return cuts.cut_n_clusters(model.tree_, n_clusters)
    return model.labels_


def reloaded(model, followed):
    """Both as another process would find them."""
    state, arrays = followed.state()
    model = pickle.loads(pickle.dumps(model))
    followed = Followed.from_state(json.loads(json.dumps(state)), {name: a.copy() for name, a in arrays.items()})
    followed.attach(model)
    return model, followed


class Following(RuleBasedStateMachine):
    """Two models to which the same is done; one of them is reloaded now and then."""

    parameters: ClassVar[dict[str, Any]] = {}

    @initialize(most=st.sampled_from([0, 20, 2**17]), before=st.booleans(), batch=batches)
    def begin(self, most, before, batch):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(follow, "MOST_MOVED", most + 1)
        self.model, self.followed, self.version = Grinch(n_neighbors=4, **self.parameters), Followed(), 0
        self.clusters: dict[str, dict[int, int]] = {name: {} for name in CUTS}
        self.next_ids = dict.fromkeys(CUTS, 0)
        self.since: dict[frozenset[int], int] = {}
        self.updated: set[int] = set()
        self.is_recut = False
        if before:
            self.add_all()
        self.model.partial_fit(batch)
        if not before:
            self.add_all()
            self.clusters = {name: self.now(name) for name in CUTS}
            self.next_ids = {name: max(self.clusters[name].values()) + 1 for name in CUTS}
            self.since = dict.fromkeys(self.sets(), 0)
            assert same_partition(self.followed.labels("auto", self.model), self.model.labels_)
            assert list(dict.fromkeys(self.clusters["near"].values())) == list(range(self.next_ids["near"]))
        self.twin = pickle.loads(pickle.dumps((self.model, None)))[0]
        self.commit(twin=False)
        self.twin, self.twin_followed = reloaded(self.model, self.followed)

    def teardown(self):
        if hasattr(self, "patch"):
            self.patch.undo()

    def add_all(self):
        for name, how in CUTS.items():
            self.followed.add(name, **how, model=self.model)

    # What is done -------------------------------------------------------------------------------------------------

    def ids(self):
        return self.model.ids_

    def both(self, change):
        for model in (self.model, self.twin):
            change(model)
        self.commit()

    @rule(batch=batches)
    def insert(self, batch):
        self.both(lambda model: model.partial_fit(batch))

    @precondition(lambda self: self.model.n_leaves_ > 1)
    @rule(data=st.data())
    def remove(self, data):
        ids = data.draw(st.lists(st.sampled_from(self.ids()), min_size=1, max_size=20, unique=True))
        self.both(lambda model: model.remove(ids))

    @precondition(lambda self: self.model.n_leaves_ > 0)
    @rule(data=st.data())
    def remove_most(self, data):
        kept = data.draw(st.integers(0, 3))
        ids = self.ids()[kept:]
        if ids:
            self.both(lambda model: model.remove(ids))

    @precondition(lambda self: self.model.n_leaves_ > 0)
    @rule(data=st.data(), batch=batches)
    def update(self, data, batch):
        ids = data.draw(st.lists(st.sampled_from(self.ids()), min_size=1, max_size=len(batch), unique=True))
        self.updated = set(ids)
        self.both(lambda model: model.update(ids, batch[: len(ids)]))

    @rule()
    def refine(self):
        self.both(lambda model: model.refine())

    @rule()
    def look(self):
        """The model's own cut follows the same tree."""
        self.model.set_params(n_clusters=2)
        assert len(self.model.labels_) == self.model.n_leaves_
        self.model.set_params(n_clusters=None)
        self.both(lambda model: None)

    @rule()
    def nothing(self):
        assert self.both(lambda model: None) is None

    @rule()
    def reload(self):
        self.twin, self.twin_followed = reloaded(self.twin, self.twin_followed)

    @rule()
    def recut(self):
        self.version += 1
        before = self.now("auto")
        would = self.followed.would_recut("auto", self.model)
        changes = self.followed.recut("auto", self.model, self.version)
        assert self.twin_followed.recut("auto", self.twin, self.version) == changes
        labels = self.followed.labels("auto", self.model)
        assert same_partition(labels, self.model.labels_)
        assert would.n_clusters == len(set(labels.tolist()))
        self.check_ids("auto", before, changes)
        # At once again, all is as it should be.
        assert self.followed.recut("auto", self.model, self.version) == []

    # What there should be -----------------------------------------------------------------------------------------

    def now(self, name):
        labels = self.followed.labels(name, self.model).tolist()
        return dict(zip(self.ids(), labels, strict=True))

    def sets(self):
        tree, positions = self.model.tree_, np.array(self.ids(), np.int64)
        return {frozenset(positions[tree.leaves(v)].tolist()) for v in tree.nodes()} if tree.n_leaves else set()

    def commit(self, twin=True):
        self.version += 1
        changes = self.followed.commit(self.model, self.version)
        if twin:
            assert self.twin_followed.commit(self.twin, self.version) == changes
        for name in CUTS:
            mine = [change for change in changes if change.cut == name]
            self.check_ids(name, self.clusters[name], mine)
        self.check_keys()
        self.updated = set()

    def check_ids(self, name, before, changes):
        after = self.now(name)
        expected, self.next_ids[name] = ids_after(before, after, self.next_ids[name])
        assert after == expected
        self.clusters[name] = after
        told = {(c.kind, c.cluster, c.others, c.size, c.count) for c in changes}
        assert told == changes_between(before, after)
        assert [c.version for c in changes] == [self.version] * len(changes)
        order = [(c.cluster, KINDS.index(c.kind)) for c in changes]
        assert order == sorted(order)
        for change in changes:
            here = after if change.kind in ("born", "merged", "grew") else before
            assert change.exemplars
            assert list(change.exemplars) == sorted(set(change.exemplars))
            assert all(p in here for p in change.exemplars)

    def check_keys(self):
        sets = self.sets()
        self.since = {
            members: self.version if members & self.updated else self.since.get(members, self.version)
            for members in sets
        }
        tree, positions = self.model.tree_, np.array(self.ids(), np.int64)
        for since in (0, self.version - 1, self.version):
            touched = self.followed.touched(self.model, since).tolist()
            found = {frozenset(positions[tree.leaves(v)].tolist()) for v in touched}
            assert found == {members for members, version in self.since.items() if version > since}
            assert len(found) == len(touched)

    @invariant()
    def cuts_are_the_models_own(self):
        if not hasattr(self, "twin_followed"):
            return
        for name, how in CUTS.items():
            if how:
                assert same_partition(self.followed.labels(name, self.model), own_labels(self.model, **how))
            members = self.followed.members(name, self.model)
            assert {p: c for c, points in members.items() for p in points.tolist()} == self.clusters[name]

    @invariant()
    def points_are_placed_as_predict_does(self):
        if not hasattr(self, "twin_followed") or self.model.n_leaves_ == 0:
            return
        X = np.array([[1, 0.2], [-1, 1], [0.5, 0.5], [3, -2]], np.float32)
        for name, how in CUTS.items():
            if how:
                expected = self.twin.set_params(**how).predict(X)
                labels, own = self.followed.labels(name, self.model), self.twin.labels_
                self.twin.set_params(n_clusters=None, threshold=None)
                id_of = {-1: -1, **dict(zip(own.tolist(), labels.tolist(), strict=True))}
                found = self.followed.cluster_of_places(name, self.model, X)
                assert found.tolist() == [id_of[label] for label in expected.tolist()]


class FollowingExactly(Following):
    parameters: ClassVar[dict[str, Any]] = {"mode": "exact"}


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
TestFollowingExactly = FollowingExactly.TestCase
TestFollowingExactly.settings = settings(max_examples=8, stateful_step_count=8, deadline=None)
