"""A sharded store against a dict, with splits, reopening and deaths between any two steps."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import grinch
from branching import compare, die, grouped
from effort import trials


class Machine(RuleBasedStateMachine):
    """What was put into the store is in a dict, by id, in the order in which it came."""

    @initialize(is_named=st.booleans(), is_sparse=st.booleans(), linkage=st.sampled_from(["average", "ward"]))
    def begin(self, is_named, is_sparse, linkage):
        memory = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None)) / "store"
        self.is_named, self.is_sparse = is_named, is_sparse
        self.store = grinch.open(self.folder, max_points=24, linkage=linkage)
        self.given, self.rows, self.payloads = 0, {}, {}

    def form(self, X):
        return scipy.sparse.csr_matrix(X) if self.is_sparse else X

    def some(self, data, most):
        return data.draw(st.lists(st.sampled_from(list(self.rows)), unique=True, min_size=1, max_size=most))

    @rule(seed=st.integers(0, 999), n=st.sampled_from([1, 3, 15, 40]), payload=st.booleans())
    def insert(self, seed, n, payload):
        X, numbers = grouped(seed, n), range(self.given, self.given + n)
        names = [f"p{i}" for i in numbers] if self.is_named else list(numbers)
        version = self.store.version
        beside = [{"of": name} for name in names] if payload else None
        assert self.store.insert(self.form(X), ids=names if self.is_named else None, payload=beside) > version
        self.rows |= zip(names, X, strict=True)
        self.payloads |= zip(names, beside or [None] * n, strict=True)
        self.given += n

    @precondition(lambda self: self.rows and self.is_named)
    @rule(data=st.data())
    def insert_again(self, data):
        some, version = self.some(data, 5), self.store.version
        assert self.store.insert(self.form(np.array([self.rows[name] for name in some])), ids=some) == version

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def remove(self, data):
        some = self.some(data, 12)
        version = self.store.remove(some)
        assert self.store.remove(some) == version
        for name in some:
            del self.rows[name], self.payloads[name]

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), seed=st.integers(0, 999), payload=st.booleans())
    def update(self, data, seed, payload):
        some = self.some(data, 6)
        X, beside = grouped(seed + 1000, len(some)), [f"u{seed}"] * len(some)
        self.store.update(some, self.form(X), payload=beside if payload else None)
        self.rows |= zip(some, X, strict=True)
        self.payloads |= zip(some, beside if payload else [self.payloads[name] for name in some], strict=True)

    @rule(how=st.sampled_from(["close", "die", "snapshot", "backup"]))
    def reopen(self, how):
        version = self.store.version
        if how == "snapshot":
            self.store.snapshot()
        elif how == "backup":
            self.store.backup(self.folder.with_name("copy"))
            self.store.close()
            shutil.rmtree(self.folder)
            self.folder.with_name("copy").rename(self.folder)
            self.store = grinch.open(self.folder)
        else:
            die(self.store) if how == "die" else self.store.close()
            self.store = grinch.open(self.folder)
        assert self.store.version == version

    @rule()
    def read_beside(self):
        with grinch.open(self.folder, readonly=True) as reader:
            compare(reader, self.rows, self.payloads)

    @invariant()
    def same(self):
        compare(self.store, self.rows, self.payloads)
        assert max(self.store.branches.values()) <= 24
        kept = [branch.store.info()["is_sparse"] for branch in self.store._now() if branch.n_points]
        assert set(kept) <= {self.is_sparse}

    def teardown(self):
        if hasattr(self, "store"):
            self.store.check()
            self.store.close()
            shutil.rmtree(self.folder.parent)


def test_a_sharded_store_is_a_dict():
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=trials(4, 120), stateful_step_count=12, deadline=None)
    )
