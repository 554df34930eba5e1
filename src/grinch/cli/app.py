"""The application that the commands belong to."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer
from rich.console import Console

import grinch
from grinch.files.read import FileError
from grinch.files.tables import STANDARD_INPUT

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # Plain pages: columns in boxes leave no room for the text on a screen of 80 characters.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Incremental hierarchical clustering under any linkage function.

Points are inserted one by one into a binary cluster tree that repairs itself as they come. The tree can then be cut
into flat clusters, at a number of clusters or at a score.

\b
Try it:
  grinch demo
  grinch cluster vectors.npy
  grinch cluster table.csv --label species --id name --clusters 10
  grinch cluster features.npz --linkage ward --threshold -5 --out results
  grinch hint vectors.npy                   (which linkage suits them)
  grinch compare table.csv --label species --id name
  grinch add news monday.csv --id doc       (into a store that stays)
  grinch changes news --since 3             (what became of its clusters)
  grinch coref --help                       (which records are of one author)

FILE may be - for a table in CSV on the standard input. Every command has a help page of its own: grinch cluster
--help.""",
)

# Into a file or a pipe, tables need not fit a screen.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)

LinkageName = Literal["average", "cosine", "centroid", "ward", "single", "complete"]
FILE_HELP = "Points: .npy, .npz (arrays X and perhaps y), .csv, .tsv, .parquet, or - for CSV on the standard input."
LINKAGE_HELP = f"How similar two groups are: {', '.join(get_args(LinkageName))}."
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the results; made if it is not there.")
]


def _version(asked: bool) -> None:
    if asked:
        console.print(f"grinch {grinch.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    pass


def make_folder(out: Path) -> None:
    """Before the work, not after it: the folder must be there and ours to write to."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise FileError(f"--out must be a folder that can be made or written to; got {str(out)!r}: {error}") from None


def title_of(file: Path) -> str:
    """What a file of points is called on the screen."""
    return "standard input" if file == STANDARD_INPUT else file.name
