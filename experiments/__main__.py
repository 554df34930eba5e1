"""The command line of the experiments; ``grinch bench`` and ``grinch report`` run it in a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from experiments import EXPERIMENTS, run_experiments
from experiments.cells import FILE
from experiments.report import write_report
from experiments.setting import SCALES, Result, Setting
from grinch.cli.app import console, make_folder, new_app, print_table, run_app
from grinch.cli.options import Out
from grinch.errors import unknown_name

# Finished cells at full size, for all who have the repository.
CELLS = Path(__file__).parents[1] / "benchmarks" / "experiments" / FILE

app = new_app("The tables and figures of the paper, computed again.")


@app.command()
def bench(
    name: Annotated[str, Argument(metavar="NAME", help=f"all, or one of: {', '.join(EXPERIMENTS)}.")] = "all",
    quick: Annotated[bool, Option("--quick", help="Small data, few orders: minutes in place of hours.")] = False,
    data: Annotated[Path | None, Option("--data", metavar="FOLDER", help="Data sets (default: GRINCH_DATA).")] = None,
    seed: Annotated[int, Option(metavar="N", help="Seed of data and orders.")] = 0,
    again: Annotated[
        list[str] | None, Option(metavar="PATTERN", help="Cells to measure again: 'table2: *PERCH*'.")
    ] = None,
    skip: Annotated[list[str] | None, Option(metavar="PATTERN", help="Cells not to measure, if they are new.")] = None,
    out: Out = Path("grinch-bench"),
) -> None:
    """Run a table or figure of the paper.

    Shows our figures beside the paper's. Each experiment writes NAME.json and NAME.png to the folder of --out;
    report.html has all of them. Without other data sets, those of scikit-learn and generated ones are used
    (docs/datasets.md).

    A cell of a table, one system on one data set in one order, is kept in a file of the repository
    (benchmarks/experiments/cells.jsonl; --quick: in --out) as soon as it is measured, and stopped after ten minutes of
    processor time (--quick: 30 seconds). The same command resumes where it was interrupted, on any machine, and
    measures again what was computed by other code, libraries, settings or data. Two processes share the work.
    """
    if name != "all" and name not in EXPERIMENTS:
        raise unknown_name("NAME", name, ["all", *EXPERIMENTS])
    make_folder(out)
    scale, cells_at = SCALES["quick" if quick else "full"], None if quick else CELLS
    with console.status("reading data") as status:
        setting = Setting(scale, data, seed, status.update)
        names = list(EXPERIMENTS) if name == "all" else [name]
        for result in run_experiments(names, setting, out, cells_at, again or (), skip or ()):
            _show(result)
    report_path = write_report(out)
    console.print(f"Written to [bold]{report_path}[/bold]")


@app.command()
def report(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Results of grinch bench.")] = Path("grinch-bench"),
) -> None:
    """Make one page, report.html, of all results in a folder."""
    console.print(f"Written to [bold]{write_report(folder)}[/bold]")


def _show(result: Result) -> None:
    console.print(result.title, style="italic", markup=False)
    rows = [[str(row.get(column, "")) for column in result.columns] for row in result.rows]
    print_table(result.columns, rows, left=result.columns)
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
