"""What a clustering by many workers prints and writes: as one process does where memory allows it, else what it can."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import grinch
from grinch._checks import available_memory
from grinch._types import Labels
from grinch.cli.app import console, say
from grinch.cli.report import print_facts, print_quality, report, tree_facts
from grinch.cli.results import named_columns, print_written, settings_of, write_results, write_summary
from grinch.cli.sharded_input import HeldRows, Input
from grinch.io.read import Points
from grinch.io.rows import Rows
from grinch.io.trees import write_clusters, write_layers, write_scipy
from grinch.metrics import dendrogram_purity, pairwise_f1
from grinch.sharded import ShardedGrinch
from grinch.sharded.estimator import BYTES_PER_POINT, TIMES_THE_VECTORS

MEANINGS = {
    "input": "write the points to disk",
    "sample": "read a sample",
    "skeleton": "build its tree, deal branches to shards",
    "route": "send each point to its nearest branch",
    "neighbors": "look for nearer points in other shards",
    "moves": "decide which points move",
    "trees": "build the tree of each branch",
    "top": "join the branches",
    "near": "find neighbours, also in other shards",
    "graph": "put them together",
}
# Beyond this many points, the model in memory takes longer than the workers did, and is not made.
MOST_BY_THE_WAY = 1_000_000
# Of a tree that is put together and written; and of one that is cut by neighbours.
TREE_BYTES_PER_POINT, CUT_BYTES_PER_POINT = 150, 1_500


def makes_model(rows: Rows) -> bool:
    """Whether all points and their tree are brought into memory in the end, for all that one process would write."""
    # An entry of a sparse row takes as much as two numbers of a dense one.
    width = 2 * rows.matrix.nnz / rows.n_rows if isinstance(rows, HeldRows) else rows.n_features
    bytes_per_point = TIMES_THE_VECTORS * 4 * width + BYTES_PER_POINT
    return rows.n_rows <= MOST_BY_THE_WAY and _has_room(rows, bytes_per_point)


def needs_neighbors(sharded: ShardedGrinch) -> bool:
    """Whether the clusters are chosen by more than the tree."""
    return (sharded.n_clusters is None and sharded.threshold is None) or sharded.noise


def room_for_cut(rows: Rows) -> bool:
    """Whether memory is enough for the neighbours of all points."""
    return _has_room(rows, CUT_BYTES_PER_POINT)


def print_stages(sharded: ShardedGrinch) -> None:
    """What each stage took."""
    stages = sharded.stages_
    found = any(stage.found for stage in stages.values())
    table = Table(box=None, pad_edge=False)
    table.add_column("stage")
    table.add_column("what it does", overflow="fold")
    for name in ("seconds", "tasks", *(["done before"] * found), "read", "written", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, stage in stages.items():
        before = [f"{stage.found:,}"] * found
        sizes = map(size_of, (stage.read, stage.written, stage.peak_memory))
        table.add_row(name, MEANINGS.get(name, ""), f"{stage.seconds:,.1f}", f"{stage.tasks:,}", *before, *sizes)
    console.print()
    console.print(table)
    say("(read, written: by all workers together; memory: the most that one of them has had)")


def size_of(count: int) -> str:
    """Bytes as people read them.

    >>> size_of(0), size_of(999), size_of(1_280_000), size_of(25_000_000_000)
    ('', '999 B', '1.3 MB', '25 GB')
    """
    if not count:
        return ""
    size, units = float(count), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 999.5 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.1f} {unit}" if size < 9.95 and unit != "B" else f"{size:.0f} {unit}"


def write_sharded(sharded: ShardedGrinch, found: Input, seconds: float, out: Path, picture: bool) -> bool:
    """Write all that one process would, if there is memory for it; else the tree, and clusters if they need no more.

    Whether it was all.
    """
    more = _stages(sharded)
    if makes_model(found.rows):
        _write_all(sharded, found, seconds, out, picture, more)
        return True
    if not _has_room(found.rows, TREE_BYTES_PER_POINT):
        write_summary(out, {**_facts(sharded, found, seconds), **more})
        print_written(out, ["summary.json"])
        say("note: the tree does not fit into memory; in Python, top_ and branch(i) of ShardedGrinch read parts of it")
        return False
    is_cut = not needs_neighbors(sharded) or room_for_cut(found.rows)
    _write_tree(sharded, found, seconds, sharded.labels_ if is_cut else None, out, more)
    if not is_cut:
        say(
            "note: no clusters, for which the neighbours of all points must fit into memory; cut the tree with"
            " --clusters N or --threshold SCORE"
        )
    why = "" if found.rows.n_rows <= MOST_BY_THE_WAY else f" and, of more than {MOST_BY_THE_WAY:,} points, long"
    say(f"note: no model and pictures, which would take all points in memory{why}")
    return False


def _stages(sharded: ShardedGrinch) -> dict[str, Any]:
    stages = {name: asdict(stage) for name, stage in sharded.stages_.items()}
    found = {"shards": sharded.n_shards, "branches": len(sharded.branch_sizes_), "moved": sharded.n_moved_}
    return {**found, "stages": stages}


def _facts(sharded: ShardedGrinch, found: Input, seconds: float) -> dict[str, Any]:
    return {
        "version": grinch.__version__,
        "points": sharded.n_leaves_,
        "features": found.rows.n_features,
        "seconds": round(seconds, 3),
        "settings": {**settings_of(sharded), "folder": str(sharded.folder)},
    }


def _write_all(
    sharded: ShardedGrinch,
    found: Input,
    seconds: float,
    out: Path,
    picture: bool,
    more: dict[str, Any],
) -> None:
    console.print("\nputting the tree together, and choosing clusters …")
    start = time.perf_counter()
    model = sharded.to_grinch()
    flat = model.labels_
    seconds += time.perf_counter() - start
    # Pictures show what is alike side by side.
    points = Points(_vectors(found.rows) if picture else None, found.ids, found.labels, found.kept)
    report("grinch", model, flat, points, seconds, {})
    write_results(model, flat, points, seconds, out, picture, more=more)


def _vectors(rows: Rows) -> Any:
    return rows.matrix if isinstance(rows, HeldRows) else np.concatenate(list(map(rows.read, range(len(rows.pieces)))))


def _write_tree(
    sharded: ShardedGrinch, found: Input, seconds: float, flat: Labels | None, out: Path, more: dict[str, Any]
) -> None:
    tree, facts = sharded.tree_, {**_facts(sharded, found, seconds), **more}
    print_facts(tree_facts(tree, flat, seconds))
    if found.labels is not None:
        print_quality("grinch", tree, flat, found.labels, seconds, {})
        facts["dendrogram_purity"] = dendrogram_purity(tree, found.labels)
    write_scipy(tree, out / "linkage.npy")
    written = ["linkage.npy"]
    names, labels = (None if values is None else values.tolist() for values in (found.ids, found.labels))
    if "graph" in sharded.stages_ and flat is not None:
        write_layers(out / "layers.csv", sharded.layers_, names)
        written.append("layers.csv")
    if flat is not None:
        written.append("clusters.csv")
        write_clusters(out / "clusters.csv", flat, names, labels, named_columns(found.kept))
        facts["clusters"] = int(flat.max()) + 1
        if labels is not None:
            facts["pairwise_f1"] = pairwise_f1(labels, flat)
    write_summary(out, facts)
    print_written(out, [*written, "summary.json"])


def _has_room(rows: Rows, bytes_per_point: float) -> bool:
    room = available_memory()
    return room is None or rows.n_rows * bytes_per_point < room
