"""The navigable small world, against a graph in plain Python and against brute force."""

from __future__ import annotations

import copy
import itertools
import pickle
import threading

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import grinch
from dense_linkages import OF_EACH_METRIC, summaries_of
from grinch import Grinch
from grinch.errors import LinkageError, SavedModelError
from grinch.linkage.base import FunctionLinkage
from grinch.linkage.named import linkage_of
from grinch.neighbors import make_search, nsw, search_of_state
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.nsw import NswSearch
from grinch.neighbors.scan import ScanSearch
from grinch.neighbors.sparse import SparseSearch
from grinch.summaries import RecordSummaries, SparseSummaries
from grinch.summaries.arrays import SCORES
from sparse_data import sparse_groups


def stream(search, start, stop, limit=None):
    return np.vstack([part.candidates for part in search.stream(start, stop, limit)])


def recall(exact, found):
    return np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)])


def blobs(rng, n, n_features=16, n_blobs=50):
    centres = rng.normal(size=(n_blobs, n_features))
    return centres[rng.integers(0, n_blobs, n)] + 0.3 * rng.normal(size=(n, n_features))


def gap(a, b):
    return -abs(sum(a) / len(a) - sum(b) / len(b))


def records_of(values):
    store = RecordSummaries(FunctionLinkage(gap))
    store.grow(len(values))
    store.write(0, values)
    return store


# A graph in plain Python ----------------------------------------------------------------------------------------------


class World:
    """What the module says it does, with sets and dicts."""

    def __init__(self, values, k, links, beam, starts, seed, exact_up_to, into):
        self.values, self.k, self.links, self.width = values, k, links, max(k, links, beam)
        self.starts, self.seed, self.exact_up_to = starts, seed, exact_up_to
        self.near, self.gone, self.into = {}, set(), into

    def draws(self, limit):
        state, found = limit + self.seed, [limit - 1]
        for _ in range(self.starts):
            state = state * nsw.FACTOR % nsw.PRIME
            found.append(state % limit)
        return [found[0], *found[2:]][:limit]

    def around(self, x, limit, seen):
        found = [y for y in self.near[x] if self.may(y, limit, seen)]
        into = sorted((y for y in self.near if x in self.near[y] and self.may(y, limit, seen)), reverse=True)
        return found + [y for y in into if y not in found][: self.into]

    def may(self, y, limit, seen):
        return y is not None and y < limit and y not in self.gone and y not in seen

    def find(self, x, limit):
        seen, done, best = {x}, set(), []

        def ask(names):
            seen.update(names)
            best.extend((gap([self.values[x]], [self.values[y]]), -y) for y in names)
            best.sort(reverse=True)
            del best[self.width :]

        alive = [y for y in range(limit) if y not in self.gone]
        if limit <= self.exact_up_to:
            ask([y for y in alive if y != x])
            return [-y for _, y in best]
        starts = self.around(x, limit, seen) if x in self.near else []
        for drawn in self.draws(limit) if alive else []:
            start = min(alive, key=lambda y: (y - drawn) % limit)
            if start not in starts and start not in seen:
                starts.append(start)
        ask(starts)
        while left := [-y for _, y in best if -y not in done]:
            done.add(left[0])
            ask(self.around(left[0], limit, seen))
        return [-y for _, y in best]

    def enter(self, x):
        found = self.find(x, x)
        self.near[x] = (found + [None] * self.links)[: self.links]
        return found[: self.k]

    def take_out(self):
        heirs = {}
        for x in sorted(self.near):
            row = []
            for y in self.near[x]:
                while y in self.gone and y != x:
                    y = heirs.setdefault(y, x)
                row.append(y if y != x and y not in row else None)
            self.near[x] = row
            if x in self.gone and any(y is not None for y in row):
                heirs.setdefault(x, next(y for y in row if y is not None))
        for x in self.gone & self.near.keys():
            del self.near[x]


class Worlds(RuleBasedStateMachine):
    """Points come, go and are looked up; now and then the gaps are closed, and the search is saved."""

    def __init__(self):
        super().__init__()
        self.values, self.count, self.compactions = [0] * 400, 0, 0
        self.store = records_of(self.values)
        settings = {"exact_up_to": 5, "links": 3, "beam": 6, "starts": 2, "seed": 11, "into": 4}
        self.search = NswSearch(self.store, 4, **settings)
        self.world = World(self.values, 4, **settings)

    def padded(self, found):
        return [*found, *[-1] * 4][:4]

    @rule(values=st.lists(st.integers(0, 60), min_size=1, max_size=25))
    def insert(self, values):
        start, self.count = self.count, self.count + len(values)
        if self.count > 390:
            self.count = start
            return
        self.values[start : self.count] = values
        self.store.write(start, values)
        self.world.take_out()
        expected = [self.padded(self.world.enter(x)) for x in range(start, self.count)]
        assert stream(self.search, start, self.count).tolist() == expected

    @precondition(lambda self: len(self.world.near) > 3)
    @rule(data=st.data())
    def remove(self, data):
        there = sorted(self.world.near.keys() - self.world.gone)
        some = data.draw(st.lists(st.sampled_from(there), min_size=1, max_size=15, unique=True)) if there else []
        self.world.gone.update(some)
        self.store.set_gone(np.array(some, np.intp), True)
        self.search.changed(np.array(some, np.intp))
        for (_, found), x in zip(self.search.nearest(np.array(some[:1], np.intp), self.count), some[:1], strict=True):
            assert found.tolist() == [self.padded(self.world.find(x, self.count))]
        self.store.drop(np.array(some, np.intp))

    @precondition(lambda self: self.count)
    @rule(value=st.integers(0, 60))
    def look_up(self, value):
        self.values[self.count] = value
        self.store.write(self.count, [value])
        expected = [self.padded(self.world.find(self.count, self.count))]
        assert stream(self.search, self.count, self.count + 1, self.count).tolist() == expected
        assert self.search.find(self.store.arrays, np.array([self.count]), self.count).tolist() == expected

    @rule()
    def save(self):
        self.search = search_of_state(self.search.to_state(), self.store, ())
        self.search.validate()

    @precondition(lambda self: self.world.gone and len(self.world.near.keys() - self.world.gone) > 0)
    @rule()
    def compact(self):
        self.world.take_out()
        leaves = np.array(sorted(self.world.near), np.intp)
        number = {old: new for new, old in enumerate(leaves.tolist())} | {None: None}
        self.store.compact(leaves, leaves[:0], 400)
        self.search.compacted(leaves)
        self.values[: len(leaves)] = [self.values[x] for x in leaves]
        self.count, self.world.gone = len(leaves), set()
        self.world.near = {number[x]: [number[y] for y in near] for x, near in self.world.near.items()}
        rows = [[-1 if y is None else y for y in self.world.near[x]] for x in range(self.count)]
        assert self.search.to_state()["near"].tolist() == rows


TestWorlds = Worlds.TestCase


# What is found --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("linkage", OF_EACH_METRIC, ids=lambda linkage: linkage.metric)
def test_recall(rng, linkage):
    store = summaries_of(blobs(rng, 4000), linkage)
    exact, search = stream(ExactSearch(store, 10), 0, 4000), NswSearch(store, 10)
    found = stream(search, 0, 4000)
    assert recall(exact[500:], found[500:]) > 0.9
    assert store.arrays.counts[SCORES] < 4000 * 800
    near = np.vstack([part.candidates for part in search.nearest(np.arange(500), 4000)])
    around = np.vstack([part.candidates for part in ExactSearch(store, 10).nearest(np.arange(500), 4000)])
    assert recall(around, near) > 0.9


def test_recall_on_sparse_rows():
    X = sparse_groups(2000)
    store = SparseSummaries(linkage_of("average", "cosine"), X.shape[1])
    store.grow(2000)
    store.take_all(0, X)
    exact, found = (stream(each, 0, 2000) for each in (SparseSearch(store, 5, most_points=10**6), NswSearch(store, 5)))
    rows = np.arange(500, 2000)[np.diff(X.indptr)[500:] > 0]
    assert recall(exact[rows], found[rows]) > 0.9


@pytest.mark.parametrize("order", ["sorted", "copies"])
def test_points_that_come_by_cluster_and_copies(rng, order):
    X = blobs(rng, 3000)
    X = X[np.argsort(X[:, 0])] if order == "sorted" else np.repeat(X[:100], 30, axis=0)[rng.permutation(3000)]
    store = summaries_of(X)
    exact, found = (stream(each, 0, 3000) for each in (ExactSearch(store, 10), NswSearch(store, 10)))
    # By distance: of many copies any is as good as another.
    far = [np.linalg.norm(X[near] - X[:, None], axis=2)[500:].mean() for near in (exact, found)]
    assert far[1] < far[0] + 0.05
    assert store.arrays.counts[SCORES] < 3000 * 1000


@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_points(rng, n):
    search = NswSearch(summaries_of(rng.normal(size=(n, 3))), 4)
    assert stream(search, 0, n).tolist() == [[-1] * 4, [0, -1, -1, -1]][:n]


def test_where_the_middle_of_a_star_is_gone(rng):
    """Copies are linked to the first of them alone; without these, they still find each other."""
    store = summaries_of(np.tile(rng.normal(size=(1, 4)), (500, 1)))
    search = NswSearch(store, 5)
    stream(search, 0, 400)
    store.set_gone(np.arange(100), True)
    search.changed(np.arange(100))
    assert (stream(search, 400, 500) >= 100).all()


def test_recall_after_removals(rng):
    store = summaries_of(blobs(rng, 4000))
    search = NswSearch(store, 10)
    stream(search, 0, 3500)
    gone = rng.permutation(3500)[:2000]
    store.set_gone(gone, True)
    search.changed(gone)
    found, exact = stream(search, 3500, 4000), stream(ExactSearch(store, 10), 3500, 4000)
    assert not np.isin(found, gone).any()
    assert recall(exact, found) > 0.9


# The same, whatever happens -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 300])
def test_the_same_for_any_chunking(rng, chunk):
    store = summaries_of(blobs(rng, 1000, 9))
    whole, search = NswSearch(store, 10), NswSearch(store, 10)
    expected = stream(whole, 0, 1000)
    cuts = [*range(0, 1000, chunk), 1000]
    np.testing.assert_array_equal(np.vstack([stream(search, a, b) for a, b in itertools.pairwise(cuts)]), expected)


def test_the_same_seed_finds_the_same(rng):
    store = summaries_of(rng.normal(size=(2000, 16)))
    found = [stream(NswSearch(store, 10, beam=10, links=4, seed=seed), 0, 2000) for seed in (3, 3, 4)]
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).any()


@pytest.mark.parametrize("again", [lambda search: pickle.loads(pickle.dumps(search)), copy.deepcopy])
def test_the_same_after_a_round_trip(rng, again):
    store = summaries_of(blobs(rng, 1500))
    search = NswSearch(store, 5)
    stream(search, 0, 1000)
    search.changed(np.arange(0, 900, 3))
    store.set_gone(np.arange(0, 900, 3), True)
    search.changed(np.arange(0, 900, 3))
    np.testing.assert_array_equal(stream(again(search), 1000, 1500), stream(search, 1000, 1500))


def test_points_that_never_came_are_forgotten(rng):
    X = blobs(rng, 1500)
    store = summaries_of(X)
    search = NswSearch(store, 5)
    parts = search.stream(0, 1500)
    stop = [next(parts) for _ in range(4)][2].start
    parts.close()
    store.write(stop, blobs(rng, 1500 - stop))
    np.testing.assert_array_equal(stream(search, stop, 1500), stream(NswSearch(store, 5), 0, 1500)[stop:])


def test_a_view_finds_what_it_found_whatever_the_search_does(rng):
    store = summaries_of(blobs(rng, 3000))
    search, slots = NswSearch(store, 5), np.arange(2900, 3000)
    stream(search, 0, 1000)
    twin = search.frozen(store.frozen(), 1000)
    expected = twin.find(twin.summaries.arrays, slots, 1000)
    np.testing.assert_array_equal(search.find(store.arrays, slots, 1000), expected)
    wrong, is_over = [], threading.Event()

    def read():
        while not is_over.is_set():
            wrong.append((twin.find(twin.summaries.arrays, slots, 1000) != expected).any())

    reader = threading.Thread(target=read)
    reader.start()
    for start in range(1000, 2800, 200):
        gone = np.arange(start - 1000, start - 950)
        store.set_gone(gone, True)
        search.changed(gone)
        stream(search, start, start + 200)
    is_over.set()
    reader.join()
    assert wrong
    assert not any(wrong)


DAMAGE = {
    "a later one": lambda state: state["near"].__setitem__((3, 0), 3),
    "was never there": lambda state: state.update(gone=np.array([5000])),
    "not those of the points": lambda state: state.update(entered=7),
    "nothing is looked at": lambda state: state.update(beam=0),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_refused(rng, what):
    store = summaries_of(blobs(rng, 50))
    search = NswSearch(store, 5)
    stream(search, 0, 50)
    state = copy.deepcopy(search.to_state())
    DAMAGE[what](state)
    with pytest.raises(SavedModelError, match=what):
        search_of_state(state, store, ())


# In models ------------------------------------------------------------------------------------------------------------


def common(a, b):
    """The share of letter pairs that two groups of words have in common."""
    ours, others = ({word[i : i + 2] for word in words for i in range(len(word) - 1)} for words in (a, b))
    return len(ours & others) / max(len(ours | others), 1)


def words(rng, n):
    roots = ["".join(rng.choice(list("abcdefgh"), 7)) for _ in range(20)]
    return [root[:i] + rng.choice(list("abcdefgh")) + root[i:] for root in rng.choice(roots, n) for i in (3,)]


def newick(model):
    return model.tree_.to_newick(lengths=False)


@pytest.mark.parametrize("kind", ["vectors", "records"])
def test_a_life_in_batches_one_by_one_and_with_files(rng, kind, tmp_path):
    rows = blobs(rng, 260) if kind == "vectors" else words(rng, 260)
    linkage = "average" if kind == "vectors" else common
    grown = []
    for chunk in (200, 1, 37):
        model = Grinch(linkage=linkage, search="nsw")
        for start in range(0, 200, chunk):
            model.partial_fit(rows[start : min(start + chunk, 200)])
            if chunk == 37:
                model.save(tmp_path / "model.grinch")
                model = grinch.load(tmp_path / "model.grinch")
        model.remove(np.arange(0, 150, 2))
        if chunk == 37:
            model.save(tmp_path / "model.grinch")
            model = grinch.load(tmp_path / "model.grinch")
        model.update([1, 3], rows[200:202])
        model.partial_fit(rows[202:])
        model.remove(np.arange(5, 130, 2)).refine()
        grown.append(newick(model))
        assert len(model.ids_) == 260 - 2 - 75 - 63
    assert grown[0] == grown[1] == grown[2]


@pytest.mark.parametrize("linkage", ["average", common])
def test_prediction_does_not_depend_on_what_else_is_asked(rng, linkage):
    rows = words(rng, 300) if linkage is common else blobs(rng, 300)
    model = Grinch(linkage=linkage, n_clusters=10, search="nsw").fit(rows[:250])
    assert model.predict(rows[250:]).tolist() == [model.predict([row])[0] for row in rows[250:]]
    assert model.predict(rows[:50]).tolist() == model.labels_[:50].tolist()


def test_auto_takes_it_for_many_records(rng, monkeypatch):
    monkeypatch.setattr("grinch.neighbors.choice.RECORDS_EXACT_UP_TO", 100)
    rows = words(rng, 400)
    few, exact = (Grinch(linkage=common, search=search).fit(rows[:101]) for search in ("auto", "exact"))
    assert newick(few) == newick(exact)
    assert few.stats_ == exact.stats_
    few.partial_fit(rows[101:])
    exact.partial_fit(rows[101:])
    assert few.stats_["scores"] < exact.stats_["scores"]
    store = records_of([1])
    kinds = {search: type(make_search(search, store, 5)) for search in ("auto", "nsw", "exact")}
    assert kinds == {"auto": NswSearch, "nsw": NswSearch, "exact": ScanSearch}
    # Grafts that search again ask about all records.
    assert type(make_search("auto", store, 1, at_once=False)) is ScanSearch


def test_a_linkage_that_fails_leaves_what_came_before(rng):
    rows = words(rng, 60)

    def failing(a, b):
        if is_failing and rows[50] in a + b:
            raise RuntimeError("no more")
        return common(a, b)

    is_failing = True
    model, other = Grinch(linkage=failing, search="nsw"), Grinch(linkage=common, search="nsw")
    with pytest.raises(LinkageError, match=r"no more"):
        model.fit(rows[:1]).partial_fit(rows[1:])
    assert len(model.ids_) == rows.index(rows[50])
    is_failing = False
    model.partial_fit(rows[len(model.ids_) :])
    assert newick(model) == newick(other.fit(rows))
