"""Which fields of which class are in a saved model, under which names.

A class is written field by field from this list, never by whatever attributes it happens to have. So a saved model
means the same to a later version, and a new attribute does not slip into files or out of them: a test compares this
list with the classes, and with the list of each format.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from grinch.baselines.agglomeration import BestFirst, Pool
from grinch.baselines.birch import BirchBuilder
from grinch.baselines.hac import HACBuilder
from grinch.baselines.minibatch import BufferBuilder
from grinch.baselines.perch import PerchBuilder
from grinch.core.engine import Engine
from grinch.core.found import FoundOnArrival
from grinch.errors import SavedModelError
from grinch.estimators.fit import Fit
from grinch.estimators.points import PointIds
from grinch.neighbors.auto import AutoSearch
from grinch.neighbors.cells import CellSearch
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.scan import ScanSearch
from grinch.neighbors.sources import _NearVectors, _SharedKeys
from grinch.neighbors.sparse import SparseSearch
from grinch.refine.known_neighbors import KnownNeighbors
from grinch.refine.polish import Polisher
from grinch.saving.plain import number_in, number_out
from grinch.summaries.frame import Frame
from grinch.summaries.records import RecordSummaries
from grinch.summaries.sparse import SparseSummaries
from grinch.summaries.vectors import VectorSummaries
from grinch.tree import Tree

FORMAT = 1


class Schema(NamedTuple):
    """The fields of a class.

    ``scalars`` are numbers, flags and texts with their types; ``arrays`` have a dtype and a number of dimensions;
    ``parts`` are written by code of their own; ``made_again`` are attributes that are not written, for they follow from
    the others, belong to the process, or only remember what was asked. The name in a file is that of the attribute
    without leading underscores.
    """

    kind: type
    scalars: Mapping[str, type] = MappingProxyType({})
    arrays: Mapping[str, tuple[str, int]] = MappingProxyType({})
    parts: tuple[str, ...] = ()
    made_again: tuple[str, ...] = ()


SCHEMAS: dict[str, Schema] = {
    "fit": Schema(
        Fit,
        parts=("builder", "parameters", "ids", "refinements"),
        made_again=("checked", "_removing", "_cutting", "_tree", "_labels", "_cut", "_automatic"),
    ),
    "point_ids": Schema(
        PointIds,
        {"n_slots": int, "is_in_order": bool, "_next": int},
        {"_positions": ("<i8", 1)},
        ("names", "_latest"),
        ("_slot_of", "_filed", "_by_position"),
    ),
    "engine": Schema(
        Engine,
        parts=("rules", "gardener", "summaries", "links", "search", "found", "_is_due"),
        made_again=("linkage", "compiled", "is_busy", "follower", "_cut", "_view_slots", "_near", "_is_owned"),
    ),
    "vector_summaries": Schema(
        VectorSummaries,
        {"capacity": int, "most_asked": int, "n_features": int, "longest": float, "is_whole": bool, "_unsaid": str},
        parts=("arrays", "frame"),
        made_again=("linkage", "is_undoable", "enlarge"),
    ),
    "sparse_summaries": Schema(
        SparseSummaries,
        {
            "capacity": int,
            "most_asked": int,
            "n_features": int,
            "longest": float,
            "is_whole": bool,
            "longest_row": int,
        },
        parts=("arrays",),
        made_again=("linkage", "enlarge", "enlarge_entries", "blocks"),
    ),
    "record_summaries": Schema(
        RecordSummaries,
        {"capacity": int, "most_asked": int, "check": bool},
        parts=("arrays", "items"),
        made_again=("linkage", "enlarge", "_around", "_batched", "_callbacks"),
    ),
    "frame": Schema(
        Frame,
        {
            "moves": bool,
            "scales": bool,
            "scale": float,
            "longest": float,
            "_most": int,
            "_stride": int,
            "_warned": bool,
        },
        parts=("origin", "positions", "rows"),
        made_again=("wanted",),
    ),
    "known_neighbors": Schema(
        KnownNeighbors,
        {"most_points": int, "width": int, "is_complete": bool, "unit": float},
        {"near": ("<i4", 2), "scores": ("<f4", 2), "met": ("<i8", 1)},
    ),
    "polisher": Schema(Polisher, parts=("neighbors",)),
    "found_on_arrival": Schema(FoundOnArrival, {}, {"_near": ("<i4", 2)}),
    "auto_search": Schema(AutoSearch, {"k": int}, parts=("_exact", "_cells"), made_again=("summaries",)),
    "exact_search": Schema(
        ExactSearch,
        {"k": int, "full_scans": int},
        made_again=("summaries", "jobs", "_guard", "_synced", "_scale", "_shift"),
    ),
    "sparse_search": Schema(
        SparseSearch,
        {"k": int, "full_scans": int, "most_points": int},
        made_again=("summaries", "jobs", "_guard", "_synced", "_scale", "_shift", "postings"),
    ),
    "cell_search": Schema(
        CellSearch,
        {"k": int, "room": int, "probes": int, "extra": int, "around": int},
        {"_homes": ("<i4", 1)},
        ("_cells",),
        ("summaries", "jobs", "_metric", "_guard", "_split_space", "_frozen"),
    ),
    "scan_search": Schema(
        ScanSearch, {"k": int, "batch": int, "_has_gaps": bool}, parts=("proposers",), made_again=("summaries",)
    ),
    "near_vectors": Schema(
        _NearVectors,
        {"inserted": int, "at": int},
        parts=("source", "summaries", "search"),
        made_again=("coming",),
    ),
    "shared_keys": Schema(_SharedKeys, {"filed": int}, parts=("source", "of_key", "of_record")),
    "tree": Schema(Tree, parts=("links", "_scores", "_ceiling"), made_again=("names",)),
    "hac_builder": Schema(
        HACBuilder,
        {"_way": str, "_metric": str, "_as_roots": bool},
        parts=("_tree", "_rows", "stats"),
        made_again=("_linkage",),
    ),
    "buffer_builder": Schema(BufferBuilder, {"_buffer_size": int}, parts=("_rows", "_waiting")),
    "best_first": Schema(BestFirst, parts=("pool", "_heaps", "_tops")),
    "pool": Schema(
        Pool,
        {"n_scores": int, "n_leaves": int, "size": int, "n_moves": int, "n_nodes": int},
        {
            "slot_of": ("<i4", 1),
            "sides": ("<i4", 2),
            "score_of": ("<f8", 1),
            "_nodes": ("<i4", 1),
            "_slots": ("<i4", 1),
            "_place": ("<i4", 1),
        },
        ("summaries", "_free"),
        ("linkage",),
    ),
    "perch_builder": Schema(
        PerchBuilder,
        {"_size_limit": int},
        parts=("rules", "summaries", "links", "_search", "boxes"),
        made_again=("_run",),
    ),
    "birch_builder": Schema(
        BirchBuilder,
        {"_branching_factor": int, "_unit_length": bool},
        parts=("_radius", "_model", "_origin", "_pieces"),
    ),
}
"""By the name of a part in a file."""


def name_in_file(attribute: str) -> str:
    return attribute.lstrip("_")


class Taken:
    """Arrays as they are collected from a model, by name."""

    def __init__(self) -> None:
        self.arrays: dict[str, npt.NDArray[Any]] = {}

    def keep(self, name: str, array: npt.NDArray[Any]) -> dict[str, str]:
        """Keep an array under a name; what the manifest says instead of it."""
        assert name not in self.arrays, name
        self.arrays[name] = array
        return {"array": name}


class Source:
    """Arrays of a saved model, by name, as a part asks for them."""

    def __init__(self, arrays: dict[str, npt.NDArray[Any]]):
        self.arrays = arrays

    def array(self, reference: Any, dtype: str, ndim: int) -> npt.NDArray[Any]:
        """The array that a manifest names, if it is of this kind: plain, in one piece, and without a copy."""
        name = reference["array"] if isinstance(reference, dict) else None
        if not isinstance(name, str) or name not in self.arrays:
            raise SavedModelError(f"an array is named {reference!r:.60} that is not there")
        array = np.asarray(self.arrays[name])
        if array.dtype != np.dtype(dtype) or array.ndim != ndim:
            raise SavedModelError(
                f"array {name!r} must have {ndim} dimensions of {dtype}; it has {array.ndim} of {array.dtype.str}"
            )
        if not array.flags.c_contiguous:
            raise SavedModelError(f"array {name!r} must be in one piece")
        return array


def take_fields(tag: str, thing: Any, out: Taken, prefix: str) -> dict[str, Any]:
    """The scalars and arrays of a thing; parts are added by whoever knows them."""
    schema = SCHEMAS[tag]
    found: dict[str, Any] = {"part": tag}
    for attribute, kind in schema.scalars.items():
        found[name_in_file(attribute)] = number_out(kind(getattr(thing, attribute)))
    for attribute, (dtype, _) in schema.arrays.items():
        name, array = name_in_file(attribute), np.asarray(getattr(thing, attribute))
        found[name] = out.keep(f"{prefix}.{name}", array.astype(dtype, copy=False))
    return found


def put_fields(tag: str, data: Any, source: Source) -> Any:
    """A thing with its scalars and arrays; parts are added by whoever knows them."""
    check_part(tag, data)
    schema = SCHEMAS[tag]
    thing: Any = object.__new__(schema.kind)
    for attribute, kind in schema.scalars.items():
        setattr(thing, attribute, scalar(data, name_in_file(attribute), kind))
    for attribute, (dtype, ndim) in schema.arrays.items():
        setattr(thing, attribute, source.array(entry(data, name_in_file(attribute)), dtype, ndim))
    return thing


def check_part(tag: str, data: Any) -> None:
    if not isinstance(data, dict) or data.get("part") != tag:
        raise SavedModelError(f"a part must be {tag!r}; it is {data!r:.60}")


def entry(data: Any, name: str) -> Any:
    """What a part says under a name."""
    if not isinstance(data, dict) or name not in data:
        raise SavedModelError(f"{name!r} is missing")
    return data[name]


def scalar(data: Any, name: str, kind: type) -> Any:
    """A number, flag or text of a part."""
    value = number_in(entry(data, name))
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise SavedModelError(f"{name!r} must be of type {kind.__name__}; it is {value!r:.60}")
    return value
