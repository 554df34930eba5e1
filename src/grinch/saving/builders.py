"""What builds the tree of each estimator, as it is kept in a saved model."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from grinch.baselines.agglomeration import BestFirst, Pool
from grinch.baselines.birch import BirchBuilder
from grinch.baselines.hac import SCIPY, HACBuilder
from grinch.baselines.minibatch import BufferBuilder
from grinch.baselines.perch import METRICS, PerchBuilder, insert_all
from grinch.baselines.perch_boxes import Boxes
from grinch.baselines.perch_moves import PerchRules
from grinch.core.engine import Engine
from grinch.errors import SavedModelError
from grinch.estimators.birch import Birch
from grinch.estimators.grinch import Grinch
from grinch.estimators.hac import HAC
from grinch.estimators.minibatch import MiniBatchHAC
from grinch.linkage.base import VectorLinkage
from grinch.linkage.named import linkage_of
from grinch.saving.birch import put_birch, take_birch
from grinch.saving.engine import (
    optional_vector,
    put_engine,
    put_links,
    put_search,
    put_summaries,
    take_engine,
    take_links,
    take_search,
    take_summaries,
)
from grinch.saving.plain import array_type, number_in, number_out
from grinch.saving.schema import Source, Taken, check_part, entry, put_fields, scalar, take_fields
from grinch.saving.texts import keep_value, read_value
from grinch.tree import Tree

BOXES = {
    "low": ("<f4", 2),
    "high": ("<f4", 2),
    "witness": ("<i4", 1),
    "collapsed": ("|u1", 1),
    "ends": ("<i4", 1),
    "place": ("<i4", 1),
    "sample": ("<i4", 2),
    "beam": ("<i4", 1),
    "gaps": ("<f8", 1),
    "counts": ("<i8", 1),
}


def take_builder(builder: Any, out: Taken, prefix: str) -> dict[str, Any]:
    if isinstance(builder, Engine):
        return take_engine(builder, out, prefix)
    if isinstance(builder, HACBuilder):
        return _take_hac(builder, out, prefix)
    if isinstance(builder, BufferBuilder):
        return _take_buffer(builder, out, prefix)
    if isinstance(builder, PerchBuilder):
        return _take_perch(builder, out, prefix)
    assert isinstance(builder, BirchBuilder)
    return _take_birch_builder(builder, out, prefix)


def put_builder(kind: type, data: Any, source: Source, parameters: dict[str, Any]) -> Any:
    """The builder of an estimator of this kind that was begun with these parameters."""
    if issubclass(kind, Grinch):
        linkage = linkage_of(parameters["linkage"], parameters["metric"])
        search = parameters["search"]
        sources = [] if isinstance(search, str) else list(search) if isinstance(search, (list, tuple)) else [search]
        return put_engine(data, source, linkage, sources)
    if kind is HAC:
        return _put_hac(data, source, parameters)
    if kind is MiniBatchHAC:
        return _put_buffer(data, source, parameters)
    return _put_birch_builder(data, source, parameters) if kind is Birch else _put_perch(data, source, parameters)


# Points as they were given --------------------------------------------------------------------------------------------


def take_rows(rows: Any, out: Taken, name: str) -> dict[str, Any]:
    """Rows of numbers, dense or sparse, or a list of records."""
    if scipy.sparse.issparse(rows):
        parts = {part: out.keep(f"{name}.{part}", getattr(rows, part)) for part in ("data", "indices", "indptr")}
        is_matrix = isinstance(rows, scipy.sparse.spmatrix)
        return {"sparse": parts | {"shape": list(rows.shape), "is_matrix": is_matrix}}
    if isinstance(rows, np.ndarray):
        return {"dense": out.keep(name, np.ascontiguousarray(rows))}
    return {"records": keep_value(out, name, list(rows), "a record")}


def put_rows(data: Any, source: Source) -> Any:
    if not isinstance(data, dict) or len(data) != 1:
        raise SavedModelError(f"{data!r:.60} are no points")
    ((kind, content),) = data.items()
    if kind == "records":
        return read_value(content, source)
    if kind == "dense":
        return _numbers(content, source, 2)
    if kind != "sparse":
        raise SavedModelError(f"{kind!r:.60} is no kind of points")
    from grinch.saving.plain import _sparse

    parts = [_numbers(entry(content, part), source, 1) for part in ("data", "indices", "indptr")]
    return _sparse(content["is_matrix"], content["shape"], *parts)


def _numbers(reference: Any, source: Source, ndim: int) -> Any:
    """An array of whatever numbers it is of."""
    name = reference["array"]
    dtype = array_type(source.arrays[name].dtype.str)
    if dtype.kind not in "biuf":
        raise SavedModelError(f"array {name!r} must hold numbers; it is of {dtype.str}")
    return source.array(reference, dtype.str, ndim)


def take_tree(tree: Tree, out: Taken, prefix: str) -> dict[str, Any]:
    found = take_fields("tree", tree, out, prefix)
    found["links"] = take_links(tree.links, out, f"{prefix}.links")
    found["scores"] = None if tree._scores is None else out.keep(f"{prefix}.scores", tree._scores)
    return found | {"ceiling": number_out(tree._ceiling)}


def put_tree(data: Any, source: Source) -> Tree:
    tree: Tree = put_fields("tree", data, source)
    tree.links, tree.names = put_links(entry(data, "links"), source), None
    tree._scores = None if entry(data, "scores") is None else source.array(data["scores"], "<f8", 1)
    tree._ceiling = None if entry(data, "ceiling") is None else scalar(data, "ceiling", float)
    return tree


# HAC ------------------------------------------------------------------------------------------------------------------


def _take_hac(builder: HACBuilder, out: Taken, prefix: str) -> dict[str, Any]:
    found = take_fields("hac_builder", builder, out, prefix)
    found["tree"] = None if builder._tree is None else take_tree(builder._tree, out, f"{prefix}.tree")
    found["rows"] = [take_rows(rows, out, f"{prefix}.rows.{i}") for i, rows in enumerate(builder._rows)]
    return found | {"stats": {name: int(count) for name, count in builder.stats.items()}}


def _put_hac(data: Any, source: Source, parameters: dict[str, Any]) -> HACBuilder:
    builder: HACBuilder = put_fields("hac_builder", data, source)
    face = HAC(linkage=parameters["linkage"], metric=parameters["metric"])
    if builder._way == SCIPY:
        builder._linkage = face.linkage
    else:
        builder._linkage = linkage_of(face.linkage, face._resolve_metric())
    builder._tree = None if entry(data, "tree") is None else put_tree(data["tree"], source)
    builder._rows = [put_rows(rows, source) for rows in entry(data, "rows")]
    builder.stats = {name: scalar(entry(data, "stats"), name, int) for name in ("scores", "merges")}
    return builder


# MB-HAC ---------------------------------------------------------------------------------------------------------------


def _take_buffer(builder: BufferBuilder, out: Taken, prefix: str) -> dict[str, Any]:
    found = take_fields("buffer_builder", builder, out, prefix)
    found["rows"] = [take_rows(rows, out, f"{prefix}.rows.{i}") for i, rows in enumerate(builder._rows)]
    waiting, pool = builder._waiting, builder._waiting.pool
    best = take_fields("best_first", waiting, out, prefix)
    heaps = waiting._heaps.values()
    best["heaps"] = {
        "nodes": out.keep(f"{prefix}.heaps.nodes", np.array(list(waiting._heaps), np.int64)),
        "sizes": out.keep(f"{prefix}.heaps.sizes", np.array([len(keys) for keys, _ in heaps], np.int64)),
        "keys": out.keep(f"{prefix}.heaps.keys", np.concatenate([np.zeros(0), *(keys for keys, _ in heaps)])),
        "partners": out.keep(
            f"{prefix}.heaps.partners", np.concatenate([np.zeros(0, np.int32), *(others for _, others in heaps)])
        ),
    }
    best["tops"] = {
        "scores": out.keep(f"{prefix}.tops.scores", np.array([float(score) for score, _ in waiting._tops])),
        "nodes": out.keep(f"{prefix}.tops.nodes", np.array([node for _, node in waiting._tops], np.int64)),
    }
    best["pool"] = take_fields("pool", pool, out, f"{prefix}.pool")
    best["pool"]["free"] = out.keep(f"{prefix}.pool.free", np.array(pool._free, np.int64))
    best["pool"]["summaries"] = take_summaries(pool.summaries, None, out, f"{prefix}.pool.summaries")
    return found | {"waiting": best}


def _put_buffer(data: Any, source: Source, parameters: dict[str, Any]) -> BufferBuilder:
    builder: BufferBuilder = put_fields("buffer_builder", data, source)
    builder._rows = [put_rows(rows, source) for rows in entry(data, "rows")]
    best = entry(data, "waiting")
    waiting: BestFirst = put_fields("best_first", best, source)
    pool: Pool = put_fields("pool", entry(best, "pool"), source)
    pool.linkage = linkage_of(parameters["linkage"], parameters["metric"])
    pool.summaries = put_summaries(entry(best["pool"], "summaries"), source, pool.linkage)
    pool._free = source.array(entry(best["pool"], "free"), "<i8", 1).tolist()
    heaps, tops = entry(best, "heaps"), entry(best, "tops")
    sizes = source.array(entry(heaps, "sizes"), "<i8", 1)
    keys, partners = source.array(entry(heaps, "keys"), "<f8", 1), source.array(entry(heaps, "partners"), "<i4", 1)
    nodes = source.array(entry(heaps, "nodes"), "<i8", 1).tolist()
    if (sizes < 0).any() or sizes.sum() != len(keys) or len(keys) != len(partners) or len(nodes) != len(sizes):
        raise SavedModelError("heaps of pairs do not follow each other")
    ends = np.cumsum(sizes)[:-1]
    # Copies, for a heap is shortened where it is.
    parts = zip(np.split(keys, ends), np.split(partners, ends), strict=True)
    waiting._heaps = {node: (k.copy(), p.copy()) for node, (k, p) in zip(nodes, parts if nodes else (), strict=True)}
    scores = source.array(entry(tops, "scores"), "<f8", 1).tolist()
    waiting._tops = list(zip(scores, source.array(entry(tops, "nodes"), "<i8", 1).tolist(), strict=True))
    waiting.pool, builder._waiting = pool, waiting
    return builder


# PERCH ----------------------------------------------------------------------------------------------------------------


def _take_perch(builder: PerchBuilder, out: Taken, prefix: str) -> dict[str, Any]:
    found = take_fields("perch_builder", builder, out, prefix)
    found["rules"] = dict(builder.rules._asdict())
    found["links"] = take_links(builder.links, out, f"{prefix}.links")
    found["summaries"] = take_summaries(builder.summaries, builder.links, out, f"{prefix}.summaries")
    found["search"] = take_search(builder._search, out, f"{prefix}.search")
    boxes = {name: out.keep(f"{prefix}.boxes.{name}", getattr(builder.boxes, name)) for name in BOXES}
    return found | {"boxes": boxes}


def _put_perch(data: Any, source: Source, parameters: dict[str, Any]) -> PerchBuilder:
    builder: PerchBuilder = put_fields("perch_builder", data, source)
    rules = entry(data, "rules")
    builder.rules = PerchRules(
        balance=scalar(rules, "balance", bool),
        max_leaves=scalar(rules, "max_leaves", int),
        beam_width=scalar(rules, "beam_width", int),
    )
    builder._run = insert_all
    linkage = linkage_of(*METRICS[parameters["metric"]])
    assert isinstance(linkage, VectorLinkage)
    summaries: Any = put_summaries(entry(data, "summaries"), source, linkage)
    builder.summaries, builder.links = summaries, put_links(entry(data, "links"), source)
    builder._search = put_search(entry(data, "search"), source, summaries, [])
    boxes = entry(data, "boxes")
    kept = {name: source.array(entry(boxes, name), *kind) for name, kind in BOXES.items()}
    builder.boxes = Boxes(points=summaries.arrays.means, **kept)
    return builder


# BIRCH ----------------------------------------------------------------------------------------------------------------


def _take_birch_builder(builder: BirchBuilder, out: Taken, prefix: str) -> dict[str, Any]:
    found = take_fields("birch_builder", builder, out, prefix)
    pieces = builder._pieces
    found["radius"] = builder._radius if isinstance(builder._radius, str) else number_out(float(builder._radius))
    found["origin"] = None if builder._origin is None else out.keep(f"{prefix}.origin", builder._origin)
    found["pieces"] = [out.keep(f"{prefix}.pieces.{i}", piece) for i, piece in enumerate(pieces)]
    found["model"] = None if builder._model is None else take_birch(builder._model, out, f"{prefix}.model")
    return found


def _put_birch_builder(data: Any, source: Source, parameters: dict[str, Any]) -> BirchBuilder:
    check_part("birch_builder", data)
    builder: BirchBuilder = put_fields("birch_builder", data, source)
    radius = number_in(entry(data, "radius"))
    if radius != "auto" and type(radius) is not float:
        raise SavedModelError(f"'radius' must be a number or 'auto'; it is {radius!r:.60}")
    builder._radius = radius
    builder._pieces = [source.array(piece, "<f4", 2) for piece in entry(data, "pieces")]
    width = builder._pieces[0].shape[1] if builder._pieces else 0
    builder._origin = optional_vector(entry(data, "origin"), source, width)
    builder._model = None if entry(data, "model") is None else put_birch(data["model"], source)
    return builder
