"""Threads at a gate: who is inside, who waits for whom, and who is given what was published instead."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from grinch.store.lock import Gate
from threads import SECONDS, Call, wait_until


@pytest.fixture
def gate():
    return Gate()


def queued(gate, n):
    """Wait until this many threads wait at a gate."""
    wait_until(lambda: len(gate._queue) == n)


def read(gate, *accepts):
    with gate.reading(*accepts) as view:
        return view


@contextmanager
def occupied(gate, *views):
    """Somebody else is inside, and has published something."""
    entered, leave = threading.Event(), threading.Event()

    def stay():
        with gate.inside():
            for view in views:
                gate.publish(view)
            entered.set()
            assert leave.wait(SECONDS)

    writer = Call(stay)
    assert entered.wait(SECONDS)
    try:
        yield
    finally:
        leave.set()
        writer.result()


def test_they_are_let_in_as_they_came(gate):
    order = []

    def enter(number, kind):
        with kind() as view:
            assert view is None
            assert gate.is_ours
            order.append(number)

    with gate.inside():
        calls = []
        for number, kind in enumerate([gate.inside, gate.reading, gate.reading, gate.inside, gate.inside] * 2):
            calls.append(Call(lambda number=number, kind=kind: enter(number, kind)))
            queued(gate, number + 1)
        assert order == []
    for call in calls:
        call.result()
    assert order == list(range(10))


def test_one_at_a_time(gate):
    inside, most = [], []

    def enter_often(kind):
        for _ in range(200):
            with kind():
                inside.append(None)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()

    calls = [Call(lambda kind=kind: enter_often(kind)) for kind in (gate.inside, gate.reading) * 3]
    for call in calls:
        call.result()
    assert (max(most), len(most)) == (1, 1200)


def test_readers_are_given_what_was_published_and_do_not_wait(gate):
    with occupied(gate, "before"):
        assert not gate.is_ours
        # All of them at once.
        with gate.reading() as one, gate.reading() as other:
            assert one == other == Call(lambda: read(gate)).result() == "before"
    # Nobody is inside: it may be out of date.
    assert read(gate) is None


def test_readers_that_wait_are_woken_when_something_is_published(gate):
    with gate.inside():
        readers = [Call(lambda: read(gate)) for _ in range(3)]
        queued(gate, 3)
        writer = Call(lambda: read_inside(gate))
        queued(gate, 4)
        gate.publish("now")
        assert [reader.result() for reader in readers] == ["now"] * 3
        # A writer waits on.
        queued(gate, 1)
        assert writer.is_alive()
    assert writer.result() == "alone"


def read_inside(gate):
    with gate.inside():
        return "alone" if gate.is_ours else "not alone"


def test_a_reader_overtakes_a_writer_that_waits(gate):
    with occupied(gate, "before"):
        writer = Call(lambda: read_inside(gate))
        queued(gate, 1)
        assert read(gate) == "before"
        assert writer.is_alive()
    assert writer.result() == "alone"


def test_the_last_that_was_published_is_given(gate):
    with occupied(gate, "first", "second"):
        assert read(gate) == "second"


def test_a_view_that_is_not_accepted_is_waited_for(gate):
    offered, is_offered = [], threading.Event()

    def accepts(view):
        offered.append(view)
        is_offered.set()
        return view == "full"

    with gate.inside():
        gate.publish("half")
        reader = Call(lambda: read(gate, accepts))
        assert is_offered.wait(SECONDS)
        queued(gate, 1)
        assert Call(lambda: read(gate)).result() == "half"
        gate.publish("full")
        assert reader.result() == "full"
        other = Call(lambda: read(gate, lambda view: False))
        queued(gate, 1)
    assert other.result() is None
    assert set(offered) == {"half", "full"}


def test_what_was_withdrawn_is_given_to_nobody_else(gate):
    with gate.inside():
        gate.publish("before")
        has_it, go_on = threading.Event(), threading.Event()

        def keep():
            with gate.reading() as view:
                has_it.set()
                assert go_on.wait(SECONDS)
                return view

        reader = Call(keep)
        assert has_it.wait(SECONDS)
        gate.withdraw()
        late = Call(lambda: read(gate))
        queued(gate, 1)
        go_on.set()
        assert reader.result() == "before"
    assert late.result() is None


def test_a_reader_with_a_view_keeps_nobody_out(gate):
    with occupied(gate, "before"):
        has_it, go_on = threading.Event(), threading.Event()

        def keep():
            with gate.reading() as view:
                has_it.set()
                assert go_on.wait(SECONDS)
                return view

        reader = Call(keep)
        assert has_it.wait(SECONDS)
    with gate.inside():
        gate.publish("after")
    go_on.set()
    assert reader.result() == "before"


def test_it_is_known_whether_others_have_asked(gate):
    assert not gate.is_asked
    with gate.inside():
        read(gate)
    read(gate)
    # Whoever wrote last need not be shown what it wrote.
    assert not gate.is_asked
    Call(lambda: read(gate)).result()
    assert gate.is_asked
    with gate.inside():
        assert gate.is_asked
        gate.publish("before")
        assert not gate.is_asked
        Call(lambda: read(gate)).result()
        assert gate.is_asked
    assert gate.is_asked
    with gate.inside():
        gate.publish("later")
    assert not gate.is_asked
    # Another thread writes: the one that did before is a reader now.
    Call(lambda: read_inside(gate)).result()
    assert not gate.is_asked
    read(gate)
    assert gate.is_asked


def test_whoever_is_inside_may_enter_again(gate):
    with gate.inside():
        gate.publish("before")
        with gate.inside(), gate.reading() as live:
            assert live is None
        with gate.reading(lambda view: False) as live:
            assert live is None
        # It has not left.
        assert gate.is_ours
        assert Call(lambda: read(gate)).result() == "before"
    assert not gate.is_ours
    with gate.reading() as live, gate.inside():
        assert live is None
        assert gate.is_ours
        waiting = Call(lambda: read(gate))
        queued(gate, 1)
    assert waiting.result() is None


@pytest.mark.parametrize("kind", ["inside", "reading"])
def test_an_error_lets_the_next_in(gate, kind):
    def fail():
        with getattr(gate, kind)():
            gate.publish("half done")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not gate.is_ours
    assert Call(lambda: read(gate)).result() is None
    assert read_inside(gate) == "alone"


def test_an_error_of_a_reader_with_a_view_is_its_own(gate):
    def fail():
        with gate.reading():
            raise KeyError

    with occupied(gate, "before"):
        with pytest.raises(KeyError):
            Call(fail).result()
        assert read(gate) == "before"
        with pytest.raises(KeyError):
            read(gate, {}.__getitem__)
        assert len(gate._queue) == 0
        assert read(gate) == "before"
    assert read_inside(gate) == "alone"


def test_whoever_no_longer_waits_is_passed_over(gate, monkeypatch):
    """As where Ctrl-C ends the wait."""

    def interrupted(predicate):
        raise KeyboardInterrupt

    with occupied(gate):
        with monkeypatch.context() as patch:
            patch.setattr(gate._changed, "wait_for", interrupted)
            with pytest.raises(KeyboardInterrupt), gate.inside():
                pass
        waiting = Call(lambda: read_inside(gate))
        queued(gate, 1)
    assert waiting.result() == "alone"
