"""A store that changes in any order, with a viewer on it: every answer is of one version, and right."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
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
from effort import at_night
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import open_backend
from grinch.serve.views.icicle import unpack_arrays
from grinch.serve.views.viewer import Viewer
from serve.looked import labels_of_cut, news, now, view


class Picture:
    """What the store was when the viewer looked."""

    def __init__(self, store):
        self.version, self.ids, self.labels = store.version, store.ids, store.labels()
        self.arrived = store.arrived()
        self.titles = dict(zip(self.ids, store.payload(self.ids), strict=True)) if self.ids else {}
        self.rows = store.vectors(self.ids) if self.ids else np.empty((0, 5))


class ViewerMachine(RuleBasedStateMachine):
    @initialize(kind=st.sampled_from(["text", "number", None]), beside=st.booleans())
    def begin(self, kind, beside):
        self.folder = Path(tempfile.mkdtemp()) / "store"
        self.kind, self.given = kind, 0
        self.store = grinch.open(self.folder, n_clusters=3)
        self.viewer = Viewer(open_backend(self.folder) if beside else StoreBackend(self.store))
        self.names = 0
        self.picture = self.before = Picture(self.store)

    @rule(seed=st.integers(0, 99), n=st.sampled_from([1, 2, 12]))
    def insert(self, seed, n):
        X, payload = news(n, seed)
        ids = [{"text": f"p{i}", "number": 900 - i}.get(self.kind) for i in range(self.given, self.given + n)]
        self.store.insert(X, ids=ids if self.kind else None, payload=[row["title"] for row in payload])
        self.given += n

    @precondition(lambda self: len(self.store))
    @rule(data=st.data())
    def remove(self, data):
        self.store.remove(data.draw(st.lists(st.sampled_from(self.store.ids), unique=True, min_size=1, max_size=9)))

    @precondition(lambda self: len(self.store))
    @rule(data=st.data(), seed=st.integers(100, 199))
    def update(self, data, seed):
        ids = data.draw(st.lists(st.sampled_from(self.store.ids), unique=True, min_size=1, max_size=4))
        self.store.update(ids, news(len(ids), seed)[0])

    @rule(how=st.sampled_from(["refine", "compact", "recut"]))
    def tend(self, how):
        getattr(self.store, how)()

    @rule()
    def refresh(self):
        version = self.viewer.version
        now(self.viewer)
        assert self.viewer.version == self.store.version
        if self.viewer.version != version:
            self.before, self.picture = self.picture, Picture(self.store)

    @precondition(lambda self: self.viewer.n and self.viewer.version == self.store.version)
    @rule(data=st.data())
    def name(self, data):
        v = data.draw(st.sampled_from(list(self.viewer.scene.tree.nodes())))
        self.names += 1
        self.viewer.name(v, f"name {self.names}")
        assert self.viewer.scene.names[v] == f"name {self.names}"
        if data.draw(st.booleans()):
            self.viewer.name(v, None)
            assert v not in self.viewer.scene.names

    @invariant()
    def the_picture_is_of_one_version(self):
        if not hasattr(self, "viewer"):
            return
        for picture in (self.picture, self.before):
            self.compare(self.viewer.at(picture.version), picture)

    def compare(self, scene, picture):
        assert (scene.version, scene.n) == (picture.version, len(picture.ids))
        if not scene.n:
            assert view(self.viewer, version=scene.version)[0]["n"] == 0
            return
        np.testing.assert_array_equal(scene.look.arrived, picture.arrived)
        cut = scene.cut("cut:default")
        np.testing.assert_array_equal(labels_of_cut(scene, cut), picture.labels)
        assert sorted(scene.order.tolist()) == list(range(scene.n))
        header, arrays = view(self.viewer, version=scene.version, since=picture.version - 1)
        assert header["n"] == arrays["size"].max() == scene.n
        tree = scene.tree
        for v, count in zip(arrays["node"].tolist(), arrays["fresh"].tolist(), strict=True):
            assert count == (picture.arrived[tree.leaves(v)] > picture.version - 1).sum()
        assert set(scene.names) <= set(tree.nodes())
        self.compare_members(scene, picture)

    def compare_members(self, scene, picture):
        # A reader knows only what it has read by now.
        there = set(self.viewer.backend.store.ids)
        members = self.viewer.members(scene.tree.root, limit=200, order="arrival", version=scene.version)["members"]
        assert [member["leaf"] for member in members] == list(range(min(scene.n, 200)))
        for member, name in zip(members, picture.ids, strict=False):
            # A point that was removed since has no id; what it was is gone.
            assert member["id"] == (name if name in there else None)
            assert member["text"] == (picture.titles[name] if name in there else None)

    def teardown(self):
        if not hasattr(self, "store"):
            return
        now(self.viewer)
        if self.viewer.n:
            assert len(unpack_arrays(self.viewer.map())[1]["x"]) == self.viewer.n
            for name in self.store.ids[:: max(len(self.store) // 3, 1)]:
                assert self.viewer.locate(name)["size"] == 1
        self.viewer.close()
        self.store.close()
        shutil.rmtree(self.folder.parent)


@pytest.mark.parametrize(("max_examples", "steps"), [(8, 12), at_night(100, 30)])
def test_a_viewer_on_a_store_that_changes(max_examples, steps):
    run_state_machine_as_test(
        ViewerMachine, settings=settings(max_examples=max_examples, stateful_step_count=steps, deadline=None)
    )
