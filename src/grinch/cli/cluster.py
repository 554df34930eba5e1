"""Cluster a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import scipy.sparse
import typer

from grinch.cli.app import LINKAGE_HELP, METRIC_HELP, LinkageName, Out, app, console, make_folder, say, title_of
from grinch.cli.fitting import fit_points
from grinch.cli.ids import check_different
from grinch.cli.options import Columns, Dask, Memory, Shards, Work, Workers, as_layer
from grinch.cli.report import print_branches, report
from grinch.cli.results import write_results
from grinch.cli.sharded import ManyWorkers, cluster_by_many
from grinch.cli.texts import (
    Characters,
    Embed,
    Hashing,
    Ngrams,
    Text,
    TextOptions,
    are_wordless,
    as_points,
    metric_of_texts,
    named_branches,
    note_on_words,
    said_of,
)
from grinch.cuts import Choice
from grinch.estimators.registry import SYSTEMS, make_system
from grinch.io.points import Asked
from grinch.io.read import FileError, Points, read_points, read_texts
from grinch.store.inputs import TEXT_FILE

ModeName = Literal["fast", "paper", "exact"]
SearchName = Literal["auto", "exact", "index"]
CutName = Literal["sizeable", "height"]


@app.command(short_help="Cluster the points of a file.")
def cluster(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Points: .npy (a matrix), .npz (arrays X and perhaps y, or a sparse matrix by"
            " scipy.sparse.save_npz), .csv, .tsv (with a header, or id, label, numbers without one) or .parquet;"
            " or - for CSV on the standard input. Texts: a .txt with a text per line, or a table (also .jsonl)"
            " with --text. With --workers or --dask also a folder, or a glob in quotes.",
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
    metric: Annotated[str | None, typer.Option(metavar="NAME", help=METRIC_HELP)] = None,
    scale: Annotated[
        bool,
        typer.Option(
            "--scale",
            help="Standardise columns first, for those in different units: each to deviation 1, and mean 0 unless FILE"
            " is sparse. For a store, scale the files before grinch add.",
        ),
    ] = False,
    layer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Which of the layers in layers.csv: auto (default), where clusters last and stand apart; fine or"
            " coarse, the ends of them; or a number from 0, the finest.",
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
    cut: Annotated[
        CutName | None,
        typer.Option(
            help="With --clusters: by splits with many points on both sides (default), or strictly by height, where"
            " every outlier is a cluster."
        ),
    ] = None,
    min_size: Annotated[
        int | None,
        typer.Option(
            "--min-size", min=1, metavar="N", help="Smaller groups join the nearest cluster (-1 with --noise)."
        ),
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
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of --shuffle, and of the sample with --workers.")] = 0,
    refine: Annotated[
        int, typer.Option(min=0, metavar="N", help="Passes of refinement afterwards; 1 gains the most.")
    ] = 0,
    payload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column to keep beside the points; it is no feature. Pictures show keywords of the first. May be"
            " repeated.",
        ),
    ] = None,
    text: Text = None,
    ngrams: Ngrams = None,
    characters: Characters = None,
    hashing: Hashing = False,
    embed: Embed = None,
    picture: Annotated[bool, typer.Option(help="Draw the dendrogram and the icicle.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    workers: Workers = None,
    dask: Dask = None,
    shards: Shards = "auto",
    columns: Columns = None,
    memory: Memory = None,
    work: Work = None,
) -> None:
    """Cluster the points of FILE and write the tree, the flat clusters and pictures.

    Into the folder of --out go the tree (tree.nwk in Newick, linkage.npy for scipy, tree.tsv as node, parent, label),
    the flat clusters (clusters.csv), those of every resolution that lasts (layers.csv), pictures of the tree with these
    clusters (dendrogram.png, icicle.png), the model for grinch explore (model.grinch), and what was done and found
    (summary.json). In .csv files, text that a spreadsheet would run as a formula gets a single quote in front.

    Texts are clustered by their words (TF-IDF). Clusters and the branches above them are named by keywords
    (branches.csv), and text.grinch makes rows of more texts (grinch.text.TextVectors.load).

    Ctrl-C ends the inserting early; what is in the tree by then is written (but not with --shuffle).

    Files that are too large for one process are clustered by many (--workers, --dask; pip install 'grinch[dask]').
    FILE is then a .npy or Parquet file, a folder of them, or a glob in quotes, and is read in parts. After Ctrl-C, or
    whatever else ends it, the same command goes on from what is finished.
    """
    many = ManyWorkers(workers, dask, shards, columns, memory, work)
    many.check(method, drop)
    texts = TextOptions(text, ngrams, characters, hashing, embed)
    how: dict[str, Any] = {"n_clusters": clusters, "threshold": threshold, "cut": cut, "layer": as_layer(layer)}
    how = {name: value for name, value in (how | {"min_cluster_size": min_size}).items() if value is not None}
    Choice(**how, noise=noise)
    if cut is not None and clusters is None:
        raise FileError(f"--cut {cut} is for a cut into a number of clusters: give it with --clusters")
    asked = Asked(label, id, tuple(drop or ()), tuple(payload or ()))
    said: dict[str, Any] = {"mode": mode, "search": search, "n_neighbors": neighbors, "cap": cap}
    if shuffle:
        said |= {"shuffle": True, "random_state": seed}
    made_by, points = None, None
    if texts.are_for(file):
        many.refuse_texts()
        made_by = texts.new_rows()
        if scale:
            raise ValueError("--scale standardises columns of numbers, and FILE has texts: leave it out")
        metric = metric_of_texts(linkage, metric)
        found = read_texts(file, text, label, id, asked.keep)
        points = as_points(found, made_by.fit_transform(found.texts))
    elif not many.are_asked_for:
        points = read_points(file, label, id, *asked[2:])
        if scale:
            points = points._replace(vectors=_standardised(points.vectors))
    elif scale:
        raise ValueError("--scale is for one process: leave it out with --workers and --dask, or scale FILE before")
    model = make_system(
        method,
        linkage=linkage,
        metric=metric,
        noise=noise,
        verbose=not quiet,
        **how,
        **{name: value for name, value in said.items() if value is not None},
    )
    if points is None:
        model.set_params(random_state=seed, refine_passes=refine)
        cluster_by_many(many, file, asked, model, out, picture)
        return
    check_different(points.ids, id)
    make_folder(out)
    n, d = points.vectors.shape
    said_of_points = f"{d:,} features" if made_by is None else said_of(points.vectors, made_by)
    console.print(f"{title_of(file)}: {n:,} {'points' if made_by is None else 'texts'}, {said_of_points}", markup=False)
    note = None if made_by is None else note_on_words(points.vectors, made_by)
    if note is not None:
        say(note)
    seconds = fit_points(model, points, refine)
    points = _inserted(points, model.n_leaves_)
    flat = model.labels_
    if made_by is not None:
        flat = np.where(are_wordless(points.vectors), -1, flat)
    report(method, model, flat, points, seconds, {})
    branches = None if made_by is None else named_branches(model.tree_, flat, points, made_by)
    print_branches(branches or [])
    if made_by is not None:
        made_by.save(out / TEXT_FILE)
    write_results(model, flat, points, seconds, out, picture, branches)


def _standardised(vectors: Any) -> Any:
    """Return vectors with columns of deviation 1, and of mean 0 where that does not fill a sparse matrix."""
    from sklearn.preprocessing import StandardScaler

    return StandardScaler(with_mean=not scipy.sparse.issparse(vectors)).fit_transform(vectors)


def _inserted(points: Points, n: int) -> Points:
    """The first n points."""
    ids, labels = (values if values is None else values[:n] for values in (points.ids, points.labels))
    return Points(points.vectors[:n], ids, labels, {name: values[:n] for name, values in points.kept.items()})
