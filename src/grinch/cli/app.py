"""The application that the commands belong to."""

from __future__ import annotations

import importlib
import os
import shutil
import sqlite3
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

import grinch
from grinch.errors import SettingsWarning
from grinch.io.read import FileError
from grinch.io.tables import STANDARD_INPUT
from grinch.store.lock import StoreLocked


class Commands(TyperGroup):
    """The commands; what is said of a wrong choice is the message alone."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            # Put in front by the library that typer checks choices with.
            error.message = error.message.removeprefix("Value error, ")
            raise


app = typer.Typer(
    cls=Commands,
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
  grinch demo --text
  grinch cluster vectors.npy
  grinch cluster table.csv --label species --id name --clusters 10
  grinch cluster features.npz --linkage ward --threshold -5 --out results
  grinch cluster texts.txt                  (a text per line, by words)
  grinch cluster big.parquet --workers 8    (by many processes)
  grinch hint vectors.npy                   (which linkage suits them)
  grinch compare table.csv --label species --id name
  grinch add news monday.csv --id doc       (into a store that stays)
  grinch changes news --since 3             (what became of its clusters)
  grinch explore news                       (look at it in the browser)
  grinch serve news                         (over HTTP)
  grinch --import mine clusters news        (with a linkage of your own)
  grinch coref --help                       (which records are of one author)

FILE may be - for a table in CSV on the standard input. Every command has a help page of its own: grinch cluster
--help.""",
)

# Into a file or a pipe, tables need not fit a screen.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)

LinkageName = Literal["average", "cosine", "centroid", "ward", "tanimoto", "single", "complete"]
FILE_HELP = (
    "Points: .npy, .npz (arrays X and perhaps y, or a sparse matrix by scipy.sparse.save_npz), .csv, .tsv, .parquet, or"
    " - for CSV on the standard input."
)
METRIC_HELP = (
    "For --linkage average: sqeuclidean (default), cosine, dot, hellinger (for counts); for average, single and"
    " complete also any distance that scipy knows, such as euclidean or cityblock."
)
LINKAGE_HELP = f"How similar two groups are: {', '.join(get_args(LinkageName))}."
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the results; made if it is not there.")
]


def screen_width() -> int | None:
    """How many characters fit into a line: as COLUMNS says, or the terminal; None where nobody looks at a screen."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, 20)
    return None


def screen() -> Console:
    """A console for tables: as wide as the screen, or as they need in a pipe."""
    return Console(highlight=False, width=screen_width() or 10_000)


def say(text: str, indent: str = "", hanging: str = "  ") -> None:
    """Print a line; if it is too long for the screen, with the rest of it indented further."""
    width = screen_width()
    lines = [indent + text]
    if width is not None:
        lines = textwrap.wrap(
            text,
            width,
            initial_indent=indent,
            subsequent_indent=indent + hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
    for line in lines or [""]:
        console.print(line, markup=False, soft_wrap=True)


def _version(asked: bool) -> None:
    if asked:
        console.print(f"grinch {grinch.__version__}")
        raise typer.Exit


def _import(names: list[str]) -> list[str]:
    """Import modules of the user's own, from the current folder too; linkages in them are then found by name."""
    if names:
        sys.path.insert(0, os.getcwd())
    for name in names:
        try:
            importlib.import_module(name)
        # Whatever is wrong with the module, it is the user's to know.
        except Exception as error:
            hint = f"; leave the ending out: --import {name[:-3]}" if name.endswith(".py") else ""
            raise FileError(f"--import {name} failed: {type(error).__name__}: {error}{hint}") from error
    return names


@app.callback()
def _options(
    imports: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            callback=lambda names: _import(names or []),
            help="Import a Python module first (the current folder is looked in, too), for stores with a linkage of"
            " your own: it is found there by its name. May be repeated.",
        ),
    ] = None,
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
    if file == STANDARD_INPUT:
        return "standard input"
    # A pattern says little without its folder.
    return str(file) if any(sign in file.name for sign in "*?[") and not file.exists() else file.name


def _say_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    Console(stderr=True, highlight=False).print(f"[yellow]warning:[/yellow] {escape(str(message))}", soft_wrap=True)


def run_app(app: typer.Typer) -> None:
    """Run an application as ``grinch``; an error of the input is reported in one line, with exit code 2."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_warning
            warnings.simplefilter("always", SettingsWarning)
            app(prog_name="grinch")
    except (FileError, StoreLocked, ValueError, ImportError, MemoryError, OSError, sqlite3.Error) as error:
        Console(stderr=True, highlight=False).print(
            f"[red]error:[/red] {escape(' '.join(str(error).split()) or type(error).__name__)}",
            markup=True,
            soft_wrap=True,
        )
        sys.exit(2)
