"""A store against an estimator in memory, with reopening between any two steps."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import grinch
from effort import at_night, trials
from grinch import Grinch
from grinch.store import forks, recuts, snapshots, state
from grinch.store.change_summary import told_once
from grinch.store.state import ClusterTracking

CENTRES = np.random.default_rng(7).normal(size=(6, 4)) * 3


def rows_of(seed: int, n: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (CENTRES[rng.integers(6, size=n)] + rng.normal(size=(n, 4)) * 0.7).astype(np.float32)


class StoreMachine(RuleBasedStateMachine):
    """The model in memory is told the same as the store; so are the cuts that follow it."""

    @initialize(
        linkage=st.sampled_from(["average", "ward"]),
        cut=st.sampled_from(
            [{}, {"layer": "coarse"}, {"n_clusters": 4}, {"n_clusters": 4, "cut": "height"}, {"threshold": -0.5}]
        ),
        is_sparse=st.booleans(),
        kind=st.sampled_from(["text", "number", None]),
    )
    def begin(self, linkage, cut, is_sparse, kind):
        self.is_sparse, self.kind = is_sparse, kind
        self.folder = Path(tempfile.mkdtemp()) / "store"
        self.linkage = linkage
        self.store = grinch.open(self.folder, linkage=linkage, **cut)
        self.model = Grinch(linkage=linkage)
        self.tracking = ClusterTracking(self.model)
        self.tracking.add("default", **cut)
        # The automatic cut that a forked process is making.
        self.pending = {}
        self.version, self.given, self.rows, self.payloads, self.arrived, self.changes = 0, 0, {}, {}, {}, []
        assert (self.store.look().version, self.store.look().cuts) == (0, {})

    def names(self, positions):
        """The ids of points, by position."""
        return [{"text": f"p{i}", "number": 1000 - i, None: i}[self.kind] for i in positions]

    def points(self, seed, n):
        """Rows, and the form in which they are given."""
        X = rows_of(seed, n)
        if not self.is_sparse:
            return X, X
        X[np.abs(X) < 1.5] = 0
        return X, scipy.sparse.csr_array(X)

    def done(self, version, made=None):
        """Whatever the store has done made the next version, with these cuts, or those that are due."""
        self.version += 1
        assert version == self.version
        self.changes += self.tracking.commit(version, made, is_at_once)
        self.take_cut()

    def take_cut(self):
        """A cut that was being made is taken behind the change; one that is due begins."""
        made, self.pending = self.tracking.still_new(self.pending), {}
        if made:
            self.recut_as(made)
        if self.model.n_leaves_ > state.MAX_AT_ONCE:
            self.pending = dict(self.tracking.make(self.tracking.due()))

    def recut_as(self, made):
        self.version += 1
        self.changes += self.tracking.recut(self.version, made)

    @rule(seed=st.integers(0, 999), n=st.sampled_from([1, 2, 7, 30]), payload=st.booleans())
    def insert(self, seed, n, payload):
        (X, given), ids = self.points(seed, n), list(range(self.given, self.given + n))
        self.model.partial_fit(given)
        payloads = [{"n": i} for i in ids] if payload else [None] * n
        names = self.names(ids) if self.kind else None
        version = self.store.insert(given, ids=names, payload=payloads if payload else None)
        self.done(version)
        self.rows |= dict(zip(ids, X, strict=True))
        self.payloads |= dict(zip(ids, payloads, strict=True))
        self.arrived |= dict.fromkeys(ids, version)
        self.given += n

    @precondition(lambda self: self.rows and self.kind)
    @rule(data=st.data())
    def insert_again(self, data):
        some = data.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True, min_size=1, max_size=5))
        X = np.array([self.rows[i] for i in some])
        assert self.store.insert(X, ids=self.names(some)) == self.version

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def remove(self, data):
        some = data.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True, min_size=1, max_size=20))
        self.model.remove(some)
        self.done(self.store.remove(self.names(some)))
        assert self.store.remove(self.names(some)) == self.version
        for i in some:
            del self.rows[i], self.payloads[i]

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), seed=st.integers(0, 999))
    def update(self, data, seed):
        some = data.draw(st.lists(st.sampled_from(sorted(self.rows)), unique=True, min_size=1, max_size=4))
        X, given = self.points(seed + 1000, len(some))
        is_new = [not np.array_equal(self.rows[i], row) for i, row in zip(some, X, strict=True)]
        if not any(is_new):
            return
        new = [i for i, is_it in zip(some, is_new, strict=True) if is_it]
        self.model.update(new, given[np.flatnonzero(is_new)])
        self.done(self.store.update(self.names(some), given))
        self.rows |= dict(zip(some, X, strict=True))

    @precondition(lambda self: len(self.rows) > 2)
    @rule()
    def refine(self):
        self.model.refine()
        self.done(self.store.refine())

    @precondition(lambda self: self.rows)
    @rule()
    def recut(self):
        self.pending = {}
        version = self.store.recut()
        self.recut_as(self.tracking.make(["default"]))
        assert version == self.version
        self.take_cut()

    @precondition(lambda self: self.rows)
    @rule()
    def compact(self):
        self.model.close_gaps()
        self.done(self.store.compact(), {})

    @rule(how=st.sampled_from(["close", "die", "snapshot"]))
    def reopen(self, how):
        if how == "snapshot":
            self.store.snapshot()
            return
        if how == "close":
            self.store.close()
            if made := self.tracking.still_new(self.pending):
                self.recut_as(made)
            if due := self.tracking.due():
                self.recut_as(self.tracking.make(due))
        else:
            # The files as they are, as if its process had been killed; the check waits for snapshots.
            self.store.check()
            folder = self.folder.with_name(f"{self.folder.name}-")
            shutil.copytree(self.folder, folder)
            self.store.close()
            self.folder = folder
        self.store, self.pending = grinch.open(self.folder), {}

    @rule()
    def read_beside(self):
        with grinch.open(self.folder, readonly=True) as reader:
            self.compare(reader)

    @invariant()
    def same(self):
        self.compare(self.store)

    def compare(self, store):
        assert (store.version, len(store)) == (self.version, len(self.rows))
        there = sorted(self.rows)
        assert store.ids == self.names(there)
        assert store.changes() == [
            replace(change, exemplars=tuple(self.names(i for i in change.exemplars if i in self.rows)))
            for _, same in groupby(self.changes, key=lambda change: (change.version, change.cut))
            for change in told_once(list(same))
        ]
        look, every = store.look(), range(self.given + 3)
        assert (look.version, look.positions.tolist()) == (self.version, there)
        assert look.arrived.tolist() == store.arrived().tolist() == [self.arrived[i] for i in there]
        assert look.times.tolist() == [store.times()[self.arrived[i]] for i in there]
        names = dict(zip(there, store.ids, strict=True))
        assert store.points_at(every) == [(names.get(i), self.payloads.get(i)) for i in every]
        assert [store.position_of(name) for name in self.names(every)] == [i if i in names else None for i in every]
        if not self.rows:
            return
        np.testing.assert_array_equal(look.tree.child_pairs(), store.tree.child_pairs())
        np.testing.assert_array_equal(look.cuts["default"], store.labels())
        tree = self.model.tree_
        np.testing.assert_array_equal(store.tree.child_pairs(), tree.child_pairs())
        np.testing.assert_array_equal(store.tree.scores, tree.scores)
        np.testing.assert_array_equal(store.labels(), self.tracking.labels("default"))
        some = there[::3]
        for kept in (store.vectors(self.names(some)), store.rows_at(look.positions[::3])):
            assert scipy.sparse.issparse(kept) == self.is_sparse
            kept = kept.toarray() if self.is_sparse else kept
            np.testing.assert_array_equal(kept, [self.rows[i] for i in some])
        assert store.payload(self.names(some)) == [self.payloads[i] for i in some]

    def teardown(self):
        if hasattr(self, "store"):
            self.store.check()
            self.store.close()
            shutil.rmtree(self.folder.parent)


def is_at_once(n_points, n_changing):
    """Whether a cut that is due is made with the change, as docs/development/store.md has it."""
    return n_points <= state.MAX_AT_ONCE or 4 * n_changing >= n_points or not forks.CAN_FORK


def has_ended(made):
    """Wait for the process: it is known then which change takes what it made."""
    made.wait()
    return False


@pytest.mark.parametrize("max_at_once", [2048, 0])
@pytest.mark.parametrize("least_changed", [20, at_night(10**9)])
def test_store_is_the_estimator(least_changed, max_at_once, monkeypatch):
    monkeypatch.setattr(snapshots, "MIN_CHANGED", least_changed)
    monkeypatch.setattr(state, "MAX_AT_ONCE", max_at_once)
    monkeypatch.setattr(recuts.Recuts, "is_under_way", has_ended)
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        StoreMachine,
        settings=settings(max_examples=trials(4, 160), stateful_step_count=25, deadline=None),
    )
