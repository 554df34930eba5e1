"""Parts made smaller for a file, without loss: what follows from the rest is left out, and so is room to grow.

* Of the tree, the children of every node are enough.
* The mean of a node is written as the distance of its bits from those of the mean of its children, which is nearly
  always none; so are the scores of neighbours and the vectors kept as they came.
* Summaries that are out of date are not written: nobody reads them before they are computed again.

What is left out of a file and what is not was measured: docs/saving.md.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._checks import available_memory
from grinch._types import Floats, Ids
from grinch.core.places import SPARE
from grinch.errors import SavedModelError
from grinch.linkage.vector import FORMULAS
from grinch.neighbors.cell_kernels import CELLS, ENTERED, TILE
from grinch.neighbors.predicted import predict_members
from grinch.saving import sparse
from grinch.saving.engine import MOST_ROOM
from grinch.saving.parts import Parts
from grinch.saving.trees import children_of, preorder_of, table_of
from grinch.summaries.predicted import code_means, decode_means, predict_scores
from grinch.tree.links import CHANGE, LEAVES, LIMIT, NONE, OFFSET, ROOT, SIZE, USED

Arrays = dict[str, npt.NDArray[Any]]
# Where the engine's parts are.
LINKS, SUMMARIES, KNOWN, FOUND = "builder.links", "builder.summaries", "builder.known", "builder.found"
# A row for each node: leaves in front.
BY_NODE = ("sibling_scores", "stale", "counted", "changes")
# Cells of the points themselves.
OWN_CELLS = ("builder.search", "builder.search.cells")
# Where the system does not say how much memory is free.
USUAL_MEMORY = 8_000_000_000


def pack(parts: Parts) -> Parts:
    """Parts as a file holds them."""
    manifest, arrays = copy.deepcopy(parts.manifest), dict(parts.arrays)
    fitted = manifest["fitted"]
    if fitted is not None:
        n = fitted["ids"]["n_slots"]
        arrays["ids.positions"] = arrays["ids.positions"][:n] - np.arange(n)
        for prefix in _cells_in(arrays):
            _pack_cells(arrays, prefix)
        if fitted["builder"]["part"] == "engine":
            _pack_engine(fitted["builder"], arrays)
    return Parts(manifest, arrays)


def unpack(parts: Parts) -> Parts:
    """The parts that :func:`pack` was given, with as much room as is needed to go on."""
    manifest, arrays = parts
    fitted = manifest["fitted"]
    if fitted is not None:
        offsets = arrays["ids.positions"]
        arrays["ids.positions"] = offsets + np.arange(len(offsets))
        if fitted["builder"]["part"] == "engine":
            _unpack_engine(fitted["builder"], arrays)
        for prefix in _cells_in(arrays):
            _unpack_cells(arrays, prefix)
    return parts


# The engine -----------------------------------------------------------------------------------------------------------


def _pack_engine(builder: dict[str, Any], arrays: Arrays) -> None:
    head = arrays[f"{LINKS}.head"]
    offset = int(head[OFFSET])
    # An interrupted fit may leave points in cells that never reached the tree.
    entered = [int(arrays[f"{prefix}.head"][ENTERED]) for prefix in _cells_in(arrays) if prefix in OWN_CELLS]
    n = max(int(head[USED]), *entered) if entered else int(head[USED])

    def trimmed(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([array[:n], array[offset : offset + n]])

    table = trimmed(arrays.pop(f"{LINKS}.table"))
    pointers = table[:, :SIZE]
    pointers[pointers >= offset] += n - offset
    arrays[f"{LINKS}.children"] = children_of(table, n)
    arrays[f"{LINKS}.is_in"] = (table[:n, SIZE] != NONE).astype(np.uint8)
    shorter = np.zeros_like(head)
    shorter[[ROOT, LEAVES, USED, OFFSET, LIMIT, CHANGE]] = head[[ROOT, LEAVES, USED, OFFSET, LIMIT, CHANGE]]
    shorter[OFFSET], shorter[ROOT] = n, head[ROOT] + (n - offset if head[ROOT] >= offset else 0)
    arrays[f"{LINKS}.head"] = shorter
    for name in BY_NODE:
        arrays[f"{SUMMARIES}.{name}"] = trimmed(arrays[f"{SUMMARIES}.{name}"])
    arrays[f"{SUMMARIES}.gone"] = arrays[f"{SUMMARIES}.gone"][:n]
    if builder["summaries"]["part"] == "vector_summaries":
        moments, means = trimmed(arrays[f"{SUMMARIES}.moments"]), trimmed(arrays[f"{SUMMARIES}.means"])
        _pack_vectors(builder["summaries"], arrays, table, shorter, means, moments)
    elif builder["summaries"]["part"] == sparse.PART:
        _pack_sparse(builder["summaries"], arrays, n, trimmed(arrays[f"{SUMMARIES}.moments"]))
    if builder["found"] is not None:
        arrays[f"{FOUND}.near"] = arrays[f"{FOUND}.near"][:n]


def _unpack_engine(builder: dict[str, Any], arrays: Arrays) -> None:
    head = arrays[f"{LINKS}.head"]
    is_in, children = arrays.pop(f"{LINKS}.is_in"), arrays.pop(f"{LINKS}.children")
    n = len(is_in)
    if head.dtype != np.int64 or head.shape != (11,) or not 0 <= head[USED] <= n or head[OFFSET] != n:
        raise SavedModelError("the tree does not have as many slots as it says")
    table = table_of(children, is_in, head)
    if builder["summaries"]["part"] == "vector_summaries":
        _unpack_vectors(builder["summaries"], arrays, table, head)
    capacity = n + SPARE
    if builder["summaries"]["part"] == sparse.PART:
        _unpack_sparse(builder["summaries"], arrays, n, capacity)

    def with_room(array: npt.NDArray[Any], fill: Any = 0) -> npt.NDArray[Any]:
        if len(array) != 2 * n:
            raise SavedModelError(f"there must be a row for each of {2 * n} nodes; there are {len(array)}")
        larger = np.zeros((2 * capacity, *array.shape[1:]), array.dtype)
        if fill != 0:
            larger[...] = fill
        larger[:n], larger[capacity : capacity + n] = array[:n], array[n:]
        return larger

    pointers = table[:, :SIZE]
    pointers[pointers >= n] += SPARE
    arrays[f"{LINKS}.table"] = with_room(table, NONE)
    head[OFFSET] = capacity
    head[ROOT] += SPARE if head[ROOT] >= n else 0
    for name in BY_NODE:
        fill = np.nan if name == "sibling_scores" else 0
        arrays[f"{SUMMARIES}.{name}"] = with_room(arrays[f"{SUMMARIES}.{name}"], fill)
    if builder["summaries"]["part"] == "vector_summaries":
        arrays[f"{SUMMARIES}.means"] = with_room(arrays[f"{SUMMARIES}.means"])
    if builder["summaries"]["part"] != "record_summaries":
        arrays[f"{SUMMARIES}.moments"] = with_room(arrays[f"{SUMMARIES}.moments"])
    gone = np.zeros(capacity, np.uint8)
    gone[:n] = arrays[f"{SUMMARIES}.gone"]
    arrays[f"{SUMMARIES}.gone"] = gone
    builder["summaries"]["capacity"] = capacity


# Vectors --------------------------------------------------------------------------------------------------------------


def _pack_vectors(data: Any, arrays: Arrays, table: Ids, head: Any, means: Any, moments: Floats) -> None:
    """``means`` and ``moments`` are copies, with a row for each of the nodes in the trimmed ``table``."""
    n = len(table) // 2
    kept = sparse.rows_kept(table, arrays[f"{SUMMARIES}.stale"])
    means[n:][kept == 0] = 0.0
    off_by = np.zeros((n, means.shape[1]), np.int32)
    code_means(means, means.view(np.int32), moments, table, preorder_of(table, head), kept, n, off_by)
    arrays[f"{SUMMARIES}.means"], arrays[f"{SUMMARIES}.off_by"] = means[:n], off_by
    # Column by column, for those are alike.
    arrays[f"{SUMMARIES}.moments"] = np.ascontiguousarray(moments.T)
    for prefix in _cells_in(arrays):
        if prefix in OWN_CELLS:
            _shift_members(arrays, prefix, means, moments, data["formula"], -1)
    rows = arrays[f"{SUMMARIES}.frame.rows"]
    arrays[f"{SUMMARIES}.frame.rows"] = rows.view(np.int64) - _expected_rows(data, arrays).view(np.int64)
    _pack_known(arrays, n, lambda near: _expected_scores(data, near, means, moments))


def _unpack_vectors(data: Any, arrays: Arrays, table: Ids, head: Any) -> None:
    n = len(table) // 2
    leaves, off_by = arrays[f"{SUMMARIES}.means"], arrays.pop(f"{SUMMARIES}.off_by")
    moments, stale = np.ascontiguousarray(arrays[f"{SUMMARIES}.moments"].T), arrays[f"{SUMMARIES}.stale"]
    width = leaves.shape[1] if leaves.ndim == 2 else -1
    shapes = leaves.shape, off_by.shape, moments.shape, stale.shape
    kinds = leaves.dtype.str, off_by.dtype.str, moments.dtype.str, stale.dtype.str
    if shapes != ((n, width), (n, width), (2 * n, 3), (2 * n,)) or kinds != ("<f4", "<i4", "<f8", "|u1"):
        raise SavedModelError("the summaries are not those of the nodes of the tree")
    means = np.zeros((2 * n, width), np.float32)
    means[:n] = leaves
    kept = sparse.rows_kept(table, stale)
    decode_means(means, means.view(np.int32), moments, table, preorder_of(table, head), kept, n, off_by)
    arrays[f"{SUMMARIES}.means"], arrays[f"{SUMMARIES}.moments"] = means, moments
    for prefix in _cells_in(arrays):
        if prefix in OWN_CELLS:
            _shift_members(arrays, prefix, means, moments, data["formula"], 1)
    rows = arrays[f"{SUMMARIES}.frame.rows"]
    if rows.dtype != np.int64 or rows.shape != (len(arrays[f"{SUMMARIES}.frame.positions"]), width):
        raise SavedModelError("the vectors kept as they came do not fit the others")
    arrays[f"{SUMMARIES}.frame.rows"] = (rows + _expected_rows(data, arrays).view(np.int64)).view(np.float64)
    _unpack_known(arrays, n, lambda near: _expected_scores(data, near, means, moments))


def _pack_known(arrays: Arrays, n: int, expected: Callable[[Ids], Ids]) -> None:
    """Scores of neighbours by how far their bits are from those that are expected."""
    if f"{KNOWN}.near" in arrays:
        near = arrays[f"{KNOWN}.near"][:n]
        arrays[f"{KNOWN}.near"] = near
        scores = arrays[f"{KNOWN}.scores"][:n].copy()
        # Behind the neighbours there are, and behind the points there are, scores mean nothing.
        scores[(near < 0) | (near >= n)] = 0.0
        arrays[f"{KNOWN}.scores"] = scores.view(np.int32) - expected(near)


def _unpack_known(arrays: Arrays, n: int, expected: Callable[[Ids], Ids]) -> None:
    if f"{KNOWN}.near" in arrays:
        near, scores = arrays[f"{KNOWN}.near"], arrays[f"{KNOWN}.scores"]
        if near.dtype != np.int32 or scores.dtype != np.int32 or near.ndim != 2 or near.shape != scores.shape:
            raise SavedModelError("the neighbours and their scores do not fit together")
        if len(near) > n or (near < NONE).any() or (near >= n).any():
            raise SavedModelError("a neighbour is not among the points")
        arrays[f"{KNOWN}.scores"] = (scores + expected(near)).view(np.float32)


def _expected_rows(data: Any, arrays: Arrays) -> Floats:
    """Vectors as they came, from those that are stored."""
    means, positions = arrays[f"{SUMMARIES}.means"], arrays[f"{SUMMARIES}.frame.positions"]
    is_there = (positions >= 0) & (positions < len(means))
    rows = np.zeros((len(positions), means.shape[1]))
    scale, origin = data["frame"]["scale"], data["frame"]["origin"]
    rows[is_there] = means[positions[is_there]]
    with np.errstate(all="ignore"):
        rows /= scale
        return rows if origin is None else rows + arrays[origin["array"]]


def _expected_scores(data: Any, near: Ids, means: Any, moments: Floats) -> Ids:
    """The bits of the scores of neighbours, about."""
    scores = np.zeros(near.shape, np.float32)
    if data["formula"] in FORMULAS:
        predict_scores(FORMULAS.index(data["formula"]), means, moments, near, scores)
    return scores.view(np.int32)


def _pack_sparse(data: Any, arrays: Arrays, n: int, moments: Floats) -> None:
    arrays[f"{SUMMARIES}.leaf_sizes"] = arrays[f"{SUMMARIES}.leaf_sizes"][:n]
    _pack_known(arrays, n, lambda near: sparse.expected_scores(data["formula"], arrays, SUMMARIES, moments, near))
    sparse.pack_rows(arrays, SUMMARIES, n)
    arrays[f"{SUMMARIES}.moments"] = np.ascontiguousarray(moments.T)


def _unpack_sparse(data: Any, arrays: Arrays, n: int, capacity: int) -> None:
    sparse.unpack_rows(arrays, SUMMARIES, n, capacity)
    arrays[f"{SUMMARIES}.moments"] = np.ascontiguousarray(arrays[f"{SUMMARIES}.moments"].T)
    moments = arrays[f"{SUMMARIES}.moments"]
    _unpack_known(arrays, n, lambda near: sparse.expected_scores(data.get("formula"), arrays, SUMMARIES, moments, near))


# Cells ----------------------------------------------------------------------------------------------------------------


def _cells_in(arrays: Arrays) -> list[str]:
    return [name.removesuffix(".codes") for name in arrays if name.endswith(".codes")]


def _pack_cells(arrays: Arrays, prefix: str) -> None:
    """Only the cells and members there are; the tiles have the same numbers as the centres."""
    n_cells = int(arrays[f"{prefix}.head"][CELLS])
    room = arrays[f"{prefix}.ids"].shape[1]
    sizes = arrays[f"{prefix}.sizes"][:n_cells]
    is_member = np.arange(room) < sizes[:, None]
    for name in ("centres", "halves", "sizes"):
        arrays[f"{prefix}.{name}"] = arrays[f"{prefix}.{name}"][:n_cells]
    for name in ("ids", "codes", "scales", "shifts"):
        arrays[f"{prefix}.{name}"] = arrays[f"{prefix}.{name}"][:n_cells][is_member]
    del arrays[f"{prefix}.tiles"]
    arrays[f"{prefix}.room"] = np.array([room])


def _shift_members(arrays: Arrays, prefix: str, means: Any, moments: Floats, formula: str, sign: int) -> None:
    """From what is kept of members to how far that is from what is expected (``sign`` -1), or back (1)."""
    sizes, ids, centres = (arrays[f"{prefix}.{name}"] for name in ("sizes", "ids", "centres"))
    codes, scales, shifts = (arrays[f"{prefix}.{name}"] for name in ("codes", "scales", "shifts"))
    width = means.shape[1]
    kinds = [array.dtype.str for array in (sizes, ids, centres, codes)]
    if kinds != ["<i4", "<i4", "<f4", "|i1"] or {scales.dtype.str, shifts.dtype.str} - {"<f4", "<i4"}:
        raise SavedModelError("the cells hold something else than members")
    if sizes.ndim != 1 or (sizes < 0).any() or int(sizes.sum(dtype=np.int64)) != len(ids):
        raise SavedModelError("the cells do not have as many members as they say")
    n = len(ids)
    if (codes.shape, centres.shape) != ((n, width), (len(sizes), width)) or not scales.shape == shifts.shape == (n,):
        raise SavedModelError("the cells do not fit together")
    if ids.ndim != 1 or (n and not (ids.min() >= 0 and ids.max() < len(means) // 2)):
        raise SavedModelError("a member of a cell is none of the points")
    cell_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    expected = np.empty((n, width), np.int8), np.empty(n, np.float32), np.empty(n, np.float32)
    predict_members(means, moments, formula == "cosine", centres, cell_of, ids, *expected)
    arrays[f"{prefix}.codes"] = codes + np.int8(sign) * expected[0]
    for name, values, about in (("scales", scales, expected[1]), ("shifts", shifts, expected[2])):
        bits = values.view(np.int32) + np.int32(sign) * about.view(np.int32)
        arrays[f"{prefix}.{name}"] = bits.view(np.float32) if sign > 0 else bits


def _unpack_cells(arrays: Arrays, prefix: str) -> None:
    sizes, room = arrays[f"{prefix}.sizes"], int(arrays.pop(f"{prefix}.room")[0])
    centres, codes = arrays[f"{prefix}.centres"], arrays[f"{prefix}.codes"]
    if (
        sizes.ndim != 1
        or codes.ndim != 2
        or centres.shape != (len(sizes), codes.shape[1])
        or not 1 <= room <= MOST_ROOM
    ):
        raise SavedModelError("the cells do not fit together")
    if (sizes < 0).any() or (sizes > room).any():
        raise SavedModelError(f"cells cannot have more than {room} members")
    n_tiles, width = -(-len(sizes) // TILE), codes.shape[1]
    if len(sizes) * room * (width + 12) > (available_memory() or USUAL_MEMORY):
        raise SavedModelError(f"there is no memory for {len(sizes)} cells of {room} members")
    is_member = np.arange(room) < sizes[:, None]
    for name in ("ids", "codes", "scales", "shifts"):
        members = arrays[f"{prefix}.{name}"]
        larger = np.zeros((len(sizes), room, *members.shape[1:]), members.dtype)
        larger[is_member] = members
        arrays[f"{prefix}.{name}"] = larger
    tiles = np.zeros((n_tiles * TILE, width), np.float32)
    tiles[: len(centres)] = centres
    arrays[f"{prefix}.tiles"] = np.ascontiguousarray(tiles.reshape(n_tiles, TILE, width).transpose(0, 2, 1))
