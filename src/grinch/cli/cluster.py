"""Cluster a file, or the digits as a demonstration."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table
from sklearn.base import clone

from grinch import Grinch
from grinch._types import Labels
from grinch.cli.app import LINKAGE_HELP, LinkageName, Out, app, console, make_folder, title_of
from grinch.cli.results import write_results
from grinch.cuts import check_cut
from grinch.estimators.base import TreeClusterer
from grinch.estimators.registry import SYSTEMS, make_system
from grinch.files.read import Points, read_points
from grinch.metrics import dendrogram_purity, pairwise_f1
from grinch.tree import Tree

ModeName = Literal["fast", "paper", "exact"]
SearchName = Literal["auto", "exact", "index"]
CutName = Literal["auto", "finest", "coarsest"]


@app.command(short_help="Cluster the points of a file.")
def cluster(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Points: .npy (a matrix), .npz (arrays X and perhaps y), .csv, .tsv (with a header, or id, label,"
            " numbers without one) or .parquet; or - for CSV on the standard input.",
        ),
    ],
    label: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column (or .npz array) with the true classes; purity is then reported."),
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Column (or .npz array) with a name for each point.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column that is not a feature; may be repeated.")
    ] = None,
    out: Out = Path("grinch-out"),
    method: Annotated[
        str,
        typer.Option(
            "--method", metavar="NAME", help=f"What builds the tree: {', '.join(SYSTEMS)} (see grinch compare)."
        ),
    ] = "grinch",
    linkage: Annotated[LinkageName, typer.Option(metavar="NAME", help=LINKAGE_HELP)] = "average",
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="For --linkage average: cosine (default), dot, sqeuclidean; for average, single and complete also any"
            " distance that scipy knows, such as euclidean or cityblock.",
        ),
    ] = None,
    cut: Annotated[
        CutName | None,
        typer.Option(
            help="Where to cut: auto (default), where clusters last longest; finest and coarsest are the ends of the"
            " layers in layers.csv."
        ),
    ] = None,
    clusters: Annotated[
        int | None,
        typer.Option("--clusters", "-k", metavar="N", help="Cut into this many flat clusters, instead."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", "-t", metavar="SCORE", help="Cut where two sides score below this, instead."),
    ] = None,
    noise: Annotated[bool, typer.Option("--noise", help="Points that belong nowhere get cluster -1.")] = False,
    mode: Annotated[
        ModeName | None,
        typer.Option(
            help="fast (default) for everyday use; paper is faster and less pure; exact makes no approximation and is"
            " much slower."
        ),
    ] = None,
    search: Annotated[SearchName | None, typer.Option(help="How neighbours are found; index is approximate.")] = None,
    neighbors: Annotated[
        int | None, typer.Option(metavar="N", help="Neighbours looked for at each point (default 25).")
    ] = None,
    cap: Annotated[
        int | None, typer.Option(metavar="N", help="No move looks at nodes with more leaves than this.")
    ] = None,
    shuffle: Annotated[bool, typer.Option(help="Insert in random order, for data sorted by class.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of --shuffle.")] = 0,
    refine: Annotated[
        int, typer.Option(min=0, metavar="N", help="Passes of refinement afterwards; 1 gains the most.")
    ] = 0,
    text: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column with a text for each point; pictures then show keywords."),
    ] = None,
    picture: Annotated[bool, typer.Option(help="Draw the dendrogram and the icicle.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Cluster the points of FILE and write the tree, the flat clusters and pictures.

    Into the folder of --out go the tree (tree.nwk in Newick, linkage.npy for scipy, tree.tsv as node, parent, label),
    the flat clusters (clusters.csv), those of every resolution that lasts (layers.csv), pictures of the tree with these
    clusters (dendrogram.png, icicle.png), the model for grinch explore (model.grinch), and what was done and found
    (summary.json). In .csv files, text that a spreadsheet would run as a formula gets a single quote in front.

    Ctrl-C ends the inserting early; what is in the tree by then is written (but not with --shuffle).
    """
    check_cut(clusters, threshold)
    if cut is not None and (clusters is not None or threshold is not None):
        raise ValueError(
            f"--cut, --clusters and --threshold are ways to cut: give one of them; got --cut {cut} as well"
        )
    points = read_points(file, label, id, drop or (), () if text is None else (text,), keep_option="--text")
    said: dict[str, Any] = {"mode": mode, "search": search, "n_neighbors": neighbors, "cap": cap}
    if shuffle:
        said |= {"shuffle": True, "random_state": seed}
    model = make_system(
        method,
        linkage=linkage,
        metric=metric,
        n_clusters=clusters,
        threshold=threshold,
        noise=noise,
        verbose=not quiet,
        **{name: value for name, value in said.items() if value is not None},
    )
    make_folder(out)
    console.print(
        f"{title_of(file)}: {points.vectors.shape[0]:,} points, {points.vectors.shape[1]:,} features", markup=False
    )
    seconds = _fit(model, points, refine)
    points = _inserted(points, model.n_leaves_)
    flat = _flat(model, cut)
    _report(method, model, flat, points, seconds, {})
    write_results(model, flat, points, seconds, out, picture)


@app.command(short_help="Cluster the handwritten digits, to see that all works.")
def demo(
    out: Out = Path("grinch-out"),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the arrival order.")] = 0,
) -> None:
    """Cluster the handwritten digits that come with scikit-learn, and HAC beside it, to see that all works."""
    import numpy as np
    from scipy.cluster.hierarchy import linkage
    from sklearn.datasets import load_digits

    vectors, digits = load_digits(return_X_y=True)
    make_folder(out)
    order = np.random.default_rng(seed).permutation(len(vectors))
    points = Points(vectors[order], None, digits[order])
    console.print(
        f"The handwritten digits of scikit-learn: {len(vectors):,} images of 8 x 8 pixels, in random order.\n"
        "Average linkage under cosine similarity.\n"
    )
    model = Grinch(verbose=True)
    seconds = _fit(model, points)
    start = time.perf_counter()
    hac = Tree.from_scipy(linkage(points.vectors, "average", metric="cosine").clip(0))
    hac_seconds = time.perf_counter() - start
    purities = [_shuffled_purity(vectors, digits, other) for other in range(5)]
    beside = {
        "grinch, mean of 5 orders": (seconds, float(np.mean(purities))),
        "HAC, all at once (scipy)": (hac_seconds, dendrogram_purity(hac, digits[order])),
    }
    flat = _flat(model, None)
    _report("grinch", model, flat, points, seconds, beside)
    write_results(model, flat, points, seconds, out, picture=True)


def _shuffled_purity(vectors: Any, labels: Any, seed: int) -> float:
    return dendrogram_purity(Grinch(shuffle=True, random_state=seed).fit(vectors).tree_, labels)


def _fit(model: TreeClusterer, points: Points, passes: int = 0) -> float:
    """Fit and refine, and on Ctrl-C go on with what is in the tree; the seconds it took, without those of compiling."""
    if passes and not isinstance(model, Grinch):
        raise ValueError(f"--refine is for grinch, rotate and online; {type(model).__name__} has nothing to refine by")
    # Enough points for all that a fit of theirs compiles.
    small = clone(model).set_params(verbose=False).fit(points.vectors[:60])
    if passes:
        small.refine()
    assert len(small.labels_)
    start = time.perf_counter()
    try:
        model.fit(points.vectors, ids=points.ids)
        if passes:
            model.refine(passes)
    except KeyboardInterrupt:
        # A shuffled order would have to be undone for the ids and labels of the points that made it.
        if not model.__sklearn_is_fitted__() or model.n_leaves_ == 0 or model.shuffle:
            if model.shuffle:
                console.print("\n[yellow]Interrupted: with --shuffle nothing is written.[/yellow]")
            raise
        console.print(f"\n[yellow]Interrupted: going on with the {model.n_leaves_:,} points inserted so far.[/yellow]")
    return time.perf_counter() - start


def _flat(model: TreeClusterer, cut: str | None) -> Labels:
    """The flat clusters that are meant."""
    return model.layers_[0 if cut == "finest" else -1] if cut in ("finest", "coarsest") else model.labels_


def _inserted(points: Points, n: int) -> Points:
    """The first n points."""
    ids, labels = (values if values is None else values[:n] for values in (points.ids, points.labels))
    return Points(points.vectors[:n], ids, labels, {name: values[:n] for name, values in points.kept.items()})


def _report(
    method: str,
    model: TreeClusterer,
    flat: Labels,
    points: Points,
    seconds: float,
    beside: dict[str, tuple[float, float]],
) -> None:
    tree, stats = model.tree_, model.stats_
    depths = tree.depths()[: tree.n_leaves]
    facts = {
        "points": f"{tree.n_leaves:,}",
        "time": f"{seconds:.2f} s ({tree.n_leaves / seconds:,.0f} points/s)",
        "depth": f"{depths.mean():.0f} on average, {depths.max():,} at most",
        "clusters": f"{flat.max() + 1:,}" + _nowhere(flat),
        "layers of": ", ".join(f"{layer.max() + 1:,}" for layer in model.layers_),
        **{name.replace("_", " "): f"{count:,}" for name, count in stats.items() if count},
    }
    console.print()
    for name, fact in facts.items():
        console.print(f"  {name:17} {fact}")
    if points.labels is None:
        return
    table = Table(box=None, pad_edge=False)
    for name in ("", "seconds", "dendrogram purity", "F1 of the cut"):
        table.add_column(name, justify="left" if not name else "right")
    purity, f1 = dendrogram_purity(tree, points.labels), pairwise_f1(points.labels, flat)
    table.add_row(f"  {method}", f"{seconds:.2f}", f"{purity:.3f}", f"{f1:.3f}")
    for name, (other_seconds, other_purity) in beside.items():
        table.add_row(f"  {name}", f"{other_seconds:.2f}", f"{other_purity:.3f}", "")
    console.print()
    console.print(table)


def _nowhere(flat: Labels) -> str:
    count = int((flat < 0).sum())
    return f", and {count:,} points that belong nowhere" if count else ""
