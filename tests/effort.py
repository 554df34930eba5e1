"""How much of a test runs every day, and how much at night (`make nightly`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def trials(daily: int, nightly: int) -> int:
    """How often a random test is tried: the second number with the profile of the night."""
    return nightly if THOROUGH else daily


def at_night(*values: Any) -> Any:
    """A set of parameters that only the night tries."""
    return pytest.param(*values, marks=pytest.mark.slow)


def by_turns(values: Sequence[Any], turn: int) -> Sequence[Any]:
    """One of the values every day, another one at each turn of a loop; all of them at night."""
    return values if THOROUGH else [values[turn % len(values)]]
