"""A reader beside a writer: only what was committed, version by version."""

from __future__ import annotations

import os
import time

import pytest

import grinch
from effort import trials
from killing import kills

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
SEED, N_OPERATIONS = 11, trials(24, 120)


def write(folder):
    store = kills.open_store(folder, **kills.SETTINGS)
    for k in range(N_OPERATIONS):
        kills.operate(store, SEED, k)
        time.sleep(0.01)
    store.close()


def test_a_reader_sees_only_what_was_committed(tmp_path):
    kills.warm_up()
    twin = kills.Twin(tmp_path / "twin", SEED)
    states = {0: twin.state()}
    for k in range(N_OPERATIONS):
        twin.apply(k)
        state = twin.state()
        assert states.setdefault(state["version"], state) == state, "a change without a version"
    twin.close()

    folder = tmp_path / "store"
    grinch.open(folder, **kills.SETTINGS).close()
    pid = kills.fork(lambda: write(folder))
    seen, ended = [], False
    with grinch.open(folder, readonly=True) as reader:
        while not ended:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            version = reader.refresh()
            assert reader.version == version
            assert not seen or version >= seen[-1]
            assert kills.state_of(reader) == states[version], f"version {version}"
            seen.append(version)
            if len(seen) % 10 == 0:
                with grinch.open(folder, readonly=True) as another:
                    assert kills.state_of(another) == states[another.version]
        reader.check()
    assert seen[-1] == max(states)
    assert len(set(seen)) > N_OPERATIONS / 12
