"""The command line."""

from __future__ import annotations

from typing import Any

from grinch.cli.app import app, run_app
from grinch.cli.bench import bench, report
from grinch.cli.cluster import cluster, demo
from grinch.cli.clusters import changes, clusters
from grinch.cli.compare import compare, hint
from grinch.cli.cuts import cuts, label, recut, refine
from grinch.cli.points import add, predict, remove
from grinch.cli.serve import explore, serve
from grinch.cli.store import convert, upkeep
from grinch.cli.warmup import warmup
from grinch.resolve.authors.commands import app as coref

# In the order in which a newcomer needs them.
for command in (
    *(cluster, demo, hint, compare),
    *(add, remove, clusters, changes, label, predict, cuts, recut, refine),
    *(explore, serve, convert, warmup),
):
    app.command()(command)
# All arguments, --help included, are for another process.
PASSED_ON: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
for command in (bench, report):
    app.command(context_settings=PASSED_ON)(command)
app.add_typer(upkeep, name="store", short_help="Check, copy, export and rebuild a store.")
app.add_typer(coref, name="coref", short_help="Find which records are of the same author.")


def main() -> None:
    """Run the command line."""
    run_app(app)
