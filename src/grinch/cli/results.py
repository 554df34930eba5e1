"""Results of a clustering: what is printed of them, and what is written to the folder of --out."""

from __future__ import annotations

import csv
import json
import shlex
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
from rich.markup import escape

import grinch
from grinch import Rules
from grinch._types import Labels
from grinch.cli.app import console, print_table, say
from grinch.cli.texts import NamedBranch
from grinch.errors import cause_of
from grinch.estimators.tree_clusterer import TreeClusterer
from grinch.io.read import Points
from grinch.io.trees import write_clusters, write_layers, write_newick, write_scipy, write_tsv
from grinch.io.write import harmless, replacing
from grinch.linkage.named import metric_in_full
from grinch.metrics import dendrogram_purity, pairwise_f1
from grinch.tree import Tree

WRITTEN = {
    "tree.nwk": "the tree in Newick format, heights as branch lengths",
    "linkage.npy": "the tree as a linkage matrix of scipy",
    "tree.tsv": "the tree as node, parent, label",
    "clusters.csv": "the flat clusters: id, cluster, and label and text if there are any",
    "layers.csv": "the clusters of every layer, finest first",
    "branches.csv": "the clusters and the branches above them: node, parent, cluster, size, keywords",
    "text.grinch": "what makes rows of texts, for TextVectors.load",
    "summary.json": "settings and results",
    "model.grinch": "the model, for grinch explore and grinch.load",
    "dendrogram.png": "a picture of the main branches, with the clusters",
    "icicle.png": "a picture of the groups by their sizes, with the clusters",
}
# Columns of clusters.csv that are there in any case, or are called so.
TAKEN = ("id", "cluster", "label", "text")
PICTURES, FOR_TEXTS = ("dendrogram.png", "icicle.png"), ("branches.csv", "text.grinch")
# Where clusters have fewer points than this on average, coarser ones are pointed out.
FEW_POINTS = 8
# Clusters whose words are printed.
MAX_CLUSTERS = 12


def print_results(
    method: str,
    model: TreeClusterer,
    flat: Labels,
    points: Points,
    seconds: float,
    others: Mapping[str, tuple[float, float]] | None = None,
) -> None:
    """Print facts about a clustering, and its quality where the true classes are known.

    ``others`` are the seconds and the purity of other trees, by name.
    """
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
        print_quality(method, model.tree_, flat, points.labels.tolist(), seconds, others)


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(f"{count:,}" for count in counts)


def tree_facts(tree: Tree, flat: Labels | None, seconds: float) -> dict[str, str]:
    """Return the size, the time, the depth and, if the tree is cut, the number of clusters."""
    depths = tree.depths()[: tree.n_leaves]
    facts = {
        "points": f"{tree.n_leaves:,}",
        "time of the fit": f"{seconds:.2f} s ({tree.n_leaves / seconds:,.0f} points/s)",
        "depth": f"{depths.mean():.0f} on average, {depths.max():,} at most",
    }
    if flat is not None:
        noise = int((flat < 0).sum())
        facts["clusters"] = f"{flat.max() + 1:,}" + (f", and {noise:,} points in no cluster" if noise else "")
    return facts


def print_facts(facts: Mapping[str, str]) -> None:
    """Print a line for each fact."""
    console.print()
    for name, fact in facts.items():
        console.print(f"  {name:17} {fact}")


def print_quality(
    method: str,
    tree: Tree,
    flat: Labels | None,
    labels: npt.ArrayLike,
    seconds: float,
    others: Mapping[str, tuple[float, float]] | None = None,
) -> None:
    """Print dendrogram purity, and F1 of the clusters if there are any, beside ``others``."""
    f1 = "" if flat is None else f"{pairwise_f1(labels, flat):.3f}"
    rows = [(f"  {method}", f"{seconds:.2f}", f"{dendrogram_purity(tree, labels):.3f}", f1)]
    for name, (other_seconds, purity) in (others or {}).items():
        rows.append((f"  {name}", f"{other_seconds:.2f}", f"{purity:.3f}", ""))
    console.print()
    print_table(["", "seconds", "dendrogram purity", "F1 of the cut"], rows, left=[""])


def print_branches(branches: Sequence[NamedBranch]) -> None:
    """Print the largest clusters with their keywords."""
    clusters = [branch for branch in branches if branch.cluster is not None]
    if not clusters:
        return
    rows = [(str(each.cluster), f"{each.size:,}", ", ".join(each.words)) for each in clusters[:MAX_CLUSTERS]]
    console.print()
    print_table(["  cluster", "size", "keywords"], rows, left=["keywords"], last="keywords")
    if len(clusters) > MAX_CLUSTERS:
        console.print(f"  and {len(clusters) - MAX_CLUSTERS:,} more")


def write_results(
    model: TreeClusterer,
    flat: Labels,
    points: Points,
    seconds: float,
    out: Path,
    picture: bool,
    branches: Sequence[NamedBranch] | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write a tree and its clusters to a folder in all formats, and print the names of the files.

    ``branches`` are there for texts; ``more`` is for the summary.
    """
    names, labels = lists_of(points.ids, points.labels)
    kept = {name: ["" if value is None else str(value) for value in values] for name, values in points.kept.items()}
    texts = next(iter(kept.values()), None)
    write_newick(model.tree_, out / "tree.nwk", names)
    write_scipy(model.tree_, out / "linkage.npy")
    write_tsv(model.tree_, out / "tree.tsv", names, labels)
    write_clusters(out / "clusters.csv", flat, names, labels, named_columns(kept))
    write_layers(out / "layers.csv", model.layers_, names)
    if branches is not None:
        _write_branches(out / "branches.csv", branches, model.tree_.offset)
    model.save(out / "model.grinch")
    write_summary(out, {**_summary(model, flat, labels, seconds), **(more or {})})
    drawn = _draw(model, flat, labels, texts, points.vectors, out) if picture else []
    left_out = {*(name for name in PICTURES if name not in drawn), *(FOR_TEXTS if branches is None else ())}
    print_written(out, [name for name in WRITTEN if name not in left_out])
    known = {"--label": labels, "--text": texts}
    console.print("\nView it in the browser:")
    console.print(f"  {explore_command(out, [option for option, values in known.items() if values is not None])}")


def lists_of(*arrays: npt.NDArray[Any] | None) -> list[list[Any] | None]:
    """Return arrays as lists, and None as None."""
    return [None if values is None else values.tolist() for values in arrays]


def named_columns(kept: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return columns with the names they have in clusters.csv, all of them different.

    >>> list(named_columns({"title": [], "id": [], "year": []}))
    ['text', 'payload.id', 'year']
    """
    # The explorer shows the first as the text of a point.
    names = ["text", *(f"payload.{name}" if name in TAKEN else name for name in list(kept)[1:])]
    return dict(zip(names, kept.values(), strict=False))


def write_summary(out: Path, facts: Mapping[str, Any]) -> None:
    """Write facts as JSON to summary.json."""
    with replacing(out / "summary.json") as file:
        file.write(json.dumps(facts, indent=2) + "\n")


def print_written(out: Path, names: Iterable[str]) -> None:
    """Print the names of the files that were written, and what is in them."""
    console.print(f"\nWritten to [bold]{escape(str(out))}/[/bold]")
    for name in names:
        console.print(f"  {name:15} {WRITTEN[name]}")


def _write_branches(path: Path, branches: Sequence[NamedBranch], offset: int) -> None:
    """Write branches as CSV, with the node names of tree.tsv, except leaves, which are numbers."""

    def name(node: int | None) -> str:
        return "" if node is None else f"node{node}" if node >= offset else str(node)

    with replacing(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["node", "parent", "cluster", "size", "keywords"])
        for node, parent, cluster, size, words in branches:
            cells = [name(node), name(parent), "" if cluster is None else cluster, size, ", ".join(words)]
            writer.writerow(harmless(cells))


def explore_command(out: Path, options: list[str]) -> str:
    """Return the command that opens the results in the browser.

    >>> explore_command(Path("out"), ["--label"])
    'grinch explore out/model.grinch --table out/clusters.csv --label label'
    """
    # Rows of clusters.csv are in the order of the points, so ids are not needed, which may be quoted there.
    words = ["grinch", "explore", str(out / "model.grinch"), "--table", str(out / "clusters.csv")]
    return shlex.join([*words, *(word for option in options for word in (option, option.removeprefix("--")))])


def _summary(model: TreeClusterer, flat: Labels, labels: list[Any] | None, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {
        "version": grinch.__version__,
        "points": model.n_leaves_,
        "features": model.n_features_in_,
        "seconds": round(seconds, 3),
        "clusters": int(flat.max()) + 1,
        "layers": [
            {"clusters": int(layer.max()) + 1, "persistence": round(float(persistence), 4)}
            for layer, persistence in zip(model.layers_, model.layer_persistence_, strict=True)
        ],
        "settings": settings_of(model),
        "stats": model.stats_,
    }
    if labels is not None:
        found["dendrogram_purity"] = dendrogram_purity(model.tree_, labels)
        found["pairwise_f1"] = pairwise_f1(labels, flat)
    return found


def settings_of(model: Any) -> dict[str, Any]:
    """Return the parameters of a model as JSON has them, rules by their names and the metric in full."""
    params = model.get_params()
    found: dict[str, Any] = {
        name: value._asdict() if isinstance(value, Rules) else value for name, value in params.items()
    }
    if "linkage" in found:
        found["metric"] = metric_in_full(found["linkage"], found["metric"])
    return found


def _draw(
    model: TreeClusterer, flat: Labels, labels: list[Any] | None, texts: list[str] | None, vectors: Any, out: Path
) -> list[str]:
    """Draw the pictures and return the names of those that could be drawn; results do not depend on them."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from grinch.plots import plot_dendrogram, plot_icicle
    from grinch.plots.style import many_fonts

    known: dict[str, Any] = {"labels": labels, "clusters": flat, "texts": texts}
    drawn, is_boxed = list[str](), False
    for name, draw in (
        ("dendrogram.png", lambda: plot_dendrogram(model.tree_, vectors=vectors, **known)),
        ("icicle.png", lambda: plot_icicle(model.tree_, **known)),
    ):
        with many_fonts(), warnings.catch_warnings(record=True) as warned:
            warnings.filterwarnings("always", "Glyph .* missing from font")
            try:
                draw()
                with replacing(out / name, "wb") as file:
                    plt.savefig(file, dpi=130, format="png")
                drawn.append(name)
            except OSError:
                raise
            except Exception as error:
                (out / name).unlink(missing_ok=True)  # that of an earlier run shows another tree
                say(f"note: {name} could not be drawn: {cause_of(error)}")
            finally:
                plt.close("all")
        is_boxed |= any("missing from font" in str(one.message) for one in warned)
    if is_boxed:
        say("note: no font of this machine has all letters of the texts, and the pictures have boxes for the others;")
        say("      install a font that has them, such as Noto Sans CJK (Debian: apt install fonts-noto-cjk)")
    return drawn
