"""Files and stores of format 1, read into what those of today hold; ``grinch convert`` writes them again.

There were four files: saved models (packed by how far numbers are from those that others predict), snapshots of
stores, and zips of text vectors and of coreference models. Nothing here is needed for files of today. What is read is
checked when the new file is opened; here only what is needed to read it at all.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._checks import available_memory
from grinch._compile import entry
from grinch._types import Counts, Floats, Ids, Vectors32
from grinch._vectors import product_of
from grinch.core.rules import MODES, NEED_GRAFTS, ONLINE, ROTATE, Rules
from grinch.core.view import SPARE
from grinch.errors import NO_SENSE, SavedModelError
from grinch.io.arrays import read_header
from grinch.io.points import check_unpacked_size
from grinch.linkage.named import AVERAGE_DOT, CENTROID, COSINE, COUNT, FORMULAS, LENGTH, SPREAD, WARD
from grinch.linkage.sparse import formula_of_product
from grinch.neighbors.cell_kernels import TILE
from grinch.saving import container, disk
from grinch.saving.state import USUAL_MEMORY, are_within, flatten, require, unflatten
from grinch.store.database import BESIDE, FILE, FORMAT, TABLES, row_checksum
from grinch.store.inputs import TEXT_FILE
from grinch.store.lock import StoreLocked, describe, holder, is_held
from grinch.store.node_names import FILE as NAMES_FILE
from grinch.store.rows import block_sums, checksum_rows, files_of, in_pieces, open_rows
from grinch.store.state import how_of
from grinch.summaries.sparse import rows_kept, starts_of
from grinch.tree.checks import check_structure
from grinch.tree.links import LEAVES, LEFT, LIMIT, NONE, OFFSET, PARENT, RIGHT, ROOT, SIZE, USED, fill_sizes, new_links

MODEL, SNAPSHOT = container.OLD_MODEL, container.OLD_SNAPSHOT
Arrays = dict[str, npt.NDArray[Any]]
Contents = tuple[dict[str, Any], Arrays]


def convert(old: str | os.PathLike[str], new: str | os.PathLike[str]) -> str:
    """Write a file or a store of format 1 as one of today, and return what it is; the old one stays as it is."""
    old, new = Path(old), Path(new)
    if new.exists():
        raise FileExistsError(f"new must be a name that is free; {str(new)!r} is there")
    if not old.is_dir():
        return convert_file(old, new)
    with _naming(old):
        _convert_store(old, new)
    return "store"


def convert_file(old: str | os.PathLike[str], new: str | os.PathLike[str]) -> str:
    """Write a file of format 1 as one of today, and return what it holds."""
    old, new = Path(old), Path(new)
    with _naming(old), open(old, "rb") as file:
        start = file.read(8)
        if start == MODEL:
            kind, (header, arrays) = "model", read_old_model(old)
        elif start == SNAPSHOT:
            kind, (header, arrays) = "snapshot", read_old_snapshot(old)
        elif start.startswith(container.ZIP):
            kind, header, arrays = _read_zip(old)
        elif start == container.MAGIC:
            raise SavedModelError("it is a file of today's format already")
        else:
            raise SavedModelError("it is not a file that grinch wrote")
    container.write(new, kind, header, arrays)
    return kind


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except SavedModelError as error:
        raise SavedModelError(f"{path} cannot be converted: {error}") from error
    except (ValueError, *NO_SENSE, zipfile.BadZipFile, zlib.error, struct.error, EOFError, MemoryError) as error:
        raise SavedModelError(f"{path} is damaged: {type(error).__name__}: {error}") from error


# Models -------------------------------------------------------------------------------------------------------------

_START = struct.Struct("<IQI")
# No packed byte of zlib stands for more than this many.
MOST_PER_BYTE = 1032
# Parameters that files of the first releases do not have, and what they mean.
BEFORE = {"cut": "height", "layer": "auto", "min_cluster_size": 1, "noise": False}


def read_old_model(path: Path) -> Contents:
    """Return header and arrays of a saved model, as a file of today has them."""
    with open(path, "rb") as file:
        file.seek(len(MODEL))
        version, length, checksum = _START.unpack(file.read(_START.size))
        size = os.fstat(file.fileno()).st_size
        require(version == 1 and length <= size, "its header is not there")
        text = file.read(length)
        require(zlib.crc32(text, zlib.crc32(struct.pack("<IQ", version, length))) == checksum, "a checksum is wrong")
        header = json.loads(text)
        unpacked = sum(_size_of(section) for section in header["sections"])
        room = available_memory() or USUAL_MEMORY
        require(unpacked <= room, f"its arrays take {unpacked:,} bytes of memory, and {room:,} are free")
        arrays = {section["name"]: _section(file, section, size) for section in header["sections"]}
    manifest = header["manifest"]
    if manifest["fitted"] is not None:
        offsets = arrays["ids.positions"]
        arrays["ids.positions"] = offsets + np.arange(len(offsets))
        if manifest["fitted"]["builder"]["part"] == "engine":
            _unpack_engine(manifest["fitted"]["builder"], arrays)
        for prefix in _cells_in(arrays):
            _unpack_cells(arrays, prefix)
    return flatten(unflatten(_renewed(manifest), arrays))


def _size_of(section: dict[str, Any]) -> int:
    require(all(type(n) is int and n >= 0 for n in section["shape"]), "an array has no shape")
    return math.prod(section["shape"]) * _dtype_of(section).itemsize


def _dtype_of(section: dict[str, Any]) -> np.dtype[Any]:
    dtype = np.dtype(str(section["dtype"]))
    require(dtype.kind in "biuf", f"an array is of {dtype}")
    return dtype


def _section(file: Any, section: dict[str, Any], most: int) -> npt.NDArray[Any]:
    require(type(section["size"]) is int and 0 <= section["size"] <= most, "an array is cut off")
    content = file.read(section["size"])
    require(len(content) == section["size"] and zlib.crc32(content) == section["crc"], "a checksum is wrong")
    dtype, steps = _dtype_of(section), section["steps"]
    require(set(steps) <= {"f4", "zlib"}, f"an array is coded by {steps!r:.60}")
    stored = np.dtype(np.float32) if "f4" in steps else dtype
    if "zlib" in steps:
        n_bytes = math.prod(section["shape"]) * stored.itemsize
        require(n_bytes <= MOST_PER_BYTE * len(content), "an array is too large for its bytes")
        content = zlib.decompressobj().decompress(content, n_bytes + 1)
        # The first bytes of all numbers, then the second bytes, and so on.
        content = np.frombuffer(content, np.uint8).reshape(stored.itemsize, -1).T.tobytes()
    return np.frombuffer(content, stored).reshape(section["shape"]).astype(dtype)


def _renewed(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest in today's terms, with the defaults of its time for what it leaves out."""
    manifest = json.loads(json.dumps(manifest))
    first_metric = "euclidean" if manifest["class"] == "HAC" else "cosine"
    now, fitted = manifest["parameters"], manifest["fitted"]
    missing = {name: {"value": value} for name, value in BEFORE.items() if name not in now}
    if manifest["class"] == "Perch":
        missing.pop("cut", None)
    now.update(missing)
    for parameters in (now, {} if fitted is None else fitted["parameters"]):
        linkage = now["linkage"] if parameters.get("linkage") == {"as_now": True} else parameters.get("linkage")
        if linkage == {"name": "average"} and parameters["metric"] == {"value": None}:
            parameters["metric"] = {"value": first_metric}
        for value in parameters.values():
            if isinstance(value, dict) and "rules" in value:
                value["rules"] = _renewed_rules(value["rules"])
    if fitted is not None and "rules" in fitted["builder"] and "graft" in fitted["builder"]["rules"]:
        fitted["builder"]["rules"] = _renewed_rules(fitted["builder"]["rules"])
    return {name: value for name, value in manifest.items() if name != "format"}


def _renewed_rules(rules: dict[str, Any]) -> dict[str, Any]:
    if not rules["graft"]:  # earlier releases took rules that need grafts, and passed over them
        rules = {**rules, **dict.fromkeys(NEED_GRAFTS, False)}
    if "most_entries" not in rules:
        # Written before there were sparse vectors: what the mode that they are nearest to says.
        found = Rules(**rules)
        others = (*MODES.values(), ROTATE, ONLINE)
        nearest = min(others, key=lambda mode: sum(a != b for a, b in zip(found, mode, strict=True)))
        rules = {**rules, "most_entries": nearest.most_entries}
    return rules


# The engine of a model ----------------------------------------------------------------------------------------------

LINKS, SUMMARIES, KNOWN, FOUND = "builder.links", "builder.summaries", "builder.known", "builder.found"
# A row for each node: leaves in front.
BY_NODE = ("sibling_scores", "stale", "counted", "changes")
# Cells of the points themselves.
OWN_CELLS = ("builder.search", "builder.search.cells")


def _unpack_engine(builder: dict[str, Any], arrays: Arrays) -> None:
    head = arrays[f"{LINKS}.head"]
    is_in, children = arrays.pop(f"{LINKS}.is_in"), arrays.pop(f"{LINKS}.children")
    n, capacity = len(is_in), len(is_in) + SPARE
    require(head.dtype == np.int64 and head.shape == (11,) and head[OFFSET] == n, "the tree has no slots")
    table, kind = _table_of(children, is_in, head), builder["summaries"]["part"]
    if kind == "vector_summaries":
        _unpack_vectors(builder["summaries"], arrays, table, head)
    elif kind == "sparse_summaries":
        _unpack_sparse(builder["summaries"], arrays, n, capacity)

    def with_room(array: npt.NDArray[Any], fill: float = 0) -> npt.NDArray[Any]:
        larger = np.full((2 * capacity, *array.shape[1:]), fill, array.dtype)
        larger[:n], larger[capacity : capacity + n] = array[:n], array[n:]
        return larger

    pointers = table[:, :SIZE]
    pointers[pointers >= n] += SPARE
    arrays[f"{LINKS}.table"] = with_room(table, NONE)
    head[OFFSET] = capacity
    head[ROOT] += SPARE if head[ROOT] >= n else 0
    for name in BY_NODE:
        arrays[f"{SUMMARIES}.{name}"] = with_room(
            arrays[f"{SUMMARIES}.{name}"], np.nan if name == "sibling_scores" else 0
        )
    for name in {"vector_summaries": ("means", "moments"), "sparse_summaries": ("moments",)}.get(kind, ()):
        arrays[f"{SUMMARIES}.{name}"] = with_room(arrays[f"{SUMMARIES}.{name}"])
    gone = np.zeros(capacity, np.uint8)
    gone[:n] = arrays[f"{SUMMARIES}.gone"]
    arrays[f"{SUMMARIES}.gone"] = gone
    builder["summaries"]["capacity"] = capacity


def _table_of(children: Any, is_in: Any, head: Any) -> Ids:
    """Return the table of a tree from the children of its nodes: 2i is leaf i, an odd number how far a node is."""
    n = len(is_in)
    codes = children.T.astype(np.int64)
    require(codes.shape == (n, 2) and ((codes < 0).sum(axis=1) != 1).all(), "a node of the tree has one child")
    table = np.full((2 * n, 4), NONE, np.int32)
    internal = np.flatnonzero((codes >= 0).all(axis=1))
    codes = codes[internal]
    far, is_leaf = codes // 2, codes % 2 == 0
    steps = np.where(far % 2 == 1, -(far + 1) // 2, far // 2)
    sides = np.where(is_leaf, far, n + internal[:, None] + steps)
    is_there = are_within(sides, 0, 2 * n) and ((sides >= n) != is_leaf).all()
    require(is_there, "a child in the tree is none of its nodes")
    table[:n, SIZE] = np.where(is_in == 1, 1, NONE)
    table[n + internal, LEFT], table[n + internal, RIGHT], table[n + internal, SIZE] = sides[:, 0], sides[:, 1], 0
    table[sides[:, 0], PARENT] = table[sides[:, 1], PARENT] = n + internal
    preorder = check_structure(table, int(head[ROOT]), n, int(head[USED]), int(head[LEAVES]))
    sizes = np.zeros(2 * n, np.int64)
    if len(preorder):
        fill_sizes(table, preorder, n, sizes)
    table[preorder, SIZE] = np.minimum(sizes[preorder], int(head[LIMIT]) + 1)
    return table


def _unpack_vectors(data: Any, arrays: Arrays, table: Ids, head: Any) -> None:
    """Restore the means of nodes, stored as differences in bits from the mean of the children, children first."""
    n, leaves, off_by = len(table) // 2, arrays[f"{SUMMARIES}.means"], arrays.pop(f"{SUMMARIES}.off_by")
    moments, stale = np.ascontiguousarray(arrays[f"{SUMMARIES}.moments"].T), arrays[f"{SUMMARIES}.stale"]
    means = np.zeros((2 * n, leaves.shape[1]), np.float32)
    means[:n], kept = leaves, rows_kept(table, stale)
    for v in new_links(0)._replace(table=table, head=head).preorder()[::-1].tolist():
        if v >= n and kept[v - n]:
            a, b = table[v, LEFT], table[v, RIGHT]
            if moments[a, COUNT] < moments[b, COUNT]:
                a, b = b, a
            total = moments[a, COUNT] + moments[b, COUNT]
            share = np.float64(np.float32(moments[b, COUNT] / total)) if total > 0.0 else np.float64(0.0)
            step = (means[b] - means[a]).astype(np.float64)
            mean = (share * step + means[a].astype(np.float64)).astype(np.float32)
            means[v] = (mean.view(np.int32) + off_by[v - n]).view(np.float32)
    arrays[f"{SUMMARIES}.means"], arrays[f"{SUMMARIES}.moments"] = means, moments
    for prefix in _cells_in(arrays):
        if prefix in OWN_CELLS:
            _unpack_members(arrays, prefix, means, moments, data["formula"] == "cosine")
    rows, positions = arrays[f"{SUMMARIES}.frame.rows"], arrays[f"{SUMMARIES}.frame.positions"]
    is_there = (positions >= 0) & (positions < len(means))
    expected = np.zeros((len(positions), means.shape[1]))
    expected[is_there] = means[positions[is_there]]
    origin = data["frame"]["origin"]
    with np.errstate(all="ignore"):
        expected /= data["frame"]["scale"]
        expected = expected if origin is None else expected + arrays[origin["array"]]
    arrays[f"{SUMMARIES}.frame.rows"] = (rows + expected.view(np.int64)).view(np.float64)
    _unpack_known(arrays, n, lambda near: _scores_of_vectors(data["formula"], means, moments, near))


def _scores_of_vectors(formula: str, means: Any, moments: Floats, near: Ids) -> Vectors32:
    """Return the scores of points with their neighbours, as they were rounded: column by column."""
    scores = np.zeros(near.shape, np.float32)
    if formula not in FORMULAS:
        return scores
    number, is_there = FORMULAS.index(formula), np.logical_and.accumulate(near != NONE, axis=1)
    x, y = np.broadcast_to(np.arange(len(near))[:, None], near.shape)[is_there], near[is_there]
    total = np.zeros(len(x))
    for column in means.T.astype(np.float64):
        step = column[x] - column[y]
        total += column[x] * column[y] if number in (COSINE, AVERAGE_DOT) else -(step * step)
    if number == COSINE:
        lengths = moments[x, LENGTH] * moments[y, LENGTH]
        total = np.divide(total, lengths, out=np.zeros(len(x)), where=lengths > 0.0)
    elif number == WARD:
        total *= 0.5
    elif number not in (AVERAGE_DOT, CENTROID):
        total -= moments[x, SPREAD] + moments[y, SPREAD]
    scores[is_there] = total
    return scores


def _unpack_sparse(data: Any, arrays: Arrays, n: int, capacity: int) -> None:
    for name in ("leaf_columns", "apart_columns"):
        arrays[f"{SUMMARIES}.{name}"] = np.cumsum(arrays[f"{SUMMARIES}.{name}"], dtype=np.int32)
    for name in ("leaf_sizes", "is_apart"):
        old = arrays[f"{SUMMARIES}.{name}"]
        arrays[f"{SUMMARIES}.{name}"] = np.concatenate([old, np.zeros(capacity - n, old.dtype)])
    moments = arrays[f"{SUMMARIES}.moments"] = np.ascontiguousarray(arrays[f"{SUMMARIES}.moments"].T)
    sizes, columns, values = (arrays[f"{SUMMARIES}.{name}"] for name in ("leaf_sizes", "leaf_columns", "leaf_values"))

    def scores_of(near: Ids) -> Vectors32:
        require(are_within(sizes, 0, 2**31) and sizes.sum() == len(columns) == len(values), "rows are cut off")
        scores = np.zeros(near.shape, np.float32)
        if data["formula"] in FORMULAS:
            formula = FORMULAS.index(data["formula"])
            _scores_of_rows(formula, starts_of(sizes), columns, values, moments, near, scores)
        return scores

    _unpack_known(arrays, n, scores_of)


@entry
def _scores_of_rows(
    formula: int, starts: Counts, columns: Ids, values: Vectors32, moments: Floats, near: Ids, scores: Vectors32
) -> None:
    for x in range(near.shape[0]):
        here, these = columns[starts[x] : starts[x + 1]], values[starts[x] : starts[x + 1]]
        for i in range(near.shape[1]):
            y = near[x, i]
            if y == NONE:
                break
            there, those = columns[starts[y] : starts[y + 1]], values[starts[y] : starts[y + 1]]
            product = product_of(here, these, there, those)
            scores[x, i] = np.float32(formula_of_product(formula, product, moments, x, y))


def _unpack_known(arrays: Arrays, n: int, expected: Callable[[Ids], Vectors32]) -> None:
    if f"{KNOWN}.near" in arrays:
        near, scores = arrays[f"{KNOWN}.near"], arrays[f"{KNOWN}.scores"]
        require(near.shape == scores.shape and len(near) <= n and are_within(near, NONE, n), "neighbours are no points")
        arrays[f"{KNOWN}.scores"] = (scores + expected(near).view(np.int32)).view(np.float32)


# Cells of a model ---------------------------------------------------------------------------------------------------


def _cells_in(arrays: Arrays) -> list[str]:
    return [name.removesuffix(".codes") for name in arrays if name.endswith(".codes")]


def _unpack_members(arrays: Arrays, prefix: str, means: Any, moments: Floats, is_cosine: bool) -> None:
    """Restore the codes of members of cells, stored as differences from those that their vectors give."""
    sizes, ids, centres = (arrays[f"{prefix}.{name}"] for name in ("sizes", "ids", "centres"))
    factors = np.ones(len(ids), np.float32)
    if is_cosine:
        lengths = moments[ids, LENGTH]
        factors = np.divide(1.0, lengths, out=np.zeros(len(ids)), where=lengths > 0.0).astype(np.float32)
    steps = means[ids] * factors[:, None] - centres[np.repeat(np.arange(len(sizes)), sizes)]
    total = np.zeros(len(ids))
    for column in steps.T.astype(np.float64):
        total += column * column
    scales = np.abs(steps).max(axis=1, initial=0.0) / np.float32(127.0)
    is_flat = scales == 0.0
    codes = np.rint(steps / np.where(is_flat, np.float32(1.0), scales)[:, None])
    codes[is_flat] = 0.0
    arrays[f"{prefix}.codes"] = arrays[f"{prefix}.codes"] + codes.astype(np.int8)
    for name, values in (("scales", scales), ("shifts", np.float32(-0.5) * total.astype(np.float32))):
        arrays[f"{prefix}.{name}"] = (arrays[f"{prefix}.{name}"] + values.view(np.int32)).view(np.float32)


def _unpack_cells(arrays: Arrays, prefix: str) -> None:
    sizes, room = arrays[f"{prefix}.sizes"], int(arrays.pop(f"{prefix}.room")[0])
    centres, codes = arrays[f"{prefix}.centres"], arrays[f"{prefix}.codes"]
    require(1 <= room <= 2**16 and are_within(sizes, 0, room + 1), "cells have no room for their members")
    n_tiles, width = -(-len(sizes) // TILE), codes.shape[1]
    most = available_memory() or USUAL_MEMORY
    require(len(sizes) * room * (width + 12) <= most, "there is no memory for its cells")
    is_member = np.arange(room) < sizes[:, None]
    for name in ("ids", "codes", "scales", "shifts"):
        members = arrays[f"{prefix}.{name}"]
        larger = np.zeros((len(sizes), room, *members.shape[1:]), members.dtype)
        larger[is_member] = members
        arrays[f"{prefix}.{name}"] = larger
    tiles = np.zeros((n_tiles * TILE, width), np.float32)
    tiles[: len(centres)] = centres
    arrays[f"{prefix}.tiles"] = np.ascontiguousarray(tiles.reshape(n_tiles, TILE, width).transpose(0, 2, 1))


# Snapshots ----------------------------------------------------------------------------------------------------------

_FOOTER = struct.Struct("<QQI8s")


def read_old_snapshot(path: Path) -> Contents:
    """Return header and arrays of a store's snapshot, as a snapshot of today has them; arrays are mapped."""
    size = path.stat().st_size
    whole = np.memmap(path, np.uint8, "c") if size else np.zeros(0, np.uint8)
    require(size > 4096 + _FOOTER.size and whole[:8].tobytes() == SNAPSHOT, "it is too short")
    start, length, checksum, magic = _FOOTER.unpack(whole[size - _FOOTER.size :].tobytes())
    require(magic == SNAPSHOT and start + length + _FOOTER.size == size, "its header is not there")
    text = whole[start : start + length].tobytes()
    require(zlib.crc32(text) == checksum, "the checksum of its header is wrong")
    header = json.loads(text)
    require(header["format"] == 1, f"it is of format {header['format']!r:.20}")
    arrays = {name: _mapped(whole[:start], name, about) for name, about in header["arrays"].items()}
    manifest, prefix = header["manifest"], "model/"
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    model, own = flatten(unflatten(_renewed(manifest["model"]), own))
    others = {name: array for name, array in arrays.items() if not name.startswith(prefix)}
    return {**manifest, "model": model}, {f"{prefix}{name}": array for name, array in own.items()} | others


def _mapped(whole: npt.NDArray[np.uint8], name: str, about: dict[str, Any]) -> npt.NDArray[Any]:
    offset, n_bytes = about["offset"], _size_of(about)
    require(type(offset) is int and 0 <= offset <= offset + n_bytes <= len(whole), f"{name!r:.60} is not inside it")
    content = whole[offset : offset + n_bytes]
    for i, expected in enumerate(about["checksums"]):
        block = content[i * container.BLOCK : (i + 1) * container.BLOCK]
        is_right = not block.any() if expected is None else disk.checksum(block) == expected
        require(is_right, f"the checksum of {name!r:.60} is wrong")
    return content.view(_dtype_of(about)).reshape(about["shape"])


# Stores ------------------------------------------------------------------------------------------------------------

# All that wrote operations of format 1 make the same trees.
FIRST_ENGINE = 1


def _convert_store(old: Path, new: Path) -> None:
    if is_held(old):
        raise StoreLocked(f"{old} is being written to by {describe(holder(old))}. Wait until it is closed")
    require((old / FILE).exists(), f"it has no {FILE}")
    with disk.new_folder(new) as work:
        # SQLite writes beside a file that it reads, so it reads a copy.
        for name in (FILE, BESIDE[0]):
            if (old / name).exists():
                disk.copy_file(old / name, work / name)
        try:
            with closing(sqlite3.connect(work / FILE)) as database:
                database.execute("pragma journal_mode = delete")
                _convert_tables(database, old, work)
        except sqlite3.Error as error:
            raise SavedModelError(f"{FILE} cannot be read: {error}") from error
        if (old / NAMES_FILE).exists():
            disk.copy_file(old / NAMES_FILE, work / NAMES_FILE)
        if (old / "text.npz").exists():
            convert_file(old / "text.npz", work / TEXT_FILE)


def _convert_tables(database: sqlite3.Connection, old: Path, work: Path) -> None:
    about = {name: json.loads(text) for name, text in database.execute("select name, value from about")}
    require(about["format"] in (1, 2), f"it is of format {about['format']!r:.20}")
    operations = [_checked_operation(row) for row in database.execute("select * from operations order by version")]
    header, arrays = read_old_snapshot(old / about["snapshot"])
    require(header["store"] == about["store"], f"{about['snapshot']} is of another store")
    head, table = arrays.get("model/fitted.builder.links.head"), arrays.get("model/fitted.builder.links.table")
    if head is not None and table is not None:
        # Trees that were adopted had larger ones.
        np.minimum(table[:, SIZE], head[LIMIT] + 1, out=table[:, SIZE])
    header["followed"], arrays = _tracking_of_today(header["followed"], arrays)
    arrays |= {f"rows/{name}": array for name, array in _copy_rows(old, work, about, header, operations).items()}
    container.write(work / about["snapshot"], "snapshot", header, arrays)
    database.execute("drop table operations")
    database.execute(f"create table operations ({', '.join(TABLES['operations'])}, row_checksum integer not null)")
    database.execute(f"create table cuts ({', '.join(TABLES['cuts'])}, row_checksum integer not null)")
    _write_rows(database, "operations", [(*row[:3], FIRST_ENGINE, *row[3:]) for row in operations])
    database.execute("delete from about where name in ('snapshot_is', 'files', 'format', 'model')")
    known = {"format": FORMAT, "files": None, "model": _renewed(about["model"]) if about.get("model") else None}
    known["unwritten_cuts"] = max((int(row[0]) for row in operations), default=0)
    _write_rows(database, "about", [(name, json.dumps(value)) for name, value in known.items()])
    database.commit()


def _checked_operation(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an operation without its checksum, which its last column, rows that it brought, is no part of."""
    require(zlib.crc32(repr(row[:-2]).encode()) == row[-1], f"the checksum of version {row[0]!r:.20} is wrong")
    return row[:-1]


def _write_rows(database: sqlite3.Connection, table: str, rows: list[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * (len(TABLES[table]) + 1))
    database.executemany(f"insert into {table} values ({marks})", [(*row, row_checksum(table, row)) for row in rows])


def _copy_rows(
    old: Path, work: Path, about: dict[str, Any], header: dict[str, Any], operations: list[tuple[Any, ...]]
) -> dict[str, npt.NDArray[Any]]:
    """Copy the vectors; returns the checksums of the blocks of those that are in the snapshot."""
    if about["n_features"] is None:
        return {}
    names = files_of(about["vectors"])[: 2 if about.get("is_sparse") else 1]
    for name in names:
        disk.copy_file(old / name, work / name)
    is_sparse = bool(about.get("is_sparse"))
    with closing(open_rows(work / names[0], about["dtype"], about["n_features"], is_sparse)) as file:
        for version, _, _, first, n_rows, checksum, *_ in operations:
            if n_rows and version <= header["version"]:
                found = checksum_rows(map(file.at, in_pieces(file, np.arange(first, first + n_rows))))
                require(found == checksum, f"the vectors of version {version} are not those that were written")
        for piece in in_pieces(file, np.arange(header["rows"])):
            file.cover(int(piece[0]), file.at(piece))
            for part in file.parts.values():
                part.blocks.commit()
        return block_sums(file)


def _tracking_of_today(state: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """Return the state of the cuts in format 3; format 1 knew neither cut nor layer, and no parts of clusters.

    Format 2 did not know which version an automatic cut was made of, and counted clusters in its drift.
    """
    cuts = [{"next_part": cut["next_id"], **cut, **how_of(cut)} for cut in state["cuts"]]
    cuts = [{**cut, "drift": cut["drift"][:3], "made_at": state["version"]} for cut in cuts]
    if state["format"] != 1:
        return {**state, "format": 3, "cuts": cuts}, arrays
    for cut in cuts:
        owners = arrays.get(f"followed/cut{cut['number']}.owners")
        if owners is not None and cut["n_clusters"] is None and cut["threshold"] is None:
            arrays = {**arrays, f"followed/cut{cut['number']}.parts": owners.copy()}
    return {**state, "format": 3, "cuts": cuts}, arrays


# Text vectors and coreference models --------------------------------------------------------------------------------


def _read_zip(path: Path) -> tuple[str, dict[str, Any], Arrays]:
    with zipfile.ZipFile(path) as archive:
        check_unpacked_size(path.name, sum(info.file_size for info in archive.infolist()))
        arrays = {
            name.removesuffix(".npy"): _read_array(archive, name)
            for name in archive.namelist()
            if name.endswith(".npy")
        }
        if "model.json" in archive.namelist():
            about = json.loads(archive.read("model.json"))
            require(about["format"] == "grinch coref model" and about["version"] == 1, "it is of another version")
            header = {name: value for name, value in about.items() if name not in ("format", "version")}
            return "coreference model", header, arrays
    require({"about", "terms", "columns", "weights"} == set(arrays), "it is not a file that grinch wrote")
    about = json.loads(arrays.pop("about").tobytes())
    require(about["format"] == 1, "it is of another version")
    return "text vectors", {"kind": about["kind"], "settings": about["settings"]}, arrays


def _read_array(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    info = archive.getinfo(name)
    with archive.open(info) as file:
        read_header(f"FILE {name!r}", file, info.file_size)
    with archive.open(info) as file:
        return np.lib.format.read_array(file, allow_pickle=False)
