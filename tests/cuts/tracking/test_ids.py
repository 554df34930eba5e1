"""Which cluster is which: drawn examples, and any tables against plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch.cuts.tracking.identity import Parts, find_changes, match
from partitions import changes_between, groups, ids_after


def after(before, now, next_id=100):
    """``now`` is what clusters of letters there are; returns the ids they get, by letter."""
    labels, _ = ids_after(before, now, next_id)
    assert matched(before, now, next_id) == labels
    return {letter: labels[point] for point, letter in now.items()}


def counted(pairs):
    """Return the first and the second of each different pair, and how often it is there."""
    table = sorted(Counter(pairs).items())
    return np.array([(*pair, count) for pair, count in table], np.int64).reshape(-1, 3).T


def matched(before, now, next_id):
    """The same by the function that is used."""
    letters = sorted(groups(now), key=lambda letter: min(groups(now)[letter]))
    number = {letter: i for i, letter in enumerate(letters)}
    table = counted((before[point], number[now[point]]) for point in before.keys() & now.keys())
    ids = match(*table, np.array([min(groups(now)[letter]) for letter in letters]))
    fresh = np.flatnonzero(ids < 0)
    ids[fresh] = next_id + np.arange(len(fresh))
    return {point: int(ids[number[letter]]) for point, letter in now.items()}


def drawn(text):
    """A drawing: the character under each point is its cluster, a space is no point."""
    return {point: int(c) if c.isdigit() else c for point, c in enumerate(text) if c != " "}


@pytest.mark.parametrize(
    ("before", "now", "ids"),
    [
        pytest.param("11111", "aaabb", {"a": 1, "b": 100}, id="a split cluster continues in its larger part"),
        pytest.param("1111", "baab", {"b": 1, "a": 100}, id="of two halves, in the one with the oldest point"),
        pytest.param("11222", "aaaaa", {"a": 2}, id="merged clusters have the id of the larger part"),
        pytest.param("2211", "aaaa", {"a": 1}, id="of parts of the same size, the smaller id stays"),
        pytest.param("112", "aaabbbbb", {"a": 1, "b": 100}, id="new points give no id"),
        pytest.param("111111", "    ab", {"a": 1, "b": 100}, id="points that were removed do not count"),
        pytest.param("111", "abc", {"a": 1, "b": 100, "c": 101}, id="a third is enough"),
        pytest.param("1111", "abcd", {"a": 100, "b": 101, "c": 102, "d": 103}, id="less than a third is not"),
        pytest.param("1112222", "aabbbbb", {"a": 1, "b": 2}, id="b is mostly 2, and a has most of 1"),
        pytest.param("1122222", "aaaaabb", {"a": 2, "b": 100}, id="a has more of 2 than of 1, so 1 has ended"),
    ],
)
def test_drawn_examples(before, now, ids):
    assert after(drawn(before), drawn(now)) == ids


partitions = st.dictionaries(st.integers(0, 30), st.integers(0, 6))


@given(partitions, partitions)
def test_any_two_partitions(before, after):
    labels, _ = ids_after(before, after, 100)
    assert matched(before, after, 100) == labels
    kept = set(labels.values())
    assert kept <= set(before.values()) | set(range(100, 200))
    # What has the same points has the same id.
    old, new = groups(before), groups(labels)
    for cluster, points in old.items():
        if points in new.values():
            assert new[cluster] == points


@given(partitions, partitions)
def test_any_changes(before, after):
    labels, _ = ids_after(before, after, 100)
    removed = Counter(before[point] for point in before.keys() - labels.keys())
    found = find_changes(Parts(*counted((before.get(point, -1), labels[point]) for point in labels), removed))
    assert len(found) >= len(changes_between(before, labels))
    same = {cluster for cluster, points in groups(before).items() if groups(labels).get(cluster) == points}
    told = {change[:5] for change in found if change.cluster not in same}
    assert told == changes_between(before, labels)
    assert {change.cluster for change in found if change.cluster in same} == set()


@given(partitions.filter(bool), st.data())
def test_to_remove_a_point_renames_nothing(before, data):
    gone = data.draw(st.sampled_from(sorted(before)))
    now = {point: cluster for point, cluster in before.items() if point != gone}
    labels, _ = ids_after(before, now, 100)
    assert labels == now
