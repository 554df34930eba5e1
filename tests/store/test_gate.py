"""Threads at a gate: who is inside, who waits for whom, and who is given what was published instead."""

import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

from grinch.store.lock import Gate
from threads import Call, held, wait_until


@pytest.fixture
def gate():
    return Gate()


def queued(gate, n):
    """Wait until this many threads wait at a gate."""
    wait_until(lambda: gate.n_waiting == n)


def read(gate, *accepts):
    with gate.reading(*accepts) as view:
        return view


def read_inside(gate):
    with gate.inside():
        return "alone" if gate.is_ours else "not alone"


@contextmanager
def publishing(gate, *views):
    with gate.inside():
        for view in views:
            gate.publish(view)
        yield


def test_they_are_let_in_as_they_came_and_one_at_a_time(gate):
    order, inside, most = [], [], []

    def enter(number, kind):
        with kind() as view:
            assert view is None
            assert gate.is_ours
            order.append(number)
        for _ in range(100):
            with kind():
                inside.append(None)
                most.append(len(inside))
                time.sleep(0)
                inside.pop()

    with gate.inside():
        calls = []
        for number, kind in enumerate([gate.inside, gate.reading, gate.reading, gate.inside, gate.inside] * 2):
            calls.append(Call(lambda number=number, kind=kind: enter(number, kind)))
            queued(gate, number + 1)
        assert order == []
    for call in calls:
        call.result()
    assert order == list(range(10))
    assert (max(most), len(most)) == (1, 1000)


def test_readers_are_given_what_was_published_last_and_do_not_wait(gate):
    with held(lambda: publishing(gate, "first", "second")):
        writer = Call(lambda: read_inside(gate))
        queued(gate, 1)
        assert not gate.is_ours
        # All of them at once, and before a writer that waits.
        with gate.reading() as one, gate.reading() as other:
            assert one == other == Call(lambda: read(gate)).result() == "second"
        assert writer.is_alive()
    assert writer.result() == "alone"
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


def test_a_view_that_is_not_accepted_is_waited_for(gate):
    with gate.inside():
        gate.publish("half")
        reader = Call(lambda: read(gate, lambda view: view == "full"))
        queued(gate, 1)
        assert Call(lambda: read(gate)).result() == "half"
        gate.publish("full")
        assert reader.result() == "full"
        other = Call(lambda: read(gate, lambda view: False))
        queued(gate, 1)
    assert other.result() is None


def test_a_reader_keeps_a_view_that_was_withdrawn_and_keeps_nobody_out(gate):
    with gate.inside():
        gate.publish("before")
        with held(gate.reading) as (reader, _):
            gate.withdraw()
            late = Call(lambda: read(gate))
            queued(gate, 1)
        assert reader.result() == "before"
    assert late.result() is None
    with ExitStack() as stack:
        with held(lambda: publishing(gate, "before")):
            reader, _ = stack.enter_context(held(gate.reading))
        with gate.inside():
            gate.publish("after")
    assert reader.result() == "before"


def test_it_is_known_whether_others_have_asked(gate):
    assert not gate.is_asked
    with gate.inside():
        read(gate)
    read(gate)
    # Whoever wrote last need not be shown what it wrote.
    assert not gate.is_asked
    for _ in range(2):
        Call(lambda: read(gate)).result()
        assert gate.is_asked
        with gate.inside():
            gate.publish("before")
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
        # It has not left.
        assert gate.is_ours
        assert Call(lambda: read(gate)).result() == "before"
    assert not gate.is_ours
    with gate.reading() as live, gate.inside():
        assert live is None
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
    with held(lambda: publishing(gate, "before")):
        # That of a reader with a view, or of what it accepts, is its own.
        with pytest.raises(KeyError), gate.reading():
            raise KeyError
        with pytest.raises(KeyError):
            read(gate, {}.__getitem__)
        assert gate.n_waiting == 0
        assert read(gate) == "before"
    assert read_inside(gate) == "alone"


def test_whoever_no_longer_waits_is_passed_over(gate, monkeypatch):
    """As where Ctrl-C ends the wait."""

    def interrupted(self, predicate):
        raise KeyboardInterrupt

    with held(gate.inside):
        with monkeypatch.context() as patch:
            patch.setattr(threading.Condition, "wait_for", interrupted)
            with pytest.raises(KeyboardInterrupt), gate.inside():
                pass
        waiting = Call(lambda: read_inside(gate))
        queued(gate, 1)
    assert waiting.result() == "alone"
