"""Grinch as scikit-learn, pandas and stream users meet it."""

from __future__ import annotations

import os
import pickle
import signal
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from effort import at_night
from grinch import HAC, Grinch, Rules
from grinch.core.engine import Engine
from grinch.neighbors import ByKey, ByVector
from grinch.tree.links import NO_LIMIT
from interrupts import interrupting
from refusals import refused


def test_every_kind_of_input_gives_the_same_tree(rng, tmp_path):
    X = rng.integers(0, 5, size=(60, 4))
    expected = Grinch().fit(X).tree_.keys().tolist()
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    frame = pd.DataFrame(X, columns=list("abcd"))
    kinds = {
        "float64": X.astype(np.float64),
        "float16": X.astype(np.float16),
        "uint8": X.astype(np.uint8),
        "list": X.tolist(),
        "fortran": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "memmap": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "pandas": frame,
        "polars": pl.DataFrame(frame.to_dict("list")),
    }
    for kind, data in kinds.items():
        assert Grinch().fit(data).tree_.keys().tolist() == expected, kind
    booleans = X > 2
    assert Grinch().fit(booleans).tree_.to_newick() == Grinch().fit(booleans.astype(float)).tree_.to_newick()


BAD = {
    "nan": ([[1.0, 2.0], [1.0, np.nan]], "X must be finite, but contains NaN in row 1, column 1"),
    "inf": ([[1.0, 2.0], [np.inf, 3.0]], "X must be finite, but contains infinity in row 1, column 0"),
    "width": ([[1.0, 2.0, 3.0]], "X has 3 features, but Grinch is expecting 2 features"),
    "shape": ([1.0, 2.0], "Expected 2D array, got 1D array"),
    "text": ([["a", "b"]], "could not convert string to float|dtype='numeric'"),
    "texts": (["deep tree", "soup"], "got str records such as 'deep tree'.*ake rows of texts with grinch.text.TextVec"),
    "dicts": ([{"a": 1}], "linkage given by name; got dict records such as {'a': 1}.*write a linkage"),
    "empty": (np.empty((0, 2)), r"0 sample\(s\)"),
    "huge": ([[1e30, 1.0]], r"row 0 holds 1e\+30.*cale the data"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_refused_batch_leaves_the_tree_as_it_was(rng, kind):
    X = rng.normal(size=(30, 2))
    data, message = BAD[kind]
    model = Grinch(n_clusters=3).fit(X)
    tree, labels, stats = model.tree_.to_newick(), model.labels_, model.stats_
    for method in (model.partial_fit, model.predict):
        with pytest.raises(ValueError, match=message) as refused:
            method(data)
        assert method == model.partial_fit or "inserted" not in str(refused.value)
    assert model.tree_.to_newick() == tree
    np.testing.assert_array_equal(model.labels_, labels)
    assert model.stats_ == stats
    other = Grinch(n_clusters=3).fit(X)
    assert model.partial_fit(X[:5]).tree_.to_newick() == other.partial_fit(X[:5]).tree_.to_newick()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"linkage": "kosine"}, "linkage must be one of .*did you mean 'cosine'"),
        ({"metric": "cosin"}, "metric must be one of .*did you mean 'cosine'"),
        (
            {"mode": "faster"},
            "mode must be one of 'fast', 'paper', 'authors', 'exact' or rules.*; got 'faster'; did you mean 'fast'",
        ),
        ({"search": "indx"}, "search must be one of .*did you mean 'index'"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1; got 0"),
        ({"n_clusters": 0}, "n_clusters must be a whole number of at least 1; got 0"),
        ({"threshold": "high"}, "threshold must be a number"),
        (
            {"n_clusters": 3, "threshold": 0.5},
            r"two ways to cut: give one of them; got n_clusters=3 and threshold=0\.5",
        ),
        ({"layer": "finest"}, "layer must be one of 'auto', 'fine', 'coarse', or the number of a layer; got 'finest'"),
        ({"layer": True}, "layer must be one of"),
        ({"layer": 1, "n_clusters": 3}, "layer is for the automatic cut; got layer=1 with n_clusters=3"),
        ({"cut": "size"}, "cut must be one of 'sizeable', 'height'; got 'size'"),
        ({"min_cluster_size": 0}, "min_cluster_size must be"),
        ({"mode": Rules(single_search=2)}, "single_search must be True or False; got 2"),
        *(({"refine_passes": n}, "refine_passes must be a whole number of at least 0") for n in (-1, True, 1.5, "two")),
    ],
)
def test_bad_parameters_are_named(given, message):
    model = Grinch(**given)
    refused(message, model.fit, np.eye(4))
    refused("call fit or partial_fit first", lambda: model.tree_, error=NotFittedError)


def test_bad_rules_are_named():
    refused("rotate must be True or False; got 'yes'", Rules.fast, rotate="yes")
    refused(r"a rule must be one of 'cap', .*got 'grafts'; did you mean 'graft'", Rules.exact, grafts=True)
    refused("cap's keys must be one of 'rotate', 'graft', 'restructure'; got 'grafts'", Rules.fast, cap={"grafts": 1})


def test_caps_by_move(rng):
    X = rng.normal(size=(300, 3))
    assert Grinch(mode=Rules.fast(cap={"restructure": 1})).fit(X).stats_["swaps"] == 0
    unlimited = Grinch(mode=Rules.fast(cap=float("inf"))).fit(X).tree_.to_newick()
    assert unlimited == Grinch(mode=Rules.fast(cap=300)).fit(X).tree_.to_newick()
    assert unlimited != Grinch(mode=Rules.fast(cap=2)).fit(X).tree_.to_newick()


def test_a_mode_says_how_many_neighbors_are_searched_unless_they_are_given(rng):
    X = rng.normal(size=(120, 4))

    def searched(**settings):
        return Grinch(**settings).fit(X).engine().search.k

    assert (searched(), searched(mode="paper"), searched(mode="authors"), searched(mode="exact")) == (25, 50, 50, 1)
    assert searched(mode=Rules.paper(pull=True)) == 50
    assert searched(mode="paper", n_neighbors=7) == searched(mode=Rules.fast(n_candidates=7)) == 7
    refused("n_candidates must be a whole number of at least 1; got 0", Rules.fast, n_candidates=0)
    model = Grinch().fit(X[:60]).set_params(n_neighbors=25).partial_fit(X[60:])
    refused("n_neighbors cannot change.*n_neighbors=25, now it is 30", model.set_params(n_neighbors=30).partial_fit, X)


def test_the_papers_mode_has_a_cap_on_rotations_alone():
    """As section 4.2 has it; the script of its authors caps all three moves."""
    paper, authors = Rules.paper(), Rules.authors()
    assert [paper.single_elimination, paper.single_search, paper.pull, paper.uncap_unrelated] == [1, 1, 0, 0]
    assert (paper.rotate_cap, paper.graft_cap, paper.restructure_cap) == (100, NO_LIMIT, NO_LIMIT)
    assert authors == Rules.paper(cap=100)


def test_records_must_be_a_sequence():
    for bad in ("text", {"a": 1}, 7):
        refused("X must be a sequence of records", Grinch(linkage=lambda a, b: 0.0).fit, bad)
    refused("X must hold at least one record; got 0", Grinch(linkage=lambda a, b: 0.0).fit, [])


def test_sparse_that_does_not_fit_says_how_many_bytes(monkeypatch):
    X = scipy.sparse.random_array((1000, 5000), density=0.001, format="csr", rng=0)
    monkeypatch.setattr("grinch.estimators.checks.available_memory", lambda: 10**6)
    refused(r"1,000 x 5,000 would take 40,000,000 bytes, and 1,000,000 are free", HAC().fit, X)


def test_ctrl_c_leaves_a_valid_tree_of_the_points_so_far(rng, monkeypatch):
    """A SIGINT from another thread, wherever a long fit is then."""
    X = rng.normal(size=(60_000, 16))

    def press():
        threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

    monkeypatch.setattr("grinch.progress.progress_bar", interrupting(300, press))
    model = Grinch(mode="exact", n_neighbors=5, verbose=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    monkeypatch.undo()
    model.tree_.check()
    assert 0 < model.n_leaves_ < 60_000
    other = Grinch(mode="exact", n_neighbors=5).fit(X[: model.n_leaves_])
    assert other.tree_.to_newick() == model.tree_.to_newick()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_verbose_shows_rate_and_time_left(blobs, capfd):
    X, _ = blobs
    Grinch(verbose=True).fit(X)
    shown = capfd.readouterr().err
    assert "inserting" in shown
    assert "300 of 300" in shown
    Grinch().fit(X)
    assert capfd.readouterr().err == ""


def test_records_that_a_linkage_refuses_leave_what_was_fitted_before():
    class Lengths(FailsOnce):
        def leaf(self, record):
            return len(record), 1

    model = Grinch(linkage=Lengths()).fit(["a", "bb", "ccc"])
    for method in (model.fit, model.partial_fit):
        refused(r"linkage raised TypeError in leaf\(\)", method, ["dddd", 5])
        assert model.n_leaves_ == 3
    assert model.partial_fit(["dddd"]).n_leaves_ == 4


def test_predict_where_no_candidate_is_named():
    model = Grinch(linkage=lambda a, b: -abs(len(a[0]) - len(b[0])), search=ByKey(lambda t: t[0]), n_clusters=2)
    model.fit(["aa", "ab", "bcd", "bcde"])
    assert model.predict(["axx", "zzz"]).tolist() == [model.labels_[0], -1]


def test_a_shuffled_fit_that_breaks_off_goes_on_soundly():
    def near(a, b):
        if 99 in a + b:
            raise RuntimeError("no")
        return -abs(sum(a) / len(a) - sum(b) / len(b))

    order = np.random.RandomState(0).permutation(10)
    records = [10 * i for i in range(10)]
    records[order[5]] = 99
    for names in (None, [f"r{i}" for i in range(10)]):
        model = Grinch(linkage=near, shuffle=True, random_state=0, n_clusters=2)
        refused("raised RuntimeError", model.fit, records, ids=names)
        made = sorted(order[:5].tolist())
        assert model.ids_ == (list(range(5)) if names is None else [names[i] for i in made])
        model.partial_fit([1000, 1001], ids=None if names is None else ["n1", "n2"])
        assert model.labels_.tolist() == [0, 0, 0, 0, 0, 1, 1]
        assert model.ids_[-2:] == ([5, 6] if names is None else ["n1", "n2"])


def test_labels_handed_out_are_a_copy(blobs):
    X, _ = blobs
    for model in (Grinch(n_clusters=8).fit(X), Grinch().fit(X)):
        most = model.labels_.max()
        model.labels_[:] = 77
        model.layers_[0][:] = 77
        assert model.labels_.max() == most != 77


def test_extreme_values(rng):
    refused("scale the data first", Grinch(metric="dot").fit, np.full((3, 8), np.iinfo(np.int64).min))
    X = np.array([[1, 0], [0, 1], [1, 0.1], [0.1, 1]])
    for scale in (1.0, 1e-15, 1e15):
        assert Grinch(linkage="cosine", n_clusters=2).fit(X * scale).labels_.tolist() == [0, 1, 0, 1]
    assert Grinch(linkage="cosine").fit(X * 1e-30).tree_.n_leaves == 4


class FailsOnce:
    """Closeness of means of numbers, that fails when it is told to."""

    fails = False

    def leaf(self, record):
        return (record, 1)

    def merge(self, a, b):
        return (a[0] + b[0], a[1] + b[1])

    def score(self, a, b):
        if self.fails and (a, b) != (min(a, b), max(a, b)):
            self.fails = False
            raise ZeroDivisionError
        return -abs(a[0] / a[1] - b[0] / b[1])


@pytest.mark.parametrize("mode", ["fast", "exact"])
@pytest.mark.parametrize(
    "source", [ByKey(lambda record: int(record)), ByVector(lambda records: np.c_[records, np.ones(len(records))], n=8)]
)
def test_a_point_that_was_refused_is_nobodys_candidate(rng, mode, source):
    """It hung: points that a search knew of and the tree did not were named as neighbours in a repair."""
    records, linkage = rng.normal(size=120).tolist(), FailsOnce()
    model = Grinch(linkage=linkage, mode=mode, search=source).fit(records[:60])
    linkage.fails = True
    refused("ZeroDivisionError", model.partial_fit, records[60:])
    model.remove(model.ids_[:20]).refine().tree_.check()


def test_a_message_names_points_by_their_positions_whatever_their_slots():
    linkage = FailsOnce()
    model = Grinch(linkage=linkage).fit([5.0, 1.0, 2.0, 9.0])
    linkage.fails = True
    refused(r"for \[0\] and \[\d\]", model.update, [0], [8.0])


def test_scores_may_use_one_array_for_all_answers(rng):
    class Reuses(FailsOnce):
        room = np.empty(1000)

        def scores(self, a, others):
            self.room[: len(others)] = [self.score(a, b) for b in others]
            return self.room[: len(others)]

    records = rng.normal(size=100).tolist()
    trees = [Grinch(linkage=linkage).fit(records).tree_ for linkage in (Reuses(), FailsOnce())]
    assert trees[0].to_newick() == trees[1].to_newick()


@pytest.mark.parametrize("linkage", ["average", at_night("complete")])
def test_a_model_some_of_whose_arrays_are_locked_goes_on(rng, linkage):
    """joblib hands large arrays to its processes as read-only files, and small ones as they are."""
    X, buffers = rng.normal(size=(40, 100)), []
    model = Grinch(linkage=linkage).fit(X)
    pickled = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    largest = max(len(buffer.raw()) for buffer in buffers)
    for least in (0, largest // 4, largest):
        kept = [bytes(each) if len(each.raw()) >= least else bytearray(each) for each in buffers]
        other = pickle.loads(pickled, buffers=kept).partial_fit(X).remove(range(10)).refine()
        same = pickle.loads(pickle.dumps(model)).partial_fit(X).remove(range(10)).refine()
        assert other.tree_.to_newick() == same.tree_.to_newick()


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
def test_ctrl_c_while_gaps_are_closed_waits_for_the_end(form, monkeypatch):
    X = form(np.random.default_rng(0).random((300, 5)) + 0.1)
    model = Grinch(n_clusters=3).fit(X)
    kind = type(model.engine().summaries)
    compact = kind.compact

    def interrupted(self, *arguments):
        os.kill(os.getpid(), signal.SIGINT)
        compact(self, *arguments)

    monkeypatch.setattr(kind, "compact", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.remove(range(200))
    monkeypatch.undo()
    assert model.n_leaves_ == 100
    assert model.partial_fit(X[:50]).n_leaves_ == 150
    model.tree_.check()
    assert len(model.labels_) == 150


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
@pytest.mark.parametrize("names", [None, [f"p{i}" for i in range(60)]])
def test_after_an_update_that_was_broken_off_all_ids_are_known(form, names, monkeypatch):
    X = form(np.random.default_rng(0).random((60, 5)) + 0.1)
    model, insert = Grinch(n_clusters=3).fit(X, ids=names), Engine.insert
    ids = list(model.ids_)

    def broken_off(self, rows, *arguments, **options):
        insert(self, rows[:4], *arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Engine, "insert", broken_off)
    with pytest.raises(KeyboardInterrupt):
        model.update(ids[:10], X[50:])
    monkeypatch.undo()
    assert model.ids_ == ids
    assert model.update(ids[2:4], X[:2]).remove([ids[1], ids[3], ids[59]]).ids_ == [ids[0], ids[2], *ids[4:59]]
    model.tree_.check()
