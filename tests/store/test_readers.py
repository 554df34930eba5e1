"""A reader beside a writer: only what was committed, version by version."""

import os
import time

import pytest

import grinch
from effort import trials
from killing import kills

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
SEED, N_OPERATIONS = 11, trials(24, 120)


def write(folder, seen):
    """Apply all operations; after half of them wait for the reader."""
    store = kills.open_store(folder, **kills.SETTINGS)
    for k in range(N_OPERATIONS):
        kills.operate(store, SEED, k)
        while k == N_OPERATIONS // 2 and not seen.exists():
            time.sleep(0.001)
    store.close()


def test_a_reader_sees_only_what_was_committed(tmp_path):
    kills.warm_up()
    twin = kills.Twin(tmp_path / "twin", SEED)
    states, half = {0: twin.state()}, 0
    for k in range(N_OPERATIONS):
        twin.apply(k)
        state = twin.state()
        half = state["version"] if k == N_OPERATIONS // 2 else half
        assert states.setdefault(state["version"], state) == state, "a change without a version"
    # Closing it makes the automatic cut that is due.
    twin.reopen()
    state = twin.state()
    states.setdefault(state["version"], state)
    twin.close()

    folder, mark = tmp_path / "store", tmp_path / "seen"
    grinch.open(folder, **kills.SETTINGS).close()
    pid = kills.fork(lambda: write(folder, mark))
    seen, ended = [], False
    with grinch.open(folder, readonly=True) as reader:
        while not ended:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            version = reader.refresh()
            assert reader.version == version
            assert not seen or version >= seen[-1]
            assert kills.state_of(reader) == states[version], f"version {version}"
            seen.append(version)
            if version == half:
                mark.touch()
            if len(seen) % 10 == 0:
                with grinch.open(folder, readonly=True) as another:
                    assert kills.state_of(another) == states[another.version]
        reader.check()
    assert half in seen
    assert seen[-1] == max(states)
