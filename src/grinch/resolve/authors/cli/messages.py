"""The messages of the commands of author coreference."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from grinch.io.read import FileError
from grinch.metrics import Scores
from grinch.progress import progress_bar
from grinch.resolve.authors.records.record import Reading, Record
from grinch.resolve.authors.results.evaluation import evaluate_authors, one_per_block, one_per_spelling
from grinch.resolve.authors.runs import Resolution

console = Console(highlight=False)

Blocks = dict[str, list[Record]]

WRITTEN = {
    "authors.csv": "the author of each record: id, author, block, name",
    "authors.jsonl": "the same, one JSON object per line",
    "review.csv": "the closest decisions, with the evidence for each",
    "problems.csv": "the lines of the input that had a problem",
    "summary.json": "counts, seconds, failed blocks",
}


def print_reading(file: Path, reading: Reading, groups: Blocks) -> None:
    """What was read, and which problems it had."""
    largest = max(groups, key=lambda name: len(groups[name]))
    console.print(
        f"{escape(file.name)}: {len(reading.records):,} records in {len(groups):,} blocks;"
        f" the largest, {escape(repr(largest))}, has {len(groups[largest]):,}"
    )
    left_out = sum(problem.left_out for problem in reading.problems)
    for n, what in ((left_out, "lines left out"), (len(reading.problems) - left_out, "records repaired")):
        if n:
            first = next(problem for problem in reading.problems if problem.left_out == (what == "lines left out"))
            console.print(f"[yellow]{n:,} {what}[/yellow]; the first: {escape(str(first))}")


@contextmanager
def progress(groups: Blocks, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A bar that is advanced by calling with the name of a block that is done."""
    if quiet:
        yield lambda name: None
        return
    with progress_bar("clustering", sum(map(len, groups.values())), "records") as advance:
        yield lambda name: advance(len(groups[name]))


def print_resolution(found: Resolution, out: Path, seconds: float) -> None:
    """What was found, and where it was written."""
    n_authors = len(set(found.authors.values()))
    console.print(f"[bold]{n_authors:,} authors[/bold] of {len(found.authors):,} records, in {seconds:.1f} s")
    print_failures(found.failures)
    if found.unfinished:
        console.print(
            f"[yellow]Interrupted: {len(found.unfinished):,} blocks are not done, and their records have no author."
            " Run the same command again to continue.[/yellow]"
        )
    console.print(f"Written to [bold]{escape(str(out))}/[/bold]")
    for name, what in WRITTEN.items():
        console.print(f"  {name:15} {what}")


def print_failures(failures: dict[str, str]) -> None:
    for name, reason in failures.items():
        console.print(f"[red]block {escape(repr(name))} failed[/red], its records have no author: {escape(reason)}")


def check_ids(records: list[Record], authors: Mapping[str, str | None], predicted: Path) -> None:
    """Refuse a file of authors that has none of the records; mention the records that it lacks."""
    unknown = [record.id for record in records if record.id not in authors]
    if len(unknown) == len(records):
        raise FileError(
            f"--predicted {predicted.name!r} must have the ids of RECORDS, such as {unknown[0]!r}; it has none of them,"
            f" but others, such as {next(iter(authors), None)!r}"
        )
    if unknown:
        console.print(
            f"[yellow]{len(unknown):,} records are not in {escape(predicted.name)}[/yellow], such as"
            f" {escape(repr(unknown[0]))}: each counts as an author of its own"
        )


def comparison(groups: Blocks, name: str, authors: Mapping[str, str | None]) -> Table:
    """A table of the scores of the authors that were found, and of two baselines."""
    evaluated = {
        name: evaluate_authors(groups, authors),
        "one author per block": evaluate_authors(groups, _by_id(groups, one_per_block)),
        "one author per spelling": evaluate_authors(groups, _by_id(groups, one_per_spelling)),
    }
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for column in ("precision", "recall", "F1", "F1, mean of blocks"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_row("[bold]pairs of records[/bold]")
    for each, found in evaluated.items():
        table.add_row(*_cells(each, found.pairwise, found.pairwise_macro))
    table.add_row("[bold]B-cubed[/bold]")
    for each, found in evaluated.items():
        table.add_row(*_cells(each, found.bcubed, found.bcubed_macro))
    return table


def _by_id(groups: Blocks, baseline: Callable[[list[Record]], Sequence[object]]) -> dict[str, Any]:
    return {record.id: label for group in groups.values() for record, label in zip(group, baseline(group), strict=True)}


def _cells(name: str, micro: Scores, macro: Scores) -> list[str]:
    return [f"  {escape(name)}", *(f"{number:.3f}" for number in (*micro, macro.f1))]
