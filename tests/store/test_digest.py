"""News: each event once, in words, the most important first; against the clusters then and now."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import grinch
from effort import at_night
from grinch.cuts.tracking import Change
from grinch.store.change_summary import summarize_changes
from grinch.store.digest import make_digest

KINDS = ("born", "dissolved", "split", "merged", "grew", "shrank", "renamed")
TOPICS = {"rain": "rain and wind tomorrow", "food": "boil the pasta", "bank": "transfer money"}


def digest_of(found, limit=10, names=(), typical=5.0):
    net, names = summarize_changes(found), dict(names)
    return make_digest(net, names, lambda some: {c: names.get(c, f"#{c}") for c in some}, (3, 6), 0, typical, limit)


def at(version):
    return partial(Change, version, "default")


FOUND = [
    at(4)("grew", 1, (), 12, 2),
    at(4)("split", 2, (20, 21), 6, 14),
    at(4)("shrank", 2, (20, 21), 6, 14),
    at(4)("born", 20, (2,), 9, 9),
    at(4)("born", 21, (2,), 5, 5),
    at(4)("born", 22, (), 3, 3),
    at(4)("dissolved", 8, (3,), 0, 4),
    at(4)("merged", 3, (8,), 14, 4),
    at(4)("grew", 3, (8,), 14, 4),
    at(5)("shrank", 1, (), 9, 3),
    at(5)("dissolved", 21, (2,), 0, 5),
    at(5)("merged", 2, (21,), 11, 5),
    at(5)("grew", 2, (21,), 11, 5),
    at(5)("dissolved", 9, (21, 20), 0, 7),
    at(5)("grew", 22, (), 5, 2),
    at(5)("grew", 4, (), 8, 1),
    at(6)("shrank", 4, (), 7, 1),
    at(6)("dissolved", 10, (), 0, 1),
    at(6)("grew", 12, (), 90, 74),
    at(6)("renamed", 12, (), 90, 0),
    at(6)("born", 44, (5,), 3, 3),
]


def test_each_event_is_told_once_in_a_sentence():
    digest = digest_of(FOUND, names={9: "cats", 12: "dogs"})
    assert str(digest).splitlines() == [
        "dogs: grew from 16 to 90 points",
        "cats: gone; its 7 points went to “#20” and “#2”",
        "dogs: the name of cluster 12 now, 90 points",
        "#22: new, 5 points",
        "#44: new, 3 points, from “#5”",
        "#3: absorbed “#8” (4); 14 points now",
        "#2: split; “#20” (9) left, 11 points stayed",
        "Other clusters: 1 gone, 1 shrank, 1 exchanged points",
    ]


def test_half_of_the_events_are_of_one_kind_while_there_are_others():
    found = [at(2)("born", cluster, (), 50 - cluster, 50 - cluster) for cluster in range(20)]
    found += [at(2)("grew", 30, (), 90, 60), at(2)("dissolved", 31, (), 0, 9)]
    assert [event.kind for event in digest_of(found, 4).events] == ["new", "new", "grew", "gone"]
    digest = digest_of(found[:20], 4)
    assert [event.cluster for event in digest.events] == [0, 1, 2, 3]
    assert digest.rest == {"new": 16}
    assert str(digest_of(found, 0)) == "Clusters: 20 new, 1 grew, 1 gone"


def test_small_clusters_are_counted_unless_they_have_a_name():
    found = [at(2)("dissolved", cluster, (), 0, 1) for cluster in range(4)]
    digest = digest_of(found, names={2: "rain"})
    assert [event.text for event in digest.events] == ["rain: gone; its only point was removed"]
    assert digest.rest == {"gone": 3}


def test_a_cluster_with_a_name_that_got_a_few_of_many_parts_is_no_news():
    found = [at(2)("dissolved", 7, (8, 9), 0, 60), at(2)("grew", 9, (7,), 50, 2), at(2)("born", 1, (), 90, 90)]
    assert [event.kind for event in digest_of(found, names={9: "rain"}).events] == ["new", "gone"]
    assert [event.kind for event in digest_of(found, names={8: "rain"}).events] == ["gone", "new"]


@pytest.mark.parametrize("limit", [-1, 1.5, "3"])
def test_limits_that_are_none(limit):
    with pytest.raises((ValueError, TypeError), match="limit must be"):
        digest_of(FOUND, limit)


def live(folder, rng, *, is_automatic):
    """Return a store after some days of a random life, and by version its clusters."""
    store = grinch.open(folder, linkage="ward", **({} if is_automatic else {"n_clusters": 6}))
    clusters, centers = {0: {}}, 4 * rng.normal(size=(8, 3))

    def do(change, *arguments, **keywords):
        change(*arguments, **keywords)
        clusters[store.version] = store.clusters()

    for day in range(9):
        which = rng.integers(0, rng.integers(1, 8), 40)
        texts = [{"text": list(TOPICS.values())[k % 3]} for k in which]
        do(store.insert, centers[which] + rng.normal(size=(40, 3)), payload=texts)
        if day:
            do(store.remove, rng.choice(store.ids, rng.integers(1, len(store) // 2), replace=False))
        if day % 3 == 1:
            do(store.update, store.ids[:5], 4 * rng.normal(size=(5, 3)))
            do(store.label, int(store.labels()[0]), f"topic {day}")
        if is_automatic and day % 4 == 3:
            do(store.recut)
    return store, clusters


@pytest.fixture(scope="module", params=[("n_clusters", 5), ("automatic", 8), at_night(("automatic", 9))])
def grown(request, tmp_path_factory):
    """A store after some days, and by version its clusters."""
    kind, seed = request.param
    rng, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("digest") / "store"
    store, clusters = live(folder, rng, is_automatic=kind == "automatic")
    with store:
        if seed == 8:  # some clusters of this one come back
            ever = [set().union(*(clusters[v] for v in range(version))) for version in range(1, store.version + 1)]
            assert any(clusters[v].keys() - clusters[v - 1].keys() & ever[v - 1] for v in range(1, store.version + 1))
        yield store, clusters


def test_every_point_that_moves_is_told_once_on_either_side(grown):
    """Against the points of the clusters before and after each version."""
    store, clusters = grown
    found = store.changes()
    for version in range(1, store.version + 1):
        before, now = ({c: set(own) for c, own in clusters[v].items()} for v in (version - 1, version))
        told = {(change.kind, change.cluster): change for change in found if change.version == version}
        assert len(told) == sum(change.version == version for change in found)
        assert {kind for kind, _ in told} <= set(KINDS)
        count = {key: change.count for key, change in told.items()}
        parts = [other for (kind, _), change in told.items() for other in change.others if kind == "split"]
        eaten = [other for (kind, _), change in told.items() for other in change.others if kind == "merged"]
        born = [cluster for kind, cluster in told if kind == "born"]
        gone = [cluster for kind, cluster in told if kind == "dissolved"]
        assert sorted(born + parts) == sorted(now.keys() - before.keys())
        assert sorted(gone + eaten) == sorted(before.keys() - now.keys())
        for (kind, cluster), change in told.items():
            assert cluster in before or kind in ("born", "renamed")
            assert change.size == len(now.get(cluster, ()))
            if kind == "born":
                assert change.count == change.size
            if kind == "dissolved":
                assert change.count == len(before[cluster])
            if kind == "split":
                assert change.count == len(before[cluster] & set().union(*(now[other] for other in change.others)))
            if kind == "merged":
                assert change.count == len(now[cluster] & set().union(*(before[other] for other in change.others)))
        for cluster in before.keys() & now.keys():
            came, left = len(now[cluster] - before[cluster]), len(before[cluster] - now[cluster])
            assert came == count.get(("merged", cluster), 0) + count.get(("grew", cluster), 0)
            assert left == count.get(("split", cluster), 0) + count.get(("shrank", cluster), 0)


def test_net_changes_lead_from_the_clusters_then_to_those_now(grown):
    store, clusters = grown
    for since, then in clusters.items():
        for until in range(since, store.version + 1, 3):
            now, net = clusters[until], store.net_changes(since, until=until)
            told = {(change.kind, change.cluster) for change in net.changes}
            assert len(told) == len(net.changes)
            others = {
                kind: [o for c in net.changes if c.kind == kind for o in c.others] for kind in ("split", "merged")
            }
            born = [cluster for kind, cluster in told if kind == "born"] + others["split"]
            gone = [cluster for kind, cluster in told if kind == "dissolved"] + others["merged"]
            assert sorted(born) == sorted(now.keys() - then.keys())
            assert sorted(gone) == sorted(then.keys() - now.keys())
            for change in net.changes:
                assert change.size == len(now.get(change.cluster, ()))
                if change.kind in ("grew", "shrank"):
                    assert abs(len(now[change.cluster]) - len(then[change.cluster])) == change.count > 0
                if change.kind == "exchanged":
                    assert len(now[change.cluster]) == len(then[change.cluster])
                    assert change.count
            named = {change.cluster for change in net.changes}.union(*(change.others for change in net.changes))
            assert {c for c in then.keys() & now.keys() if len(then[c]) != len(now[c])} <= named


def test_a_digest_is_of_the_clusters_then_and_now(grown):
    store, clusters = grown
    now = clusters[store.version]
    for since, then in clusters.items():
        digest = store.digest(since, limit=100)
        assert digest.n_new == int((store.arrived() > since).sum())
        for event in digest.events:
            assert event.size == len(now.get(event.cluster, ()))
            assert event.before == len(then.get(event.cluster, ()))
            assert event.text.startswith(event.title)
            assert (event.kind == "gone") == (event.cluster not in now)
            if event.kind == "grew":
                assert event.size >= 1.5 * event.before
        told = {(event.kind, event.cluster) for event in digest.events}
        assert len(told) == len(digest.events)
        # Nothing is lost: what is not told is counted, and neither depends on the limit.
        short = store.digest(since, limit=2)
        assert len(short.events) == min(2, len(digest.events))
        total = [len(found.events) + sum(found.rest.values()) for found in (digest, short)]
        assert total[0] == total[1]


def test_topics_are_told_by_their_words_and_names(tmp_path):
    rows, texts = np.repeat(np.eye(3) * 9, 10, axis=0), np.repeat(list(TOPICS.values()), 10)
    with grinch.open(tmp_path / "store", n_clusters=3) as store:
        store.insert(rows + np.random.default_rng(0).normal(size=rows.shape), payload=texts.tolist())
        titles = {event.title for event in store.digest().events}
        assert titles == {"rain, tomorrow, wind", "boil, pasta", "money, transfer"}
        store.label(int(store.labels()[0]), "weather")
        assert (
            store.digest(since=1).events[0].text == f"weather: the name of cluster {store.labels()[0]} now, 10 points"
        )
        assert "weather" in {event.title for event in store.digest().events}
        assert str(store.digest(since=store.version)) == "The clusters are the same"
        with pytest.raises(ValueError, match="cut must be"):
            store.digest(cut="none")


def test_without_texts_topics_have_numbers(tmp_path):
    with grinch.open(tmp_path / "store", n_clusters=2) as store:
        store.insert(np.repeat(np.eye(2), 4, axis=0))
        assert sorted(event.text for event in store.digest().events) == [f"cluster {i}: new, 4 points" for i in (0, 1)]
