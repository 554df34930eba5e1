"""What a clustering prints of what it has found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy.typing as npt
from rich.markup import escape
from rich.table import Table

from grinch._types import Labels
from grinch.cli.app import console
from grinch.cli.texts import Branch
from grinch.estimators.base import TreeClusterer
from grinch.io.read import Points
from grinch.metrics import dendrogram_purity, pairwise_f1
from grinch.tree import Tree

# Where clusters have fewer points than this on average, coarser ones are pointed out.
FEW_POINTS = 8
# Clusters whose words are printed.
MOST_CLUSTERS = 12


def report(
    method: str,
    model: TreeClusterer,
    flat: Labels,
    points: Points,
    seconds: float,
    beside: dict[str, tuple[float, float]],
) -> None:
    """The facts of a clustering, and its quality where the true classes are known."""
    layers = [int(layer.max()) + 1 for layer in model.layers_]
    counts = {name.replace("_", " "): f"{count:,}" for name, count in model.stats_.items() if count}
    print_facts({**tree_facts(model.tree_, flat, seconds), "layers of": _listed(layers), **counts})
    n_clusters = int(flat.max()) + 1
    coarser = [layer for layer in layers if layer < n_clusters]
    if n_clusters in layers and coarser and len(flat) < FEW_POINTS * n_clusters:
        console.print(
            f"\n  These clusters last longest, but they are small: {len(flat) / n_clusters:.1f} points on average."
            f" layers.csv has coarser ones:\n  {_listed(coarser)} clusters (model.layers_ in Python)"
        )
    if points.labels is not None:
        print_quality(method, model.tree_, flat, points.labels.tolist(), seconds, beside)


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(f"{count:,}" for count in counts)


def tree_facts(tree: Tree, flat: Labels | None, seconds: float) -> dict[str, str]:
    """Size, time, depth and, if it is cut, the number of clusters."""
    depths = tree.depths()[: tree.n_leaves]
    facts = {
        "points": f"{tree.n_leaves:,}",
        "time of the fit": f"{seconds:.2f} s ({tree.n_leaves / seconds:,.0f} points/s)",
        "depth": f"{depths.mean():.0f} on average, {depths.max():,} at most",
    }
    return facts if flat is None else {**facts, "clusters": f"{flat.max() + 1:,}" + _nowhere(flat)}


def print_facts(facts: Mapping[str, str]) -> None:
    """One a line."""
    console.print()
    for name, fact in facts.items():
        console.print(f"  {name:17} {fact}")


def print_quality(
    method: str,
    tree: Tree,
    flat: Labels | None,
    labels: npt.ArrayLike,
    seconds: float,
    beside: dict[str, tuple[float, float]],
) -> None:
    """Dendrogram purity, and F1 of the clusters if there are any; ``beside`` are seconds and purity of others."""
    table = Table(box=None, pad_edge=False)
    for name in ("", "seconds", "dendrogram purity", "F1 of the cut"):
        table.add_column(name, justify="left" if not name else "right")
    f1 = "" if flat is None else f"{pairwise_f1(labels, flat):.3f}"
    table.add_row(f"  {method}", f"{seconds:.2f}", f"{dendrogram_purity(tree, labels):.3f}", f1)
    for name, (other_seconds, other_purity) in beside.items():
        table.add_row(f"  {name}", f"{other_seconds:.2f}", f"{other_purity:.3f}", "")
    console.print()
    console.print(table)


def print_branches(branches: Sequence[Branch]) -> None:
    """The largest clusters by their words."""
    clusters = [branch for branch in branches if branch.cluster is not None]
    if not clusters:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("  cluster", justify="right")
    table.add_column("size", justify="right")
    table.add_column("keywords", overflow="ellipsis", no_wrap=True)
    for branch in clusters[:MOST_CLUSTERS]:
        table.add_row(f"{branch.cluster}", f"{branch.size:,}", escape(", ".join(branch.words)))
    console.print()
    console.print(table)
    if len(clusters) > MOST_CLUSTERS:
        console.print(f"  and {len(clusters) - MOST_CLUSTERS:,} more")


def _nowhere(flat: Labels) -> str:
    count = int((flat < 0).sum())
    return f", and {count:,} points that belong nowhere" if count else ""
