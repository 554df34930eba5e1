"""Engines inside models, and a linkage that fails at a chosen call."""

from __future__ import annotations


def engine_in(model):
    """The engine of a fitted model."""
    return model.current_fit().builder


class Raises:
    """Mean negative distance of numbers, that fails at its nth call."""

    def __init__(self, at, error):
        self.calls, self.at, self.error = 0, at, error

    def __call__(self, a, b):
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return -abs(sum(a) / len(a) - sum(b) / len(b))
