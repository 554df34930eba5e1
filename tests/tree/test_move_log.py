"""The moves of a tree, as several followers read them."""

from __future__ import annotations

import gc
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import trials
from grinch import Tree
from grinch.tree import links as move_log
from grinch.tree.links import MoveLog, swap


class Reader:
    """Someone who follows a tree by its log alone."""


def quartet():
    return Tree.from_merges(np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.9, 0.8, 0.1]))


@settings(max_examples=trials(30, 500))
@given(st.lists(st.sampled_from(["swap", "swap", "one", "other", "lose"]), max_size=30))
def test_each_reads_on_from_where_it_was(steps):
    """By the book: what moved since someone read; None where the log was full, and who was behind then missed it."""
    with mock.patch.object(move_log, "MAX_MOVED", 4):
        links, log, readers = quartet().links, MoveLog(), {"one": Reader(), "other": Reader()}
        assert readers["one"] not in log
        links = log.add(log.add(links, readers["one"], is_current=True), readers["other"], is_current=False)
        assert log.followers() == list(readers.values())
        moved, n_logged = {"one": [], "other": None}, 0
        for turn, step in enumerate(steps):
            if step == "swap":
                pair = (0, 2) if turn % 2 else (1, 3)
                swap(links, *pair)
                moved = {name: None if found is None else [*found, *pair] for name, found in moved.items()}
                n_logged += 2
            elif step == "lose":
                links, moved, n_logged = log.lose(quartet().links), dict.fromkeys(moved), 0
            else:
                log.mark_read(links, readers[step])
                moved = {name: None if n_logged > 4 and found else found for name, found in moved.items()} | {step: []}
                n_logged = n_logged if any(moved.values()) else 0
            for name, found in moved.items():
                unread = log.unread(links, readers[name])
                is_known = found is not None and n_logged <= 4
                assert (unread is not None) == is_known
                assert not is_known or sorted(unread.tolist()) == sorted(found)


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
