"""A tree and its clusters as files. What was there before stays until the new file is complete."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from grinch._labels import is_missing
from grinch.files.write import harmless, replacing
from grinch.tree import Tree


def write_newick(tree: Tree, path: Path, names: Sequence[object] | None = None) -> None:
    """One line of Newick, with heights as branch lengths."""
    with replacing(path) as out:
        out.write(tree.to_newick(names) + "\n")


def write_scipy(tree: Tree, path: Path) -> None:
    """Scipy's linkage matrix as .npy."""
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
    """The flat clusters as CSV: id, cluster, where it is known label, and any further columns.

    It is for people: text that a spreadsheet would run as a formula gets a single quote in front.
    """
    further = {**({"label": labels} if labels is not None else {}), **(columns or {})}
    with replacing(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["id", "cluster", *further])
        for i, cluster in enumerate(clusters.tolist()):
            cells = [_cell(values[i]) for values in further.values()]
            writer.writerow(harmless([i if names is None else _cell(names[i]), cluster, *cells]))


def write_layers(path: Path, layers: Sequence[npt.NDArray[np.int64]], names: Sequence[object] | None = None) -> None:
    """The flat clusters of several layers as CSV: id, and a column for each layer, called by its number of clusters."""
    with replacing(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["id", *(f"of_{int(layer.max(initial=-1)) + 1}" for layer in layers)])
        for i, clusters in enumerate(zip(*(layer.tolist() for layer in layers), strict=True)):
            writer.writerow(harmless([i if names is None else _cell(names[i]), *clusters]))


def _cell(value: object) -> object:
    """Return the value to write; a missing one (None, nan or the NA of pandas) is an empty cell."""
    return "" if is_missing(value) else value
