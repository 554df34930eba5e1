from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from effort import THOROUGH, pytest_runtest_logreport, trials  # noqa: F401
from grinch._compile import source_digest

matplotlib.use("Agg")
# Under nohup and in the background of a shell, SIGINT is ignored, and what is started inherits that: Ctrl-C would end
# nothing. With a handler here, processes of the tests start with their own.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent


def pytest_sessionstart(session):
    """Before several processes test sources that are not compiled: compile what most tests need, dense and sparse.

    Otherwise all of them compile it at once, and servers, whose clients do not wait for ever, answer too late.
    """
    if not session.config.getoption("numprocesses", None) or hasattr(session.config, "workerinput"):
        return
    mark = HERE.parent / ".pytest_cache" / f"compiled-{source_digest()[:16]}"
    if not mark.exists():
        given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
        subprocess.run([sys.executable, "-c", "from killing import kills; kills.warm_up()"], env=given)
        mark.parent.mkdir(exist_ok=True)
        mark.touch()


@pytest.fixture(scope="session")
def processes():
    """Real worker processes, for tests in which they die, and for all tests at night."""
    pytest.importorskip("distributed", reason="dask is not installed: pip install 'grinch[dask]'")
    from grinch.running import Workers

    with Workers(n_workers=trials(1, 2)) as workers:
        yield workers


@pytest.fixture(scope="session")
def cluster(request):
    """Two workers; every day they are threads of this process, which need not import and load everything again."""
    distributed = pytest.importorskip("distributed", reason="dask is not installed: pip install 'grinch[dask]'")
    if THOROUGH:
        yield request.getfixturevalue("processes")
    else:
        from grinch.running import Workers

        options = {"threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
        with (
            distributed.LocalCluster(n_workers=2, **options) as local,
            distributed.Client(local) as client,
            Workers(client) as workers,
        ):
            yield workers


@pytest.fixture
def workers(cluster):
    from grinch.running import Workers

    with Workers(cluster.client) as workers:
        yield workers


@pytest.fixture
def rng():
    return np.random.default_rng(20190804)


@pytest.fixture
def blobs(rng):
    """300 points around 12 centres in 6 dimensions, and their classes."""
    centres = rng.normal(size=(12, 6)) * 4
    classes = rng.integers(0, 12, 300)
    return (centres[classes] + rng.normal(size=(300, 6))).astype(np.float32), classes


@pytest.fixture
def table(rng):
    """120 named points of four species, with six features each."""
    import pandas as pd

    y = rng.integers(0, 4, 120)
    X = 8 * np.eye(4, 6)[y] + rng.normal(size=(120, 6))
    frame = pd.DataFrame(X.astype(np.float32), columns=[f"f{i}" for i in range(6)])
    frame.insert(0, "name", [f"point {i}, of 120" for i in range(120)])
    frame["species"] = np.array(["ape", "bee", "cow", "dog"])[y]
    return frame
