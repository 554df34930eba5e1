"""Inputs and linkages for runs on shards, and accidents that happen to their workers; importable by their processes."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from grinch import datasets, running

# What happens on this worker, by stage: the words of an error.
REFUSED: dict[str, str] = {}
_begin, _write, _now = running.read_checkpoint, running.write_checkpoint, {"stage": ""}


def as_kind(X, kind, folder):
    """The same points as something else, and its columns."""
    if kind in ("memmap", "npy"):
        np.save(folder / "points.npy", X)
        return (np.load(folder / "points.npy", mmap_mode="r") if kind == "memmap" else folder / "points.npy"), None
    if kind == "dask array":
        import dask.array

        return dask.array.from_array(X, chunks=(200, X.shape[1])), None
    import pandas

    frame = pandas.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    if kind == "dask frame":
        import dask.dataframe

        return dask.dataframe.from_pandas(frame, npartitions=3), None
    if kind == "list column":
        frame = pandas.DataFrame({"number": range(len(X)), "vector": list(X)})
    half = len(frame) // 2
    for i, part in enumerate((frame[:half], frame[half:])):
        part.to_parquet(folder / f"part-{i}.parquet")
    return str(folder / "part-*.parquet"), "vector" if kind == "list column" else list(frame.columns)


def large_set(name):
    """A set of tens of thousands of points in random order, if it is here."""
    if name == "mixture":
        return datasets.gaussian_mixture(100_000)
    if name not in datasets.available():
        pytest.skip(f"{name} is not in the folder that GRINCH_DATA names")
    X, y = datasets.load(name)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


# Records --------------------------------------------------------------------------------------------------------------


def words(n, n_classes=10):
    """Words of the letters of their classes, and the classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    letters_of = [rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 5, replace=False) for _ in range(n_classes)]
    return ["".join(rng.choice(letters_of[label], 8)) for label in y], y


def letters(some):
    """How often each letter is in a word."""
    return np.array([[word.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for word in some], float)


def first_letters(word):
    return list(set(word))[:2] if len(word) < 2 else sorted(set(word))[:3]


class CommonLetters:
    """Cosine of the counts of letters, by mergeable summaries."""

    ceiling = 1.0

    def leaf(self, word):
        return letters([word])[0]

    def merge(self, a, b):
        return a + b

    def score(self, a, b):
        if _now["stage"] in REFUSED:
            raise RuntimeError(REFUSED[_now["stage"]])
        return float(a @ b / np.sqrt((a @ a) * (b @ b)))


# Accidents ------------------------------------------------------------------------------------------------------------


@contextmanager
def killing(client, stage, mark):
    """The first worker that has done a task of a stage, and not said so yet, is killed."""
    client.run(_kill_in, stage, str(mark))
    try:
        yield
    finally:
        client.run(_behave)


@contextmanager
def refusing(client, stage, words):
    """Linkages raise in a stage."""
    client.run(_refuse_in, stage, words)
    try:
        yield
    finally:
        client.run(_behave)


def _kill_in(stage, mark):
    def write(path, **content):
        if path.parent.name == stage and not Path(mark).exists():
            Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        _write(path, **content)

    running.write_checkpoint = write


def _refuse_in(stage, words):
    def read(path, stamp):
        _now["stage"] = path.parent.name
        return _begin(path, stamp)

    running.read_checkpoint = read
    REFUSED[stage] = words


def _behave():
    REFUSED.clear()
    running.read_checkpoint, running.write_checkpoint = _begin, _write
