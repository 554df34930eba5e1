"""The service as a process of its own: killed at any moment, and ended by Ctrl-C."""

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress

import numpy as np
import pytest

import grinch
from serving import TOKEN, Served, some_rows

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")


@contextmanager
def process(*arguments, **environment):
    """``grinch serve``, and where it says it is; killed at the end of the block if it is still there."""
    command = [sys.executable, "-m", "grinch.cli", "serve", *map(str, arguments), "--port", "0"]
    given = {**os.environ, **environment}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given)
    try:
        said = (re.search(r"at http://127\.0\.0\.1:(\d+)/", line) for line in running.stdout)
        found = next(filter(None, said), None)
        assert found, running.stderr.read()
        yield running, int(found[1])
    finally:
        with suppress(OSError):
            running.kill()
        running.communicate()


def clients_insert(port, X, first, acknowledged, ended):
    """Insert points one by one, and note those that were acknowledged, until the service is gone; and how it ended."""
    client, error = Served(None, port), None
    try:
        for i in range(first, len(X), 10):
            given = {"X": X[i : i + 1].tolist(), "ids": [f"p{i}"], "payload": [i]}
            status, said = client.post("/v1/insert", given)
            assert (status, said["ids"]) == (200, [f"p{i}"])
            acknowledged.append(i)
    except (OSError, http.client.HTTPException) as lost:
        error = lost
    finally:
        ended.append(error)
        client.close()


@pytest.mark.parametrize("after", [40, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 7, 150, 400, 900))])
def test_what_was_acknowledged_survives_a_kill(tmp_path, after):
    X, acknowledged, ended = some_rows(20_000), [], []
    with process(tmp_path / "store", "--clusters", 5) as (running, port):
        arguments = [(port, X, i, acknowledged, ended) for i in range(10)]
        threads = [threading.Thread(target=clients_insert, args=each) for each in arguments]
        for thread in threads:
            thread.start()
        while len(acknowledged) < after and not ended and running.poll() is None:
            time.sleep(0.001)
        ended_before = list(ended)
        running.kill()
        for thread in threads:
            thread.join()
        assert ended_before == []
        assert len(ended) == 10
        assert any(ended), "none was cut off"
        assert running.wait() == -signal.SIGKILL
    with process(tmp_path / "store", GRINCH_TOKEN=TOKEN) as (running, port):
        client = grinch.connect(f"http://127.0.0.1:{port}", TOKEN)
        there, names = set(client.ids), [f"p{i}" for i in acknowledged]
        assert there >= set(names)
        assert np.array_equal(client.vectors(names).astype(np.float32), X[acknowledged])
        assert client.payload(names) == acknowledged
        client.insert(X[-1:], ids=["later"])
        end_while_somebody_listens(running, port)
        client.close()
    with grinch.open(tmp_path / "store", readonly=True) as store:
        assert len(store) == len(there) + 1
        assert store.info()["operations_since_snapshot"] == 0, "it was closed as it should be"
        store.check()


def end_while_somebody_listens(running, port):
    """By Ctrl-C; the listener does not go away by itself."""
    listener = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    listener.request("GET", "/v1/changes/stream", headers={"Authorization": f"Bearer {TOKEN}"})
    with closing(listener), listener.getresponse() as stream:
        assert stream.readline() == b"retry: 2000\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
        assert stream.read() == b"\n"
    assert running.stderr.read() == ""
