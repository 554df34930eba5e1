"""The engine of Grinch, part by part: tree, summaries, search, and what tends the tree."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakSet

import numpy as np

from grinch._types import Floats
from grinch.core.engine import Engine
from grinch.core.rules import MODES, NEED_GRAFTS, ONLINE, ROTATE, Rules, checked_rules
from grinch.errors import SavedModelError
from grinch.linkage.base import Linkage, VectorLinkage
from grinch.linkage.vector import FORMULAS
from grinch.neighbors.auto import AutoSearch
from grinch.neighbors.base import BATCH, Guard
from grinch.neighbors.cell_kernels import Cells, Metric
from grinch.neighbors.cells import CellSearch, _split_space
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.postings import Postings
from grinch.neighbors.scan import ScanSearch
from grinch.neighbors.sparse import SparseSearch
from grinch.refine.polish import Polisher
from grinch.saving import sparse
from grinch.saving.proposers import put_proposer, take_proposer
from grinch.saving.records import put_records, take_records
from grinch.saving.schema import Source, Taken, check_part, entry, put_fields, scalar, take_fields
from grinch.summaries import RecordSummaries, SparseSummaries, Summaries, VectorSummaries
from grinch.summaries.arrays import CUSTOM, PYTHON, Arrays, enlarged, new_arrays
from grinch.summaries.frame import Frame
from grinch.tree.links import CHANGED_IN, MOVED, NOTED, OFFSET, USED, Links

# Arrays of summaries that are kept; the others are room to work in, and addresses.
KEPT = {
    "means": ("<f4", 2),
    "moments": ("<f8", 2),
    "sibling_scores": ("<f8", 1),
    "stale": ("|u1", 1),
    "counted": ("<i4", 1),
    "changes": ("<i4", 1),
    "gone": ("|u1", 1),
    "counts": ("<i8", 1),
}
# No cell has room for more members.
MOST_ROOM = 2**16
CELLS = {
    "centres": ("<f4", 2),
    "tiles": ("<f4", 3),
    "halves": ("<f4", 1),
    "sizes": ("<i4", 1),
    "ids": ("<i4", 2),
    "codes": ("|i1", 3),
    "scales": ("<f4", 2),
    "shifts": ("<f4", 2),
    "head": ("<i8", 1),
}


def take_engine(engine: Engine, out: Taken, prefix: str) -> dict[str, Any]:
    gardener = engine.gardener
    assert gardener is None or isinstance(gardener, Polisher)
    found = take_fields("engine", engine, out, prefix)
    found["rules"] = dict(engine.rules._asdict())
    found["is_due"] = list(engine._is_due)
    found["links"] = take_links(engine.links, out, f"{prefix}.links")
    found["summaries"] = take_summaries(engine.summaries, engine.links, out, f"{prefix}.summaries")
    found["search"] = take_search(engine.search, out, f"{prefix}.search")
    found["found"] = (
        None if engine.found is None else take_fields("found_on_arrival", engine.found, out, f"{prefix}.found")
    )
    if gardener is None:
        found["gardener"] = None
    else:
        known = take_fields("known_neighbors", gardener.neighbors, out, f"{prefix}.known")
        found["gardener"] = take_fields("polisher", gardener, out, prefix) | {"neighbors": known}
    return found


def put_engine(data: Any, source: Source, linkage: VectorLinkage | Linkage, sources: list[Any]) -> Engine:
    """An engine of its parts; ``sources`` of candidates are those that the user gave."""
    engine: Engine = put_fields("engine", data, source)
    engine.linkage, engine.compiled, engine.is_busy = linkage, True, False
    engine.rules = put_rules(entry(data, "rules"))
    is_due = entry(data, "is_due")
    if not (isinstance(is_due, list) and len(is_due) == 2 and all(type(flag) is bool for flag in is_due)):
        raise SavedModelError(f"'is_due' must be two flags; it is {is_due!r:.60}")
    engine._is_due = (is_due[0], is_due[1])
    _put_tree(engine, data, source)
    engine.search = put_search(entry(data, "search"), source, engine.summaries, sources)
    found, gardener = entry(data, "found"), entry(data, "gardener")
    engine.found = None if found is None else put_fields("found_on_arrival", found, source)
    engine.gardener = None
    if gardener is not None:
        polisher: Polisher = put_fields("polisher", gardener, source)
        engine.gardener = polisher
        polisher.neighbors = put_fields("known_neighbors", entry(gardener, "neighbors"), source)
    engine._forget_readers()
    # Arrays that cannot be written to are copied before the first change.
    engine._is_owned = False
    return engine


def _put_tree(engine: Engine, data: Any, source: Source) -> None:
    """The tree of an engine with its summaries."""
    summaries, links, rules = entry(data, "summaries"), entry(data, "links"), engine.rules
    if entry(summaries, "part") == sparse.PART:
        engine.links = put_links(links, source, undoable=True)
        found: SparseSummaries = put_fields(sparse.PART, summaries, source)
        found.linkage = sparse.check_linkage(summaries, engine.linkage)
        found.arrays = _put_arrays(entry(summaries, "arrays"), source, found, 0, found.linkage.formula)
        found.arrays = found.arrays._replace(lag=rules.lag, most_entries=rules.most_entries)
        sparse.put_rows(found, entry(summaries, "rows"), source, engine.links)
        engine.summaries = found
        return
    engine.summaries = put_summaries(summaries, source, engine.linkage)
    engine.summaries.arrays = engine.summaries.arrays._replace(lag=rules.lag, most_entries=rules.most_entries)
    engine.links = put_links(links, source, engine.summaries.is_undoable)


def put_rules(data: Any) -> Rules:
    if not isinstance(data, dict) or not set(data) <= set(Rules._fields):
        raise SavedModelError(f"rules are not those that this version knows: {data!r:.200}")
    rules = Rules(**data)
    if not rules.graft:  # earlier releases took rules that need grafts, and passed over them
        rules = rules._replace(**dict.fromkeys(NEED_GRAFTS, False))
    if "most_entries" not in data:
        # Written before there were sparse vectors: what the mode that they are nearest to says.
        nearest = min((*MODES.values(), ROTATE, ONLINE), key=lambda mode: _count_other(rules, mode))
        return checked_rules(rules._replace(most_entries=nearest.most_entries))
    return checked_rules(rules)


def _count_other(rules: Rules, others: Rules) -> int:
    return sum(one != other for one, other in zip(rules, others, strict=True))


# The tree -------------------------------------------------------------------------------------------------------------


def take_links(links: Links, out: Taken, prefix: str) -> dict[str, Any]:
    return {
        "part": "links",
        "table": out.keep(f"{prefix}.table", links.table),
        "head": out.keep(f"{prefix}.head", links.head),
    }


def put_links(data: Any, source: Source, undoable: bool = False) -> Links:
    check_part("links", data)
    table = source.array(entry(data, "table"), "<i4", 2)
    head = source.array(entry(data, "head"), "<i8", 1)
    if table.shape[1:] != (4,) or len(head) != MOVED + 1 or not 0 <= head[OFFSET] <= len(table):
        raise SavedModelError(f"the tree is of shape {table.shape}, with {len(head)} numbers about it")
    head = head if head.flags.writeable else head.copy()
    # No change is under way, and nobody follows the tree.
    head[NOTED] = head[MOVED] = 0
    log = np.zeros((len(table) if undoable else 0, CHANGED_IN + 1), np.int32)
    return Links(table, head, np.zeros(int(head[OFFSET]), np.uint8), log, np.zeros(0, np.int32))


# Summaries ------------------------------------------------------------------------------------------------------------


def take_summaries(summaries: Summaries, links: Links | None, out: Taken, prefix: str) -> dict[str, Any]:
    """The summaries of all nodes; ``links`` is their tree, if they are those of one."""
    arrays = {name: out.keep(f"{prefix}.{name}", getattr(summaries.arrays, name)) for name in KEPT}
    if isinstance(summaries, RecordSummaries):
        found = take_fields("record_summaries", summaries, out, prefix)
        found["items"] = take_records(summaries, links, out, f"{prefix}.items")
    elif isinstance(summaries, SparseSummaries):
        assert links is not None
        found = sparse.take_sparse(summaries, links, out, prefix)
    else:
        found = take_fields("vector_summaries", summaries, out, prefix)
        formula = summaries.arrays.formula
        found["formula"] = FORMULAS[formula] if formula < len(FORMULAS) else "custom"
        count = summaries.capacity if links is None else int(links.head[USED])
        found["frame"] = take_frame(summaries.frame, count, summaries.n_features, out, f"{prefix}.frame")
    return found | {"arrays": arrays}


def put_summaries(data: Any, source: Source, linkage: VectorLinkage | Linkage) -> Summaries:
    return (
        _put_vectors(data, source, linkage)
        if isinstance(linkage, VectorLinkage)
        else _put_records(data, source, linkage)
    )


def _put_vectors(data: Any, source: Source, linkage: VectorLinkage) -> VectorSummaries:
    summaries: VectorSummaries = put_fields("vector_summaries", data, source)
    summaries.linkage, summaries.is_undoable = linkage, linkage.is_custom
    formula = CUSTOM if linkage.is_custom else linkage.formula
    if entry(data, "formula") != ("custom" if linkage.is_custom else FORMULAS[formula]):
        raise SavedModelError(f"the model was built by the formula {data['formula']!r:.60}, not by {linkage.name!r}")
    summaries.arrays = _put_arrays(entry(data, "arrays"), source, summaries, summaries.n_features, formula)
    summaries.frame = put_frame(entry(data, "frame"), source, summaries.n_features)
    summaries._find_formula()
    summaries.place_origin()
    return summaries


def _put_records(data: Any, source: Source, linkage: Linkage) -> RecordSummaries:
    summaries: RecordSummaries = put_fields("record_summaries", data, source)
    summaries.linkage = linkage
    summaries.arrays = _put_arrays(entry(data, "arrays"), source, summaries, 0, PYTHON)
    summaries.items = put_records(entry(data, "items"), source, linkage, summaries.capacity)
    summaries._around = None
    summaries._batched = None if summaries.check else getattr(linkage, "scores", None)
    summaries._make_callbacks()
    return summaries


def _put_arrays(data: Any, source: Source, summaries: Summaries, n_features: int, formula: int) -> Arrays:
    kept: dict[str, Any] = {name: source.array(entry(data, name), *kind) for name, kind in KEPT.items()}
    if kept["means"].shape[1] != n_features:
        raise SavedModelError(f"vectors must have {n_features} columns; they have {kept['means'].shape[1]}")
    if not 0 <= summaries.capacity <= len(kept["stale"]):
        raise SavedModelError(f"there cannot be room for {summaries.capacity} leaves")
    summaries.enlarge = enlarged
    asked = max(0, min(summaries.capacity, summaries.most_asked))
    room: dict[str, Any] = {"nodes": np.zeros(asked, np.int32), "answers": np.zeros(asked)}
    return new_arrays(0, formula)._replace(**kept, **room)


def take_frame(frame: Frame, count: int, n_features: int, out: Taken, prefix: str) -> dict[str, Any]:
    """The frame of the first ``count`` vectors: of a fit that was interrupted it knows some that never came."""
    positions = [position for position in frame.positions if position < count]
    rows = np.array(frame.rows[: len(positions)], np.float64).reshape(len(positions), n_features)
    found = take_fields("frame", frame, out, prefix)
    found["origin"] = None if frame.origin is None else out.keep(f"{prefix}.origin", frame.origin)
    found["positions"] = out.keep(f"{prefix}.positions", np.array(positions, np.int64))
    found["rows"] = out.keep(f"{prefix}.rows", rows)
    return found


def put_frame(data: Any, source: Source, n_features: int) -> Frame:
    frame: Frame = put_fields("frame", data, source)
    frame.origin = optional_vector(entry(data, "origin"), source, n_features)
    rows = source.array(entry(data, "rows"), "<f8", 2)
    frame.positions = source.array(entry(data, "positions"), "<i8", 1).tolist()
    if rows.shape != (len(frame.positions), n_features):
        raise SavedModelError(f"{len(frame.positions)} vectors kept as they came have shape {rows.shape}")
    frame.rows, frame.wanted = list(rows), None
    return frame


def optional_vector(data: Any, source: Source, n_features: int) -> Floats | None:
    """A vector of float64, or None."""
    if data is None:
        return None
    vector = source.array(data, "<f8", 1)
    if len(vector) != n_features:
        raise SavedModelError(f"the origin must have {n_features} numbers; it has {len(vector)}")
    return vector


# Search ---------------------------------------------------------------------------------------------------------------


def take_search(search: Any, out: Taken, prefix: str) -> dict[str, Any]:
    if isinstance(search, SparseSearch):
        return take_fields("sparse_search", search, out, prefix)
    if isinstance(search, ExactSearch):
        return take_fields("exact_search", search, out, prefix)
    if isinstance(search, CellSearch):
        cells = {name: out.keep(f"{prefix}.{name}", getattr(search._cells, name)) for name in CELLS}
        return take_fields("cell_search", search, out, prefix) | {"cells": cells}
    if isinstance(search, AutoSearch):
        found = take_fields("auto_search", search, out, prefix)
        found["exact"] = take_search(search._exact, out, f"{prefix}.exact")
        found["cells"] = take_search(search._cells, out, f"{prefix}.cells")
        return found
    assert isinstance(search, ScanSearch)
    proposers = [
        take_proposer(proposer, i, out, f"{prefix}.{i}", take_summaries, take_search)
        for i, proposer in enumerate(search.proposers)
    ]
    return take_fields("scan_search", search, out, prefix) | {"proposers": proposers}


def put_search(data: Any, source: Source, summaries: Summaries, sources: list[Any]) -> Any:
    kind = entry(data, "part")
    if isinstance(summaries, RecordSummaries):
        return _put_scan(data, source, summaries, sources)
    if isinstance(summaries, SparseSummaries):
        return _put_exact("sparse_search", data, source, summaries)
    if kind == "exact_search":
        return _put_exact(kind, data, source, summaries)
    if kind == "cell_search":
        return _put_cells(data, source, summaries)
    search: AutoSearch = put_fields("auto_search", data, source)
    search.summaries = summaries
    search._exact = _put_exact("exact_search", entry(data, "exact"), source, summaries)
    search._cells = _put_cells(entry(data, "cells"), source, summaries)
    return search


def _put_exact(
    kind: str, data: Any, source: Source, summaries: VectorSummaries | SparseSummaries
) -> ExactSearch | SparseSearch:
    search: ExactSearch | SparseSearch = put_fields(kind, data, source)
    search.summaries, search.jobs = summaries, os.cpu_count() or 1
    # The factors of the products are set when they are first needed.
    search._guard, search._synced = Guard(), 0
    search._scale, search._shift = np.ones(0, search.number), np.zeros(0, search.number)
    if isinstance(search, SparseSearch):
        search.postings = Postings()
    return search


def _put_cells(data: Any, source: Source, summaries: VectorSummaries) -> CellSearch:
    search: CellSearch = put_fields("cell_search", data, source)
    if len(search._homes) != BATCH or not 1 <= search.room <= MOST_ROOM:
        raise SavedModelError(f"cells cannot have room for {search.room} members")
    leaf_metric = summaries.linkage.leaf_metric
    is_product = leaf_metric == "dot" and not summaries.linkage.is_spherical
    search.summaries, search.jobs, search._guard = summaries, os.cpu_count() or 1, Guard()
    search._frozen = WeakSet()
    search._metric = Metric(leaf_metric == "cosine", is_product)
    search._split_space = _split_space(search.room, summaries.n_features)
    cells = entry(data, "cells")
    search._cells = Cells(**{name: source.array(entry(cells, name), *kind) for name, kind in CELLS.items()})
    if not all(part.flags.writeable for part in search._cells):
        search._cells = search._copied(search.n_cells)
    return search


def _put_scan(data: Any, source: Source, summaries: RecordSummaries, sources: list[Any]) -> ScanSearch:
    check_part("scan_search", data)
    proposers = entry(data, "proposers")
    if not isinstance(proposers, list):
        raise SavedModelError("'proposers' must be a list")
    made = [put_proposer(each, source, sources, put_summaries, put_search) for each in proposers]
    search = ScanSearch(summaries, scalar(data, "k", int), made, scalar(data, "batch", int))
    search._has_gaps = scalar(data, "has_gaps", bool)
    return search
