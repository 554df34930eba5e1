"""A service whose disk is full says so, changes nothing, and goes on when there is room."""

import errno
from contextlib import contextmanager

import numpy as np
import pytest

import grinch
from killing import kills
from serving import serving, some_rows

resource = pytest.importorskip("resource")


@contextmanager
def no_file_grows(folder):
    """No file may become larger than the largest in a folder is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(path.stat().st_size for path in folder.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_room_is_left(folder):
    """Every write fails as on a disk that is full."""
    with kills.Calls(
        lambda name: kills.Fate("half", OSError(errno.ENOSPC, "No space left")) if name == "pwrite" else None
    ):
        yield


@pytest.mark.parametrize("is_full", [no_file_grows, no_room_is_left])
def test_a_disk_without_room(tmp_path, is_full):
    more = {"X": some_rows(5000, seed=1).tolist(), "ids": list(range(100, 5100))}
    with serving(grinch.open(tmp_path / "store")) as served:
        assert served.post("/v1/insert", {"X": some_rows(20).tolist(), "ids": list(range(20))})[0] == 200
        with is_full(tmp_path / "store"), grinch.connect(served.url) as client:
            status, said = served.post("/v1/insert", more)
            assert (status, served.headers["Retry-After"]) == (507, None)
            assert said["error"].startswith("the disk of the service is full, or a limit of it is reached; nothing was")
            assert str(tmp_path) not in said["error"]
            with pytest.raises(OSError, match="the disk of the service is full") as caught:
                client.insert(np.array(more["X"]), ids=more["ids"])
            assert caught.value.errno == errno.ENOSPC
            assert (client.version, len(client)) == (1, 20)
        assert served.post("/v1/insert", more)[0] == 200
        assert served.get("/v1/info")[1]["points"] == 5020
