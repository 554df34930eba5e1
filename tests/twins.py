"""A model and the same one saved and opened: whatever is done to both, they must stay the same."""

from __future__ import annotations

import numpy as np

import grinch


def reopened(model, folder, **given):
    path = folder / "model.grinch"
    model.save(path)
    return grinch.load(path, **given)


def attributes_of(thing, path=""):
    """The names of all attributes of our objects within an object, by where they are, but those of linkages."""
    found = set()
    for name, value in vars(thing).items():
        if name not in ("linkage", "_linkage"):
            found.add(f"{path}.{name}")
            if type(value).__module__.startswith("grinch") and hasattr(value, "__dict__"):
                found |= attributes_of(value, f"{path}.{name}")
    return found


def refitted(model, points, folder, **given):
    """Fit a model, and open it again; a new attribute of a class has to be in its state, or made again from it."""
    twin = reopened(model.fit(points), folder, **given)
    # Trees are made when they are asked for.
    assert twin.tree_.n_leaves == model.tree_.n_leaves
    assert attributes_of(twin.current_fit()) == attributes_of(model.current_fit())
    return twin


def same_bits(a, b) -> bool:
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def assert_same(a, b) -> None:
    """The same trees to the last bit, and everything that is read off them."""
    assert a.stats_ == b.stats_
    assert a.tree_.names == b.tree_.names
    assert same_bits(a.tree_.links.table, b.tree_.links.table)
    assert same_bits(a.tree_.links.head, b.tree_.links.head)
    assert same_bits(a.tree_.scores, b.tree_.scores)
    assert a.ids_ == b.ids_
    assert same_bits(a.labels_, b.labels_)
    assert a.clusters_ == b.clusters_


def go_on(models, batches, gone=(), updated=None, queries=None, refine=False) -> None:
    """Do the same to both, and compare them after each step."""
    a, b = models

    def both(change) -> None:
        for model in models:
            change(model)
        assert_same(a, b)

    assert_same(a, b)
    for batch in batches:
        both(lambda model, batch=batch: model.partial_fit(*batch[:1], ids=batch[1] if len(batch) > 1 else None))
    if len(gone):
        both(lambda model: model.remove(gone))
    if updated is not None:
        both(lambda model: model.update(*updated))
    if refine:
        both(lambda model: model.refine())
        costs = [[(r.cost_before, r.cost_after, r.moved) for r in model.refinements_] for model in models]
        assert costs[0] == costs[1]
    if queries is not None:
        assert same_bits(a.predict(queries), b.predict(queries))
