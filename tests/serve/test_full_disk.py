"""A service whose disk is full says so, changes nothing, and goes on when there is room."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import grinch
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


def test_files_that_may_not_grow(tmp_path):
    store = grinch.open(tmp_path / "store")
    with serving(store) as served:
        assert served.post("/v1/insert", {"X": some_rows(20).tolist(), "ids": list(range(20))})[0] == 200
        more = {"X": some_rows(5000, seed=1).tolist(), "ids": list(range(100, 5100))}
        with no_file_grows(tmp_path / "store"), grinch.connect(served.url) as client:
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


# In a space of its own, where it may mount a disk; by another process, which is also the one that is ended if need be.
PROGRAM = """
import json, sys, warnings
from pathlib import Path
import grinch
from serving import serving, some_rows

warnings.simplefilter("ignore")
disk, said = Path(sys.argv[1]), []
with serving(grinch.open(disk / "store")) as served:
    for k in range(200):
        given = {"X": some_rows(200, seed=k).tolist(), "ids": [f"{k}-{i}" for i in range(200)]}
        said.append(served.post("/v1/insert", given))
        if said[-1][0] != 200:
            break
    points = served.get("/v1/info")[1]["points"]
print(json.dumps([len(said), points, said[-1]]))
"""


@pytest.mark.slow
def test_a_disk_without_room(tmp_path):
    mount, script = tmp_path / "disk", tmp_path / "program.py"
    mount.mkdir()
    script.write_text(PROGRAM)
    mounting = f"mount -t tmpfs -o size=3m tmpfs {mount} && exec {sys.executable} {script} {mount}"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-Urm", "true"], check=False).returncode:
        pytest.skip("mounting a small disk is not possible here")
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", mounting],
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    n_asked, n_points, (status, said) = json.loads(done.stdout)
    assert 1 < n_asked < 200
    assert n_points == 200 * (n_asked - 1)
    assert status == 507
    assert said["error"].startswith("the disk of the service is full")
