"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from grinch.cli.app import LINKAGE_HELP, LinkageName

DtypeName = Literal["float32", "float64"]

LAYER_HELP = "which layer the automatic cut is: auto (the best), fine, coarse, or a number from 0, the finest."

# What a new store is made with.
NewLinkage = Annotated[
    LinkageName | None, typer.Option(metavar="NAME", help=f"{LINKAGE_HELP} For a new store; average by default.")
]
NewMetric = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="For a new store: what the linkage measures with (see grinch cluster)."),
]
NewClusters = Annotated[
    int | None,
    typer.Option("--clusters", "-k", metavar="N", help="For a new store: cut into this many clusters."),
]
NewThreshold = Annotated[
    float | None,
    typer.Option("--threshold", "-t", metavar="SCORE", help="For a new store: cut where two sides score below this."),
]
NewLayer = Annotated[
    str | None,
    typer.Option("--layer", metavar="LAYER", help=f"For a new store: {LAYER_HELP}"),
]


def as_layer(given: str | None) -> str | int | None:
    """Return a layer by its name or its number.

    >>> as_layer("2"), as_layer("coarse")
    (2, 'coarse')
    """
    return int(given) if given is not None and given.isdecimal() else given


# Which fields of the payload are what, for the page.
TextField = Annotated[str | None, typer.Option(metavar="FIELD", help="What people read: shown, and searched.")]
LabelField = Annotated[str | None, typer.Option(metavar="FIELD", help="The true class of each point.")]
ImageField = Annotated[str | None, typer.Option(metavar="FIELD", help="A URL, or a file below --images.")]
ImageFolder = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder below which images are read.", exists=True, file_okay=False),
]

# Many workers.
Workers = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Cluster by this many processes of this machine.")
]
Dask = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Cluster by the workers of a dask scheduler, such as tcp://host:8786."),
]
Shards = Annotated[
    str,
    typer.Option(
        metavar="N",
        help="With many workers: parts of the data; auto is one for every 125,000 points. Fewer make a"
        " better tree, more take less memory.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C",
        help="With many workers: the features among the columns of Parquet files, or one column of"
        " lists; by default all of numbers that no other option names.",
    ),
]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="With --workers: the most memory for each, such as 6GB.")
]
Work = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="With many workers: where finished stages are kept, for all workers to reach; the same"
        " command goes on from there. By default the folder work in that of --out, removed at the end.",
    ),
]
