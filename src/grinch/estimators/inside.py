"""The inside of an estimator, for what is built around one: stores, and what shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from grinch.core.engine import Engine
from grinch.estimators.base import TreeClusterer
from grinch.estimators.fit import Fit
from grinch.estimators.grinch import Grinch, stays_sparse
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage

Found = TypeVar("Found")


def ask_fit(model: TreeClusterer, ask: Callable[[Fit], Found]) -> Found:
    """Return what ``ask`` finds in what was fitted; other threads wait meanwhile."""
    return model._read(ask)


def fit_of(model: TreeClusterer) -> Fit:
    """Return what was fitted, to whoever alone uses the model."""
    return model._check_fitted()


def engine_of(model: Grinch) -> Engine:
    """Return the engine that builds the tree, to whoever alone uses the model."""
    return model._engine()


def without_fit(model: Grinch) -> Grinch:
    """Return a copy of a model without what it has fitted; it still knows what rows must be like."""
    return model._face()


def rows_for_engine(model: Grinch, X: Any, *, is_first: bool = False) -> Any:
    """Return X as the engine takes it; it must be like the points before, unless it is the first."""
    return model._validate(X, reset=is_first).rows


def with_new_columns(model: Grinch, X: Any) -> Any:
    """Return X with as many columns as there are with its own; a ValueError if rows are dense, and it has more."""
    return model._widened(X, model._columns_with(X))


def linkage_in(model: Grinch) -> VectorLinkage | Linkage:
    """Return the linkage that the parameters name; raises if one of them is not accepted."""
    return model._check_parameters(reset=True).linkage


def begins_sparse(model: Grinch) -> bool:
    """Return whether a model that begins with sparse rows keeps them sparse."""
    return stays_sparse(linkage_in(model))


def close_gaps(model: Grinch) -> None:
    """Let nothing be left in memory of points that were removed."""
    model._close_gaps(at_once=True)
