"""Measure the service: requests per second for predict and for single inserts, with 1 and 32 clients, over loopback.

    python benchmarks/service.py [--n 100000] [--seconds 5]

writes benchmarks/service.json. Clients are processes of their own that use nothing but the standard library; what the
estimator and the store take for the same is measured beside it.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from written import write_figures

HERE = Path(__file__).parent
DIMENSIONS, CLASSES = 64, 200
CLIENTS = (1, 32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=int, default=100_000, help="points in the store")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each of the measurements")
    parser.add_argument("--client", nargs=4, metavar=("PORT", "WHAT", "SECONDS", "SEED"), help="(within)")
    given = parser.parse_args()
    if given.client:
        run_client(int(given.client[0]), given.client[1], float(given.client[2]), int(given.client[3]))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder) / "store", given.n, given.seconds)
    print(json.dumps(found, indent=2))
    write_figures(HERE / "service.json", found)


# Clients: the standard library alone, so that they take little of the machine ---------------------------------------


def run_client(port: int, what: str, seconds: float, seed: int) -> None:
    """Ask one thing after the other, and print how long each took."""
    rng, took, refused = random.Random(seed), [], 0
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Content-Type": "application/json"}
    # To start as many takes longer than to ask.
    print("ready", flush=True)
    sys.stdin.readline()
    end, i = time.perf_counter() + seconds, 0
    while (begin := time.perf_counter()) < end:
        row = [round(rng.gauss(0, 1), 4) for _ in range(DIMENSIONS)]
        body: dict[str, Any] = {"X": [row]}
        if what == "insert":
            body["ids"] = [f"{seed}-{i}"]
        text = json.dumps(body)
        begin = time.perf_counter()
        connection.request("POST", f"/v1/{what}", text, headers)
        answer = connection.getresponse()
        answer.read()
        took.append(time.perf_counter() - begin)
        refused += answer.status != 200
        i += 1
    print(json.dumps({"took": took, "refused": refused}))


def ask_with_clients(port: int, what: str, clients: int, seconds: float, seed: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--client", str(port), what, str(seconds)]
    running = [start_client([*command, str(seed + i)]) for i in range(clients)]
    for client in running:
        let_go(client)
    answers = [json.loads(client.communicate()[0]) for client in running]
    took = sorted(second for answer in answers for second in answer["took"])
    refused = sum(answer["refused"] for answer in answers)
    assert refused == 0, f"{refused} requests were refused"
    return {"per second": round(len(took) / seconds, 1), **percentiles(took)}


def start_client(command: list[str]) -> subprocess.Popen[str]:
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    assert client.stdout.readline() == "ready\n"
    return client


def let_go(client: subprocess.Popen[str]) -> None:
    assert client.stdin is not None
    client.stdin.write("go\n")
    client.stdin.flush()


def percentiles(took: list[float]) -> dict[str, float]:
    took = sorted(took)
    return {
        "p50 ms": round(1e3 * took[len(took) // 2], 2),
        "p99 ms": round(1e3 * took[min(int(0.99 * len(took)), len(took) - 1)], 2),
    }


# The service and what it is compared with --------------------------------------------------------------------------


def measure(folder: Path, n: int, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"n": n, "dimensions": DIMENSIONS, "cores": os.cpu_count()}
    found["load before"] = round(os.getloadavg()[0], 1)
    make_store(folder, n)
    found["bare"] = bare(folder, n, seconds)
    server, port = start(folder)
    try:
        for what in ("predict", "insert"):
            for clients in CLIENTS:
                ask_with_clients(port, what, clients, 0.5, 10_000)
                name = f"{what}, {clients} client{'s' if clients > 1 else ''}"
                found[name] = ask_with_clients(port, what, clients, seconds, 20_000 + 1_000 * clients)
                print(name, found[name], flush=True)
        found["batches"] = batches(port)
        found["beside an insert of 10,000"] = beside(port)
    finally:
        server.terminate()
        server.wait()
    found["load after"] = round(os.getloadavg()[0], 1)
    return found


def rows(n: int, seed: int) -> Any:
    import numpy as np

    centres = np.random.default_rng(0).normal(size=(CLASSES, DIMENSIONS))
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(0, CLASSES, n)] + 0.4 * rng.normal(size=(n, DIMENSIONS))).astype(np.float32)


def make_store(folder: Path, n: int) -> None:
    import grinch

    with grinch.open(folder, metric="cosine", n_clusters=CLASSES) as store:
        for start in range(0, n, 10_000):
            size = min(10_000, n - start)
            store.insert(rows(size, start + 1), ids=[f"p{start + i}" for i in range(size)])


def bare(folder: Path, n: int, seconds: float) -> dict[str, Any]:
    """The same without the service: one row at a time."""
    import grinch

    X = rows(20_000, 7)
    found = {}
    with grinch.open(folder) as store:
        found["store.predict"] = timed(lambda i: store.predict(X[i : i + 1]), seconds)
        found["store.insert"] = timed(lambda i: store.insert(X[i : i + 1], ids=[f"bare-{i}"]), seconds)
    model = grinch.Grinch(metric="cosine", n_clusters=CLASSES).fit(rows(n, 1))
    found["model.predict"] = timed(lambda i: model.predict(X[i : i + 1]), seconds)
    found["model.partial_fit"] = timed(lambda i: model.partial_fit(X[i : i + 1]), seconds)
    return found


def timed(call: Callable[[int], Any], seconds: float) -> dict[str, float]:
    call(0)
    took, end = [], time.perf_counter() + seconds
    for i in range(1, 20_000):
        begin = time.perf_counter()
        call(i)
        took.append(time.perf_counter() - begin)
        if begin > end:
            break
    return {"per second": round(len(took) / sum(took), 1), **percentiles(took)}


def start(folder: Path) -> tuple[subprocess.Popen[str], int]:
    command = [sys.executable, "-m", "grinch.cli", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        said = re.search(r":(\d+)/", line)
        if said:
            return server, int(said[1])
    raise RuntimeError("the service did not start")


def batches(port: int) -> dict[str, float]:
    """Return the mean number of requests that were written together."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    count, total = (float(numbers[f"grinch_batch_requests_{name}"]) for name in ("count", "sum"))
    return {"commits": count, "requests": total, "requests per commit": round(total / count, 2)}


def beside(port: int) -> dict[str, float]:
    """Measure the time of reading while 10,000 points are inserted at once."""
    import numpy as np

    file = io.BytesIO()
    np.savez(file, X=rows(10_000, 99), ids=np.array([f"large-{i}" for i in range(10_000)]))
    command = [sys.executable, __file__, "--client", str(port), "predict", "6", "5"]
    reader = start_client(command)
    let_go(reader)
    time.sleep(1.0)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    begin = time.perf_counter()
    connection.request("POST", "/v1/insert", file.getvalue(), {"Content-Type": "application/x-npz"})
    assert connection.getresponse().status == 200
    took = time.perf_counter() - begin
    waits = json.loads(reader.communicate()[0])["took"]
    return {"insert s": round(took, 2), "longest predict ms": round(1e3 * max(waits), 1), **percentiles(waits)}


if __name__ == "__main__":
    main()
