"""Say which random examples a run draws, and how many: the same few every day, new ones at night (`make nightly`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase, ReadOnlyDatabase

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "day")
THOROUGH = PROFILE == "night"
# Filled at night and committed: `tests` lists tests, `examples` has what they failed on.
FOUND = Path(__file__).parent / "found"
# Shrinking takes up to five minutes, in which a time limit would end the process before the example is in the log.
AT_ONCE = (Phase.explicit, Phase.reuse, Phase.generate)


class FailingExamples(DirectoryBasedExampleDatabase):
    """A folder with the smallest failing example of each test, without those on the way to it."""

    move = ExampleDatabase.move

    def save(self, key: bytes, value: bytes) -> None:
        if not key.endswith((b".secondary", b".pareto")):
            super().save(key, value)


# All that CI would change by itself is given.
EVERY = settings(deadline=None, print_blob=True, suppress_health_check=(), database=None, derandomize=False)
KEPT = FailingExamples(FOUND / "examples")
settings.register_profile("day", EVERY, max_examples=30, phases=AT_ONCE, derandomize=True)
settings.register_profile("seeded", EVERY, max_examples=30, phases=AT_ONCE)
settings.register_profile("found", EVERY, phases=AT_ONCE[:2], database=ReadOnlyDatabase(KEPT))
settings.register_profile("night", EVERY, max_examples=1000, phases=(*AT_ONCE, Phase.shrink), database=KEPT)
settings.load_profile(PROFILE)


def found_tests() -> list[str]:
    """Return the tests that have failed on an example which a night has drawn."""
    listed = FOUND / "tests"
    return listed.read_text().splitlines() if listed.exists() else []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write at night which tests fail on an example; one that passes again is taken from the list."""
    if THOROUGH and report.when == "call" and "PYTEST_XDIST_WORKER" not in os.environ:
        before = set(found_tests())
        now = before | {report.nodeid} if "@reproduce_failure" in report.longreprtext else before - {report.nodeid}
        if now != before:
            FOUND.mkdir(exist_ok=True)
            (FOUND / "tests").write_text("".join(f"{test}\n" for test in sorted(now)))


def trials(daily: int, nightly: int) -> int:
    """Return how often a random test is tried: the second number at night."""
    return nightly if THOROUGH else daily


def at_night(*values: Any) -> Any:
    """A set of parameters that only the night tries."""
    return pytest.param(*values, marks=pytest.mark.slow)


def by_turns(values: Sequence[Any], turn: int) -> Sequence[Any]:
    """One of the values every day, another one at each turn of a loop; all of them at night."""
    return values if THOROUGH else [values[turn % len(values)]]
