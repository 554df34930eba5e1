"""Cluster a file, or data that every machine has."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse
from sklearn.base import clone
from typer import Argument, Option

from grinch import Grinch
from grinch.cli import options
from grinch.cli.app import console, make_folder, say
from grinch.cli.options import cut_settings
from grinch.cli.points import check_different
from grinch.cli.results import Results
from grinch.cli.sharded import ManyWorkers, cluster_by_many
from grinch.cli.texts import Input, TextOptions, are_wordless, metric_of_texts, named_branches, read_input
from grinch.cuts import Choice
from grinch.estimators.checks import no_advice
from grinch.estimators.registry import SYSTEMS, make_system
from grinch.estimators.tree_clusterer import TreeClusterer
from grinch.io.points import Asked
from grinch.io.read import FileError, Points
from grinch.metrics import dendrogram_purity
from grinch.store.inputs import TEXT_FILE
from grinch.tree import Tree


def cluster(
    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="Points: .npy (a matrix), .npz (arrays X and optionally y, or a sparse matrix by"
            " scipy.sparse.save_npz), .csv, .tsv (with a header, or id, label, numbers without one) or .parquet;"
            " or - for CSV on the standard input. Texts: a .txt with a text per line, or a table (also .jsonl)"
            " with --text. With --workers or --dask also a folder, or a glob in quotes.",
        ),
    ],
    label: Annotated[str | None, Option(metavar="COLUMN", help="Column (or array) with the true classes.")] = None,
    id: options.IdColumn = None,
    drop: options.DropColumns = None,
    out: options.Out = Path("grinch-out"),
    method: Annotated[str, Option(metavar="NAME", help=f"Algorithm: {', '.join(SYSTEMS)}.")] = "grinch",
    linkage: options.Linkage = "average",
    metric: options.Metric = None,
    scale: Annotated[
        bool,
        Option(
            "--scale",
            help="Standardise columns first, for those in different units: each to deviation 1, and mean 0 unless FILE"
            " is sparse. For a store, scale the files before grinch add.",
        ),
    ] = False,
    layer: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Which of the layers in layers.csv: auto (default), where clusters persist and are separated; fine or"
            " coarse, the first or the last; or a number from 0, the finest.",
        ),
    ] = None,
    clusters: Annotated[int | None, Option("--clusters", "-k", metavar="N", help="Number of flat clusters.")] = None,
    threshold: Annotated[float | None, Option("--threshold", "-t", metavar="SCORE", help="Score to cut at.")] = None,
    cut: Annotated[
        Literal["sizeable", "height"] | None,
        Option(
            help="With --clusters: by splits with many points on both sides (default), or strictly by height, where"
            " every outlier is a cluster."
        ),
    ] = None,
    min_size: Annotated[
        int | None, Option("--min-size", min=1, metavar="N", help="Size of the smallest cluster.")
    ] = None,
    noise: Annotated[bool, Option("--noise", help="Points that are in no cluster get -1.")] = False,
    mode: Annotated[
        Literal["fast", "paper", "authors", "exact"] | None,
        Option(
            help="fast (default) for everyday use; paper has the settings of the paper's large experiments, authors"
            " those of its authors' script; exact makes no approximation and is much slower."
        ),
    ] = None,
    search: Annotated[
        Literal["auto", "exact", "index", "nsw"] | None, Option(help="Search; index and nsw are approximate.")
    ] = None,
    neighbors: Annotated[
        int | None, Option(metavar="N", help="Neighbours of each point (default 25; 50 in modes paper and authors).")
    ] = None,
    cap: Annotated[int | None, Option(metavar="N", help="No move considers nodes with more leaves than this.")] = None,
    shuffle: Annotated[bool, Option(help="Insert in random order, for data sorted by class.")] = False,
    seed: Annotated[int, Option(metavar="N", help="Seed of --shuffle, and of the sample with --workers.")] = 0,
    refine: Annotated[int, Option(min=0, metavar="N", help="Passes of refinement; the first gains the most.")] = 0,
    payload: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN",
            help="Column to keep with each point; it is not a feature. Pictures show keywords of the first. May be"
            " repeated.",
        ),
    ] = None,
    text: options.Text = None,
    ngrams: options.Ngrams = None,
    characters: options.Characters = None,
    hashing: options.Hashing = False,
    embed: options.Embed = None,
    picture: options.Picture = True,
    quiet: options.Quiet = False,
    workers: options.Workers = None,
    dask: options.Dask = None,
    shards: options.Shards = "auto",
    columns: options.FeatureColumns = None,
    memory: options.Memory = None,
    work: options.Work = None,
) -> None:
    """Cluster the points of FILE. The results are a tree, clusters and pictures.

    Into the folder of --out go the tree (tree.nwk in Newick, linkage.npy for scipy, tree.tsv as node, parent, label),
    the flat clusters (clusters.csv), those of every layer (layers.csv), pictures of the tree with these clusters
    (dendrogram.png, icicle.png), the model for grinch explore (model.grinch), and a summary (summary.json). In .csv
    files, text that a spreadsheet would run as a formula gets a single quote in front.

    Texts are clustered by their words (TF-IDF). Clusters and the branches above them are named by keywords
    (branches.csv), and text.grinch makes rows of more texts (grinch.text.TextVectors.load).

    Ctrl-C ends the insertion early, and the tree so far is written (but not with --shuffle).

    Files that are too large for one process are clustered by several (--workers, --dask; pip install 'grinch[dask]').
    FILE is then a .npy or Parquet file, a folder of them, or a glob in quotes, and is read in parts. After Ctrl-C or an
    error, the same command resumes from the finished stages.
    """
    many = ManyWorkers(workers, dask, shards, columns, memory, work)
    texts = TextOptions(text, ngrams, characters, hashing, embed)
    is_text = texts.are_for(file)
    many.check(method, drop, is_text)
    cutting: dict[str, Any] = cut_settings(clusters, threshold, layer)
    cutting |= {name: value for name, value in {"cut": cut, "min_cluster_size": min_size}.items() if value is not None}
    Choice(**cutting, noise=noise)
    if cut is not None and clusters is None:
        raise FileError(f"--cut {cut} is for a cut into a number of clusters: give it with --clusters")
    if is_text:
        metric = metric_of_texts(linkage, metric)
    if scale and (is_text or many.are_asked_for):
        why = "standardises columns of numbers, and FILE has texts: leave it out"
        alone = "is for one process: leave it out with --workers and --dask, or scale FILE before"
        raise ValueError(f"--scale {why if is_text else alone}")
    asked = Asked(label, id, tuple(drop or ()), tuple(payload or ()))
    given = None if many.are_asked_for else read_input(file, texts, asked)
    engine: dict[str, Any] = {"mode": mode, "search": search, "n_neighbors": neighbors, "cap": cap}
    if shuffle:
        engine |= {"shuffle": True, "random_state": seed}
    engine = {name: value for name, value in engine.items() if value is not None}
    model = make_system(method, linkage=linkage, metric=metric, noise=noise, verbose=not quiet, **cutting, **engine)
    if given is None:
        model.set_params(random_state=seed, refine_passes=refine)
        cluster_by_many(many, file, asked, model, out, picture)
        return
    if scale:
        given = given._replace(points=_standardised(given.points))
    check_different(given.points.ids, id)
    make_folder(out)
    console.print(given.describe(file), markup=False)
    if given.note is not None:
        say(given.note)
    _fit_and_write(method, model, given, refine, out, picture)


def _standardised(points: Points) -> Points:
    """Return points with columns of deviation 1, and of mean 0 where that does not fill a sparse matrix."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=not scipy.sparse.issparse(points.vectors))
    return points._replace(vectors=scaler.fit_transform(points.vectors))


def _fit_and_write(method: str, model: TreeClusterer, given: Input, passes: int, out: Path, picture: bool) -> None:
    """Fit a model, and print and write its results."""
    seconds = fit_points(model, given.points, passes)
    points = _first(given.points, model.n_leaves_)
    flat, branches = model.labels_, None
    if given.made_by is not None:
        flat = np.where(are_wordless(points.vectors), -1, flat)
        branches = named_branches(model.tree_, flat, points, given.made_by)
        given.made_by.save(out / TEXT_FILE)
    results = Results.of(model, points, seconds, flat, branches=branches)
    results.print(method)
    results.write(out, picture)


def _first(points: Points, n: int) -> Points:
    ids, labels = (values if values is None else values[:n] for values in (points.ids, points.labels))
    return Points(points.vectors[:n], ids, labels, {name: values[:n] for name, values in points.kept.items()})


def fit_points(model: TreeClusterer, points: Points, passes: int = 0) -> float:
    """Fit and refine a model, and return the seconds without those of compiling.

    Ctrl-C ends the insertion, and the model keeps the points that are in the tree.
    """
    if passes and not isinstance(model, Grinch):
        raise ValueError(f"--refine is for grinch, rotate and online; {type(model).__name__} has nothing to refine by")
    # Enough points for all that a fit of theirs compiles.
    with no_advice():
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
        console.print(
            f"\n[yellow]Interrupted: continuing with the {model.n_leaves_:,} points inserted so far.[/yellow]"
        )
    return time.perf_counter() - start


def demo(
    out: options.Out = Path("grinch-out"),
    seed: Annotated[int, Option(metavar="N", help="Seed of the arrival order.")] = 0,
    text: Annotated[bool, Option("--text", help="Cluster the docstrings of installed scientific packages.")] = False,
) -> None:
    """Cluster digits, or docstrings (--text), to try it out.

    Clusters the handwritten digits that come with scikit-learn, also by HAC for comparison.

    With --text, clusters the docstrings of those of NumPy, SciPy, scikit-learn, Matplotlib, pandas and networkx that
    are installed, some 8,000 texts, and names branches by keywords.
    """
    make_folder(out)
    if text:
        _docstrings(out, seed)
    else:
        _digits(out, seed)


def _digits(out: Path, seed: int) -> None:
    from scipy.cluster.hierarchy import linkage
    from sklearn.datasets import load_digits

    vectors, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(vectors))
    points = Points(vectors[order], None, digits[order])
    console.print(
        f"The handwritten digits of scikit-learn: {len(vectors):,} images of 8 x 8 pixels, in random order.\n"
        "Average linkage of squared Euclidean distances.\n"
    )
    model = Grinch(verbose=True)
    seconds = fit_points(model, points)
    start = time.perf_counter()
    hac = Tree.from_scipy(linkage(points.vectors, "average", metric="sqeuclidean"))
    hac_seconds = time.perf_counter() - start
    purities = [
        dendrogram_purity(Grinch(shuffle=True, random_state=other).fit(vectors).tree_, digits) for other in range(5)
    ]
    others = {
        "grinch, mean of 5 orders": (seconds, float(np.mean(purities))),
        "HAC, all at once (scipy)": (hac_seconds, dendrogram_purity(hac, digits[order])),
    }
    results = Results.of(model, points, seconds)
    results.print(others=others)
    results.write(out, picture=True)


def _docstrings(out: Path, seed: int) -> None:
    from grinch.datasets.docstrings import load_docstrings
    from grinch.text import TextVectors

    console.print("Reading the sources of the scientific packages that are installed …")
    found = load_docstrings()
    order = np.random.default_rng(seed).permutation(len(found.texts)).tolist()
    texts = [found.texts[i] for i in order]
    made_by = TextVectors()
    names, packages = (np.array([values[i] for i in order], object) for values in (found.names, found.packages))
    points = Points(made_by.fit_transform(texts), names, packages, {"text": texts})
    console.print(
        f"{len(texts):,} docstrings of {', '.join(sorted(set(found.packages)))}, in random order;"
        f" {points.vectors.shape[1]:,} words. Average linkage under cosine similarity of TF-IDF.\n"
    )
    _fit_and_write("grinch", Grinch(metric="cosine", verbose=True), Input(points, made_by), 0, out, picture=True)
