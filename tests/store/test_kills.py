"""A writer that is killed at any moment loses nothing that it acknowledged. Hundreds more: benchmarks/kills.py."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest

from effort import at_night, trials
from killing import kills

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


@pytest.mark.parametrize(("seed", "rounds"), [(1, 4), (3, 3), *(at_night(seed, 14) for seed in range(1, 10))])
def test_kills_in_one_folder_again_and_again(place, seed, rounds):
    rng, life = random.Random(seed), kills.Life(place, seed)
    try:
        for _ in range(rounds):
            moment, how = kills.some_moment(rng), rng.choice(("reader", "writer", "killed writer"))
            _, wrong = life.kill_once(moment, how, most=15)
            assert wrong is None, f"{moment}: {wrong}"
        assert life.k > rounds
    finally:
        life.close()


@pytest.mark.parametrize("name", NAMES)
def test_kills_at_the_first_calls_there_are(place, name):
    """Most of them before the store is made, or while the first points come."""
    endings = ("before", "half", "after") if name == "pwrite" else ("before", "after")
    for number in (2, 3, 1)[: trials(1, 3)]:
        for ending in endings:
            folder = place / f"{number}-{ending}"
            folder.mkdir()
            life = kills.Life(folder, 5 if number == 2 else 3)
            try:
                moment = kills.Moment(name, ending, number, 0.0, number == 2)
                _, wrong = life.kill_once(moment, "writer", most=4)
                assert wrong is None, f"{moment}, number {number}: {wrong}"
            finally:
                life.close()


@pytest.mark.parametrize("readonly", [True, False])
@pytest.mark.parametrize("seed", [1, 3], ids=["dense", "sparse"])
def test_rows_outlast_a_power_cut(place, readonly, seed):
    """In the log alone, or synced before the log forgets them, also if the file was opened again meanwhile."""
    X = kills.points_for(seed, np.random.default_rng(0), 90)
    ids = [f"p{i}" for i in range(90)]

    def work():
        with kills.Calls(lambda name: None) as calls:
            store = kills.open_store(place / "store", **kills.SETTINGS)
            store.insert(X[:30], ids=ids[:30])
            store.insert(X[:30], ids=ids[:30])  # nothing new: the file is opened again
            store.snapshot()
            store.insert(X[30:], ids=ids[30:])
            calls.lose_power()
            os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitpid(kills.fork(work), 0)[1] == signal.SIGKILL
    with kills.open_store(place / "store", readonly=readonly) as store:
        store.check()
        for some in (slice(None), slice(28, 32)):
            assert (store.vectors(ids[some]) != X[some]).sum() == 0
