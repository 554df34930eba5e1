"""Runs of pytest on small tests that fail: what they draw, what they say, and what they leave."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from effort import found_tests

HERE = Path(__file__).parent
# Every example with a long list fails. After the first few the test hangs, as one does that is shrunk for long.
SLOW = """
import threading
from hypothesis import given, strategies as st

failures = []

@given(st.lists(st.integers(0, 9)))
def test_short(numbers):
    if len(numbers) > 3:
        failures.append(numbers)
        if len(failures) > 5:
            threading.Event().wait()
        raise AssertionError
"""
FAILS = SLOW.replace("> 5", "> 10**9")


@pytest.fixture
def pytest_on(tmp_path):
    """Runs pytest on a test, in a project of its own with the profiles of this one."""

    def run(test, profile, *options, **environment):
        tests = tmp_path / "tests"
        tests.mkdir(exist_ok=True)
        shutil.copy(HERE / "effort.py", tests)
        (tests / "conftest.py").write_text("from effort import pytest_runtest_logreport\n")
        (tests / "test_short.py").write_text(test)
        plugins = ("-p", "_hypothesis_pytestplugin", "-p", "xdist", "-p", "pytest_timeout")
        command = [sys.executable, "-m", "pytest", *plugins, *options, "tests/test_short.py"]
        given = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST_"))}
        given |= {"HYPOTHESIS_PROFILE": profile, "PYTHONPATH": str(tests), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        given |= environment
        return subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=250).stdout

    return run


def failing(said):
    """The example in what pytest has printed."""
    assert "numbers=[" in said, said
    return said.split("numbers=[")[1].split("]")[0]


def test_a_failing_example_is_in_the_log_whatever_the_time_limit(pytest_on):
    said = pytest_on(SLOW, "day", "-n", "1", "--timeout", "20", "--timeout-method", "thread")
    assert len(failing(said).split(",")) > 3
    assert "crashed" not in said


def test_every_day_draws_the_same(pytest_on):
    first = failing(pytest_on(FAILS, "day"))
    assert failing(pytest_on(FAILS, "day", CI="true")) == first
    assert failing(pytest_on(FAILS, "seeded", "--hypothesis-seed=1")) != first


def test_what_a_night_finds_is_kept_and_tried_again(pytest_on, tmp_path):
    listed, fixed = tmp_path / "tests" / "found" / "tests", FAILS.replace("> 3", "> 10**9")
    assert failing(pytest_on(FAILS, "night", "-n", "1")) == "0, 0, 0, 0"
    assert listed.read_text() == "tests/test_short.py::test_short\n"
    assert len(list((listed.parent / "examples").glob("*/*"))) == 2, "one example, and the key of its test"
    assert failing(pytest_on(FAILS, "found")) == "0, 0, 0, 0"
    assert "1 passed" in pytest_on(fixed, "night")
    assert listed.read_text() == ""


@pytest.mark.parametrize("test", found_tests())
def test_what_nights_have_found(test):
    command = [sys.executable, "-m", "pytest", "-m", "", test]
    done = subprocess.run(command, env={**os.environ, "HYPOTHESIS_PROFILE": "found"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
