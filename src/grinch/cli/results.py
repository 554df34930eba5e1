"""Results of a clustering: what is printed of them, and what is written to the folder of --out."""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Any, Self

import numpy.typing as npt
from rich.markup import escape

import grinch
from grinch import Rules
from grinch._labels import is_missing
from grinch._types import Labels
from grinch.cli.app import console, print_facts, print_table, say
from grinch.cli.texts import NamedBranch
from grinch.errors import cause_of
from grinch.estimators.tree_clusterer import TreeClusterer
from grinch.io.read import Points
from grinch.io.trees import write_clusters, write_layers, write_newick, write_scipy, write_tsv
from grinch.io.write import recording_writes, replacing, write_table
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
# Where clusters have fewer points than this on average, coarser ones are pointed out.
FEW_POINTS = 8
# Clusters whose words are printed.
MAX_CLUSTERS = 12


@dataclass(frozen=True, kw_only=True)
class Results:
    """A clustering as it is printed and written; what does not fit into memory is left out.

    ``points`` have the ids, labels and texts, and the vectors if there are pictures. ``flat`` are the clusters of the
    cut. ``branches`` are there for texts. ``more`` is for the summary.
    """

    shape: tuple[int, int]
    seconds: float
    settings: Mapping[str, Any]
    points: Points
    tree: Tree | None = None
    flat: Labels | None = None
    layers: Sequence[Labels] = ()
    model: TreeClusterer | None = None
    branches: Sequence[NamedBranch] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: TreeClusterer, points: Points, seconds: float, flat: Labels | None = None, **more: Any) -> Self:
        """Return the results of a model; ``flat`` are its own clusters by default."""
        return cls(
            shape=(model.n_leaves_, model.n_features_in_),
            seconds=seconds,
            settings=settings_of(model),
            points=points,
            tree=model.tree_,
            flat=model.labels_ if flat is None else flat,
            layers=model.layers_,
            model=model,
            **more,
        )

    @cached_property
    def quality(self) -> dict[str, float]:
        """Dendrogram purity, and F1 of the clusters if there are any; nothing where the labels are unknown."""
        labels = self.points.labels
        if labels is None or self.tree is None:
            return {}
        ties = "split" if self.model is None else self.model.purity_ties
        found = {"dendrogram_purity": dendrogram_purity(self.tree, labels.tolist(), ties=ties)}
        if self.flat is not None:
            found["pairwise_f1"] = pairwise_f1(labels.tolist(), self.flat)
        return found

    @property
    def n_clusters(self) -> int:
        return 0 if self.flat is None else int(self.flat.max()) + 1

    def print(self, method: str = "grinch", others: Mapping[str, tuple[float, float]] | None = None) -> None:
        """Print facts about the tree, its quality beside ``others`` (seconds and purity by name), and keywords."""
        sizes = [int(layer.max()) + 1 for layer in self.layers]
        console.print()
        print_facts(self._facts(sizes))
        coarser = [size for size in sizes if size < self.n_clusters]
        if self.n_clusters in sizes and coarser and self.shape[0] < FEW_POINTS * self.n_clusters:
            console.print(
                f"\n  These clusters persist longest, but are small: {self.shape[0] / self.n_clusters:.1f} points on"
                f" average. layers.csv has coarser ones:\n  {_listed(coarser)} clusters (model.layers_ in Python)"
            )
        if self.quality:
            purity, f1 = (f"{self.quality.get(name, nan):.3f}" for name in ("dendrogram_purity", "pairwise_f1"))
            rows = [(f"  {method}", f"{self.seconds:.2f}", purity, "" if self.flat is None else f1)]
            rows += [(f"  {name}", f"{time:.2f}", f"{pure:.3f}", "") for name, (time, pure) in (others or {}).items()]
            console.print()
            print_table(["", "seconds", "dendrogram purity", "F1 of the cut"], rows, left=[""])
        _print_branches(self.branches or [])

    def _facts(self, sizes: Sequence[int]) -> dict[str, str]:
        assert self.tree is not None
        n, depths = self.shape[0], self.tree.depths()[: self.shape[0]]
        facts = {
            "points": f"{n:,}",
            "time of the fit": f"{self.seconds:.2f} s ({n / self.seconds:,.0f} points/s)",
            "depth": f"{depths.mean():.0f} on average, {depths.max():,} at most",
        }
        if self.flat is not None:
            noise = int((self.flat < 0).sum())
            facts["clusters"] = f"{self.n_clusters:,}" + (f", and {noise:,} points in no cluster" if noise else "")
        if sizes:
            facts["layers of"] = _listed(sizes)
        stats = {} if self.model is None else self.model.stats_
        return facts | {name.replace("_", " "): f"{count:,}" for name, count in stats.items() if count}

    def summary(self) -> dict[str, Any]:
        """Return settings and results for summary.json."""
        found: dict[str, Any] = {
            "version": grinch.__version__,
            "points": self.shape[0],
            "features": self.shape[1],
            "seconds": round(self.seconds, 3),
            "settings": dict(self.settings),
        }
        if self.flat is not None:
            found["clusters"] = self.n_clusters
        if self.model is not None:
            found["layers"] = [
                {"clusters": int(layer.max()) + 1, "persistence": round(float(persistence), 4)}
                for layer, persistence in zip(self.layers, self.model.layer_persistence_, strict=True)
            ]
            found["stats"] = self.model.stats_
        return {**found, **self.quality, **self.more}

    def write(self, out: Path, picture: bool) -> None:
        """Write to a folder what there is, in all formats, and print the names of the files."""
        names, labels = lists_of(self.points.ids, self.points.labels)
        kept = {
            name: ["" if is_missing(value) else str(value) for value in values]
            for name, values in self.points.kept.items()
        }
        texts = next(iter(kept.values()), None)
        with recording_writes() as recorded:
            if self.model is not None:
                write_newick(self.model.tree_, out / "tree.nwk", names)
                write_tsv(self.model.tree_, out / "tree.tsv", names, labels)
                self.model.save(out / "model.grinch")
            if self.tree is not None:
                write_scipy(self.tree, out / "linkage.npy")
            if self.flat is not None:
                write_clusters(out / "clusters.csv", self.flat, names, labels, named_columns(kept))
            if self.layers or self.model is not None:
                write_layers(out / "layers.csv", self.layers, names)
            if self.branches is not None and self.tree is not None:
                _write_branches(out / "branches.csv", self.branches, self.tree.offset)
            with replacing(out / "summary.json") as file:
                file.write(json.dumps(self.summary(), indent=2) + "\n")
            if picture and self.model is not None:
                self._draw(out, labels, texts)
        written = {path.name for path in recorded}
        written |= {"text.grinch"} if "branches.csv" in written else set()
        console.print(f"\nWritten to [bold]{escape(str(out))}/[/bold]")
        for name in WRITTEN:
            if name in written:
                console.print(f"  {name:15} {WRITTEN[name]}")
        if self.model is not None:
            known = {"--label": labels, "--text": texts}
            console.print("\nView it in the browser:")
            console.print(f"  {explore_command(out, [option for option in known if known[option] is not None])}")

    def _draw(self, out: Path, labels: list[Any] | None, texts: list[str] | None) -> None:
        """Draw the pictures that can be drawn; results do not depend on them."""
        from grinch import plots
        from grinch.plots.style import many_fonts

        known: dict[str, Any] = {"tree": self.tree, "labels": labels, "clusters": self.flat, "texts": texts}
        is_boxed = False
        for name, draw in (
            ("dendrogram.png", lambda: plots.plot_dendrogram(**known, vectors=self.points.vectors)),
            ("icicle.png", lambda: plots.plot_icicle(**known)),
        ):
            with many_fonts(), warnings.catch_warnings(record=True) as warned:
                warnings.filterwarnings("always", "Glyph .* missing from font")
                try:
                    save_picture(out / name, draw)
                except OSError:
                    raise
                except Exception as error:
                    (out / name).unlink(missing_ok=True)  # that of an earlier run shows another tree
                    say(f"note: {name} could not be drawn: {cause_of(error)}")
            is_boxed |= any("missing from font" in str(one.message) for one in warned)
        if is_boxed:
            say(
                "note: no font of this machine has all letters of the texts, and the pictures have boxes for the"
                " others;"
            )
            say("      install a font that has them, such as Noto Sans CJK (Debian: apt install fonts-noto-cjk)")


def save_picture(path: Path, draw: Callable[[], object]) -> None:
    """Draw a figure, without a screen, and write it as PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    try:
        draw()
        with replacing(path, "wb") as file:
            plt.savefig(file, dpi=130, format="png")
    finally:
        plt.close("all")


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(f"{count:,}" for count in counts)


def _print_branches(branches: Sequence[NamedBranch]) -> None:
    """Print the largest clusters with their keywords."""
    clusters = [branch for branch in branches if branch.cluster is not None]
    if not clusters:
        return
    rows = [(str(each.cluster), f"{each.size:,}", ", ".join(each.words)) for each in clusters[:MAX_CLUSTERS]]
    console.print()
    print_table(["  cluster", "size", "keywords"], rows, left=["keywords"], last="keywords")
    if len(clusters) > MAX_CLUSTERS:
        console.print(f"  and {len(clusters) - MAX_CLUSTERS:,} more")


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


def _write_branches(path: Path, branches: Sequence[NamedBranch], offset: int) -> None:
    """Write branches as CSV, with the node names of tree.tsv, except leaves, which are numbers."""

    def name(node: int | None) -> str:
        return "" if node is None else f"node{node}" if node >= offset else str(node)

    rows = (
        (name(node), name(parent), "" if cluster is None else cluster, size, ", ".join(words))
        for node, parent, cluster, size, words in branches
    )
    with replacing(path) as out:
        write_table(out, ["node", "parent", "cluster", "size", "keywords"], rows)


def explore_command(out: Path, options: list[str]) -> str:
    """Return the command that opens the results in the browser.

    >>> explore_command(Path("out"), ["--label"])
    'grinch explore out/model.grinch --table out/clusters.csv --label label'
    """
    # Rows of clusters.csv are in the order of the points, so ids are not needed, which may be quoted there.
    words = ["grinch", "explore", str(out / "model.grinch"), "--table", str(out / "clusters.csv")]
    return shlex.join([*words, *(word for option in options for word in (option, option.removeprefix("--")))])


def settings_of(model: Any) -> dict[str, Any]:
    """Return the parameters of a model as JSON has them, rules by their names and the metric in full."""
    params = model.get_params()
    found: dict[str, Any] = {
        name: value._asdict() if isinstance(value, Rules) else value for name, value in params.items()
    }
    if "linkage" in found:
        found["metric"] = metric_in_full(found["linkage"], found["metric"])
    return found
