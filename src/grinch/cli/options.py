"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grinch.cli.app import LINKAGE_HELP, LinkageName

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

# Which fields of the payload are what, for the page.
TextField = Annotated[str | None, typer.Option(metavar="FIELD", help="What people read: shown, and searched.")]
LabelField = Annotated[str | None, typer.Option(metavar="FIELD", help="The true class of each point.")]
ImageField = Annotated[str | None, typer.Option(metavar="FIELD", help="A URL, or a file below --images.")]
ImageFolder = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Folder below which images are read.", exists=True, file_okay=False),
]
