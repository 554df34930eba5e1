"""The command line: one file for each command."""

from __future__ import annotations

import sqlite3
import sys
import warnings
from typing import Any

from rich.console import Console
from rich.markup import escape

from grinch.cli import (
    add,
    bench,
    changes,
    cluster,
    clusters,
    compare,
    convert,
    cuts,
    demo,
    explore,
    hint,
    predict,
    remove,
    serve,
    warmup,
)
from grinch.cli.app import app
from grinch.errors import SettingsWarning
from grinch.io.read import FileError
from grinch.resolve.authors.cli.app import app as coref
from grinch.store.lock import StoreLocked

app.add_typer(coref, name="coref", short_help="Find which records are of the same author.")

# In the order in which a newcomer needs them.
ORDER = (
    cluster.cluster,
    demo.demo,
    hint.hint,
    compare.compare_methods,
    add.add,
    remove.remove,
    clusters.clusters,
    changes.changes,
    cuts.label,
    predict.predict,
    cuts.cuts,
    cuts.recut,
    cuts.refine,
    explore.explore,
    serve.serve,
    convert.convert,
    warmup.warmup,
    bench.bench,
    bench.report,
)
app.registered_commands.sort(key=lambda command: ORDER.index(command.callback))


def _say_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    Console(stderr=True, highlight=False).print(f"[yellow]warning:[/yellow] {escape(str(message))}", soft_wrap=True)


def main() -> None:
    """Run the command line; what is wrong with the input is said in one line."""
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
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; nothing was written")
        sys.exit(130)
