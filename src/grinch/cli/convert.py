"""Write files of an earlier format as files of today."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grinch.cli.app import app, console
from grinch.legacy import convert as convert_old


@app.command()
def convert(
    old: Annotated[
        Path,
        typer.Argument(metavar="OLD", help="A saved model, text vectors, a coreference model, or a store's folder."),
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The file or folder to write; it must not be there yet.")],
) -> None:
    """Write a file or a store of an earlier format as one of today.

    OLD stays as it is, and nothing in it is run. Example:

    grinch convert model.grinch new.grinch
    """
    if new.exists():
        raise typer.BadParameter(f"{str(new)!r} is there already; give a name that is free", param_hint="NEW")
    kind = convert_old(old, new)
    console.print(f"{new} holds the {kind} of {old}")
