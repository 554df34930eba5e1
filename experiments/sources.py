"""Data and systems as another process can make them again, and the figures of a tree."""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from grinch.datasets import Labelled, arrival, gaussian_mixture, load, paper_synthetic
from grinch.estimators.registry import make_system
from grinch.metrics import dendrogram_purity

MIXTURE = "gaussian mixture"
# Kept in the folder of the results by the experiment that makes it.
UMAP_OF_MNIST = "mnist (UMAP)"
UMAP_FILE = "mnist-umap.npz"
SYNTHETIC = "synthetic"
SYNTHETIC_PER_CLASS = 25
# A tree of these has seen all there is to compile.
FIRST = 300
MOVES = ("rotations", "grafts", "restructurings")


NO_SETTINGS: dict[str, Any] = {}


class Source(NamedTuple):
    """A data set by name, with at most so many points; ``per_class`` is for the mixture, which is made."""

    name: str
    most: int
    folder: Path | None
    seed: int
    per_class: int = 20


class System(NamedTuple):
    """A system by the name of its method, with settings; average linkage is the paper's, of cosines."""

    method: str
    linkage: str = "average"
    settings: Mapping[str, Any] = NO_SETTINGS
    metric: str = "cosine"


@lru_cache(maxsize=1)
def points_of(source: Source) -> Labelled:
    """All points, or a random sample if there are more than wanted."""
    if source.name == MIXTURE:
        n_classes = max(source.most // source.per_class, 2)
        return gaussian_mixture(source.most, n_classes=n_classes, random_state=source.seed)
    if source.name == SYNTHETIC:
        return paper_synthetic(source.most // SYNTHETIC_PER_CLASS, SYNTHETIC_PER_CLASS, random_state=source.seed)
    if source.name == UMAP_OF_MNIST:
        assert source.folder is not None
        with np.load(source.folder / UMAP_FILE, allow_pickle=False) as kept:
            data = Labelled(kept["X"], kept["y"])
    else:
        data = load(source.name, source.folder)
    if len(data.labels) <= source.most:
        return data
    rows = np.random.default_rng(source.seed).permutation(len(data.labels))[: source.most]
    return Labelled(data.vectors[rows], data.labels[rows])


class Description(NamedTuple):
    """The size of a data set, and what changes when a value in it does."""

    n: int
    digest: str


@lru_cache
def describe(source: Source) -> Description:
    vectors, labels = points_of(source)
    classes = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    code = zlib.crc32(np.ascontiguousarray(vectors).tobytes(), zlib.crc32(classes.tobytes()))
    return Description(len(labels), f"{len(vectors)} x {vectors.shape[1]}, {code:08x}")


def digest(source: Source) -> str:
    return describe(source).digest


def in_order(source: Source, order: str | None, seed: int) -> Labelled:
    data = points_of(source)
    if order is None:
        return data
    rows = arrival(data.labels, order, seed)
    return Labelled(data.vectors[rows], data.labels[rows])


def measured_tree(source: Source, system: System, order: str | None, seed: int) -> dict[str, float]:
    """Purity, processor time and moves."""
    X, y = in_order(source, order, seed)
    method, linkage, settings, metric = system
    # Compiled, or read from the cache, before the clock starts.
    make_system(method, linkage=linkage, metric=metric, **settings).fit(X[:FIRST])
    model = make_system(method, linkage=linkage, metric=metric, **settings)
    began = time.process_time()
    tree = model.fit(X).tree_
    seconds = time.process_time() - began
    moves = {name: model.stats_[name] for name in MOVES if name in model.stats_}
    return {"purity": dendrogram_purity(tree, y), "seconds": round(seconds, 3), **moves}
