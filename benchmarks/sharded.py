"""One tree by many workers: how long it takes, how pure it is, and what a larger cluster would make of it.

    python benchmarks/sharded.py million          1,000,000 × 64 by one process, one worker, two workers (5 minutes)
    python benchmarks/sharded.py ten-million      10,000,000 × 32 from Parquet by two workers of 6 GB each
    python benchmarks/sharded.py sets             purity of 2, 5 and 20 shards beside one tree; needs GRINCH_DATA
    python benchmarks/sharded.py model            what a point costs in each stage, and from it the cost model
    python benchmarks/sharded.py sets:mnist       only one of several

Every figure is measured in a process of its own and written to benchmarks/sharded.json at once; other sections stay as
they are. ``--points`` makes it smaller, ``--data`` says where data sets are, ``--folder`` where large files may go.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import sharded_model
from scale import mixture, peak, purity, warm_up
from written import write_figures

OUT = Path(__file__).parent / "sharded.json"
SETS = {"mixture": "", "mnist": "mnist", "image features": "image features", "speakers": "speakers"}
SHARDS = (2, 5, 20)
POINTS_PER_FILE = 250_000
CLASSES, NOISE = 1_000, 1.3


# Data ---------------------------------------------------------------------------------------------------------------


def write_parquet(folder: Path, n: int, n_features: int) -> np.ndarray:
    """A mixture as that of scale.py, written file by file; the true classes."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    weights = rng.pareto(1.5, CLASSES) + 1
    centres = rng.normal(size=(CLASSES, n_features)).astype(np.float32)
    y = rng.choice(CLASSES, n, p=weights / weights.sum()).astype(np.int32)
    for number, first in enumerate(range(0, n, POINTS_PER_FILE)):
        part = y[first : first + POINTS_PER_FILE]
        noise = np.random.default_rng([1, number]).standard_normal((len(part), n_features), np.float32)
        rows = pa.array((centres[part] + np.float32(NOISE) * noise).ravel())
        vectors = pa.FixedSizeListArray.from_arrays(rows, n_features)
        parquet.write_table(
            pa.table({"vector": vectors}),
            folder / f"part-{number:04d}.parquet",
            row_group_size=50_000,
            compression="none",
        )
    return y


def points_of(name: str, points: int | None) -> tuple[np.ndarray, np.ndarray]:
    if not SETS[name]:
        return mixture(points or 100_000)
    from sets import data

    return data(f"{SETS[name]} {points:,}" if points else SETS[name])


# What is measured, each in a process of its own ---------------------------------------------------------------------


def million(who: str, points: int | None, folder: Path) -> dict[str, Any]:
    """A fit by ``who``: "plain" is one process of Grinch with all cores, else the number of workers."""
    from grinch import Grinch
    from grinch.sharded import ShardedGrinch

    warm_up()
    X, y = mixture(points or 1_000_000)
    about = {"points": len(X), "dims": X.shape[1]}
    if who == "plain":
        began, cpu = time.perf_counter(), time.process_time()
        model = Grinch(metric="cosine").fit(X)
        found = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu, "memory": peak()}
        return {**about, **found, "purity": purity(model.tree_, y)}
    warm_up_workers(X)
    sharded = ShardedGrinch(metric="cosine", n_workers=int(who), folder=folder / "run")
    return {**about, **fitted(sharded, X), "purity": purity(sharded.tree_, y), "tree": digest_of(sharded.tree_)}


def ten_million(_: str, points: int | None, folder: Path) -> dict[str, Any]:
    from grinch.metrics import sampled_purity
    from grinch.sharded import ShardedGrinch

    warm_up_workers(mixture(4_000)[0])
    n, n_features = points or 10_000_000, 32
    files = folder / "points"
    files.mkdir()
    y = write_parquet(files, n, n_features)
    size = sum(path.stat().st_size for path in files.iterdir())
    sharded = ShardedGrinch(metric="cosine", n_workers=2, memory_limit="6GB", columns="vector", folder=folder / "run")
    found = {"points": n, "dims": n_features, "files": size, **fitted(sharded, str(files / "*.parquet"))}
    found["folder"] = sum(path.stat().st_size for path in (folder / "run").rglob("*") if path.is_file())
    began = time.perf_counter()
    tree = sharded.tree_
    found["seconds of tree_"] = time.perf_counter() - began
    sampled = sampled_purity(tree, y, random_state=0)
    return {**found, "purity": purity(tree, y), "sampled purity": sampled.purity, "tree": digest_of(tree)}


def of_set(name: str, points: int | None, folder: Path) -> dict[str, Any]:
    from grinch import Grinch
    from grinch.sharded import ShardedGrinch

    X, y = points_of(name, points)
    whole = purity(Grinch(metric="cosine").fit(X).tree_, y)
    found: dict[str, Any] = {"points": len(X), "dims": X.shape[1], "whole": whole}
    for n_shards in SHARDS:
        model = ShardedGrinch(metric="cosine", n_shards=n_shards, n_workers=2, folder=folder / str(n_shards)).fit(X)
        found[str(n_shards)] = purity(model.tree_, y)
        found[f"{n_shards}, moved"] = model.n_moved_ / len(X)
    return found


def model_run(name: str, points: int | None, folder: Path) -> dict[str, Any]:
    """All stages of a run in this process alone, so that CPU time, bytes and memory can be told for each."""
    from grinch.io.inputs import open_rows
    from grinch.sharded import ShardedGrinch

    run = sharded_model.RUNS[name]
    n = int(run.share * (points or 200_000))
    sample = min(int(run.sample * (points or 200_000) / 200_000), n)
    files = folder / "points"
    files.mkdir()
    write_parquet(files, n, run.dims)
    asked = ShardedGrinch(metric="cosine", n_shards=run.shards, sample_size=sample)
    sharded_model.measure(asked, open_rows(_small(folder), folder / "warm"), folder / "warm")
    stages = sharded_model.measure(asked, open_rows(files, folder / "run", columns="vector"), folder / "run")
    return {"points": n, "dims": run.dims, "shards": run.shards, "sample": sample, "stages": stages}


def _small(folder: Path) -> np.ndarray:
    (folder / "warm").mkdir()
    (folder / "run").mkdir()
    return mixture(3_000, 32)[0]


def warm_up_workers(X: np.ndarray) -> None:
    """Compile what workers need, so that it is on disk from here on."""
    from grinch.sharded import ShardedGrinch

    ShardedGrinch(metric="cosine", n_shards=2, n_workers=1).fit(X[:4_000])


def fitted(model: Any, X: Any) -> dict[str, Any]:
    began = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - began
    stages = {name: asdict(stage) for name, stage in model.stages_.items()}
    return {
        "seconds": seconds,
        "memory": max(stage["peak_memory"] for stage in stages.values()),
        "branches": len(model.branch_sizes_),
        "largest branch": max(model.branch_sizes_),
        "moved": model.n_moved_ / model.n_leaves_,
        "stages": stages,
    }


def digest_of(tree: Any) -> str:
    """The same for the same tree."""
    return hashlib.blake2b(np.ascontiguousarray(tree.child_pairs()).tobytes(), digest_size=8).hexdigest()


TASKS: dict[str, tuple[Callable[[str, int | None, Path], dict[str, Any]], list[str]]] = {
    "million": (million, ["plain", "1", "2"]),
    "ten-million": (ten_million, [""]),
    "sets": (of_set, list(SETS)),
    "model": (model_run, list(sharded_model.RUNS)),
}


# The command --------------------------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="sections, or SECTION:PART; default: all")
    parser.add_argument("--points", type=int, help="fewer points than the section says, to try it")
    parser.add_argument("--data", help="where the data sets are; default is the environment variable GRINCH_DATA")
    parser.add_argument("--folder", type=Path, help="where large files may go for a while")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--inside", nargs=2, metavar=("SECTION", "PART"), help=argparse.SUPPRESS)
    return parser.parse_args()


def inside(args: argparse.Namespace) -> None:
    section, part = args.inside
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        print(json.dumps(TASKS[section][0](part, args.points, Path(folder))))


def in_its_own_process(args: argparse.Namespace, section: str, part: str) -> dict[str, Any]:
    options = [f"--{name}={value}" for name in ("points", "folder") if (value := getattr(args, name)) is not None]
    environment = {**os.environ, **({"GRINCH_DATA": args.data} if args.data else {})}
    command = [sys.executable, __file__, *options, "--inside", section, part]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise SystemExit(f"{section}:{part} failed\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def write(out: Path, section: str, part: str, found: dict[str, Any]) -> None:
    """Into what the file says now, so that nothing else is dropped."""
    results = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    results.setdefault(section, {})
    if section == "model":
        results[section].setdefault("runs", {})[part] = found
        results[section] |= sharded_model.conclusions(results[section]["runs"])
    elif part:
        results[section][part] = found
    else:
        results[section] = found
    write_figures(out, results)


def main() -> None:
    args = arguments()
    if args.inside:
        inside(args)
        return
    for asked in args.what or list(TASKS):
        section, _, only = asked.partition(":")
        for part in [only] if only else TASKS[section][1]:
            found = in_its_own_process(args, section, part)
            write(args.out, section, part, found)
            print(section, part, json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
