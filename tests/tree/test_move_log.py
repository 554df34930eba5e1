"""The moves of a tree, as several followers read them."""

from __future__ import annotations

import gc

import numpy as np

from grinch import Tree
from grinch.tree import links as move_log
from grinch.tree.links import MoveLog, swap


class Reader:
    """Someone who follows a tree by its log alone."""


def quartet():
    return Tree.from_merges(np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.9, 0.8, 0.1]))


def test_each_reads_on_from_where_it_was():
    links, log, one, other = quartet().links, MoveLog(), Reader(), Reader()
    assert one not in log
    links = log.add(log.add(links, one, is_current=True), other, is_current=False)
    assert log.followers() == [one, other]
    assert log.unread(links, one).tolist() == []
    assert log.unread(links, other) is None
    log.mark_read(links, other)
    swap(links, 0, 2)
    assert sorted(log.unread(links, one).tolist()) == [0, 2]
    log.mark_read(links, one)
    swap(links, 1, 3)
    assert sorted(log.unread(links, one).tolist()) == [1, 3]
    assert sorted(log.unread(links, other).tolist()) == [0, 1, 2, 3]
    for reader in (one, other):
        log.mark_read(links, reader)
        assert log.unread(links, reader).tolist() == []


def test_who_falls_behind_has_to_look_at_everything(monkeypatch):
    monkeypatch.setattr(move_log, "MAX_MOVED", 4)
    links, log, one, other = quartet().links, MoveLog(), Reader(), Reader()
    links = log.add(log.add(links, one, is_current=True), other, is_current=True)
    for _ in range(3):
        swap(links, 0, 2)
        log.mark_read(links, one)
    assert log.unread(links, one).tolist() == []
    assert log.unread(links, other) is None
    log.mark_read(links, other)
    swap(links, 0, 2)
    assert len(log.unread(links, one)) == len(log.unread(links, other)) == 2


def test_other_arrays_are_looked_at_by_all():
    links, log, one = quartet().links, MoveLog(), Reader()
    log.add(links, one, is_current=True)
    links = log.lose(quartet().links)
    assert log.unread(links, one) is None
    log.mark_read(links, one)
    swap(links, 0, 2)
    assert len(log.unread(links, one)) == 2


def test_who_is_gone_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(move_log, "MAX_MOVED", 4)
    links, log, one, other = quartet().links, MoveLog(), Reader(), Reader()
    links = log.add(log.add(links, one, is_current=True), other, is_current=True)
    del other
    gc.collect()
    assert log.followers() == [one]
    for _ in range(9):
        swap(links, 0, 2)
        assert len(log.unread(links, one)) == 2
        log.mark_read(links, one)
