"""What happened to the clusters, and when."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import grinch
from grinch import Grinch
from grinch.serve.backend import StoreBackend
from grinch.serve.model_backend import ModelBackend
from grinch.serve.views import history
from grinch.serve.views.viewer import Viewer
from serve.looked import news, now, points


@pytest.fixture
def store(tmp_path):
    with grinch.open(tmp_path / "store", n_clusters=4) as store:
        for seed in range(4):
            X, payload = news(30, seed)
            store.insert(X, ids=[f"s{seed}x{i}" for i in range(30)], payload=payload)
        store.remove(["s0x1", "s1x1"])
        store.label(int(store.labels()[0]), "first")
        yield store


def said(answer):
    return [change["text"] for change in answer["changes"]]


def told(store, since, cut="default"):
    return [event.text for event in store.digest(since, history.MAX_EVENTS, cut).events]


@pytest.mark.parametrize("since", [None, 0, 1, 3, 5, 6])
def test_changes_are_the_digest_of_the_store(store, since):
    answer, digest = Viewer(StoreBackend(store)).changes(since), store.digest(since or 0, history.MAX_EVENTS)
    assert said(answer) == [event.text for event in digest.events]
    assert (answer["version"], answer["since"], answer["rest"]) == (6, since or 0, digest.rest)
    assert answer["new_points"] == int((store.arrived() > (since or 0)).sum())


def test_changes_lead_to_the_clusters_there_are(store):
    viewer = Viewer(StoreBackend(store))
    clusters, scene, ids = store.clusters(), viewer.scene, store.ids
    for change in viewer.changes()["changes"] + viewer.changes(1)["changes"]:
        if change["cluster"] in clusters:
            leaves = scene.leaves(change["node"]).tolist()
            assert {ids[leaf] for leaf in leaves} == set(clusters[change["cluster"]])
            assert change["start"] == scene.starts[change["node"]]
        else:
            assert (change["node"], change["start"]) == (None, None)


def test_changes_of_another_cut(store):
    store.add_cut("coarse", n_clusters=2)
    viewer = Viewer(StoreBackend(store))
    assert said(viewer.changes(0, cut="cut:coarse")) == told(store, 0, "coarse")
    # Of cuts that are not followed nothing is known: the default is what happened.
    for cut in ("k:3", "auto", "", None, "layer:0"):
        assert said(viewer.changes(0, cut=cut)) == told(store, 0)
    with pytest.raises(ValueError, match="cut must be"):
        viewer.changes(0, cut="cut:none")


def test_since_the_beginning_of_a_day(store, monkeypatch):
    day = datetime.datetime(2026, 11, 15).timestamp()
    times = {1: day - 90_000, 2: day - 1, 3: day, 4: day + 5, 5: day + 90_000, 6: day + 90_001}
    monkeypatch.setattr("grinch.store.queries.View.times", lambda _: times)
    viewer = Viewer(StoreBackend(store))
    for given, since in {"2026-11-13": 0, "2026-11-14": 1, "2026-11-15": 2, "2026-11-16": 4, "2030-01-01": 6}.items():
        answer = viewer.changes(day=given)
        assert answer["since"] == since
        assert said(answer) == told(store, since)
    assert viewer.changes(day="2026-11-15T00:00:03")["since"] == 3


@pytest.mark.parametrize("day", ["", "yesterday", "2026-13-01", "99999-01-01", "x" * 999])
def test_what_is_no_day_is_refused(store, day):
    with pytest.raises(ValueError, match="day must be a date such as 2026-11-15; got"):
        Viewer(StoreBackend(store)).changes(day=day)


@pytest.mark.parametrize("since", [-5, 10**12])
def test_versions_there_were_none_of(store, since):
    answer = Viewer(StoreBackend(store)).changes(since)
    assert answer["since"] == (0 if since < 0 else 6)


def test_a_store_whose_points_are_all_gone(store):
    store.remove(store.ids)
    answer = Viewer(StoreBackend(store)).changes(6)
    assert answer["new_points"] == 0
    assert {change["kind"] for change in answer["changes"]} == {"gone"}


def test_an_empty_store(tmp_path):
    with grinch.open(tmp_path / "store") as store:
        viewer = Viewer(StoreBackend(store))
        assert viewer.changes()["changes"] == []
        assert viewer.versions() == {"versions": []}


def test_models_have_no_history():
    viewer = Viewer(ModelBackend(Grinch().fit(points(20)[0])))
    assert viewer.changes()["changes"] == []
    assert viewer.versions() == {"versions": []}


def test_versions_with_their_times(store):
    viewer = Viewer(StoreBackend(store))
    found = viewer.versions()["versions"]
    assert {entry["version"]: entry["time"] for entry in found} == store.times()
    store.insert(np.ones((1, 5), np.float32), ids=["later"])
    assert viewer.versions()["versions"] == found
    assert now(viewer).versions()["versions"][-1]["version"] == 7


def test_many_versions_are_thinned_out(store, monkeypatch):
    monkeypatch.setattr(history, "MAX_VERSIONS", 3)
    found = [entry["version"] for entry in Viewer(StoreBackend(store)).versions()["versions"]]
    assert found[-1] == 6
    assert len(found) <= 4
    assert found == sorted(set(found))
