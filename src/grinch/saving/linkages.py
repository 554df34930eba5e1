"""Linkages and sources of candidates in a manifest: by what they are made of, or by name.

>>> from grinch.linkage import Pairwise
>>> take_linkage(Pairwise("single", distance="cityblock"))
{'pairwise': {'kind': 'single', 'similarity': None, 'distance': {'name': 'cityblock'}, 'remember': 1000000}}
>>> take_linkage(lambda a, b: 0.0)["hand_in"]
'a function'
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from grinch.errors import SavedModelError
from grinch.linkage.base import FunctionLinkage, VectorLinkage
from grinch.linkage.bayesian import Bayesian, BetaBernoulli, NormalGamma
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.linkage.pairwise import Pairwise
from grinch.linkage.rules import WithRules
from grinch.linkage.weighted import VectorMeans, WeightedSum
from grinch.neighbors import ByKey, ByVector
from grinch.saving.names import find, name_of
from grinch.saving.plain import number_in, number_out


class _Unnamed(Exception):
    """Something that has to be handed in when the model is loaded."""


def take_linkage(linkage: Any) -> dict[str, Any]:
    """A linkage as a manifest has it."""
    try:
        return _take(linkage)
    except _Unnamed:
        return _hand_in(linkage)


def put_linkage(data: Any, given: Any) -> Any:
    """The linkage that is meant; ``given`` was handed in, or is None."""
    kind, content = _only_entry(data)
    if given is not None:
        if kind == "name":
            raise ValueError(
                f"linkage is {content!r} in the saved model, and cannot be another one; got {given!r}. Leave it out"
            )
        now = take_linkage(given)
        if kind != "hand_in" and "hand_in" not in now and now != data:
            warnings.warn(
                f"the model was built with the linkage {content!r}, and goes on with {given!r}. Unless it is the same"
                " under another name, its tree is of two kinds from now on",
                UserWarning,
                stacklevel=2,
            )
        return given
    if kind == "hand_in":
        raise SavedModelError(
            f"the linkage is {content}, which a file cannot hold. Hand in the one that the model was built with:"
            " with linkage=..."
        )
    return _put(kind, content)


def take_sources(search: Any) -> dict[str, Any]:
    """What ``search`` is: a name, a source, or a list of them."""
    if isinstance(search, str):
        return {"name": search}
    if isinstance(search, (list, tuple)):
        found = [take_sources(each) for each in search]
        if any("hand_in" in each for each in found):
            return _hand_in(search)
        return {"tuple" if isinstance(search, tuple) else "list": found}
    try:
        if type(search) is ByVector:
            n, index = int(search.n), bool(search.index)
            return {
                "by_vector": {"embed": _take_function(search.embed), "n": n, "metric": search.metric, "index": index}
            }
        if type(search) is ByKey:
            return {"by_key": {"keys": _take_function(search.keys), "most": int(search.most)}}
    except _Unnamed:
        pass
    return _hand_in(search)


def put_sources(data: Any, given: Any) -> Any:
    kind, content = _only_entry(data)
    if kind == "name":
        if given is not None:
            raise ValueError(
                f"search is {content!r} in the saved model, and cannot be another one; got {given!r}. Leave it out"
            )
        return content
    if given is not None:
        return given
    if kind in ("list", "tuple"):
        found = [put_sources(each, None) for each in content]
        return tuple(found) if kind == "tuple" else found
    if kind == "by_vector":
        embed = _put_function(content["embed"], "search")
        return ByVector(embed, n=content["n"], metric=content["metric"], index=content["index"])
    if kind == "by_key":
        return ByKey(_put_function(content["keys"], "search"), most=content["most"])
    raise SavedModelError(
        f"search is {content!r:.100}, which a file cannot hold. Hand in what the model was built with: with search=..."
    )


# Linkages of ours, and functions -----------------------------------------------------------------------------------


def _take(linkage: Any) -> dict[str, Any]:
    if isinstance(linkage, str):
        return {"name": linkage}
    if isinstance(linkage, VectorLinkage):
        if VECTOR_LINKAGES.get(linkage.name, {}).get(linkage.metric) != linkage:
            raise _Unnamed
        return {"vector": [linkage.name, linkage.metric]}
    taker = _TAKERS.get(type(linkage))
    if taker is not None:
        try:
            return taker(linkage)
        except _Unnamed:
            pass  # it may have a name as a whole
    return _take_function(linkage)


def _take_function(function: Any) -> dict[str, Any]:
    name = name_of(function)
    if name is None:
        raise _Unnamed
    return {"named": name}


def _put_function(data: Any, hand_in: str = "linkage") -> Any:
    kind, content = _only_entry(data)
    if kind != "named":
        raise SavedModelError(f"{data!r:.60} is no function")
    return find(content, hand_in)


def _take_functions(functions: Any) -> list[dict[str, Any]]:
    return [_take_function(function) for function in functions]


def _take_pairwise(linkage: Pairwise) -> dict[str, Any]:
    distance = linkage.distance
    return {
        "pairwise": {
            "kind": linkage.kind,
            "similarity": None if linkage.similarity is None else _take_function(linkage.similarity),
            "distance": None
            if distance is None
            else {"name": distance}
            if isinstance(distance, str)
            else _take_function(distance),
            "remember": int(linkage.remember),
        }
    }


def _put_pairwise(content: Any) -> Pairwise:
    similarity, distance = content["similarity"], content["distance"]
    if distance is not None:
        distance = distance["name"] if "name" in distance else _put_function(distance)
    return Pairwise(
        content["kind"],
        similarity=None if similarity is None else _put_function(similarity),
        distance=distance,
        remember=content["remember"],
    )


def _take_weighted(linkage: WeightedSum) -> dict[str, Any]:
    parts = [
        [number_out(float(part.weight)), _take(part.linkage), None if part.of is None else _take_function(part.of)]
        for part in linkage.parts
    ]
    return {"weighted_sum": parts}


def _put_weighted(content: Any) -> WeightedSum:
    return WeightedSum(
        [
            (number_in(weight), _put(*_only_entry(linkage)), *(() if of is None else (_put_function(of),)))
            for weight, linkage, of in content
        ]
    )


def _take_ruled(linkage: WithRules) -> dict[str, Any]:
    keys = {name: _take_functions(getattr(linkage, name)) for name in ("must", "cannot_share", "cannot_differ")}
    return {"with_rules": {"linkage": _take(linkage.linkage), **keys, "weight": number_out(float(linkage.weight))}}


def _put_ruled(content: Any) -> WithRules:
    keys = {name: [_put_function(key) for key in content[name]] for name in ("must", "cannot_share", "cannot_differ")}
    return WithRules(_put(*_only_entry(content["linkage"])), **keys, weight=number_in(content["weight"]))


_FAMILIES: dict[str, tuple[type, tuple[str, ...]]] = {
    "beta_bernoulli": (BetaBernoulli, ("a", "b")),
    "normal_gamma": (NormalGamma, ("mean", "strength", "shape", "rate")),
}


def _take_bayesian(linkage: Bayesian) -> dict[str, Any]:
    for name, (kind, fields) in _FAMILIES.items():
        if type(linkage.family) is kind:
            numbers = {field: float(getattr(linkage.family, field)) for field in fields}
            return {"bayesian": {"family": {name: numbers}, "alpha": float(linkage.alpha)}}
    raise _Unnamed


def _put_bayesian(content: Any) -> Bayesian:
    name, numbers = _only_entry(content["family"])
    return Bayesian(_FAMILIES[name][0](**numbers), content["alpha"])


_TAKERS: dict[type, Callable[[Any], dict[str, Any]]] = {
    Pairwise: _take_pairwise,
    WeightedSum: _take_weighted,
    WithRules: _take_ruled,
    Bayesian: _take_bayesian,
    VectorMeans: lambda linkage: {"vector_means": [linkage.name, linkage.metric]},
    FunctionLinkage: lambda linkage: {"function": _take_function(linkage.function)},
}
_PUTTERS: dict[str, Callable[[Any], Any]] = {
    "name": lambda name: name,
    "named": lambda name: find(name, "linkage"),
    "vector": lambda content: VECTOR_LINKAGES[content[0]][content[1]],
    "pairwise": _put_pairwise,
    "weighted_sum": _put_weighted,
    "with_rules": _put_ruled,
    "bayesian": _put_bayesian,
    "vector_means": lambda content: VectorMeans(*content),
    "function": lambda content: FunctionLinkage(_put_function(content)),
}


def _put(kind: str, content: Any) -> Any:
    if kind not in _PUTTERS:
        raise SavedModelError(f"{kind!r:.60} is no kind of linkage that this version knows")
    return _PUTTERS[kind](content)


def _only_entry(data: Any) -> tuple[str, Any]:
    if not isinstance(data, dict) or len(data) != 1:
        raise SavedModelError(f"{data!r:.60} is no linkage and no search")
    ((kind, content),) = data.items()
    return kind, content


def _hand_in(thing: Any) -> dict[str, Any]:
    kind = type(thing)
    if kind.__name__ == "function":
        return {"hand_in": "a function"}
    return {"hand_in": f"an object of {kind.__module__}.{kind.__qualname__}"}
