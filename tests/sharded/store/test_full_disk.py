"""A disk in memory that is full: nothing that was acknowledged is lost, and nothing else is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import grinch

# By another process, for reading holes of a mapped file where there is no room ends the one that does.
PROGRAM = """
import json, sqlite3, sys, warnings
import grinch
from branching import grouped

warnings.simplefilter("ignore")
store = grinch.open(sys.argv[1], max_points=int(sys.argv[2]) or None)
given, failed = [], []
for k in range(400):
    names = [f"{k}-{i}" for i in range(20)]
    try:
        store.insert(grouped(k, 20), ids=names)
        given += names
    except (OSError, sqlite3.OperationalError, RuntimeError) as error:
        failed.append(str(error))
    if len(failed) > 3:
        break
try:
    store.close()
except OSError:
    pass
print(json.dumps([given, failed]))
"""


@pytest.fixture
def in_memory(tmp_path):
    """Makes a disk in memory of some bytes; mounting takes rights that not everybody has."""
    mount = tmp_path / "disk"
    mount.mkdir()

    def mounted(size):
        try:
            command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(mount)]
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("mounting a disk in memory is not possible here")
        return mount

    yield mounted
    subprocess.run(["umount", mount], check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "max_points"), [("2m", 100), ("3m", 100), ("4m", 100), ("1500k", 0)])
def test_a_full_disk_in_memory(in_memory, size, max_points):
    disk = in_memory(size)
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(disk / "store"), str(max_points)]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    given, failed = json.loads(done.stdout)
    assert len(given) > 100
    assert failed
    subprocess.run(["mount", "-o", "remount,size=60m", disk], check=True)
    with grinch.open(disk / "store") as store:
        store.check()
        more = store.ids[len(given) :]
        assert store.ids[: len(given)] == given
        # A change that could not be taken back, which was said, is made as a whole now.
        is_finished = any("makes the rest of the change" in one for one in failed)
        assert len(more) == (20 if is_finished else 0)
        assert len({name.split("-")[0] for name in more}) <= 1
        store.insert(np.eye(5, dtype=np.float32), ids=list("abcde"))
        assert not max_points or max(store.branches.values()) <= max_points
        store.check()
