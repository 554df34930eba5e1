"""What several tests of stores need: points, processes that die, files that are damaged, and comparisons."""

import os
import signal
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from killing import kills

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def points(n, seed=0, n_features=6):
    """Points in eight groups."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(8, n_features)) * 4
    return (centres[rng.integers(8, size=n)] + rng.normal(size=(n, n_features))).astype(np.float32)


def names(n, start=0, letter="p"):
    return [f"{letter}{i}" for i in range(start, start + n)]


def similar(a, b):
    """A linkage of the user's own, of records with a number."""
    return -abs(sum(r["x"] for r in a) / len(a) - sum(r["x"] for r in b) / len(b))


def same_tree(one, other):
    assert one.n_leaves == other.n_leaves
    np.testing.assert_array_equal(one.child_pairs(), other.child_pairs())
    np.testing.assert_array_equal(one.scores, other.scores)


def same_partition(one, other):
    """Whether two arrays of labels name the same clusters."""
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))


def die_after(work):
    """Let a process work and be killed; the folder is as it leaves it."""

    def work_and_die():
        work()
        os.kill(os.getpid(), signal.SIGKILL)

    assert os.waitpid(kills.fork(work_and_die), 0)[1] == signal.SIGKILL


def execute(path, *queries):
    """Change a database behind the back of its store; what is in its log becomes a part of it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        for query in queries:
            connection.execute(*((query,) if isinstance(query, str) else query))


def overwrite(path, start, data):
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(data)


def flip(path, at):
    """Flip a bit of a byte."""
    with open(path, "rb") as file:
        file.seek(at)
        (byte,) = file.read(1)
    overwrite(path, at, bytes([byte ^ 4]))


def files(folder):
    """Every file below a folder: its bytes, and when it was last written to."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}


def snapshot_of(folder):
    return next(folder.glob("snapshot-*"))
