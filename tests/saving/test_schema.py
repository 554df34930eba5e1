"""Format 1 stays as it is: a field that comes, goes or changes needs another version of the format, a new part none."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import grinch
from grinch import HAC, Birch, Grinch, MiniBatchHAC, Perch, Rules
from grinch.core.rules import ONLINE, ROTATE
from grinch.datasets import gaussian_mixture
from grinch.linkage import Pairwise
from grinch.neighbors import ByKey, ByVector
from grinch.saving.builders import BOXES
from grinch.saving.engine import CELLS, KEPT, put_rules
from grinch.saving.parts import BEFORE, CLASSES
from grinch.saving.schema import FORMAT, SCHEMAS, name_in_file
from grinch.saving.sparse import ROWS

DATA = Path(__file__).parent / "data"
X = gaussian_mixture(60, n_features=3, n_classes=4, random_state=0)[0]


def near(a, b):
    return -abs(sum(a) / len(a) - sum(b) / len(b))


def as_rows(records):
    return np.array([[x, 1.0] for x in records])


def schema_now():
    """What is written, in plain words."""
    found = {
        tag: {
            "scalars": {name_in_file(name): kind.__name__ for name, kind in schema.scalars.items()},
            "arrays": {name_in_file(name): list(kind) for name, kind in schema.arrays.items()},
            "parts": sorted(map(name_in_file, schema.parts)),
        }
        for tag, schema in SCHEMAS.items()
    }
    tables = {"summaries": KEPT, "cells": CELLS, "boxes": BOXES, "sparse_rows": ROWS}
    for name, table in tables.items():
        found[name] = {"arrays": {each: list(kind) for each, kind in table.items()}}
    parameters = {name: sorted(kind._get_param_names()) for name, kind in CLASSES.items()}
    return {"parts": found, "parameters": parameters}


def test_format_1_is_what_it_was():
    """If this fails, files written before no longer mean the same: step FORMAT, and read format 1 as it was."""
    assert FORMAT == 1
    now = schema_now()
    # Parameters that came since mean what BEFORE says where a file does not have them.
    now["parameters"] = {
        kind: [name for name in names if name not in BEFORE] for kind, names in now["parameters"].items()
    }
    assert now == json.loads((DATA / "format_1.json").read_text())


def test_rules_of_before_there_were_sparse_vectors():
    """They are what the same call says today, so that a model goes on with it."""
    for rules in (Rules.fast(), Rules.fast(cap=20), Rules.paper(), Rules.exact(pull=False), ROTATE, ONLINE):
        before = {name: value for name, value in rules._asdict().items() if name != "most_entries"}
        assert put_rules(before) == rules


def things_in(model):
    """Everything in a fitted model that is written, by the name of the part."""
    waiting, seen = [model._fitted], set()
    kinds = {schema.kind: tag for tag, schema in SCHEMAS.items()}
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if type(thing) in kinds:
            yield kinds[type(thing)], thing
            waiting += vars(thing).values()
        elif isinstance(thing, list):
            waiting += thing[:5]


def test_every_attribute_is_written_or_known_not_to_be():
    """A new attribute of a class has to be added to the schema: as a field, or as one that is made again."""
    models = [
        Grinch("ward").fit(X),
        Grinch("ward", search="index").fit(X),
        Grinch("ward").fit(scipy.sparse.csr_matrix(X)),
        Grinch(near, search=[ByVector(as_rows), ByKey(int)]).fit(X[:, 0].tolist()),
        Grinch(Pairwise("average", distance="euclidean")).fit(X),
        HAC().fit(X),
        MiniBatchHAC(buffer_size=9).fit(X),
        Perch().fit(X),
        Birch().fit(X),
    ]
    seen = set()
    for model in models:
        for tag, thing in things_in(model):
            schema = SCHEMAS[tag]
            known = {*schema.scalars, *schema.arrays, *schema.parts, *schema.made_again}
            assert set(vars(thing)) == known, tag
            seen.add(tag)
    assert seen == set(SCHEMAS)


@pytest.mark.parametrize("name", ["vectors", "records", "perch"])
def test_files_of_format_1_open(name):
    model = grinch.load(DATA / f"format_1_{name}.grinch", **({"linkage": near} if name == "records" else {}))
    expected = json.loads((DATA / f"format_1_{name}.json").read_text())
    assert model.ids_ == expected["ids"]
    assert model.tree_.to_newick(lengths=False) == expected["tree"]
    assert model.labels_.tolist() == expected["labels"]
    more = X[40:, 0].tolist() if name == "records" else X[40:]
    assert model.partial_fit(more, ids=[f"later {i}" for i in range(20)]).n_leaves_ == len(expected["ids"]) + 20
