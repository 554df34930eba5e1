"""A model taken apart into plain data and arrays, and put together again.

What a file or a store holds of a model is its :class:`Parts`: a manifest, which JSON can hold, and arrays by name, as
the model itself holds them. Taking a model apart copies no array; putting one together uses the arrays it is given, so
that memory maps (copy-on-write, ``mode="c"``) are a model at once, however many points there are.

>>> from grinch import Grinch
>>> model = Grinch(n_clusters=2).fit([[1.0, 0], [0, 9], [2, 0.1], [0.1, 8]])
>>> parts = take_apart(model)
>>> parts.manifest["class"], parts.arrays["builder.links.head"] is model._fitted.builder.links.head
('Grinch', True)
>>> put_together(parts).labels_.tolist()
[0, 1, 0, 1]
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.core.rules import Rules
from grinch.errors import NotSavable, SavedModelError
from grinch.estimators.base import TreeClusterer, lock_of, parameters_of, refuse_linkage
from grinch.estimators.birch import Birch
from grinch.estimators.fit import Fit
from grinch.estimators.grinch import Grinch, Online, Rotate
from grinch.estimators.hac import HAC
from grinch.estimators.minibatch import MiniBatchHAC
from grinch.estimators.perch import Perch
from grinch.estimators.points import PointIds
from grinch.linkage.named import is_average, metric_in_full
from grinch.refine.passes import Refinement
from grinch.saving.builders import put_builder, take_builder
from grinch.saving.checks import check_model
from grinch.saving.engine import put_rules
from grinch.saving.linkages import put_linkage, put_sources, take_linkage, take_sources
from grinch.saving.plain import decode, encode, number_in, number_out
from grinch.saving.schema import FORMAT, Source, Taken, check_part, entry, put_fields, take_fields
from grinch.saving.texts import keep_value, read_value
from grinch.tree.links import NO_LIMIT

__all__ = ["Parts", "check_model", "put_together", "take_apart"]

# What files that do not say so mean.
BEFORE = {name: {"value": value} for name, value in (("cut", "height"), ("layer", "auto"), ("min_cluster_size", 1))}

CLASSES: dict[str, type[TreeClusterer]] = {
    kind.__name__: kind for kind in (Grinch, Rotate, Online, HAC, MiniBatchHAC, Perch, Birch)
}


class Parts(NamedTuple):
    """A model as plain data: ``manifest`` is for JSON, and refers to ``arrays`` as ``{"array": name}``."""

    manifest: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


def take_apart(model: TreeClusterer) -> Parts:
    """The parts of a model. The arrays are its own: they change when the model does."""
    name = type(model).__name__
    if CLASSES.get(name) is not type(model):
        raise NotSavable(
            f"model must be one of {', '.join(CLASSES)}; got {type(model).__module__}.{name}. Save what it wraps, or"
            " what it was derived from"
        )
    with lock_of(model):
        return _take_apart(model)


def _take_apart(model: TreeClusterer) -> Parts:
    refuse_linkage(model)
    out = Taken()
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "class": type(model).__name__,
        "parameters": {name: _take_parameter(name, getattr(model, name)) for name in parameters_of(type(model))}
        | _take_default(model.__dict__),
        "n_features": number_out(model.__dict__.get("n_features_in_")),
        "feature_names": None,
        "fitted": None,
    }
    if "feature_names_in_" in model.__dict__:
        manifest["feature_names"] = [str(name) for name in model.feature_names_in_]
    if "_fitted" in model.__dict__:
        manifest["fitted"] = _take_fit(model, model._fitted, out)
    return Parts(manifest, out.arrays)


def put_together(parts: Parts, *, linkage: Any = None, search: Any = None, n_known: int | None = None) -> TreeClusterer:
    """The model that parts are of. It uses their arrays as they are: call :func:`check_model` unless you trust them.

    Parameters
    ----------
    parts : Parts
        From :func:`take_apart`, or read from somewhere.
    linkage, search : optional
        What the parts only name, or could not hold.
    n_known : int, optional
        How many points were ever inserted, if you know: other parts are refused.
    """
    manifest, source = parts.manifest, Source(parts.arrays)
    name = entry(manifest, "class")
    if entry(manifest, "format") != FORMAT or name not in CLASSES:
        raise SavedModelError(f"a {name!r:.60} of format {manifest['format']!r:.60} is not known to this version")
    kind = CLASSES[name]
    model: TreeClusterer = object.__new__(kind)
    given = {"linkage": linkage, "search": search if issubclass(kind, Grinch) else None}
    for what, value in (("linkage", linkage), ("search", search)):
        if value is not None and (what not in parameters_of(kind) or (what == "search" and kind is Perch)):
            raise ValueError(f"{what} is for models that take one of your own; the saved model is a {name}")
    parameters = entry(manifest, "parameters")
    for parameter in parameters_of(kind):
        setattr(model, parameter, _put_parameter(parameter, entry({**BEFORE, **parameters}, parameter), given))
    if "linkage" in parameters_of(kind):
        model.metric = _put_metric(model, parameters["metric"], model.linkage)
    n_features, names = number_in(entry(manifest, "n_features")), entry(manifest, "feature_names")
    if n_features is not None:
        if type(n_features) is not int or n_features < 0:
            raise SavedModelError(f"'n_features' must be a whole number; it is {n_features!r:.60}")
        model.n_features_in_ = n_features
    if names is not None:
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names) or len(names) != n_features:
            raise SavedModelError("'feature_names' must be a text for each feature")
        model.feature_names_in_ = np.array(names, object)
    if entry(manifest, "fitted") is not None:
        model._fitted = _put_fit(model, manifest, source, given)
        if n_known is not None and model._fitted.ids.n_slots != n_known:
            raise SavedModelError(f"there must be {n_known} points; there are {model._fitted.ids.n_slots}")
    return model


# What is fitted -------------------------------------------------------------------------------------------------------


def _take_fit(model: TreeClusterer, fit: Fit, out: Taken) -> dict[str, Any]:
    found = take_fields("fit", fit, out, "fit")
    found["parameters"] = {
        name: {"as_now": True} if value is getattr(model, name) else _take_parameter(name, value)
        for name, value in fit.parameters.items()
    } | _take_default(fit.parameters)
    found["builder"] = take_builder(fit.builder, out, "builder")
    found["ids"] = _take_ids(fit.ids, out)
    found["refinements"] = [
        {name: number_out(value) for name, value in asdict(each).items()} for each in fit.refinements
    ]
    return found


def _put_fit(model: TreeClusterer, manifest: dict[str, Any], source: Source, given: dict[str, Any]) -> Fit:
    data = manifest["fitted"]
    check_part("fit", data)
    parameters: dict[str, Any] = {}
    for name in model._building():
        saved = entry(entry(data, "parameters"), name)
        is_now = saved == {"as_now": True}
        parameters[name] = getattr(model, name) if is_now else _put_parameter(name, saved, given)
    if "linkage" in parameters:
        saved = data["parameters"]["metric"]
        saved = manifest["parameters"]["metric"] if saved == {"as_now": True} else saved
        parameters["metric"] = _put_metric(model, saved, parameters["linkage"])
    builder = put_builder(type(model), entry(data, "builder"), source, parameters)
    fit = Fit(builder, parameters)
    fit.ids = _put_ids(entry(data, "ids"), source)
    for each in entry(data, "refinements"):
        fit.refinements.append(Refinement(**{name: number_in(value) for name, value in each.items()}))
    return fit


def _take_ids(ids: PointIds, out: Taken) -> dict[str, Any]:
    found = take_fields("point_ids", ids, out, "ids")
    found["names"] = None if ids.names is None else keep_value(out, "ids.names", ids.names, "an id")
    found["latest"] = [int(ids._latest[0]), int(ids._latest[1]), bool(ids._latest[2])]
    return found


def _put_ids(data: Any, source: Source) -> PointIds:
    ids: PointIds = put_fields("point_ids", data, source)
    ids.names = None if entry(data, "names") is None else read_value(data["names"], source)
    slot, position, is_shuffled = entry(data, "latest")
    if type(slot) is not int or type(position) is not int or type(is_shuffled) is not bool:
        raise SavedModelError(f"'latest' must be two numbers and a flag; it is {data['latest']!r:.60}")
    ids._latest = (slot, position, is_shuffled)
    ids._slot_of, ids._filed, ids._by_position = {}, 0, None
    return ids


# Parameters -----------------------------------------------------------------------------------------------------------


def _take_parameter(name: str, value: Any) -> Any:
    if name == "linkage":
        return take_linkage(value)
    if name == "search":
        return take_sources(value)
    if isinstance(value, Rules):
        return {"rules": {rule: _plain(each) for rule, each in value._asdict().items()}}
    if isinstance(value, np.random.RandomState):
        return {"random_state": encode(value.get_state())}
    try:
        return {"value": encode(value)}
    except NotSavable as error:
        raise NotSavable(f"parameter {name} cannot be written to a file: {error}") from None


def _take_default(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return what to write for the metric of average linkage where none is given: the default may be another later."""
    if not is_average(parameters.get("linkage")) or parameters["metric"] is not None:
        return {}
    return {"metric": {"default": metric_in_full("average")}}


def _put_metric(model: TreeClusterer, data: Any, linkage: Any) -> Any:
    """Return the metric of a linkage as it was saved; None only if that means the same as it did then."""
    metric = _put_parameter("metric", data, {})
    if data == {"value": None} and is_average(linkage):
        return model._first_default_metric
    return None if data == {"default": metric_in_full(linkage)} else metric


def _put_parameter(name: str, data: Any, given: dict[str, Any]) -> Any:
    if name == "linkage":
        return put_linkage(data, given["linkage"])
    if name == "search":
        return put_sources(data, given["search"])
    if not isinstance(data, dict) or len(data) != 1:
        raise SavedModelError(f"{data!r:.60} is no parameter")
    ((kind, content),) = data.items()
    if kind == "rules":
        return put_rules(content)
    if kind == "random_state":
        state = np.random.RandomState()
        state.set_state(decode(content))
        return state
    if kind not in ("value", "default"):
        raise SavedModelError(f"{kind!r:.60} is no kind of parameter")
    return decode(content)


def _plain(value: Any) -> Any:
    """A rule as JSON has it: a flag, or a number of leaves."""
    return bool(value) if isinstance(value, (bool, np.bool_)) else int(min(value, NO_LIMIT))
