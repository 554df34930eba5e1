"""Which cluster is which: drawn examples, and any tables against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grinch.cuts.tracking.identity import Parts, find_changes, match
from partitions import changes_between, groups, ids_after


def after(before, now, next_id=100):
    """``now`` is what clusters of letters there are; returns the ids they get, by letter."""
    labels, _ = ids_after(before, now, next_id)
    assert matched(before, now, next_id) == labels
    return {letter: labels[point] for point, letter in now.items()}


def matched(before, now, next_id):
    """The same by the function that is used."""
    letters = sorted(groups(now), key=lambda letter: min(groups(now)[letter]))
    number = {letter: i for i, letter in enumerate(letters)}
    table = {}
    for point in before.keys() & now.keys():
        pair = before[point], number[now[point]]
        table[pair] = table.get(pair, 0) + 1
    pairs = np.array(sorted(table), np.int64).reshape(-1, 2)
    counts = np.array([table[pair] for pair in sorted(table)], np.int64)
    ids = match(pairs[:, 0], pairs[:, 1], counts, np.array([min(groups(now)[letter]) for letter in letters]))
    fresh = np.flatnonzero(ids < 0)
    ids[fresh] = next_id + np.arange(len(fresh))
    return {point: int(ids[number[letter]]) for point, letter in now.items()}


def drawn(text):
    """A drawing: the character under each point is its cluster, a space is no point."""
    return {point: int(c) if c.isdigit() else c for point, c in enumerate(text) if c != " "}


def test_a_split_cluster_lives_on_in_its_larger_part():
    """
    before  1 1 1 1 1
    after   a a a b b      a is 1, b is new
    """
    assert after(drawn("11111"), drawn("aaabb")) == {"a": 1, "b": 100}


def test_of_two_halves_the_one_with_the_oldest_point_is_the_same():
    """
    before  1 1 1 1
    after   b a a b      b is 1
    """
    assert after(drawn("1111"), drawn("baab")) == {"b": 1, "a": 100}


def test_merged_clusters_have_the_id_of_the_larger_part():
    """
    before  1 1 2 2 2
    after   a a a a a      a is 2
    """
    assert after(drawn("11222"), drawn("aaaaa")) == {"a": 2}


def test_of_parts_of_the_same_size_the_smaller_id_stays():
    """
    before  2 2 1 1
    after   a a a a      a is 1
    """
    assert after(drawn("2211"), drawn("aaaa")) == {"a": 1}


def test_new_points_give_no_id():
    """
    before  1 1 2
    after   a a a b b b b b      a is 1, and b, which is all new, is new
    """
    assert after(drawn("112"), drawn("aaabbbbb")) == {"a": 1, "b": 100}


def test_points_that_were_removed_do_not_count():
    """
    before  1 1 1 1 1 1
    after           a b      of the two that are left, a has the oldest
    """
    assert after(drawn("111111"), drawn("    ab")) == {"a": 1, "b": 100}


def test_a_third_is_enough():
    """
    before  1 1 1
    after   a b c      a has a third of 1, and the oldest point
    """
    assert after(drawn("111"), drawn("abc")) == {"a": 1, "b": 100, "c": 101}


def test_less_than_a_third_is_not():
    """
    before  1 1 1 1
    after   a b c d      nothing is 1
    """
    assert after(drawn("1111"), drawn("abcd")) == {"a": 100, "b": 101, "c": 102, "d": 103}


def test_whose_points_went_elsewhere_gets_a_new_id():
    """
    before  1 1 1 2 2 2 2
    after   a a b b b b b      b is mostly 2; and a, with most of 1, is 1
    """
    assert after(drawn("1112222"), drawn("aabbbbb")) == {"a": 1, "b": 2}


def test_the_largest_part_of_another_is_new():
    """
    before  1 1 2 2 2 2 2
    after   a a a a a b b      a has more of 2 than of 1, so 1 is no more
    """
    assert after(drawn("1122222"), drawn("aaaaabb")) == {"a": 2, "b": 100}


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
    table, removed = {}, {}
    for point in before.keys() | labels.keys():
        if point not in labels:
            removed[before[point]] = removed.get(before[point], 0) + 1
        else:
            pair = before.get(point, -1), labels[point]
            table[pair] = table.get(pair, 0) + 1
    pairs = np.array(sorted(table), np.int64).reshape(-1, 2)
    counts = np.array([table[pair] for pair in sorted(table)], np.int64)
    found = find_changes(Parts(pairs[:, 0], pairs[:, 1], counts, removed))
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
