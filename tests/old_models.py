"""What is in the files of ``tests/saving/fixtures``, made again; run with format 1's code, this writes them.

PYTHONPATH=CHECKOUT_OF_FORMAT_1/src:tests python tests/old_models.py tests/saving/fixtures
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

import grinch
from grinch import HAC, Birch, Grinch, MiniBatchHAC, Online, Perch, Rotate, Rules
from grinch.datasets import gaussian_mixture
from grinch.linkage import Pairwise, VectorMeans, WeightedSum, WithRules
from grinch.neighbors import ByKey, ByVector
from grinch.resolve.authors import Model, Record
from grinch.resolve.authors.features import FEATURES, Statistics
from grinch.resolve.authors.predictors import Logistic
from grinch.text import TextVectors
from sparse_data import sparse_groups

X = gaussian_mixture(200, n_features=6, n_classes=8, random_state=0)[0].astype(np.float32)
FLAT = gaussian_mixture(620, n_features=2, random_state=1)[0].astype(np.float32)
S = sparse_groups(200, n_features=60, n_groups=5)
NUMBERS = [round(float(x), 3) for x in X[:, 0]]
TEXTS = ["red apple", "green apple", "a red rose", "blue sky over the sea", "the deep blue sea"]


def near(a, b):
    return -abs(sum(a) / len(a) - sum(b) / len(b))


def as_rows(records):
    return np.array([[x, 1.0] for x in records])


def rounded(record):
    return round(record)


def as_vector(record):
    return [record, 1.0]


# By name: the model, the points it has seen, and those that come next.
MODELS = {
    "dense": (lambda: Grinch(n_clusters=4), X[:150], X[150:]),
    "ward": (lambda: Grinch("ward", noise=True), X[:150], X[150:]),
    "cosine": (lambda: Grinch("cosine", mode="paper"), X[:60], X[60:90]),
    "cells": (lambda: Grinch("centroid", search="index"), FLAT[:520], FLAT[520:]),
    "cosine_cells": (lambda: Grinch("cosine", search="index"), FLAT[:520], FLAT[520:]),
    "sparse": (lambda: Grinch(mode=Rules.fast(cap=20, most_entries=12)), S[:150], S[150:]),
    "tanimoto": (lambda: Grinch("tanimoto"), S[:60], S[60:90]),
    "records": (lambda: Grinch(near, search=[ByVector(as_rows), ByKey(rounded)]), NUMBERS[:40], NUMBERS[40:60]),
    "pairwise": (lambda: Grinch(Pairwise("average", distance="euclidean")), X[:20], X[20:30]),
    "parts": (
        lambda: Grinch(WithRules(WeightedSum([(1.0, VectorMeans("ward"), as_vector)]), must=[rounded])),
        NUMBERS[:30],
        NUMBERS[30:40],
    ),
    "rotate": (lambda: Rotate("ward"), X[:80], X[80:120]),
    "online": (lambda: Online(), X[:80], X[80:120]),
    "hac": (lambda: HAC("ward", n_clusters=3), X[:40], None),
    "hac_pairs": (lambda: HAC("average", metric="cityblock", n_clusters=3), X[:30], None),
    "minibatch": (lambda: MiniBatchHAC(buffer_size=20), X[:60], X[60:90]),
    "perch": (lambda: Perch(max_leaves=40), X[:80], X[80:120]),
    "birch": (lambda: Birch(n_clusters=4, branching_factor=5), X[:60], X[60:90]),
    "unfitted": (lambda: Grinch("ward", threshold=-3.0, n_neighbors=25), None, None),
}


def made(name):
    """The model as it was saved."""
    make, points, _ = MODELS[name]
    return make() if points is None else make().fit(points, ids=[f"p{i}" for i in range(points_in(points))])


def points_in(points):
    return points.shape[0] if hasattr(points, "shape") else len(points)


def text_vectors():
    return TextVectors().fit(TEXTS)


def coreference_model():
    statistics = Statistics.of([Record("1", "A Lee", title="deep trees"), Record("2", "A Lee", title="soup")])
    weights = np.linspace(-1.0, 1.0, len(FEATURES))
    return Model(Logistic(weights, np.array([0.5])), FEATURES, 0.4, (1.5, -0.25), statistics, {"n": 3})


def fill_store(folder, copy=None):
    """A store of two cuts, ids and payloads; ``copy`` is what it was while the last operations were in the log only."""
    ids = [f"p{i}" for i in range(200)]
    with grinch.open(folder, n_clusters=4) as store:
        store.insert(X[:100], ids=ids[:100], payload=[{"title": name} for name in ids[:100]])
        store.add_cut("fine", n_clusters=12)
        store.remove(ids[:10])
        store.snapshot()
        store.insert(X[100:150], ids=ids[100:150], payload=[{"title": name} for name in ids[100:150]])
        store.update(ids[20:22], X[190:192])
        store.remove(ids[30:33])
        if copy is not None:
            shutil.copytree(folder, copy)


def _packed(info):
    """Leave out what is of a machine: who held the store, and shared memory."""
    if info.name.endswith(("writer.lock", "-shm")):
        return None
    info.uname = info.gname = ""
    info.uid = info.gid = 0
    return info


def write(folder):
    for name in MODELS:
        made(name).save(folder / f"{name}.grinch")
    text_vectors().save(folder / "text_vectors.npz")
    coreference_model().save(folder / "coreference.model")
    with tempfile.TemporaryDirectory() as temporary:
        fill_store(Path(temporary) / "made", Path(temporary) / "store")
        with tarfile.open(folder / "store.tar.xz", "w:xz") as archive:
            archive.add(Path(temporary) / "store", "store", filter=_packed)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    # Functions are saved as those of this module, not of __main__.
    import old_models

    old_models.write(target)
