"""Put several methods side by side on a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from grinch.cli.app import FILE_HELP, LINKAGE_HELP, METRIC_HELP, LinkageName, Out, app, console, make_folder, title_of
from grinch.compare.methods import MEASURES, Row, compare, write_csv
from grinch.estimators.registry import SYSTEMS
from grinch.io.read import read_points
from grinch.io.write import replacing

DEFAULT_METHODS = "grinch,rotate,online,perch,mb-hac,hac,birch"
LONG_NAMES = {"purity": "dendrogram purity", "f1": "F1 of the best cut", "seconds": "seconds", "memory": "memory (MB)"}
# How the figures of each measure are written, and what they are multiplied by.
FORMATS = {
    "purity": (".3f", 1),
    "f1": (".3f", 1),
    "seconds": (".2f", 1),
    "memory": (",.0f", 1e-6),
    "depth": (",.0f", 1),
}


@app.command("compare", short_help="Put several methods side by side on a file.")
def compare_methods(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=FILE_HELP),
    ],
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Column (or .npz array) with the true classes; without it only costs are compared."
        ),
    ] = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help=f"Methods separated by commas: {', '.join(SYSTEMS)}; settings follow a colon, as in"
            " mb-hac:buffer_size=500.",
        ),
    ] = DEFAULT_METHODS,
    id: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Column that names the points; it is no feature.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column that is not a feature; may be repeated.")
    ] = None,
    linkage: Annotated[LinkageName, typer.Option(metavar="NAME", help=LINKAGE_HELP)] = "average",
    metric: Annotated[str | None, typer.Option(metavar="NAME", help=METRIC_HELP)] = None,
    orders: Annotated[int, typer.Option(min=1, metavar="N", help="Shuffled orders that each method is run on.")] = 3,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the first order.")] = 0,
    time_limit: Annotated[
        float, typer.Option(min=1, metavar="N", help="Seconds a method may take for one order.")
    ] = 600,
    memory_limit: Annotated[
        float | None,
        typer.Option(min=0.5, metavar="N", help="Gigabytes a method's process may take (default: what is there)."),
    ] = None,
    out: Out = Path("grinch-out"),
    picture: Annotated[bool, typer.Option(help="Draw the comparison.")] = True,
) -> None:
    """Run several methods on shuffled orders of the points of FILE, and print what each costs and how good its tree is.

    Purity is dendrogram purity; best F1 is the pairwise F1 of the best flat clusters the tree has (given the labels);
    memory is what the fit needed beyond the points; depth is that of the deepest leaf. Compiling is not counted. Points
    without a label count as classes of their own.

    A method that fails, or does not fit in memory or time, is reported as such, and the others go on. Into the folder
    of --out go compare.csv and compare.png.
    """
    points = read_points(file, label, id, drop or ())
    make_folder(out)
    n, d = points.vectors.shape
    console.print(f"{title_of(file)}: {n:,} points, {d:,} features; {orders} shuffled orders each\n", markup=False)
    rows: list[Row] = []
    chosen = [text for text in methods.split(",") if text.strip()]
    try:
        with console.status("starting") as status:
            for row in compare(
                points.vectors,
                points.labels,
                chosen,
                linkage=linkage,
                metric=metric,
                orders=orders,
                seed=seed,
                time_limit=time_limit,
                memory_limit=None if memory_limit is None else int(memory_limit * 1e9),
                progress=lambda title, done: status.update(f"{title}: {done} of {orders} orders done"),
            ):
                rows.append(row)
                console.print(f"  {row.method}: {row.failure or 'done'}", style="dim")
    except KeyboardInterrupt:
        if not rows:
            raise
        console.print("\n[yellow]Interrupted: this is what was done so far.[/yellow]")
    console.print()
    console.print(_table(rows))
    for row in rows:
        if row.failure:
            console.print(f"  {row.method}: {row.failure}. {row.why}", markup=False, soft_wrap=True)
    write_csv(rows, out / "compare.csv")
    written = ["compare.csv"]
    if picture and _draw(rows, out / "compare.png", f"{title_of(file)}: {n:,} points"):
        written.append("compare.png")
    console.print(f"\nWritten to [bold]{out}/[/bold]: {', '.join(written)}")
    if all(row.failure for row in rows):
        raise typer.Exit(1)


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False)
    measures = [m for m in MEASURES if m == "memory" or any(row.figures.get(m) for row in rows)]
    for name in ("", *(MEASURES[m] for m in measures), ""):
        table.add_column(name, justify="right" if name else "left")
    for row in rows:
        table.add_row(f"  {row.method}", *(_cell(row, m) for m in measures), row.failure)
    return table


def _cell(row: Row, measure: str) -> str:
    mean, deviation = row.mean(measure), row.deviation(measure)
    if mean is None or deviation is None:
        # Not every system says how much memory a process took.
        return "n/a" if measure == "memory" and row.figures else ""
    form, scale = FORMATS[measure]
    spread = f" ± {deviation * scale:{form}}" if len(row.figures[measure]) > 1 else ""
    return f"{mean * scale:{form}}{spread}"


def _draw(rows: list[Row], path: Path, title: str) -> bool:
    """A panel for each measure; whether there was one."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from grinch.plots import plot_comparison

    measures = [m for m in ("purity", "f1", "seconds", "memory") if any(row.figures.get(m) for row in rows)]
    if not measures:
        return False
    scale = {"memory": 1e-6}
    drawn = [
        {
            "method": row.method,
            **{m: [v * scale.get(m, 1) for v in row.figures.get(m, [])] or row.failure or "–" for m in measures},
        }
        for row in rows
    ]
    columns = min(2, len(measures))
    lines = -(-len(measures) // columns)
    size = (7.0 * columns, lines * (1.1 + 0.36 * len(rows)))
    figure, axes = plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
    for ax, measure in zip(axes.flat, measures, strict=False):
        plot_comparison(drawn, measure, highlight=("grinch",), xlabel=LONG_NAMES[measure], ax=ax)
    figure.suptitle(title, fontsize=12, x=0.01, ha="left", parse_math=False)
    with replacing(path, "wb") as out:
        figure.savefig(out, dpi=130, format="png")
    plt.close(figure)
    return True
