"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from typer import Argument, Option

LinkageName = Literal["average", "cosine", "centroid", "ward", "tanimoto", "single", "complete"]
DtypeName = Literal["float32", "float64"]

LINKAGE_HELP = f"Similarity of two clusters: {', '.join(get_args(LinkageName))}."
LAYER_HELP = "layer of the automatic cut: auto (the best), fine, coarse, or a number from 0, the finest."

# Files of points, and their columns.
PointsFile = Annotated[
    Path,
    Argument(
        metavar="FILE",
        help="Points: .npy, .npz (arrays X and optionally y, or a sparse matrix by scipy.sparse.save_npz), .csv, .tsv,"
        " .parquet, or - for CSV on the standard input.",
    ),
]
LabelColumn = Annotated[
    str | None,
    Option("--label", metavar="COLUMN", help="Column (or .npz array) with the true classes; it is not a feature."),
]
IdColumn = Annotated[str | None, Option("--id", metavar="COLUMN", help="Column (or array) with the ids of the points.")]
DropColumns = Annotated[list[str] | None, Option("--drop", metavar="COLUMN", help="Column to ignore. May be repeated.")]
PayloadColumns = Annotated[list[str] | None, Option("--payload", metavar="COLUMN", help="Column to keep. Repeatable.")]

# What a tree is built by.
Linkage = Annotated[LinkageName, Option(metavar="NAME", help=LINKAGE_HELP)]
Metric = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="For --linkage average: sqeuclidean (default), cosine, dot, hellinger (for counts); for average, single"
        " and complete also any distance of scipy, such as euclidean or cityblock.",
    ),
]

# What is printed and written.
Out = Annotated[Path, Option("--out", "-o", metavar="FOLDER", help="Folder for the results, created if needed.")]
Picture = Annotated[bool, Option(help="Draw pictures.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress bar.")]

# Stores.
StorePath = Annotated[Path, Argument(metavar="STORE", help="The folder of the store.")]
StoreCut = Annotated[str, Option("--cut", metavar="NAME", help="The cut of the store.")]
NewLinkage = Annotated[LinkageName | None, Option(metavar="NAME", help=f"For a new store: {LINKAGE_HELP}")]
NewMetric = Annotated[str | None, Option(metavar="NAME", help="For a new store: see grinch cluster --help.")]
NewClusters = Annotated[
    int | None, Option("--clusters", "-k", metavar="N", help="For a new store: number of clusters.")
]
NewThreshold = Annotated[
    float | None, Option("--threshold", "-t", metavar="SCORE", help="For a new store: score to cut at.")
]
NewLayer = Annotated[str | None, Option("--layer", metavar="LAYER", help=f"For a new store: {LAYER_HELP}")]
NewDtype = Annotated[
    DtypeName | None,
    Option(help="For a new store: type of the vectors (default: float32 for .csv and .tsv, otherwise as in the file)."),
]

# Texts.
Text = Annotated[str | None, Option(metavar="COLUMN", help="Column with texts to cluster by, instead of features.")]
Ngrams = Annotated[int | None, Option(min=0, metavar="N", help="For texts: longest sequence of words (default 1).")]
Characters = Annotated[str | None, Option(metavar="A-B", help="For texts: sequences of A to B characters, too.")]
Hashing = Annotated[bool, Option("--hashing", help="For texts: hash words, so that new ones count later.")]
Embed = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="For texts: embeddings by MODULE:OBJECT with a method encode(texts), or by a model of"
        " sentence-transformers, such as sentence-transformers/all-MiniLM-L6-v2.",
    ),
]

# Fields of the payload that the page shows.
TextField = Annotated[str | None, Option(metavar="FIELD", help="Field that is shown and searched as text; remembered.")]
LabelField = Annotated[str | None, Option(metavar="FIELD", help="Field with the true class; remembered.")]
ImageField = Annotated[str | None, Option(metavar="FIELD", help="Field with a URL, or a file of --images; remembered.")]
ImageFolder = Annotated[
    Path | None, Option(metavar="FOLDER", help="Folder below which images are read.", exists=True, file_okay=False)
]

# Many workers.
Workers = Annotated[int | None, Option(metavar="N", min=1, help="Cluster in this many processes on this machine.")]
Dask = Annotated[str | None, Option(metavar="ADDRESS", help="Cluster on the workers of a dask scheduler.")]
Shards = Annotated[
    str,
    Option(
        metavar="N",
        help="With workers: number of parts of the data; auto is one for every 125,000 points. Fewer make a better"
        " tree, more take less memory.",
    ),
]
FeatureColumns = Annotated[
    str | None,
    Option(
        "--columns",
        metavar="A,B,C",
        help="With workers: the features among the columns of Parquet files, or one column of lists (default: all"
        " columns of numbers that no other option names).",
    ),
]
Memory = Annotated[str | None, Option(metavar="SIZE", help="With --workers: memory limit of each, such as 6GB.")]
Work = Annotated[
    Path | None,
    Option(
        metavar="FOLDER",
        help="With workers: folder for finished stages, which all workers must reach; the same command resumes from it"
        " (default: the folder work in that of --out, removed at the end).",
    ),
]


def as_layer(given: str | None) -> str | int | None:
    """Return a layer by its name or its number.

    >>> as_layer("2"), as_layer("coarse")
    (2, 'coarse')
    """
    return int(given) if given is not None and given.isdecimal() else given


def cut_settings(clusters: int | None, threshold: float | None, layer: str | None) -> dict[str, Any]:
    """Return the settings of a cut that were given, by their names in Python."""
    given = {"n_clusters": clusters, "threshold": threshold, "layer": as_layer(layer)}
    return {name: value for name, value in given.items() if value is not None}
