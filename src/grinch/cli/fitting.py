"""Fitting a model to points in view of a person: timed, and ended by Ctrl-C without losing what is there."""

from __future__ import annotations

import time

from sklearn.base import clone

from grinch import Grinch
from grinch.cli.app import console
from grinch.estimators.advice import no_advice
from grinch.estimators.base import TreeClusterer
from grinch.io.read import Points


def fit_points(model: TreeClusterer, points: Points, passes: int = 0) -> float:
    """Fit and refine, and on Ctrl-C go on with what is in the tree; the seconds it took, without those of compiling."""
    if passes and not isinstance(model, Grinch):
        raise ValueError(f"--refine is for grinch, rotate and online; {type(model).__name__} has nothing to refine by")
    # Enough points for all that a fit of theirs compiles.
    with no_advice():
        small = clone(model).set_params(verbose=False).fit(points.vectors[:60])
    if passes:
        small.refine()
    assert len(small.labels_)
    start = time.perf_counter()
    try:
        model.fit(points.vectors, ids=points.ids)
        if passes:
            model.refine(passes)
    except KeyboardInterrupt:
        # A shuffled order would have to be undone for the ids and labels of the points that made it.
        if not model.__sklearn_is_fitted__() or model.n_leaves_ == 0 or model.shuffle:
            if model.shuffle:
                console.print("\n[yellow]Interrupted: with --shuffle nothing is written.[/yellow]")
            raise
        console.print(f"\n[yellow]Interrupted: going on with the {model.n_leaves_:,} points inserted so far.[/yellow]")
    return time.perf_counter() - start
