"""A folder is used by one fit at a time."""

from __future__ import annotations

import errno
import threading

import numpy as np
import pytest

from grinch.running import Workers
from grinch.sharded import ShardedGrinch
from grinch.sharded.job import alone_in, clear_others
from grinch.store import lock

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def test_a_fit_in_a_folder_that_another_works_in_is_refused(cluster, tmp_path):
    X, inside, done = np.eye(6), threading.Event(), threading.Event()

    def work():
        with alone_in(tmp_path):
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(60)
    model = ShardedGrinch(2, cluster.client, folder=tmp_path)
    with pytest.raises(ValueError, match=r"folder .* is in use by process \d+ on .*, which may be the same run"):
        model.fit(X)
    done.set()
    thread.join()
    assert model.fit(X).tree_.n_leaves == 6


def test_points_of_two_runs_are_never_mixed(cluster, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X, others = rng.normal(size=(300, 4)), rng.normal(size=(300, 4)) + 5
    model = ShardedGrinch(4, cluster.client, sample_size=60, folder=tmp_path)
    expected = model.fit(X).tree_.to_newick(lengths=False)
    outcomes = Workers._outcomes

    def end_after_one(self, stage, tasks, failed):
        for found in outcomes(self, stage, tasks, failed):
            yield found
            if stage == "trees":
                raise KeyboardInterrupt

    killed = ShardedGrinch(4, cluster.client, sample_size=60, folder=tmp_path)
    monkeypatch.setattr(Workers, "_outcomes", end_after_one)
    with pytest.raises(KeyboardInterrupt):
        killed.fit(others)
    monkeypatch.undo()
    again = ShardedGrinch(4, cluster.client, sample_size=60, folder=tmp_path).fit(X)
    assert again.tree_.to_newick(lengths=False) == expected
    assert (again.to_grinch().tree_.n_leaves, again.n_leaves_) == (300, 300)
    # Of other runs nothing is left.
    assert len(list(tmp_path.glob("stages-*"))) == 1
    assert not list(tmp_path.glob(".removed-*"))


def test_folders_of_the_users_own_stay(tmp_path):
    for name in ("stages-of-life", ".removed-later", "stages-0123456789abcdef", ".removed-0123456789abcdef"):
        (tmp_path / name).mkdir()
    clear_others(tmp_path, "fedcba9876543210")
    assert {path.name for path in tmp_path.iterdir()} == {"stages-of-life", ".removed-later"}


def test_only_others_are_kept_out_and_without_locks_nobody(tmp_path, monkeypatch, caplog):
    def refuse(file):
        raise OSError(errno.ENOSYS, "no locks here")

    with alone_in(tmp_path), alone_in(tmp_path):  # who is in it goes on, and leaves it at the end
        pass
    lock.WriterLock(tmp_path).release()
    monkeypatch.setattr(lock, "_take", refuse)
    with caplog.at_level("WARNING", "grinch.sharded"), alone_in(tmp_path):
        assert "without locks" in caplog.text
    with pytest.raises(OSError, match="cannot be locked"):
        lock.WriterLock(tmp_path)
