"""The command line of the experiments; ``grinch bench`` and ``grinch report`` run it in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from experiments import EXPERIMENTS, run_experiment
from experiments.report import write_report
from experiments.setting import SCALES, Result, Setting
from grinch.cli.app import Commands, console, make_folder, run_app
from grinch.errors import unknown_name

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="The tables and figures of the paper, computed again.",
)
BenchFolder = Annotated[
    Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the results; made if it is not there.")
]


@app.command(short_help="Run the experiments of the paper.")
def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"all, or one of: {', '.join(EXPERIMENTS)}.")] = "all",
    quick: Annotated[bool, typer.Option("--quick", help="Small data, few orders: minutes in place of hours.")] = False,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FOLDER", help="Folder with data sets (default: the variable GRINCH_DATA)."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of data and orders.")] = 0,
    again: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Measure cells of this name again, as in 'table2: *PERCH*'. Repeatable."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Do not measure cells of this name, if they are not there. Repeatable."),
    ] = None,
    out: BenchFolder = Path("grinch-bench"),
) -> None:
    """Run a table or figure of the paper, ours beside the paper's; what is there of the data decides what is run.

    For each experiment NAME.json and NAME.png go into the folder of --out, and with all of them report.html. Without
    any data sets at hand, those of scikit-learn and generated ones are used (docs/datasets.md).

    A cell of a table, one system on one data set in one order, is kept in cells.jsonl as soon as it is measured, and
    stopped after ten minutes of processor time (--quick: 30 seconds). The same command goes on where it was
    interrupted; cells of another version, seed or data are measured again.
    """
    if name != "all" and name not in EXPERIMENTS:
        raise unknown_name("NAME", name, ["all", *EXPERIMENTS])
    make_folder(out)
    for each in EXPERIMENTS if name == "all" else [name]:
        with console.status(each) as status:
            setting = Setting(
                SCALES["quick" if quick else "full"],
                data,
                seed,
                lambda text, each=each, status=status: status.update(f"{each}: {text}"),  # type: ignore[misc]
            )
            result = run_experiment(each, setting, out, again or (), skip or ())
        _show(result)
    report_path = write_report(out)
    console.print(f"Written to [bold]{report_path}[/bold]")


@app.command(short_help="Make a page of the results of bench.")
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where grinch bench left its results.")] = Path(
        "grinch-bench"
    ),
) -> None:
    """Make one page, report.html, of all results in a folder."""
    console.print(f"Written to [bold]{write_report(folder)}[/bold]")


def _show(result: Result) -> None:
    table = Table(title=result.title, title_justify="left", box=None, pad_edge=False)
    for column in result.columns:
        table.add_column(column)
    for row in result.rows:
        table.add_row(*(str(row.get(column, "")) for column in result.columns))
    console.print(table)
    for remark in result.remarks:
        console.print(f"  {remark}", markup=False, style="dim")
    taken = result.about["cells taken over"]
    earlier = f", {taken:,} of {taken + result.about['cells measured']:,} cells from an earlier run" if taken else ""
    console.print(f"  {result.about['seconds']} s{earlier}\n", style="dim")


def main() -> None:
    """Run the command line of the experiments."""
    run_app(app)


if __name__ == "__main__":
    main()
