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

import grinch
from effort import trials
from grinch import Grinch, cuts
from grinch.cuts.tracking import KINDS, MadeCut
from grinch.cuts.tracking.tracker import keys_of
from grinch.store.state import ClusterTracking, Recut
from grinch.tree import links as move_log
from grinch.tree.links import LEFT, OFFSET, PARENT, RIGHT
from partitions import Dissolved, changes_between, ids_after
from store.made import same_partition

CUTS: dict[str, dict[str, Any]] = {
    "one": {"n_clusters": 1},
    "three": {"n_clusters": 3},
    "many": {"n_clusters": 9},
    "high": {"n_clusters": 3, "cut": "height"},
    "near": {"threshold": 0.6},
    "far": {"threshold": -0.2},
    "auto": {},
    "coarse": {"layer": "coarse"},
    "second": {"layer": 1},
}
# Few distinct values, for duplicates and ties; and many, for trees of some depth.
few = hnp.arrays(np.float32, st.tuples(st.integers(1, 12), st.just(2)), elements=st.sampled_from([-1, 0, 0.5, 2, 3]))
many = st.tuples(st.integers(1, 50), st.integers(0, 2**32 - 1)).map(
    lambda drawn: np.random.default_rng(drawn[1]).normal(size=(drawn[0], 2)).astype(np.float32)
)
batches = st.one_of(few, many)


def own_labels(model, n_clusters=None, threshold=None, cut="sizeable", layer="auto"):
    """The labels that the model itself would have; of too few layers, the coarsest."""
    if threshold is not None:
        return cuts.cut_threshold(model.tree_, threshold)
    if n_clusters is not None:
        return (cuts.cut_sizeable if cut == "sizeable" else cuts.cut_n_clusters)(model.tree_, n_clusters)
    layer = layer if isinstance(layer, str) else min(layer, len(model.layers_) - 1)
    try:
        return model.set_params(layer=layer).labels_
    finally:
        model.set_params(layer="auto")


def is_followed(how):
    """Whether a cut is always as if it had just been made."""
    return "n_clusters" in how or "threshold" in how


def reloaded(tracking):
    """Model and cuts as another process would find them."""
    state, arrays = tracking.to_state()
    model = pickle.loads(pickle.dumps(tracking.model))
    arrays = {name: array.copy() for name, array in arrays.items()}
    return ClusterTracking.from_state(model, json.loads(json.dumps(state)), arrays)


class Following(RuleBasedStateMachine):
    """Two models to which the same is done; one of them is reloaded now and then."""

    parameters: ClassVar[dict[str, Any]] = {}

    @initialize(most=st.sampled_from([0, 20, 2**17]), before=st.booleans(), batch=batches, is_slow=st.booleans())
    def begin(self, most, before, batch, is_slow):
        # Cuts that are due may be made later, but for those of which a quarter comes at once.
        self.is_at_once = lambda n, n_changing: 4 * n_changing >= n or not is_slow
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(move_log, "MAX_MOVED", most + 1)
        self.model, self.version = Grinch(n_neighbors=4, **self.parameters), 0
        self.tracking = ClusterTracking(self.model)
        self.clusters: dict[str, dict[int, int]] = {name: {} for name in CUTS}
        self.next_ids = dict.fromkeys(CUTS, 0)
        self.dissolved = {name: Dissolved() for name, how in CUTS.items() if not is_followed(how)}
        self.since: dict[frozenset[int], int] = {}
        self.updated: set[int] = set()
        if before:
            self.add_all()
        self.model.partial_fit(batch)
        if not before:
            self.add_all()
            self.clusters = {name: self.now(name) for name in CUTS}
            self.next_ids = {name: max(self.clusters[name].values()) + 1 for name in CUTS}
            for dissolved in self.dissolved.values():
                dissolved.cuts += 1
            self.since = dict.fromkeys(self.sets(), 0)
            for name, how in CUTS.items():
                assert same_partition(self.tracking.labels(name), own_labels(self.model, **how))
            assert list(dict.fromkeys(self.clusters["near"].values())) == list(range(self.next_ids["near"]))
        self.commit(twin=False)
        self.twin = reloaded(self.tracking)

    def teardown(self):
        if hasattr(self, "patch"):
            self.patch.undo()

    def add_all(self):
        for name, how in CUTS.items():
            self.tracking.add(name, **how)

    # What is done -------------------------------------------------------------------------------------------------

    def ids(self):
        return self.model.ids_

    def both(self, change):
        for model in (self.model, self.twin.model):
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

    @rule(batch=batches)
    def look(self, batch):
        """The cuts of one model are not committed yet when its own labels are read."""
        for model in (self.model, self.twin.model):
            model.partial_fit(batch)
        self.model.set_params(n_clusters=2)
        np.testing.assert_array_equal(self.model.labels_, cuts.cut_sizeable(self.model.tree_, 2))
        self.model.set_params(n_clusters=None)
        self.commit()

    @rule()
    def nothing(self):
        assert self.both(lambda model: None) is None

    @rule()
    def reload(self):
        self.twin = reloaded(self.twin)

    @rule(name=st.sampled_from(["auto", "coarse", "second"]))
    def recut(self, name):
        self.version += 1
        before = self.now(name)
        would = self.tracking.would_recut(name)
        made = self.tracking.make([name])
        self.dissolved[name].cuts += 1
        changes = self.tracking.recut(self.version, made)
        assert self.twin.recut(self.version, self.twin.make([name])) == changes
        labels = self.tracking.labels(name)
        assert same_partition(labels, own_labels(self.model, **CUTS[name]))
        assert would.n_clusters == len(set(labels.tolist()))
        self.check_ids(name, before, changes)
        # At once again, all is as it should be.
        assert self.tracking.recut(self.version, made) == self.twin.recut(self.version, made) == []
        self.dissolved[name].cuts += 1

    # What there should be -----------------------------------------------------------------------------------------

    def now(self, name):
        labels = self.tracking.labels(name).tolist()
        return dict(zip(self.ids(), labels, strict=True))

    def sets(self):
        tree, positions = self.model.tree_, np.array(self.ids(), np.int64)
        return {frozenset(positions[tree.leaves(v)].tolist()) for v in tree.nodes()} if tree.n_leaves else set()

    def commit(self, twin=True):
        self.version += 1
        changes = self.tracking.commit(self.version, None, self.is_at_once)
        made = {name: MadeCut.from_bytes(cut.to_bytes()) for name, cut in self.tracking.made.items()}
        if twin:
            # It takes the cuts that the other has made.
            assert self.twin.commit(self.version, made) == changes
        for name in made:
            self.dissolved[name].cuts += 1
            assert same_partition(self.tracking.labels(name), own_labels(self.model, **CUTS[name]))
        for name in CUTS:
            mine = [change for change in changes if change.cut == name]
            self.check_ids(name, self.clusters[name], mine)
        self.check_keys()
        self.updated = set()

    def check_ids(self, name, before, changes):
        after = self.now(name)
        dissolved = self.dissolved.get(name)
        expected, self.next_ids[name] = ids_after(before, after, self.next_ids[name], dissolved)
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
            touched = self.tracking.touched(since).tolist()
            found = {frozenset(positions[tree.leaves(v)].tolist()) for v in touched}
            assert found == {members for members, version in self.since.items() if version > since}
            assert len(found) == len(touched)

    @invariant()
    def cuts_are_the_models_own(self):
        if not hasattr(self, "twin"):
            return
        for name, how in CUTS.items():
            if is_followed(how):
                assert same_partition(self.tracking.labels(name), own_labels(self.model, **how))
            members = self.tracking.members(name)
            assert {p: c for c, points in members.items() for p in points.tolist()} == self.clusters[name]

    @invariant()
    def the_automatic_cut_keeps_its_levels(self):
        """No cluster is too high and no two side by side low enough to be one, but for nodes that are exempt."""
        if not hasattr(self, "twin") or self.model.n_leaves_ == 0:
            return
        links, arrays = self.model.growing_tree().links, self.tracking.to_state()[1]
        number = self.tracking["auto"].number
        marks, owners, levels, exempt = (
            arrays[f"cut{number}.{name}"] for name in ("marks", "parts", "levels", "exempt")
        )
        _, internal = links.nodes()
        for v in internal.tolist():
            p, below = links.table[v, PARENT], links.leaves_under(v)
            assert levels[v] == pytest.approx(sum(levels[leaf] for leaf in below), rel=1e-9, abs=1e-9)
            assert arrays["counts"][v] == len(below)
            assert (owners[v] == -1) == (marks[v] == 1)
            if marks[v] == 0:
                assert {owners[leaf] for leaf in below} == {owners[v]}
            is_high = -arrays["scores"][v] > levels[v] / arrays["counts"][v]
            if exempt[v]:
                continue
            if marks[v] == 0 and (p == -1 or marks[p] == 1):
                assert not is_high
            sides = links.table[v, [LEFT, RIGHT]].tolist()
            if marks[v] == 1 and all(side < links.head[OFFSET] or marks[side] == 0 for side in sides):
                assert is_high

    @invariant()
    def points_are_placed_as_predict_does(self):
        if not hasattr(self, "twin") or self.model.n_leaves_ == 0:
            return
        X = np.array([[1, 0.2], [-1, 1], [0.5, 0.5], [3, -2]], np.float32)
        for name, how in CUTS.items():
            if is_followed(how):
                twin = self.twin.model
                expected = twin.set_params(**how).predict(X)
                labels, own = self.tracking.labels(name), twin.labels_
                twin.set_params(n_clusters=None, threshold=None, cut="sizeable")
                id_of = {-1: -1, **dict(zip(own.tolist(), labels.tolist(), strict=True))}
                found = self.tracking.predict(name, X)
                assert found.tolist() == [id_of[label] for label in expected.tolist()]


class FollowingExactly(Following):
    parameters: ClassVar[dict[str, Any]] = {"mode": "exact"}


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=trials(6, 200), stateful_step_count=12, deadline=None)
TestFollowingExactly = FollowingExactly.TestCase
TestFollowingExactly.settings = settings(max_examples=trials(4, 80), stateful_step_count=8, deadline=None)


# A few more -----------------------------------------------------------------------------------------------------------


def steady(before, after):
    """By point, whether its cluster changed by no more than a fifth of its points."""
    is_steady = np.zeros(len(before), np.bool_)
    for cluster in np.unique(before):
        mine = before == cluster
        for other in np.unique(after[mine]):
            theirs = after == other
            is_steady[mine & theirs] = (mine ^ theirs).sum() <= mine.sum() / 5
    return is_steady


def tracked_by_all(model, **more):
    tracking = ClusterTracking(model)
    for name, how in {**CUTS, **more}.items():
        tracking.add(name, **how)
    return tracking


@pytest.mark.parametrize("is_removal", [False, True])
def test_clusters_that_stay_much_the_same_keep_their_ids(is_removal):
    """While digits come on ten days, and while single ones are removed."""
    X = load_digits().data[np.random.default_rng(0).permutation(1797)]
    days = np.array_split(X, 10)
    model = Grinch().partial_fit(X[:600] if is_removal else days[0])
    tracking = tracked_by_all(model, ten={"n_clusters": 10}, close={"threshold": 0.8})
    kept = total = 0
    for version, change in enumerate(range(0, 600, 50) if is_removal else days[1:], 1):
        before = {name: tracking.labels(name) for name in tracking.names}
        at = [model.ids_.index(change)] if is_removal else []
        model.remove([change]) if is_removal else model.partial_fit(change)
        changes = tracking.commit(version)
        for name, old in before.items():
            old = np.delete(old, at)
            now = tracking.labels(name)[: len(old)]
            is_steady = steady(old, now)
            kept, total = kept + (old == now)[is_steady].sum(), total + is_steady.sum()
            changed = {change.cluster for change in changes if change.cut == name}
            assert (old == now)[~np.isin(old, list(changed))].all()
    assert total > 10_000
    assert kept >= (1.0 if is_removal else 0.95) * total


@pytest.mark.parametrize("most", [1, 2**17])
def test_a_tree_that_outgrows_its_room_and_is_put_in_order(monkeypatch, most):
    """Beyond 4,096 points nodes are numbered again, and there is room for more and more points."""
    monkeypatch.setattr(move_log, "MAX_MOVED", most)
    X = np.random.default_rng(1).normal(size=(4600, 3)).astype(np.float32)
    model = Grinch().partial_fit(X[:3900])
    tracking = tracked_by_all(model)
    for version, first in enumerate(range(3900, 4600, 100), 1):
        model.partial_fit(X[first : first + 100])
        if version == 5:
            model.remove(list(range(0, 3000, 7)))
        tracking.commit(version)
        for name, how in CUTS.items():
            if is_followed(how):
                assert same_partition(tracking.labels(name), own_labels(model, **how))
    state, tree = tracking.to_state()[1], model.growing_tree()
    slots, root = tree.slots(), tree.links.head[0]
    assert (state["counts"][slots] == 1).all()
    assert state["counts"][root] == model.n_leaves_
    assert state["keys"][root] == keys_of(tree.positions[slots]).sum()


@pytest.mark.parametrize("case", ["infinitely far apart", "as deep as it has points"])
def test_odd_trees(case):
    if case == "infinitely far apart":
        rows = [(letter,) for letter in "abacadbbccddeeffabcdefzzzzyx" * 5]
        model, first, step = Grinch(infinitely_apart, n_neighbors=4), 70, 10
    else:
        rows = np.cumsum(np.linspace(1, 2, 800))[:, None].astype(np.float32)
        model, first, step = Grinch(metric="euclidean", mode="paper", n_neighbors=3), 700, 20
    tracking = tracked_by_all(model.partial_fit(rows[:first]), apart={"threshold": -50.0})
    for version, start in enumerate(range(first, len(rows), step), 1):
        model.partial_fit(rows[start : start + step])
        tracking.commit(version)
        for name, how in CUTS.items():
            if is_followed(how):
                assert same_partition(tracking.labels(name), own_labels(model, **how))
    tracking.recut(100, tracking.make(["auto"]))
    assert same_partition(tracking.labels("auto"), own_labels(model))
    assert same_partition(tracking.labels("apart"), own_labels(model, threshold=-50.0))


def infinitely_apart(a, b):
    """Groups with nothing in common are infinitely far apart."""
    a, b = {x[0] for x in a}, {x[0] for x in b}
    return len(a & b) / len(a | b) if a & b else -float("inf")


def test_the_resolution_is_kept_until_the_next_recut():
    X = load_digits().data[np.random.default_rng(0).permutation(1797)]
    model = Grinch(metric="cosine").partial_fit(X[:400])
    tracking = ClusterTracking(model)
    tracking.add("auto")
    own = int(own_labels(model).max()) + 1
    assert tracking.would_recut("auto") == Recut(own, own, 1.0)
    assert tracking["auto"].drift == (400, 0, 0, 0, own, own)
    for version, first in enumerate(range(400, 1797, 50), 1):
        model.partial_fit(X[first : first + 50])
        tracking.commit(version, {})
    drift = tracking["auto"].drift
    assert (drift.points, drift.came, drift.left) == (400, 1397, 0)
    assert tracking.due() == ["auto"]
    would = tracking.would_recut("auto")
    assert would.n_clusters == own_labels(model).max() + 1
    assert 0.5 < would.agreement < 1
    before = tracking.labels("auto")
    changes = tracking.recut(100, tracking.make(["auto"]))
    assert changes
    assert tracking.due() == []
    after = tracking.labels("auto")
    expected, _ = ids_after(dict(enumerate(before.tolist())), dict(enumerate(after.tolist())), before.max() + 1)
    assert after.tolist() == list(expected.values())


def test_a_cut_is_made_again_when_a_quarter_of_the_points_changed():
    X = load_digits().data[:300]
    model = Grinch()
    tracking = ClusterTracking(model)
    tracking.add("auto")
    assert tracking.commit(0) == []
    assert tracking.members("auto") == {}
    assert tracking.labels("auto").tolist() == []
    assert tracking.predict("auto", X[:2]).tolist() == [-1, -1]
    assert tracking.touched(0).tolist() == []
    made, changed = [], 0

    def commit(version, n_changing):
        nonlocal changed
        drift = tracking["auto"].drift
        is_other = not 0.8 <= drift.clusters_now / max(drift.clusters, 1) <= 1.25
        is_due = 4 * (changed + n_changing) >= model.n_leaves_
        is_due |= is_other and 16 * (drift.came + drift.left + n_changing) >= model.n_leaves_
        tracking.commit(version)
        assert set(tracking.made) == ({"auto"} if is_due else set())
        if is_due:
            made.append(version)
            assert same_partition(tracking.labels("auto"), own_labels(model))
            assert tracking["auto"].drift[:4] == (model.n_leaves_, 0, 0, 0)
        assert tracking["auto"].drift.clusters_now == len(tracking.members("auto"))
        # With those that went to another cluster.
        changed = tracking["auto"].drift.changed

    for version, x in enumerate(X[:100], 1):
        model.partial_fit([x])
        commit(version, 1)
    assert made[:4] == [1, 2, 3, 4]
    model.remove(list(range(20)))
    commit(101, 20)
    model.update([30, 31], X[200:202])
    commit(102, 2)
    model.partial_fit(X[100:200])
    commit(103, 100)
    assert made[-2:] == [101, 103]


def test_a_cut_of_an_earlier_tree_is_taken_with_what_came_since():
    X = load_digits().data[np.random.default_rng(0).permutation(1797)]
    model = Grinch().partial_fit(X[:900])
    tracking = ClusterTracking(model)
    tracking.add("auto")
    model.partial_fit(X[900:1100])
    tracking.commit(1, {})
    made = tracking.make(["auto"])
    then = own_labels(model)
    model.partial_fit(X[1100:1300])
    tracking.commit(2, {})
    model.remove(list(range(0, 300, 3)))
    model.update(list(range(1, 300, 30)), X[1300:1310])
    tracking.commit(3, {})
    before = tracking.labels("auto")
    changes = tracking.recut(4, made)
    assert {change.kind for change in changes} >= {"born", "split"}
    # In the same clusters as then, but for those that moved; those that came are with those beside them.
    labels, ids = tracking.labels("auto"), np.array(model.ids_)
    stayed = (ids < 1100) & ~np.isin(ids, range(1, 300, 30))
    assert same_partition(labels[stayed], then[ids[stayed]])
    assert np.isin(labels[~stayed], labels[stayed]).mean() > 0.9
    assert tracking["auto"].drift[:4] == (1100, 200, 100, 10)
    assert not same_partition(before, labels)
    assert tracking.due() == ["auto"]
    assert tracking.recut(5, made) == []


def test_a_cut_of_no_point_that_is_there_is_not_taken():
    X = load_digits().data[:200]
    model = Grinch().partial_fit(X[:40])
    tracking = ClusterTracking(model)
    tracking.add("auto")
    assert tracking.still_new(tracking.made) == {}
    tracking.commit(1)
    model.partial_fit(X[40:49])
    tracking.commit(2)
    newer = tracking.make(["auto"])
    assert set(tracking.still_new(newer)) == {"auto"}
    model.partial_fit(X[49:110])
    tracking.commit(3, {})
    assert tracking.still_new(newer) == {}
    tracking.drop("auto")
    assert tracking.still_new(tracking.made) == {}


@pytest.mark.parametrize("n_cuts", [1, 10, 11])
def test_a_cluster_that_comes_back_has_its_id_again(n_cuts):
    """Clusters become one, as some cuts would have it, and several again."""
    rng = np.random.default_rng(0)
    centres = np.repeat([[0, 0], [9, 0], [0, 200]], [60, 40, 100], axis=0)
    model = Grinch().partial_fit(centres + rng.normal(size=centres.shape))
    tracking = ClusterTracking(model)
    tracking.add("auto")

    def cut_as(labels, version):
        """As if this had been the best cut."""
        (made,) = tracking.make(["auto"]).values()
        tracking.recut(version, {"auto": made._replace(clusters=labels)})
        return tracking.labels("auto")

    (made,) = tracking.make(["auto"]).values()
    n_parts = len(made.clusters)
    apart = made.clusters
    first = cut_as(apart, 1)
    assert len(np.unique(first)) > 1
    for version in range(2, 2 + n_cuts):
        assert len(np.unique(cut_as(np.zeros(n_parts, np.int64), version))) == 1
    again = cut_as(apart, 100)
    largest = first == np.bincount(first).argmax()
    np.testing.assert_array_equal(first[largest], again[largest])
    assert (first == again).all() == (n_cuts <= 10)


def test_cuts_come_and_go():
    X = load_digits().data[:100]
    model = Grinch().fit(X)
    tracking = ClusterTracking(model)
    tracking.add("a", n_clusters=5)
    with pytest.raises(ValueError, match="there is a cut called 'a' already"):
        tracking.add("a")
    tracking.drop("a")
    with pytest.raises(KeyError, match="there is no cut called 'a'; there are none"):
        tracking.labels("a")
    tracking.add("a", n_clusters=4)
    assert sorted(tracking.members("a")) == [5, 6, 7, 8]
    assert not [name for name in tracking.to_state()[1] if name.startswith("cut0.")]
    assert tracking.make(["a"]) == {}
    assert tracking.would_recut("a") == Recut(4, 4, 1.0)


def test_what_is_refused():
    X = load_digits().data[:100]
    model = Grinch().fit(X)
    tracking = ClusterTracking(model)
    with pytest.raises(ValueError, match="two ways to cut"):
        tracking.add("a", n_clusters=2, threshold=0.5)
    tracking.add("a", n_clusters=2)
    model.partial_fit(X[:3])
    with pytest.raises(RuntimeError, match="call commit first"):
        tracking.labels("a")
    tracking.commit(1)
    state, arrays = tracking.to_state()
    with pytest.raises(ValueError, match="not the one that was tracked"):
        ClusterTracking.from_state(Grinch().fit(X[:50]), state, arrays)
    with pytest.raises(ValueError, match="format 99"):
        ClusterTracking.from_state(model, {**state, "format": 99}, arrays)
    model.fit(X)
    with pytest.raises(RuntimeError, match="not the one that is tracked"):
        tracking.commit(2)


def test_net_changes_are_those_of_the_clusters_then_and_now(rng, tmp_path):
    sizes, y = {}, rng.permutation(np.repeat(np.arange(8), 40))
    X = 3 * rng.normal(size=(8, 3))[y] + rng.normal(size=(320, 3))
    with grinch.open(tmp_path / "store", linkage="ward", n_clusters=7) as store:
        for first in range(0, 320, 40):
            store.insert(X[first : first + 40])
            if first:
                store.remove(rng.choice(store.ids, 12, replace=False))
            sizes[store.version] = {cluster: len(members) for cluster, members in store.clusters().items()}
        now = sizes[store.version]
        for version, then in sizes.items():
            net = store.net_changes(since=version)
            changed = {cluster for cluster in {*then, *now} if then.get(cluster) != now.get(cluster)}
            assert changed <= {*net.before, *net.sizes}
            assert net.before == {cluster: then[cluster] for cluster in net.before}
            assert net.sizes == {cluster: now[cluster] for cluster in net.sizes}
            told = {change.cluster for change in net.changes} | {
                other for change in net.changes if change.kind in ("split", "merged") for other in change.others
            }
            assert changed <= told
