"""Files that are cut off, damaged or made to do harm are refused, with the reason."""

from __future__ import annotations

import contextlib
import copy
from functools import cache

import numpy as np
import pytest

import grinch
from effort import by_turns, trials
from grinch import HAC, SCC, Birch, Grinch, MiniBatchHAC, Perch, Rules
from grinch.datasets import gaussian_mixture
from grinch.errors import SavedModelError
from grinch.estimators.saved import model_from_state
from grinch.linkage import Pairwise
from grinch.saving.state import unflatten
from grinch.summaries.callbacks import int32_at
from hostile_files import Parts, parts_of, written
from sparse_data import sparse_groups

X = gaussian_mixture(120, n_features=4, n_classes=5, random_state=0)[0]
S = sparse_groups(120, n_features=50, n_groups=4)


def near(a, b):
    return -abs(sum(a) / len(a) - sum(b) / len(b))


def refused(path, match=None):
    with pytest.raises(SavedModelError, match=match) as caught:
        grinch.load(path)
    assert str(path) in str(caught.value)


HEADERS = [
    *({}, {"class": None}, {"class": []}, {"class": "object"}, {"class": {"array": "b"}}),
    *({"class": "Grinch", "parameters": {}}, {"class": "Grinch", "parameters": {"array": "a"}}),
    {"class": "Grinch", "parameters": [[[[[]]]]], "fitted": None},
]


@pytest.mark.parametrize("header", HEADERS, ids=repr)
def test_headers(header, tmp_path):
    written(tmp_path / "model", Parts(header, {"a": np.zeros(3)}))
    refused(tmp_path / "model")


def test_an_array_is_used_once(tmp_path):
    parts = parts_of(Grinch().fit(X[:50]))
    summaries = parts.header["fitted"]["builder"]["summaries"]["arrays"]
    summaries["counted"] = summaries["changes"]
    written(tmp_path / "model", parts)
    refused(tmp_path / "model", "is used twice")


TWO = {"n_clusters": 2}
MODELS = {
    "vectors": lambda: Grinch("ward", **TWO).fit(X[:60]).remove([5]),
    "cells": lambda: Grinch("cosine", search="index", **TWO).fit(gaussian_mixture(520, n_features=2)[0]),
    "sparse": lambda: Grinch(mode=Rules.fast(cap=5, most_entries=9), **TWO).fit(S[:60]).remove([5]),
    "records": lambda: Grinch(near, **TWO).fit(X[:15, 0].tolist()),
    "pairwise": lambda: Grinch(Pairwise("average", distance="euclidean"), **TWO).fit(X[:12]),
    "hac": lambda: HAC(**TWO).fit(X[:15]),
    "buffer": lambda: MiniBatchHAC(buffer_size=10, **TWO).fit(X[:30]),
    "perch": lambda: Perch(max_leaves=20, **TWO).fit(X[:30]),
    "scc": lambda: SCC(**TWO).fit(X[:15]),
    "birch": lambda: Birch(branching_factor=3, **TWO).fit(X[:12]),
}


@cache
def fitted(kind):
    """A model for tests that do not change it."""
    return MODELS[kind]()


def still_works(path) -> None:
    """Either a file is refused, or what is opened can be used without a crash."""
    try:
        model = grinch.load(path)
    except SavedModelError:
        return
    model.validate()
    try:
        model.labels_
        if hasattr(model, "partial_fit") and not isinstance(model, Birch):
            records = X[:9, 0].tolist() if model.n_leaves_ and callable(getattr(model, "linkage", None)) else X[:9]
            model.partial_fit(S[:9] if model.n_features_in_ == S.shape[1] else records)
    except (ValueError, IndexError, TypeError, AssertionError, ZeroDivisionError, KeyError, AttributeError):
        return


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", MODELS)
def test_wild_numbers_in_any_array(kind, tmp_path):
    """Every array in turn gets numbers from far outside; nothing may crash."""
    rng = np.random.default_rng(0)
    for i, (name, array) in enumerate(parts_of(fitted(kind)).arrays.items()):
        if not array.size:
            continue
        for wild in by_turns((2**30, -7), i):
            parts = parts_of(fitted(kind))
            flat = parts.arrays[name].reshape(-1)
            if flat.dtype.kind in "iu":
                wild = int(np.clip(wild, np.iinfo(flat.dtype).min, np.iinfo(flat.dtype).max))
            flat[rng.integers(len(flat))] = wild
            written(tmp_path / "model", parts)
            still_works(tmp_path / "model")


@pytest.mark.parametrize("kind", MODELS)
def test_arrays_of_another_kind_or_shape(kind, tmp_path):
    path = tmp_path / "model"
    for i, (name, array) in enumerate(parts_of(fitted(kind)).arrays.items()):
        longer = np.concatenate([array, array]) if len(array) else np.zeros((3, *array.shape[1:]), array.dtype)
        others = [array.astype("<f2" if array.dtype.kind == "f" else "<i2"), array.reshape(*array.shape, 1), longer]
        parts = parts_of(fitted(kind))
        for other in by_turns(others, i):
            parts.arrays[name] = other
            written(path, parts)
            still_works(path)
        del parts.arrays[name]
        written(path, parts)
        refused(path)


def places_in(data, path=()):
    """Where a manifest has numbers and flags; every day only the first two of a list."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from places_in(value, (*path, key))
    elif isinstance(data, list):
        for i, value in enumerate(data[: trials(2, len(data))]):
            yield from places_in(value, (*path, i))
    else:
        yield path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", MODELS)
def test_wild_values_in_the_manifest(kind, tmp_path):
    start = parts_of(fitted(kind))
    values = (None, -1, 10**12, "x", [1], 0.5)
    for i, path in enumerate(places_in(start.header)):
        if path[:1] == ("parameters",) and path[1] in ("n_clusters", "threshold", "verbose", "noise", "random_state"):
            continue
        for wild in by_turns(values, i):
            manifest = copy.deepcopy(start.header)
            at = manifest
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = wild
            written(tmp_path / "model", Parts(manifest, start.arrays))
            with contextlib.suppress(SavedModelError):
                grinch.load(tmp_path / "model")


CRIMES = {
    "a circle": lambda engine: engine.links.table.__setitem__((engine.summaries.capacity + 3, 1), engine.links.head[0]),
    "a parent outside": lambda engine: engine.links.table.__setitem__((4, 0), 10**6),
    "a child outside": lambda engine: engine.links.table.__setitem__((engine.summaries.capacity + 3, 2), 10**6),
    "a negative child": lambda engine: engine.links.table.__setitem__((engine.summaries.capacity + 3, 2), -5),
    "a wrong size": lambda engine: engine.links.table.__setitem__((engine.summaries.capacity + 3, 3), 99),
    "a root outside": lambda engine: engine.links.head.__setitem__(0, 10**6),
    "too many leaves": lambda engine: engine.links.head.__setitem__(1, 10**6),
    "too many slots": lambda engine: engine.links.head.__setitem__(2, 10**6),
    "an offset": lambda engine: engine.links.head.__setitem__(3, 7),
    "a stale leaf": lambda engine: engine.summaries.arrays.stale.__setitem__(3, 1),
    "a neighbour outside": lambda engine: engine.hook.neighbors.near.__setitem__((3, 0), 10**6),
    "a gap": lambda engine: engine.hook.neighbors.near.__setitem__((50, 0), -1),
    "a vector that is not finite": lambda engine: engine.summaries.arrays.means.__setitem__((3, 0), np.nan),
    "met": lambda engine: engine.hook.neighbors.met.__setitem__(0, -3),
}


ROW_CRIMES = {
    "a row elsewhere": lambda arrays, at: arrays.row_starts.__setitem__(3, 10**9),
    "a row that is looked up": lambda arrays, at: arrays.row_starts.__setitem__(3, -4),
    "a row that is too long": lambda arrays, at: arrays.row_sizes.__setitem__(3, 10**8),
    "a row of less than nothing": lambda arrays, at: arrays.row_sizes.__setitem__(3, -2),
    "a column outside": lambda arrays, at: arrays.leaf_columns.__setitem__(3, 50),
    "a negative column": lambda arrays, at: arrays.leaf_columns.__setitem__(3, -1),
    "columns out of order": lambda arrays, at: arrays.leaf_columns.__setitem__(1, 0),
    "a value that is not finite": lambda arrays, at: arrays.leaf_values.__setitem__(3, np.inf),
    "a node's column outside": lambda arrays, at: int32_at(arrays.row_starts[at], 1).__setitem__(0, -1),
    "a node without a row": lambda arrays, at: arrays.row_sizes.__setitem__(at, 0),
    "a length": lambda arrays, at: arrays.moments.__setitem__((3, 2), np.nan),
}


@pytest.mark.parametrize("crime", [*CRIMES, *ROW_CRIMES])
def test_parts_are_checked_whoever_carries_them(crime):
    model = model_from_state(unflatten(*parts_of(Grinch("ward").fit(X[:100] if crime in CRIMES else S[:100]))))
    model.validate()
    builder = model.current_fit().builder
    if crime in CRIMES:
        CRIMES[crime](builder)
    else:
        summaries = builder.summaries
        at = summaries.capacity + int(np.flatnonzero(summaries.arrays.row_sizes[summaries.capacity :])[0])
        ROW_CRIMES[crime](summaries.arrays, at)
    with pytest.raises(SavedModelError, match="damaged"):
        model.validate()


HOSTILE_ROWS = {
    "a size": ("leaf_sizes", 3, 10**9),
    "a negative size": ("leaf_sizes", 3, -1),
    "a column": ("leaf_columns", 3, 10**6),
    "an order": ("leaf_columns", 1, -1),
    "a value": ("leaf_values", 2, np.nan),
    "a node": ("is_apart", 0, 7),
    "an entry": ("apart_columns", 1, 0),
    "a node's size": ("apart_sizes", 0, 10**6),
    "a node's value": ("apart_values", 0, np.inf),
}


@pytest.mark.parametrize("what", HOSTILE_ROWS)
def test_files_with_hostile_rows(what, tmp_path):
    name, at, value = HOSTILE_ROWS[what]
    parts = parts_of(fitted("sparse"))
    array = parts.arrays[f"fitted.builder.summaries.rows.{name}"]
    assert len(array) > at
    array[at] = value
    written(tmp_path / "model", parts)
    refused(tmp_path / "model", "damaged")


@pytest.mark.parametrize("X", [X, S], ids=["dense", "sparse"])
def test_parts_of_arrays_that_cannot_be_written_to(X):
    model = Grinch("ward").fit(X[:100])
    parts = parts_of(model)
    for array in parts.arrays.values():
        array.flags.writeable = False
    twin = model_from_state(unflatten(*parts))
    assert twin.partial_fit(X[100:]).labels_.tolist() == model.partial_fit(X[100:]).labels_.tolist()
