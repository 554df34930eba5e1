"""A writer that is killed at any moment loses nothing that it acknowledged. Hundreds more: benchmarks/kills.py."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from pathlib import Path

import pytest

from pages import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import kills

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")

NAMES = [name for name in kills.MOMENTS if name != "timer"]


@pytest.fixture(scope="module", autouse=True)
def warm():
    kills.warm_up()


@pytest.fixture
def place(tmp_path):
    """A folder in memory, where there is one: what is killed are processes, and syncing takes most of the time."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.parametrize("seed", [1, 2])
def test_kills_in_one_folder_again_and_again(place, seed):
    rng, life = random.Random(seed), kills.Life(place, seed)
    try:
        for _ in range(14):
            moment, how = kills.some_moment(rng), rng.choice(("reader", "writer", "killed writer"))
            _, wrong = life.kill_once(moment, how, most=15)
            assert wrong is None, f"{moment}: {wrong}"
        assert life.k > 14
    finally:
        life.close()


@pytest.mark.parametrize("name", NAMES)
def test_kills_at_the_first_calls_there_are(place, name):
    """Most of them before the store is made, or while the first points come."""
    endings = ("before", "half", "after") if name == "pwrite" else ("before", "after")
    for number in range(1, 4):
        for ending in endings:
            folder = place / f"{number}-{ending}"
            folder.mkdir()
            life = kills.Life(folder, 5)
            try:
                moment = kills.Moment(name, ending, number, 0.0, number == 2)
                _, wrong = life.kill_once(moment, "writer", most=4)
                assert wrong is None, f"{moment}, number {number}: {wrong}"
            finally:
                life.close()
