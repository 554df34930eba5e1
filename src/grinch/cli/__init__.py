"""The command line."""

from __future__ import annotations

from typing import Any

from grinch.cli import bench, cluster, clusters, compare, coref, cuts, points, serve, store, warmup
from grinch.cli.app import app, run_app

# In the order in which a newcomer needs them.
for command in (
    *(cluster.cluster, cluster.demo, compare.hint, compare.compare),
    *(points.add, points.remove, clusters.clusters, clusters.changes, cuts.label, points.predict),
    *(cuts.cuts, cuts.recut, cuts.refine, serve.explore, serve.serve, store.convert, warmup.warmup),
):
    app.command()(command)
# All arguments, --help included, are for another process.
PASSED_ON: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
for passed_on in (bench.bench, bench.report):
    app.command(context_settings=PASSED_ON)(passed_on)
app.add_typer(store.upkeep, name="store", short_help="Check, copy, export and rebuild a store.")
app.add_typer(coref.app, name="coref", short_help="Find which records are of the same author.")


def main() -> None:
    """Run the command line."""
    run_app(app)
