"""A tree and its clusters as files. What was there before stays until the new file is complete."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._labels import is_missing
from grinch.errors import missing_extra
from grinch.io.write import replacing, write_table
from grinch.tree import Tree


def write_newick(tree: Tree, path: Path, names: Sequence[object] | None = None) -> None:
    """Write one line of Newick, with heights as branch lengths."""
    with replacing(path) as out:
        out.write(tree.to_newick(names) + "\n")


def write_scipy(tree: Tree, path: Path) -> None:
    """Write scipy's linkage matrix as .npy."""
    with replacing(path, "wb") as out:
        np.save(out, tree.to_scipy())


def write_tsv(
    tree: Tree, path: Path, names: Sequence[object] | None = None, labels: Sequence[object] | None = None
) -> None:
    """Write one line per node: node, parent, label; an empty cell where there is none. Leaves go by their names."""

    def name(v: int) -> object:
        if v >= tree.offset:
            return f"node{v}"
        return v if names is None else _cell(names[v])

    with replacing(path) as out:
        writer = csv.writer(out, delimiter="\t", lineterminator="\n")
        writer.writerow(["node", "parent", "label"])
        for v in tree.nodes():
            p = tree.parent(v)
            label = labels[v] if labels is not None and v < tree.offset else None
            writer.writerow([name(v), "" if p is None else name(p), _cell(label)])


def write_clusters(
    path: Path,
    clusters: npt.NDArray[np.int64],
    names: Sequence[object] | None = None,
    labels: Sequence[object] | None = None,
    columns: Mapping[str, Sequence[object]] | None = None,
) -> None:
    """Write flat clusters as CSV: id, cluster, label where it is known, and any further columns.

    It is for people: text that a spreadsheet would run as a formula gets a single quote in front.
    """
    further = {**({"label": labels} if labels is not None else {}), **(columns or {})}
    ids = range(len(clusters)) if names is None else names
    _write_csv(path, ["id", "cluster", *further], zip(ids, clusters.tolist(), *further.values(), strict=True))


def write_layers(path: Path, layers: Sequence[npt.NDArray[np.int64]], names: Sequence[object] | None = None) -> None:
    """Write the flat clusters of layers as CSV: id, and a column for each layer, named by its number of clusters."""
    header = ["id", *(f"of_{int(layer.max(initial=-1)) + 1}" for layer in layers)]
    ids = range(len(layers[0]) if layers else 0) if names is None else names
    _write_csv(path, header, zip(ids, *(layer.tolist() for layer in layers), strict=True) if layers else ())


def _write_csv(path: Path, header: list[str], rows: Iterable[Sequence[object]]) -> None:
    with replacing(path) as out:
        write_table(out, header, (map(_cell, row) for row in rows))


def _cell(value: object) -> object:
    """Return the value to write; a missing one (None, nan or the NA of pandas) is an empty cell."""
    return "" if is_missing(value) else value


def write_tree_parquet(tree: Tree, path: Path, names: Sequence[object] | None = None) -> None:
    """Write one row a node, parents before children: node, parent, left, right, size, height, score, key and id.

    ``key`` is that of :meth:`Tree.keys <grinch.tree.Tree.keys>`. ``id`` is the name of a leaf (by default those of the
    tree, or the positions of the points). Where there is nothing to say, such as for the parent of the root, a cell is
    null.
    """
    pa = _pyarrow()
    names = tree.names if names is None else names
    names = range(tree.n_leaves) if names is None else names
    if len(names) != tree.n_leaves:
        raise ValueError(f"names must have one entry for each of the {tree.n_leaves} leaves; got {len(names)}")
    nodes = tree.preorder()
    pairs, scores = tree.child_pairs()[nodes], tree.scores[nodes]
    is_leaf = nodes < tree.offset
    columns = {
        "node": pa.array(nodes),
        "parent": _where(pa, tree.parents()[nodes], tree.parents()[nodes] >= 0),
        "left": _where(pa, pairs[:, 0], ~is_leaf),
        "right": _where(pa, pairs[:, 1], ~is_leaf),
        "size": pa.array(tree.sizes()[nodes]),
        "height": pa.array(tree.heights()[nodes]),
        "score": _where(pa, scores, ~is_leaf & ~np.isnan(scores)),
        "key": pa.array(tree.keys(names)[nodes]),
        "id": _column(pa, names).take(_where(pa, nodes, is_leaf)),
    }
    _write_table(pa, columns, path)


def write_clusters_parquet(
    path: Path,
    clusters: npt.NDArray[np.int64],
    names: Sequence[object] | None = None,
    columns: Mapping[str, Sequence[object]] | None = None,
) -> None:
    """Write one row a point: id, cluster, and any further columns.

    Values of one kind keep their type; those of several kinds in one column are written as text.
    """
    pa = _pyarrow()
    names = range(len(clusters)) if names is None else names
    cells: dict[str, Sequence[object]] = {"id": names, **(columns or {})}
    for name, values in cells.items():
        if len(values) != len(clusters):
            raise ValueError(f"{name} must have one entry for each of the {len(clusters)} points; got {len(values)}")
    written = {name: _column(pa, values) for name, values in cells.items()}
    _write_table(pa, {"id": written.pop("id"), "cluster": pa.array(clusters), **written}, path)


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("writing .parquet", "pyarrow", "parquet") from None
    return pa


def _where(pa: Any, values: npt.NDArray[Any], there: npt.NDArray[np.bool_]) -> Any:
    """Return a column that is null where there is no value."""
    return pa.array(values, mask=~there)


def _column(pa: Any, values: Sequence[object]) -> Any:
    """Return a column of Python values: of one type if possible, as text otherwise."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return pa.array([None if is_missing(value) else str(value) for value in values])


def _write_table(pa: Any, columns: dict[str, Any], path: Path) -> None:
    with replacing(path, "wb") as out:
        pa.parquet.write_table(pa.table(columns), out)
