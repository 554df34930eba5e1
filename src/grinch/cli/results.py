"""What a clustering leaves in its folder."""

from __future__ import annotations

import csv
import json
import shlex
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

import grinch
from grinch import Rules
from grinch._types import Labels
from grinch.cli.app import console, say
from grinch.cli.texts import Branch
from grinch.errors import cause_of
from grinch.estimators.base import TreeClusterer
from grinch.io.read import Points
from grinch.io.trees import write_clusters, write_layers, write_newick, write_scipy, write_tsv
from grinch.io.write import harmless, replacing
from grinch.linkage.named import metric_in_full
from grinch.metrics import dendrogram_purity, pairwise_f1

WRITTEN = {
    "tree.nwk": "the tree in Newick, heights as branch lengths",
    "linkage.npy": "the tree as scipy's linkage matrix",
    "tree.tsv": "the tree as node, parent, label",
    "clusters.csv": "the flat clusters: id, cluster (and label and text, if there are any)",
    "layers.csv": "the clusters at every resolution that lasts, finest first",
    "branches.csv": "the clusters and the branches above them: node, parent, cluster, size, keywords",
    "text.grinch": "what makes rows of texts, for TextVectors.load",
    "summary.json": "what was done, and what was found",
    "model.grinch": "the model, for grinch explore and grinch.load",
    "dendrogram.png": "a picture of the main branches, with the clusters",
    "icicle.png": "a picture of the groups by their sizes, with the clusters",
}
# Columns of clusters.csv that are there in any case, or are called so.
TAKEN = ("id", "cluster", "label", "text")
PICTURES, FOR_TEXTS = ("dendrogram.png", "icicle.png"), ("branches.csv", "text.grinch")


def write_results(
    model: TreeClusterer,
    flat: Labels,
    points: Points,
    seconds: float,
    out: Path,
    picture: bool,
    branches: Sequence[Branch] | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write all there is to know of a tree and its clusters into a folder, and say so.

    ``branches`` are there for texts; ``more`` is for the summary.
    """
    names = None if points.ids is None else points.ids.tolist()
    labels = None if points.labels is None else points.labels.tolist()
    kept = [_as_texts(values) for values in points.kept.values()]
    texts = kept[0] if kept else None
    columns = named_columns(dict(zip(points.kept, kept, strict=True)))
    write_newick(model.tree_, out / "tree.nwk", names)
    write_scipy(model.tree_, out / "linkage.npy")
    write_tsv(model.tree_, out / "tree.tsv", names, labels)
    write_clusters(out / "clusters.csv", flat, names, labels, columns)
    write_layers(out / "layers.csv", model.layers_, names)
    if branches is not None:
        _write_branches(out / "branches.csv", branches, model.tree_.offset)
    model.save(out / "model.grinch")
    write_summary(out, {**_summary(model, flat, points, labels, seconds), **(more or {})})
    drawn = _draw(model, flat, labels, texts, points.vectors, out) if picture else []
    left_out = {*(name for name in PICTURES if name not in drawn), *(FOR_TEXTS if branches is None else ())}
    print_written(out, [name for name in WRITTEN if name not in left_out])
    known = {"--label": labels, "--text": texts}
    console.print("\nLook at it in the browser:")
    console.print(f"  {explore_command(out, [option for option, values in known.items() if values is not None])}")


def named_columns(kept: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Columns that were kept, as clusters.csv has them: none is called as another.

    >>> list(named_columns({"title": [], "id": [], "year": []}))
    ['text', 'payload.id', 'year']
    """
    # The first is what people read, and the explorer looks for.
    names = ["text", *(f"payload.{name}" if name in TAKEN else name for name in list(kept)[1:])]
    return dict(zip(names, kept.values(), strict=False))


def write_summary(out: Path, facts: Mapping[str, Any]) -> None:
    """What was done and found, as JSON."""
    with replacing(out / "summary.json") as file:
        file.write(json.dumps(facts, indent=2) + "\n")


def print_written(out: Path, names: Iterable[str]) -> None:
    """What is in the folder now."""
    console.print(f"\nWritten to [bold]{escape(str(out))}/[/bold]")
    for name in names:
        console.print(f"  {name:15} {WRITTEN[name]}")


def _write_branches(path: Path, branches: Sequence[Branch], offset: int) -> None:
    """Nodes are called as in tree.tsv, but for leaves, which go by their numbers."""

    def name(node: int | None) -> str:
        return "" if node is None else f"node{node}" if node >= offset else str(node)

    with replacing(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["node", "parent", "cluster", "size", "keywords"])
        for node, parent, cluster, size, words in branches:
            writer.writerow(
                harmless([name(node), name(parent), "" if cluster is None else cluster, size, ", ".join(words)])
            )


def explore_command(out: Path, options: list[str]) -> str:
    """How to look at what was written.

    >>> explore_command(Path("out"), ["--label"])
    'grinch explore out/model.grinch --table out/clusters.csv --label label'
    """
    # Rows of clusters.csv are in the order of the points, so ids are not needed, which may be quoted there.
    words = ["grinch", "explore", str(out / "model.grinch"), "--table", str(out / "clusters.csv")]
    for option in options:
        words += [option, option.removeprefix("--")]
    return shlex.join(words)


def _as_texts(values: list[Any]) -> list[str]:
    return ["" if value is None else str(value) for value in values]


def _summary(
    model: TreeClusterer, flat: Labels, points: Points, labels: list[Any] | None, seconds: float
) -> dict[str, Any]:
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
    """The parameters of a model as JSON has them, with the metric by its name."""
    found = {name: _readable(value) for name, value in model.get_params().items()}
    if "linkage" in found:
        found["metric"] = metric_in_full(found["linkage"], found["metric"])
    return found


def _readable(value: Any) -> Any:
    """A setting as JSON writes it: rules with their names, not as a list of values."""
    return value._asdict() if isinstance(value, Rules) else value


def _draw(
    model: TreeClusterer,
    flat: Labels,
    labels: list[Any] | None,
    texts: list[str] | None,
    vectors: Any,
    out: Path,
) -> list[str]:
    """Draw the pictures; which of them there are now. The results are worth more than one that cannot be drawn."""
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
