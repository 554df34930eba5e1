"""How long until the explorer's first screen can be read, and how many neighbours its map keeps.

    python benchmarks/first_screen.py                        three sizes; writes benchmarks/first_screen.json
    python benchmarks/first_screen.py --only clinc           one of them; the others stay in the file
    python benchmarks/first_screen.py --umap /tmp/v/bin/python     and the map of umap-learn, installed there

``grinch explore`` serves each tree from a process of its own, and a headless Chromium opens the page twice: the first
time nothing was asked of the server before (cold), the second time it was (warm). The clock starts with the request of
the page. Steps of zooming are those of explorer.py. Neighbours are the 15 nearest of 2,000 points, among all points
and on the map. CLINC150 needs clinc150 (docs/datasets.md) and its sentences in GRINCH_DATA.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import grinch
from explorer import FLAGS, Asking, made_model, served, spread, walks
from written import write_figures

OUT = Path(__file__).parent / "first_screen.json"
MIXTURES = {"100k": (100_000, 64), "million": (1_000_000, 16)}
MOST_FOR_UMAP = 50_000
MACHINE = "two cores shared with other work; seconds of processor time do not count what others did"
N_ASKED, N_NEAR = 2_000, 15
UMAP = """
import sys, time, numpy as np, umap
rows = np.load(sys.argv[1])
begin = time.perf_counter()
plane = umap.UMAP(random_state=0, metric=sys.argv[3]).fit_transform(rows)
np.save(sys.argv[2], plane)
print(time.perf_counter() - begin)
"""
FIRST = "grinchPage.times()[0]?.drawn"
SHOWN = "Boolean(globalThis.grinchPage && grinchPage.state.{})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=["clinc", *MIXTURES], default=["clinc", *MIXTURES])
    parser.add_argument("--umap", type=Path, help="the Python of an environment with umap-learn")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        screens = json.loads(args.out.read_text())["screens"] if args.out.exists() else {}
        for name in args.only:
            title, path = made(name, Path(folder))
            screens[title] = {"load": round(os.getloadavg()[0], 1), **measured(path, args.umap)}
            found = {"machine": MACHINE, "page_bytes": page_bytes(), "screens": screens}
            write_figures(args.out, found)
    print(json.dumps(found, indent=1))


def made(name: str, folder: Path) -> tuple[str, Path]:
    """Return the title of one of the trees, and where it was saved."""
    if name == "clinc":
        X, texts = clinc150()
        with grinch.open(folder / name) as store:
            store.insert(X, payload=[{"text": text} for text in texts])
        return f"CLINC150, {len(X):,} x {X.shape[1]}, with texts", folder / name
    n, dims = MIXTURES[name]
    return f"mixture, {n:,} x {dims}", made_model(folder / f"{name}.grinch", n, dims)


def clinc150() -> tuple[npt.NDArray[np.float32], list[str]]:
    """Return the vectors and the sentences that have an intent, in random order."""
    texts = next(Path(os.environ["GRINCH_DATA"]).glob("**/clinc150_text.tsv.gz"))
    with gzip.open(texts, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    X = np.load(texts.parent / "clinc150_minilm384.npz")["X"].astype(np.float32)
    rows = [i for i, line in enumerate(lines) if line[1] != "oos"]
    order = np.random.default_rng(0).permutation(rows)
    return X[order], [lines[i][2] for i in order]


def measured(path: Path, umap: Path | None) -> dict[str, Any]:
    with served(path) as (url, _, seconds):
        found: dict[str, Any] = {"seconds_until_it_listens": seconds}
        if browser := shutil.which("chromium"):
            found |= {when: first_screen(url, browser) for when in ("cold", "warm")}
        asking = Asking(url)
        n = json.loads(asking.get("/api/about")[0])["n"]
        found["zoom_step_ms"] = spread([asking.get(step)[1] for step in walks(n)])
    return found | map_scores(path, umap) | export_bytes(path)


def first_screen(url: str, browser: str) -> dict[str, int]:
    """Return the milliseconds until the tree is drawn, names are known, and the map is there."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=list(FLAGS))
        page = chromium.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce").new_page()
        page.goto(url)
        found = {}
        for name, state in (("tree", "blocks > 0"), ("names", "hasWords"), ("map", "map")):
            # The policy of the page forbids Playwright's own way of waiting.
            while not page.evaluate(SHOWN.format(state)):
                time.sleep(0.02)
            found[f"{name}_ms"] = round(page.evaluate(FIRST if name == "tree" else "performance.now()"))
        chromium.close()
        return found


def map_scores(path: Path, umap: Path | None) -> dict[str, Any]:
    """Return the seconds that the map takes, and the share of nearest neighbours that it, PCA and UMAP keep."""
    from grinch.serve.model_backend import open_backend
    from grinch.serve.views.icicle import unpack_arrays
    from grinch.serve.views.maps import make_map
    from grinch.serve.views.viewer import Viewer

    viewer = Viewer(open_backend(path))
    scene, found = viewer.scene, dict[str, Any]()
    rows = viewer.sample(scene).comparable(viewer.backend.rows(scene.look.positions[scene.order]))
    asked = np.linspace(0, scene.n - 1, N_ASKED).astype(int)
    near = nearest(rows, asked)
    for method in ("neighbors", "pca"):
        begin, processor = time.perf_counter(), time.process_time()
        places = unpack_arrays(make_map(viewer, scene, method))[1]
        found[f"{method}_seconds"] = round(time.perf_counter() - begin, 2)
        found[f"{method}_cpu_seconds"] = round(time.process_time() - processor, 2)
        found[f"{method}_kept"] = kept(near, np.column_stack([places["x"], places["y"]]).astype(np.float32), asked)
    if umap is not None and scene.n <= MOST_FOR_UMAP:
        plane, seconds = umap_plane(umap, rows)
        found |= {"umap_seconds": seconds, "umap_kept": kept(near, plane, asked)}
    viewer.close()
    return found


def nearest(rows: npt.NDArray[np.float32], asked: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the nearest rows of some of them, themselves left out."""
    from sklearn.neighbors import NearestNeighbors

    found = NearestNeighbors(n_neighbors=N_NEAR + 1).fit(rows).kneighbors(rows[asked], return_distance=False)
    return np.array([[i for i in row if i != own][:N_NEAR] for row, own in zip(found, asked, strict=True)])


def kept(near: npt.NDArray[Any], plane: npt.NDArray[np.float32], asked: npt.NDArray[Any]) -> float:
    on_map = nearest(plane, asked)
    return round(float(np.mean([len({*a} & {*b}) / N_NEAR for a, b in zip(near, on_map, strict=True)])), 4)


def umap_plane(python: Path, rows: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], float]:
    with tempfile.TemporaryDirectory() as folder:
        np.save(given := Path(folder) / "rows.npy", rows)
        command = [str(python), "-c", UMAP, str(given), str(out := Path(folder) / "plane.npy"), "euclidean"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return np.load(out), round(float(done.stdout), 1)


def page_bytes() -> int:
    """Return the bytes of all files of the page."""
    from importlib.resources import files

    return sum(len(file.read_bytes()) for file in files("grinch.serve").joinpath("page").iterdir())


def export_bytes(path: Path) -> dict[str, int]:
    """Return the bytes of an exported page, where there may be one."""
    from grinch.serve.export import MAX_POINTS, page_of
    from grinch.serve.model_backend import open_backend
    from grinch.serve.views.viewer import Viewer

    viewer = Viewer(open_backend(path))
    try:
        return {"export_bytes": len(page_of(viewer).encode())} if viewer.n <= MAX_POINTS else {}
    finally:
        viewer.close()


if __name__ == "__main__":
    main()
