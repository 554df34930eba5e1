"""The command line: one file for each command."""

from __future__ import annotations

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
from grinch.cli.app import app, run_app
from grinch.resolve.authors.commands import app as coref

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


def main() -> None:
    """Run the command line."""
    run_app(app)
