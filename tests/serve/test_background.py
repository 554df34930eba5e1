"""What takes a while is made aside, once."""

from __future__ import annotations

import threading

import pytest

from grinch.serve.background import MAX_RESULTS, Background, Computing


def test_what_is_not_there_yet_is_asked_for_again():
    later, go, calls = Background(), threading.Event(), []

    def make():
        calls.append(1)
        go.wait(10)
        return "made"

    for _ in range(3):
        with pytest.raises(Computing):
            later.get("key", make, wait=0.01)
    go.set()
    assert later.get("key", make, wait=10) == "made"
    assert calls == [1]


def test_an_error_is_raised_to_who_asks_and_then_tried_again():
    later, fails = Background(), [True]

    def make():
        if fails.pop():
            fails.append(False)
            raise ValueError("not now")
        return 5

    with pytest.raises(ValueError, match="not now"):
        later.get("key", make, wait=10)
    assert later.get("key", make, wait=10) == 5


def test_the_last_few_are_kept():
    later, made = Background(), []
    for key in range(MAX_RESULTS + 1):
        later.get(key, lambda key=key: made.append(key), wait=10)
    later.get(MAX_RESULTS, lambda: made.append("again"), wait=10)
    assert "again" not in made
    later.get(0, lambda: made.append("again"), wait=10)
    assert made[-1] == "again"


def test_many_threads_get_the_same_result():
    later, made, found = Background(), [], []

    def make():
        made.append(1)
        return object()

    threads = [threading.Thread(target=lambda: found.append(later.get("key", make, wait=10))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert len({id(result) for result in found}) == 1
    assert len(found) == 20
