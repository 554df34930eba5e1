"""Compare linkages and methods on the points of a file."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer import Option

from grinch.cli import options
from grinch.cli.app import console, make_folder, print_table, title_of
from grinch.cli.results import save_picture
from grinch.compare.methods import MEASURES, Row, write_csv
from grinch.compare.methods import compare as compare_methods
from grinch.estimators.registry import SYSTEMS
from grinch.hints.suggest import suggest_linkage
from grinch.io.read import Points, read_points

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT_METHODS = "grinch,rotate,online,perch,mb-hac,hac,birch,scc"
LONG_NAMES = {"purity": "dendrogram purity", "f1": "F1 of the best cut", "seconds": "seconds", "memory": "memory (MB)"}
# How the figures of each measure are written, and what they are multiplied by.
FORMATS = {
    "purity": (".3f", 1),
    "f1": (".3f", 1),
    "seconds": (".2f", 1),
    "memory": (",.0f", 1e-6),
    "depth": (",.0f", 1),
}


def hint(
    file: options.PointsFile,
    label: Annotated[str | None, Option(metavar="COLUMN", help="Column (or array) with classes; not used.")] = None,
    id: options.IdColumn = None,
    drop: options.DropColumns = None,
    orders: Annotated[int, Option(min=2, metavar="N", help="Random orders to cluster the points in.")] = 3,
    sample: Annotated[int, Option(min=3, metavar="N", help="Largest number of points to use, at random.")] = 2000,
    seed: Annotated[int, Option(metavar="N", help="Seed of the sample and of the orders.")] = 0,
) -> None:
    """Suggest a linkage for the points of FILE, without labels.

    Clusters a sample of the points by each linkage, in several orders, and suggests the linkage that keeps neighbours
    together in the smallest groups (cost: their share of the points). Agreement is how often the trees of two orders
    agree on which two of three points belong together.
    """
    points = read_points(file, label, id, drop or ())
    found = suggest_linkage(points.vectors, n_orders=orders, sample=sample, random_state=seed)
    console.print(f"{_described(file, points)}; {found.n_points:,} of them used\n", markup=False)
    console.print(str(found), markup=False, soft_wrap=True)
    named = [("--label", label), ("--id", id), *(("--drop", column) for column in drop or [])]
    columns = [word for name, value in named if value is not None for word in (name, value)]
    chosen = ["--linkage", found.linkage, "--metric", found.metric]
    # Ready to be copied, so never broken into lines.
    command = shlex.join(["grinch", "cluster", str(file), *columns, *chosen])
    console.print(f"\nGo on with: {command}", markup=False, soft_wrap=True)


def _described(file: Path, points: Points) -> str:
    n, d = points.vectors.shape
    return f"{title_of(file)}: {n:,} points, {d:,} features"


def compare(
    file: options.PointsFile,
    label: Annotated[str | None, Option(metavar="COLUMN", help="Column (or array) with the true classes.")] = None,
    methods: Annotated[
        str,
        Option(
            metavar="NAMES",
            help=f"Methods separated by commas: {', '.join(SYSTEMS)}; settings follow a colon, as in"
            " mb-hac:buffer_size=500.",
        ),
    ] = DEFAULT_METHODS,
    id: options.IdColumn = None,
    drop: options.DropColumns = None,
    linkage: options.Linkage = "average",
    metric: options.Metric = None,
    orders: Annotated[int, Option(min=1, metavar="N", help="Shuffled orders that each method is run on.")] = 3,
    seed: Annotated[int, Option(metavar="N", help="Seed of the first order.")] = 0,
    time_limit: Annotated[float, Option(min=1, metavar="N", help="Seconds a method may take for one order.")] = 600,
    memory_limit: Annotated[
        float | None, Option(min=0.5, metavar="N", help="Gigabytes of memory (default: all).")
    ] = None,
    out: options.Out = Path("grinch-out"),
    picture: options.Picture = True,
) -> None:
    """Compare several methods on the points of FILE.

    Each is run on shuffled orders of the points. Purity is dendrogram purity; best F1 is the pairwise F1 of the best
    flat clusters in the tree, given the labels; memory is that of the fit beyond the points; depth is that of the
    deepest leaf. Compilation is not counted. Points without a label count as classes of their own.

    A method that fails, or exceeds the limits of memory or time, is reported, and the others continue. compare.csv and
    compare.png are written to the folder of --out.
    """
    points = read_points(file, label, id, drop or ())
    make_folder(out)
    console.print(f"{_described(file, points)}; {orders} shuffled orders each\n", markup=False)
    rows: list[Row] = []
    try:
        with console.status("starting") as status:
            for row in compare_methods(
                points.vectors,
                points.labels,
                [text for text in methods.split(",") if text.strip()],
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
        console.print("\n[yellow]Interrupted: these are the results so far.[/yellow]")
    console.print()
    measures = [m for m in MEASURES if m == "memory" or any(row.figures.get(m) for row in rows)]
    cells = [(f"  {row.method}", *(_cell(row, m) for m in measures), row.failure) for row in rows]
    print_table(["", *(MEASURES[m] for m in measures), ""], cells, left=[""])
    for row in rows:
        if row.failure:
            console.print(f"  {row.method}: {row.failure}. {row.why}", markup=False, soft_wrap=True)
    write_csv(rows, out / "compare.csv")
    written = ["compare.csv"]
    if picture and _draw(rows, out / "compare.png", f"{title_of(file)}: {points.vectors.shape[0]:,} points"):
        written.append("compare.png")
    console.print(f"\nWritten to [bold]{out}/[/bold]: {', '.join(written)}")
    if all(row.failure for row in rows):
        raise typer.Exit(1)


def _cell(row: Row, measure: str) -> str:
    mean, deviation = row.mean(measure), row.deviation(measure)
    if mean is None or deviation is None:
        # Not every system says how much memory a process took.
        return "n/a" if measure == "memory" and row.figures else ""
    form, scale = FORMATS[measure]
    spread = f" ± {deviation * scale:{form}}" if len(row.figures[measure]) > 1 else ""
    return f"{mean * scale:{form}}{spread}"


def _draw(rows: list[Row], path: Path, title: str) -> bool:
    """Draw a panel for each measure, and return whether there was one."""
    measures = [m for m in ("purity", "f1", "seconds", "memory") if any(row.figures.get(m) for row in rows)]
    drawn = [{"method": row.method, **{m: _values(row, m) for m in measures}} for row in rows]
    panels = [Panel("", drawn, measure, LONG_NAMES[measure], is_share=False) for measure in measures]

    def draw() -> None:
        figure = draw_panels(panels, min(2, len(panels)), (7.0, 1.1 + 0.36 * len(rows)), highlight=("grinch",))
        assert figure is not None
        figure.suptitle(title, fontsize=12, x=0.01, ha="left", parse_math=False)

    if panels:
        save_picture(path, draw)
    return bool(panels)


def _values(row: Row, measure: str) -> list[float] | str:
    return [value * FORMATS[measure][1] for value in row.figures.get(measure, [])] or row.failure or "–"


class Panel(NamedTuple):
    """A bar chart of one measure."""

    title: str
    rows: Sequence[Mapping[str, Any]]
    measure: str
    xlabel: str
    is_share: bool = True
    """True if the axis ends at 1."""


def draw_panels(
    panels: Sequence[Panel],
    n_columns: int,
    size: tuple[float, float],
    method: str = "method",
    highlight: Collection[str] = (),
) -> Figure | None:
    """Draw panels in a grid; ``size`` is that of one, in inches."""
    import matplotlib.pyplot as plt

    from grinch.plots import plot_comparison

    if not panels:
        return None
    n_lines = -(-len(panels) // n_columns)
    figsize = (size[0] * n_columns, size[1] * n_lines)
    figure, axes = plt.subplots(n_lines, n_columns, figsize=figsize, layout="constrained", squeeze=False)
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax, (title, rows, measure, xlabel, is_share) in zip(axes.flat, panels, strict=False):
        plot_comparison(rows, measure, method, highlight, xlabel=xlabel, title=title, ax=ax)
        if is_share:
            ax.set_xticks([tick for tick in ax.get_xticks() if 0 <= tick <= 1])
    return figure
