"""What the commands of author coreference say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import grinch
from grinch.files.read import FileError
from grinch.progress.bar import progress_bar
from grinch.resolve.authors.records.record import Reading, Record
from grinch.resolve.authors.results.judging import judge, one_author_a_block, one_author_a_name
from grinch.resolve.authors.runs.resolve import Resolution

console = Console(highlight=False)

Blocks = dict[str, list[Record]]

WRITTEN = {
    "authors.csv": "the author of each record: id, author, block, name",
    "authors.jsonl": "the same, one JSON object a line",
    "review.csv": "the decisions nearest to falling the other way, and what speaks for each",
    "problems.csv": "the lines of the input that something was wrong with",
    "summary.json": "what was done",
}


def tell_reading(file: Path, reading: Reading, groups: Blocks) -> None:
    """What was read, and what was wrong with it."""
    largest = max(groups, key=lambda name: len(groups[name]))
    console.print(
        f"{escape(file.name)}: {len(reading.records):,} records in {len(groups):,} blocks;"
        f" the largest, {escape(repr(largest))}, has {len(groups[largest]):,}"
    )
    left_out = sum(problem.left_out for problem in reading.problems)
    for n, what in ((left_out, "lines left out"), (len(reading.problems) - left_out, "records mended")):
        if n:
            first = next(problem for problem in reading.problems if problem.left_out == (what == "lines left out"))
            console.print(f"[yellow]{n:,} {what}[/yellow]; the first: {escape(str(first))}")


@contextmanager
def progress(groups: Blocks, quiet: bool) -> Iterator[Callable[[str], None]]:
    if quiet:
        yield lambda name: None
        return
    with progress_bar("clustering", sum(map(len, groups.values())), "records") as advance:
        yield lambda name: advance(len(groups[name]))


def tell_resolution(found: Resolution, out: Path, facts: dict[str, Any]) -> None:
    facts |= {"authors": len(set(found.authors.values())), "failed": found.failures, "unfinished": found.unfinished}
    (out / "summary.json").write_text(json.dumps({"version": grinch.__version__, **facts}, indent=2) + "\n", "utf-8")
    console.print(
        f"[bold]{facts['authors']:,} authors[/bold] of {len(found.authors):,} records, in {facts['seconds']:.1f} s"
    )
    tell_failures(found.failures)
    if found.unfinished:
        console.print(
            f"[yellow]Interrupted: {len(found.unfinished):,} blocks are not done, their records have no author."
            " The same command goes on from here.[/yellow]"
        )
    console.print(f"Written to [bold]{escape(str(out))}/[/bold]")
    for name, what in WRITTEN.items():
        console.print(f"  {name:15} {what}")


def tell_failures(failures: dict[str, str]) -> None:
    for name, reason in failures.items():
        console.print(f"[red]block {escape(repr(name))} failed[/red], its records have no author: {escape(reason)}")


def check_ids(records: list[Record], authors: dict[str, str | None], predicted: Path) -> None:
    unknown = [record.id for record in records if record.id not in authors]
    if len(unknown) == len(records):
        raise FileError(
            f"--predicted {predicted.name!r} must tell the authors of the same records; it has none of them, such as"
            f" {unknown[0]!r}. Its own are such as {next(iter(authors), None)!r}"
        )
    if unknown:
        console.print(
            f"[yellow]{len(unknown):,} records are not in {escape(predicted.name)}[/yellow], such as"
            f" {escape(repr(unknown[0]))}: each counts as an author alone"
        )


def compared(groups: Blocks, found: Mapping[str, Mapping[str, str | None]]) -> Table:
    """The scores of authors found in several ways, and of two simple ones beside them."""
    beside = {"one author a block": one_author_a_block(groups), "one author a spelling": one_author_a_name(groups)}
    judged = {name: judge(groups, authors) for name, authors in {**found, **beside}.items()}
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for column in ("precision", "recall", "F1", "F1, mean of blocks"):
        table.add_column(column, justify="right", no_wrap=True)
    for what in ("pairs of records", "B-cubed"):
        table.add_row(f"[bold]{what}[/bold]")
        for name, told in judged.items():
            is_pairs = what == "pairs of records"
            micro, macro = (told.pairwise, told.pairwise_macro) if is_pairs else (told.bcubed, told.bcubed_macro)
            table.add_row(f"  {escape(name)}", *(f"{number:.3f}" for number in (*micro, macro.f1)))
    return table
