"""The explorer at a million points: how long until there is a picture, how long a step of zooming takes, and memory.

    python benchmarks/explorer.py                    a million points; writes benchmarks/explorer.json
    python benchmarks/explorer.py --n 100000 --out /tmp/explorer.json
    python benchmarks/explorer.py --model m.grinch   one that is there already

A model of a mixture of Gaussians is fitted and saved, and ``grinch explore`` serves it from a process of its own. Views
are asked of the server as the page would ask for them, on walks from the whole down to a few points; then a headless
Chromium opens the page, and zooms with the wheel. There is no graphics card, so the map is drawn by the processor.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from written import write_figures

OUT = Path(__file__).parent / "explorer.json"
SERVER = "from grinch.cli import main; main()"
FLAGS = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run")
WIDTH = 700
WALKS, ZOOM = 12, 0.6
LEAST_VIEW = 4


def main() -> None:
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        model = args.model or made_model(Path(folder) / "mixture.grinch", args.n, args.dims)
        with served(model) as (url, process, seconds):
            found: dict[str, Any] = {"n": args.n, "dims": args.dims, "python": platform.python_version()}
            found["server"] = {"seconds_until_it_listens": seconds, **measure_server(url, args.n)}
            if browser := shutil.which("chromium"):
                found["page"] = measure_page(url, browser)
            found["server"]["memory_mb"] = memory(process)
    write_figures(args.out, found)
    print(json.dumps(found, indent=1))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000, help="points (default: a million)")
    parser.add_argument("--dims", type=int, default=16)
    parser.add_argument("--model", type=Path, help="a saved model of as many points, instead of fitting one")
    parser.add_argument("--out", type=Path, default=OUT)
    return parser.parse_args()


# The server ---------------------------------------------------------------------------------------------------------


def made_model(path: Path, n: int, dims: int) -> Path:
    """A model of a mixture: 40 groups of 15 clusters each, of very different sizes."""
    from grinch import Grinch

    rng = np.random.default_rng(0)
    groups = rng.normal(size=(40, dims)) * 3
    clusters = groups[rng.integers(0, 40, 600)] + rng.normal(size=(600, dims)) * 1.2
    which = rng.choice(600, n, p=rng.dirichlet(np.full(600, 0.8)))
    rows = (clusters[which] + rng.normal(size=(n, dims)) * 0.45).astype(np.float32)
    Grinch(metric="cosine").fit(rows).save(path)
    return path


@contextmanager
def served(model: Path) -> Iterator[tuple[str, int, float]]:
    """The address, the process, and after how long it answers."""
    begin = time.perf_counter()
    command = [sys.executable, "-c", SERVER, "explore", str(model), "--no-browser", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        said = ""
        while not (found := re.search(r"http://\S+/", said)):
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the server ended: {said}")
            said += line
        yield found[0], process.pid, round(time.perf_counter() - begin, 2)
    finally:
        process.terminate()
        process.wait(30)


class Asking:
    """Questions over one connection, and how long the answers took."""

    def __init__(self, url: str):
        self._connection = http.client.HTTPConnection(url.split("/")[2], timeout=600)

    def get(self, path: str) -> tuple[bytes, float]:
        begin = time.perf_counter()
        while True:
            self._connection.request("GET", path)
            response = self._connection.getresponse()
            content = response.read()
            # What takes long is asked for again.
            if response.status != 202:
                break
        assert response.status == 200, (path, response.status, content[:200])
        return content, 1e3 * (time.perf_counter() - begin)


def measure_server(url: str, n: int) -> dict[str, Any]:
    asking = Asking(url)
    first = {name: round(asking.get(f"/api/{name}")[1], 1) for name in ("about", "view", "cut", "map")}
    steps = [asking.get(path) for path in walks(n)]
    times, sizes = [step[1] for step in steps], [len(step[0]) for step in steps]
    cuts = [asking.get(f"/api/view?cut=k:{k}")[1] for k in (2, 5, 12, 30, 75, 180, 400)]
    about = json.loads(asking.get("/api/about")[0])
    nodes = header_of(asking.get("/api/view")[0], "node")[:60]
    pages = [asking.get(f"/api/node/{node}")[1] for node in nodes]
    return {
        "first_answer_ms": first,
        "zoom_step_ms": spread(times),
        "view_bytes": spread(sizes, 0),
        "map_bytes": len(asking.get("/api/map")[0]),
        "cut_ms": spread(cuts),
        "node_page_ms": spread(pages),
        "clusters_of_the_first_cut": next((c["clusters"] for c in about["cuts"] if c["cut"] == about["cut"]), None),
    }


def walks(n: int) -> Iterator[str]:
    """Views from the whole down to a few points, each a step closer, with the margin that the page asks for."""
    rng = np.random.default_rng(1)
    for place in rng.uniform(0, n, WALKS):
        wide = float(n)
        while wide > LEAST_VIEW:
            x0 = min(max(place - wide / 2, 0), n - wide)
            low, high = max(x0 - 0.3 * wide, 0), min(x0 + 1.3 * wide, n)
            yield f"/api/view?x0={low}&x1={high}&width={WIDTH * (high - low) / wide}&rows=64"
            wide *= ZOOM


def header_of(message: bytes, name: str) -> list[int]:
    from grinch.serve.views.icicle import unpack_arrays

    found: list[int] = unpack_arrays(message)[1][name].tolist()
    return found


def spread(values: Sequence[float], digits: int = 1) -> dict[str, float]:
    found = np.percentile(values, [50, 99, 100])
    return {name: round(float(value), digits) for name, value in zip(("p50", "p99", "max"), found, strict=True)}


def memory(process: int) -> dict[str, float]:
    """Of a process, now and at most, in megabytes."""
    status = Path(f"/proc/{process}/status").read_text()
    kilobytes = {name: int(re.search(rf"{field}:\s+(\d+)", status)[1]) for name, field in FIELDS}  # type: ignore[index]
    return {name: round(value / 1024, 1) for name, value in kilobytes.items()}


FIELDS = (("now", "VmRSS"), ("most", "VmHWM"))


# The page -----------------------------------------------------------------------------------------------------------


def measure_page(url: str, browser: str) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=list(FLAGS))
        processes = chromium.new_browser_cdp_session()
        page = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce").new_page()
        page.goto(url)
        page.wait_for_selector("html[data-ready]", timeout=120_000)
        page.evaluate("grinchPage.idle()")
        first = page.evaluate("grinchPage.times()[0].drawn")
        everything = page.evaluate("performance.now()")
        zoom(page)
        times = page.evaluate("grinchPage.times()")[1:]
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable")
        metrics.send("HeapProfiler.collectGarbage")
        known = {entry["name"]: entry["value"] for entry in metrics.send("Performance.getMetrics")["metrics"]}
        found = {
            "first_picture_ms": round(first),
            "first_picture_and_map_ms": round(everything),
            "zoom_step_ms": spread([step["drawn"] - step["begin"] for step in times]),
            "of_which_drawing_ms": spread([step["drawn"] - step["arrived"] for step in times]),
            "blocks": spread([step["blocks"] for step in times], 0),
            "frame_ms": spread(page.evaluate(FRAMES)),
            "map_frame_ms": spread(page.evaluate(MAP_FRAMES)),
            "renderer": page.evaluate("grinchPage.state.renderer"),
            "steps": len(times),
            "js_heap_mb": round(known["JSHeapUsedSize"] / 2**20, 1),
            "memory_mb": renderer_memory(processes),
        }
        chromium.close()
        return found


# How long it takes to draw what is there.
FRAMES = "grinchPage.drawTimes('tree', 40)"
MAP_FRAMES = "grinchPage.drawTimes('map', 10)"


def zoom(page: Any) -> None:
    """Down and up again with the wheel, at some places."""
    box = page.locator("#icicle").bounding_box()
    for share in (0.15, 0.4, 0.75):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 80)
        for turn in [-280] * 24 + [2000] * 8:
            page.mouse.wheel(0, turn)
            page.evaluate("grinchPage.idle()")


def renderer_memory(processes: Any) -> dict[str, float]:
    """Of the largest process that shows a page."""
    known = processes.send("SystemInfo.getProcessInfo")["processInfo"]
    pids = [entry["id"] for entry in known if entry["type"] == "renderer" and os.path.exists(f"/proc/{entry['id']}")]
    return max((memory(pid) for pid in pids), key=lambda found: found["now"])


if __name__ == "__main__":
    main()
