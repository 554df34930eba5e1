"""The application that the commands belong to, and what they print by."""

from __future__ import annotations

import importlib
import os
import shutil
import sqlite3
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer import Option
from typer.core import TyperGroup

import grinch
from grinch.errors import SettingsWarning
from grinch.io.points import STANDARD_INPUT
from grinch.io.read import FileError
from grinch.store.lock import StoreLocked


class Commands(TyperGroup):
    """A group of commands whose errors about a wrong choice are the message alone."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            # Put in front by the library that typer checks choices with.
            error.message = error.message.removeprefix("Value error, ")
            raise


def new_app(help: str) -> typer.Typer:
    """Return an application with plain help pages: boxes leave no room for text on a screen of 80 characters."""
    return typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        help=help,
    )


app = new_app("""Incremental hierarchical clustering under any linkage function.

Points are inserted one by one into a binary cluster tree that is repaired as they arrive. The tree can be cut into flat
clusters automatically, into a number of clusters, or at a score.

\b
Try it:
  grinch demo
  grinch demo --text
  grinch cluster vectors.npy
  grinch cluster table.csv --label species --id name --clusters 10
  grinch cluster features.npz --linkage ward --threshold -5 --out results
  grinch cluster texts.txt                  (one text per line, by words)
  grinch cluster big.parquet --workers 8    (in several processes)
  grinch hint vectors.npy                   (suggest a linkage)
  grinch compare table.csv --label species --id name
  grinch add news monday.csv --id doc       (into a store on disk)
  grinch changes news --since 3             (what changed in its clusters)
  grinch explore news                       (view it in the browser)
  grinch serve news                         (over HTTP)
  grinch --import mine clusters news        (with a linkage of your own)
  grinch coref --help                       (who wrote which records)

FILE may be - for CSV on the standard input. Each command has a help page of its own, such as grinch cluster --help.""")
# Where nobody looks at a screen, lines are not wrapped at its width.
console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def screen_width() -> int | None:
    """Return the number of characters of a line, by COLUMNS or the terminal, or None if the output is not a screen."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, 20)
    return None


def say(text: str, indent: str = "", hanging: str = "  ") -> None:
    """Print a line; if it is too long for the screen, with the rest of it indented further."""
    width = screen_width()
    lines = [indent + text]
    if width is not None:
        wrapper = textwrap.TextWrapper(width, indent, indent + hanging, break_long_words=False, break_on_hyphens=False)
        lines = wrapper.wrap(text)
    for line in lines or [""]:
        console.print(line, markup=False, soft_wrap=True)


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[str], last: str = "", wraps: bool = False
) -> None:
    """Print texts in columns that are aligned to the right, but for those of ``left``.

    Where the screen is too narrow, the column ``last`` is cut short, or broken into lines with ``wraps``.
    """
    table, rows, screen = Table(box=None, pad_edge=False), list(rows), screen_width() or 10_000
    widths = [max(map(cell_len, [name, *(row[i] for row in rows)])) for i, name in enumerate(headings)]
    if last:
        # Two spaces between columns. Without widths, other columns are left out where the screen is too narrow.
        i = list(headings).index(last)
        widths[i] = max(min(widths[i], screen - sum(widths) + widths[i] - 2 * (len(widths) - 1)), cell_len(last))
    for name, width in zip(headings, widths, strict=True):
        table.add_column(
            name, justify="left" if name in left else "right", no_wrap=name != last or not wraps, width=width
        )
    for row in rows:
        table.add_row(*map(escape, row))
    Console(highlight=False, width=max(screen, sum(widths) + 2 * len(widths))).print(table)


def print_facts(facts: Mapping[str, str], width: int = 17) -> None:
    """Print a line for each fact, with its name in front, in a column of this width."""
    for name, fact in facts.items():
        say(f"{name:{width}} {fact}", "  ", " " * (width + 1))


def size_of(count: float) -> str:
    """Return a number of bytes in the unit that suits it.

    >>> size_of(999), size_of(12_345), size_of(5_000_000_000)
    ('999 bytes', '12.3 kB', '5.0 GB')
    """
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:,.1f} {unit}"
    return f"{count / 1000:,.1f} GB"


def title_of(file: Path) -> str:
    """Return the name by which messages call a file of points."""
    if file == STANDARD_INPUT:
        return "standard input"
    # A pattern says little without its folder.
    return str(file) if any(sign in file.name for sign in "*?[") and not file.exists() else file.name


def make_folder(out: Path) -> None:
    """Create the folder of --out, and check that it can be written to before anything is computed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise FileError(f"--out must be a folder that can be made or written to; got {str(out)!r}: {error}") from None


def _version(asked: bool) -> None:
    if asked:
        console.print(f"grinch {grinch.__version__}")
        raise typer.Exit


def _import(names: list[str] | None) -> list[str]:
    """Import modules of the user, also from the current folder, so that linkages in them are found by name."""
    if names:
        sys.path.insert(0, os.getcwd())
    for name in names or []:
        try:
            importlib.import_module(name)
        # Whatever is wrong with the module, it is the user's to know.
        except Exception as error:
            hint = f"; leave the ending out: --import {name[:-3]}" if name.endswith(".py") else ""
            raise FileError(f"--import {name} failed: {type(error).__name__}: {error}{hint}") from error
    return names or []


@app.callback()
def _options(
    imports: Annotated[
        list[str] | None,
        Option(
            "--import",
            metavar="MODULE",
            callback=_import,
            help="Import a Python module first, also from the current folder, for stores with a custom linkage that is"
            " defined there. May be repeated.",
        ),
    ] = None,
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    pass


def _print_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    Console(stderr=True, highlight=False).print(f"[yellow]warning:[/yellow] {escape(str(message))}", soft_wrap=True)


def run_app(app: typer.Typer) -> None:
    """Run an application as ``grinch``; an error in the input is printed in one line, and the exit code is 2."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            warnings.simplefilter("always", SettingsWarning)
            app(prog_name="grinch")
    except (FileError, StoreLocked, ValueError, ImportError, MemoryError, OSError, sqlite3.Error) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        Console(stderr=True, highlight=False).print(f"[red]error:[/red] {escape(text)}", soft_wrap=True)
        sys.exit(2)
