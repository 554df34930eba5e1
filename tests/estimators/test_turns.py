"""Who comes in when, and what is left behind when something is raised."""

from __future__ import annotations

import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from grinch.estimators.shown import NOT_FITTED
from grinch.estimators.turns import Turns


def nothing(shown):
    return None


def test_whoever_waits_comes_in_before_the_next_writer():
    """A thread that writes again and again would otherwise never let a reader in."""
    turns, seen, stop = Turns(), [], threading.Event()
    count = [0]

    def write():
        def change():
            count[0] += 1
            time.sleep(0.001)

        while not stop.is_set():
            turns.write(change)

    thread = threading.Thread(target=write)
    thread.start()
    for _ in range(30):
        before = count[0]
        seen.append(turns.read(lambda: count[0], nothing) - before)
    stop.set()
    thread.join()
    # Half of the time: the system may stop a reader before it asks.
    assert statistics.median(seen) <= 3


def test_readers_do_not_keep_a_writer_out():
    turns, stop, written = Turns(), threading.Event(), []

    def read():
        while not stop.is_set():
            turns.read(lambda: time.sleep(0.001), nothing)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(20):
        turns.write(lambda i=i: written.append(i))
    stop.set()
    for thread in threads:
        thread.join()
    assert written == list(range(20))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nobody_stays_inside_whatever_is_raised(error):
    turns = Turns()

    def fail():
        turns.show_not_fitted()
        raise error

    for _ in range(2):
        with pytest.raises(error):
            turns.write(fail)
        with pytest.raises(error):
            turns.read(fail, nothing)
        turns.write(lambda: None)
    assert not turns.is_mine()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(turns.read, lambda: 7, nothing).result(10) == 7
        assert pool.submit(turns.write, lambda: 8).result(10) == 8


def test_a_call_in_a_call_is_inside():
    turns = Turns()
    assert turns.write(lambda: turns.read(lambda: turns.is_mine(), nothing)) is True
    assert turns.read(lambda: turns.read(lambda: 3, nothing), nothing) == 3


def test_only_what_takes_long_is_shown_and_only_to_other_threads(monkeypatch):
    turns, shown = Turns(), []

    def change(count):
        turns.begin(count, lambda: NOT_FITTED)
        shown.append(turns.shown is NOT_FITTED)
        # Once a change has begun, what there is now is never shown.
        turns.begin(10**9, lambda: NOT_FITTED)
        shown.append(turns.shown is NOT_FITTED)

    with monkeypatch.context() as patch:
        # Threads of other tests, such as those of dask, may still be there.
        patch.setattr(threading, "active_count", lambda: 1)
        turns.write(lambda: change(10**6))
    assert shown == [False, False]
    with ThreadPoolExecutor(1) as pool:
        # There are two threads now.
        pool.submit(turns.write, lambda: change(1)).result()
        assert shown[2:] == [False, False]
        turns._pace = 1.0
        pool.submit(turns.write, lambda: change(1)).result()
        assert shown[4:] == [True, True]
    assert turns.shown is None


def test_a_reader_that_waits_sees_what_is_shown_later():
    turns, is_inside, may_show, opened = Turns(), threading.Event(), threading.Event(), threading.Event()

    def change():
        is_inside.set()
        assert may_show.wait(60)
        turns.show_not_fitted()
        assert opened.wait(60)

    with ThreadPoolExecutor(2) as pool:
        writer = pool.submit(turns.write, change)
        assert is_inside.wait(60)
        reader = pool.submit(turns.read, lambda: "live", lambda shown: "shown")
        time.sleep(0.02)
        assert not reader.done()
        may_show.set()
        assert reader.result(60) == "shown"
        opened.set()
        writer.result(60)
    assert turns.read(lambda: "live", lambda shown: "shown") == "live"
