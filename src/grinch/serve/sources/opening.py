"""What is at a path that can be looked at."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grinch.estimators.saved import load
from grinch.estimators.tree_clusterer import TreeClusterer
from grinch.io.read import FileError
from grinch.saving.container import MAGIC, OLD_MODEL
from grinch.serve.sources.memory import MemorySource
from grinch.serve.sources.store import StoreSource
from grinch.store.opening import is_store
from grinch.store.opening import open as open_store
from grinch.tree import Tree

TABLES = (".csv", ".tsv", ".parquet", ".npz")


def open_source(path: str | os.PathLike[str], *, payload: Sequence[Any] | None = None) -> StoreSource | MemorySource:
    """What is at a path: a store or a finished run of many workers (folders), a saved model, a scipy linkage matrix
    (.npy), or a tree in Newick.
    """
    found = Path(path)
    if found.is_dir():
        if not is_store(found):
            if is_run(found):
                return _run_source(found, payload)
            raise FileError(
                f"PATH {str(found)!r} is a folder without a store or a run of many workers in it; make a store with:"
                " grinch add STORE FILE"
            )
        if payload is not None:
            raise ValueError("payload is for models and trees; the points of a store have their own")
        return StoreSource(open_store(found, readonly=True))
    if not found.exists():
        raise FileError(
            f"PATH {str(found)!r} does not exist; give a store, a saved model, a linkage.npy or a Newick file"
        )
    names_file = found.with_name(f"{found.name}.names")
    with open(found, "rb") as file:
        start = file.read(64)
    looked_at: TreeClusterer | Tree = load(found) if start.startswith((MAGIC, OLD_MODEL)) else _read_tree(found, start)
    return MemorySource(looked_at, found.name, payload=payload, names_file=names_file)


def is_run(path: Path) -> bool:
    """Whether a folder is that of a run by many workers."""
    if not path.is_dir():
        return False
    from grinch.sharded import record  # late, for most paths are files

    return record.is_run(path)


def _run_source(folder: Path, payload: Sequence[Any] | None) -> MemorySource:
    from grinch.sharded.record import FinishedRun

    run = FinishedRun(folder)
    names_file = folder / "run.names"
    title = folder.resolve().name
    return MemorySource(run.tree, title, payload=payload, names_file=names_file, labels=run.labels, vectors=run)


def _read_tree(path: Path, start: bytes) -> Tree:
    """The tree in a file of another program."""
    try:
        if start.startswith(b"\x93NUMPY"):
            return Tree.from_scipy(np.load(path, allow_pickle=False))
        if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"(", b"[")):
            tree = Tree.from_newick(path.read_text("utf-8-sig"))
            if tree.n_leaves == 1:
                leaf = "0" if tree.names is None else tree.names[0]
                raise ValueError(
                    f"it is a tree of a single leaf, {leaf!r:.60}; give one of two or more, such as '(a,b);'"
                )
            return tree
    except (ValueError, EOFError) as error:
        raise FileError(f"PATH {str(path)!r} cannot be read as a tree: {error}") from None
    hint = f". Make a tree of these points with: grinch cluster {path}" if path.suffix in TABLES else ""
    raise FileError(
        f"PATH {str(path)!r} is none of what can be looked at: a store (a folder), a model saved by save(),"
        f" scipy's linkage matrix (.npy), or a tree in Newick{hint}"
    )
