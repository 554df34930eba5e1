"""What takes a while is made aside, once."""

import threading
from concurrent.futures import ThreadPoolExecutor

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
    later, errors = Background(), [ValueError("not now")]

    def make():
        if errors:
            raise errors.pop()
        return 5

    with pytest.raises(ValueError, match="not now"):
        later.get("key", make, wait=10)
    assert later.get("key", make, wait=10) == 5


def test_the_last_few_are_kept():
    later, made = Background(), []
    for key in (*range(MAX_RESULTS + 1), MAX_RESULTS, 0):
        later.get(key, lambda key=key: made.append(key), wait=10)
    assert made == [*range(MAX_RESULTS + 1), 0]


def test_many_threads_get_the_same_result():
    later, made = Background(), []

    def make():
        made.append(object())
        return made[-1]

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: later.get("key", make, wait=10), range(20)))
    assert len(made) == 1
    assert found == made * 20
