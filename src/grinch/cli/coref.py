"""The commands of ``grinch coref``, the files they write and the messages they print."""

from __future__ import annotations

import csv
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

import grinch
from grinch._checks import check_count
from grinch.cli.app import console, make_folder, new_app, print_table
from grinch.cli.options import Quiet
from grinch.io.read import FileError
from grinch.io.tables import iter_rows
from grinch.io.write import digest, harmless, replacing
from grinch.progress import progress_bar
from grinch.resolve.authors.evaluation import evaluate_authors, one_per_block, one_per_spelling, unreachable_share
from grinch.resolve.authors.record import FIELDS, Problem, Reading, Record, read_records
from grinch.resolve.authors.record import blocks as blocked
from grinch.resolve.authors.runs import Resolution, resolve
from grinch.resolve.authors.synthetic import make_records


def write_records(records: Iterable[Record], path: Path) -> None:
    """Write records as JSON lines, without the fields that are empty."""
    with _writing(path) as file:
        for record in records:
            known = {field: value for field, value in asdict(record).items() if value not in (None, "", ())}
            file.write(json.dumps(known, ensure_ascii=False) + "\n")


def write_authors(
    records: Iterable[Record], authors: Mapping[str, str], blocks: Mapping[str, str], folder: Path
) -> None:
    """Write the author of each record as authors.csv and authors.jsonl; empty where there is none.

    ``authors`` and ``blocks`` are by record id.
    """
    found = [{"id": r.id, "author": authors.get(r.id, ""), "block": blocks[r.id], "name": r.name} for r in records]
    write_table(["id", "author", "block", "name"], found, folder / "authors.csv")
    with _writing(folder / "authors.jsonl") as file:
        for row in found:
            file.write(json.dumps({**row, "author": row["author"] or None}, ensure_ascii=False) + "\n")


def write_problems(problems: Iterable[Problem], path: Path) -> None:
    """Write the lines of the input that had a problem, with the reason."""
    found = [{"line": p.line, "record": "left out" if p.left_out else "kept", "reason": p.reason} for p in problems]
    write_table(["line", "record", "reason"], found, path)


def write_review(doubts: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write doubtful decisions, one per row, with an empty column for the reviewer's verdict."""
    columns = list(doubts[0]) if doubts else ["block", "decision", "score"]
    write_table([*columns, "verdict"], doubts, path)


def write_table(columns: Sequence[str], found: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write a CSV file with these columns; cells that a spreadsheet would run as formulas are quoted."""
    with _writing(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_quoted(row.get(column, "")) for column in columns] for row in found)


def read_authors(path: Path) -> dict[str, str | None]:
    """Read authors by record id from a table or JSON lines with the columns id and author."""
    is_table = any(suffix in (".csv", ".tsv") for suffix in path.suffixes)
    found: dict[str, str | None] = {}
    for row in iter_rows(path):
        if row.complaint:
            raise FileError(f"FILE {path.name!r}, line {row.line:,} {row.complaint}")
        for column in ("id", "author"):
            if column not in row.cells:
                raise FileError(
                    f"FILE {path.name!r} must have the columns 'id' and 'author'; it has"
                    f" {', '.join(map(repr, row.cells))} in line {row.line:,}"
                )
        name, author = (_unquoted(row.cells[column]) if is_table else row.cells[column] for column in ("id", "author"))
        if str(name) in found:
            raise FileError(f"FILE {path.name!r} must have each id once; {str(name)!r} is in line {row.line:,} again")
        found[str(name)] = str(author) if author not in (None, "") else None
    return found


def _quoted(cell: Any) -> Any:
    """Return a cell that a spreadsheet takes as it is.

    A cell that already looks quoted gets one more quote, so that reading takes off what writing put on.
    """
    return f"'{cell}" if _needs_quote(cell) else cell


def _unquoted(cell: str) -> str:
    """Return what :func:`_quoted` made a cell of.

    >>> [_unquoted(_quoted(cell)) for cell in ("=1+1", "'=1+1", "'s", "-1")]
    ['=1+1', "'=1+1", "'s", '-1']
    """
    return cell[1:] if cell.startswith("'") and _needs_quote(cell) else cell


def _needs_quote(cell: Any) -> bool:
    bare = cell.lstrip("'") if isinstance(cell, str) else cell
    return harmless([bare]) != [bare]


@contextmanager
def _writing(path: Path) -> Iterator[IO[str]]:
    """Open a text file that appears under its name only when it is complete; errors name it."""
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise FileError(f"{str(path)!r} must be a file that can be written; {error.strerror or error}") from error


Blocks = dict[str, list[Record]]

WRITTEN = {
    "authors.csv": "the author of each record: id, author, block, name",
    "authors.jsonl": "the same, one JSON object per line",
    "review.csv": "the closest decisions, with the evidence for each",
    "problems.csv": "the lines of the input that had a problem",
    "summary.json": "counts, seconds, failed blocks",
}


@contextmanager
def progress(groups: Blocks, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show a progress bar, advanced by a call with the name of a finished block."""
    if quiet:
        yield lambda name: None
        return
    with progress_bar("clustering", sum(map(len, groups.values())), "records") as advance:
        yield lambda name: advance(len(groups[name]))


def print_resolution(found: Resolution, out: Path, seconds: float) -> None:
    """Print what was found and where it was written."""
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


def print_comparison(groups: Blocks, name: str, authors: Mapping[str, str | None]) -> None:
    """Print the scores of the authors that were found, and of two baselines."""
    evaluated = {
        name: evaluate_authors(groups, authors),
        "one author per block": evaluate_authors(groups, _by_id(groups, one_per_block)),
        "one author per spelling": evaluate_authors(groups, _by_id(groups, one_per_spelling)),
    }
    rows: list[list[str]] = []
    for title, measure in (("pairs of records", "pairwise"), ("B-cubed", "bcubed")):
        rows.append([title, "", "", "", ""])
        for each, found in evaluated.items():
            numbers = (*getattr(found, measure), getattr(found, f"{measure}_macro").f1)
            rows.append([f"  {each}", *(f"{number:.3f}" for number in numbers)])
    print_table(["", "precision", "recall", "F1", "F1, mean of blocks"], rows, left=[""])


def _by_id(groups: Blocks, baseline: Callable[[list[Record]], Sequence[object]]) -> dict[str, Any]:
    return {record.id: label for group in groups.values() for record, label in zip(group, baseline(group), strict=True)}


if TYPE_CHECKING:
    from grinch.resolve.authors.model import Model

app = new_app("""Give publication records author ids.

A record is one author's name on one publication, with title, coauthors, venue, year and so on, where they are known.
Records with the same last name and first initial form a block. In each block, the records of one person are found by a
model that you train on records whose authors are known.

\b
Try it, without data of your own:
  grinch coref sample -o labelled.jsonl --seed 1
  grinch coref sample -o records.jsonl --seed 2
  grinch coref train labelled.jsonl -o model.grinch
  grinch coref cluster records.jsonl --model model.grinch -o out
  grinch coref evaluate records.jsonl --predicted out/authors.csv""")

Method = Literal["grinch", "rotate", "online", "mb-hac", "hac"]
OnError = Literal["raise", "skip"]

FORMATS = "JSON lines (.jsonl, .json), a table (.csv, .tsv), all also in .gz or .xz, or .parquet."

NO_AUTHORS = (
    "{what} must have records with authors; {name!r} has none in a column that is known to hold them."
    " Name the column: --columns author=COLUMN"
)
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="FIELD=COLUMN",
        help="The column of a field that has another name; may be repeated. A model remembers those of its training."
        f" Fields: {', '.join(FIELDS)}.",
    ),
]
Block = Annotated[
    str | None,
    typer.Option("--block", metavar="COLUMN", help="Column with the block, instead of last name and first initial."),
]
Errors = Annotated[
    OnError, typer.Option("--on-error", help="At a line that cannot be used: stop, or leave it out and report it.")
]
Folder = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results; created if it does not exist.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]
ModelFile = Annotated[Path, typer.Option("--model", "-m", help="Model trained by grinch coref train.")]
MethodName = Annotated[Method, typer.Option("--method", help="How the records are clustered.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes on this machine; -1 for one per core.")]


@app.command()
def sample(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, as JSON lines.")] = Path("records.jsonl"),
    authors: Annotated[int, typer.Option(help="How many authors.")] = 120,
    blocks: Annotated[int, typer.Option(help="How many names they share.")] = 12,
    seed: Seed = 0,
) -> None:
    """Generate labelled records to try things on."""
    records = make_records(authors, blocks, seed)
    write_records(records, out)
    console.print(
        f"{len(records):,} records of {authors:,} made-up authors who share {blocks:,} names: written to"
        f" {escape(str(out))}"
    )


@app.command(short_help="Train a model on records whose authors are known.")
def train(
    labelled: Annotated[Path, typer.Argument(metavar="LABELLED", help=f"Records with authors: {FORMATS}")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the model.")] = Path("model.grinch"),
    kind: Annotated[
        Literal["boosting", "logistic"], typer.Option(help="Kind of model: boosted trees, or logistic regression.")
    ] = "boosting",
    rounds: Annotated[int, typer.Option(help="How often it learns from the merges that it proposes itself.")] = 3,
    columns: Columns = None,
    block: Block = None,
    on_error: Errors = "raise",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train a model on the records of LABELLED, whose authors are known.

    It needs at least two blocks in which different authors share a name; dozens are better. Some are held out in turn
    to choose the threshold, and to measure how good the model is on names that it has not seen.
    """
    from grinch.resolve.authors.training import train as train_model

    if out.is_dir() or not out.resolve().parent.is_dir():
        raise FileError(f"--out must be a file in a folder that exists; got {str(out)!r}")
    named = _named(columns, block)
    reading, groups = _read(labelled, named, on_error)
    known = sum(record.author is not None for record in reading.records)
    if not known:
        raise FileError(NO_AUTHORS.format(what="LABELLED", name=labelled.name))
    if known < len(reading.records):
        console.print(
            f"{len(reading.records) - known:,} of them have no author, and only help to see which words are rare."
        )
    with Console(stderr=True, quiet=quiet).status("training") as status:
        model = train_model(
            groups,
            kind=kind,
            rounds=rounds,
            random_state=seed,
            progress=lambda text: status.update(f"training: {text}"),
        )
    try:
        replace(model, columns=named).save(out)
    except OSError as error:
        raise FileError(f"--out must be a file that can be written; got {str(out)!r}: {error}") from error
    found = model.report["held_out"]
    console.print(
        f"Pairwise F1 on {found['names']:,} held-out names: [bold]{found['f1']:.3f}[/bold]"
        f" (threshold {model.threshold:.2f})"
    )
    console.print(f"Written to [bold]{escape(str(out))}[/bold] ({out.stat().st_size / 1024:,.0f} kB)")


@app.command()
def cluster(
    file: Annotated[Path, typer.Argument(metavar="RECORDS", help=f"Records: {FORMATS}")],
    model: ModelFile,
    out: Folder = Path("out"),
    method: MethodName = "grinch",
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            "-t",
            help="The precision that a merge needs, from 0 to 1; higher splits more. Default: that of the model.",
        ),
    ] = None,
    previous: Annotated[
        Path | None, typer.Option(help="authors.csv of an earlier run, whose authors keep their ids.")
    ] = None,
    review: Annotated[int, typer.Option(help="How many doubtful decisions to list in review.csv.")] = 100,
    columns: Columns = None,
    block: Block = None,
    on_error: Errors = "raise",
    jobs: Jobs = 1,
    engine: Annotated[
        Literal["joblib", "dask"], typer.Option(help="joblib: on this machine. dask: on a cluster (grinch[dask]).")
    ] = "joblib",
    address: Annotated[str | None, typer.Option(help="Scheduler of the dask cluster, as tcp://HOST:PORT.")] = None,
    quiet: Quiet = False,
) -> None:
    """Find the author of each record of RECORDS.

    The folder of --out gets an author id for each record (authors.csv, and the same as authors.jsonl), the closest
    decisions with the evidence for each (review.csv), the lines that had a problem (problems.csv), and a summary.

    Blocks are independent of each other. If one fails, its name is printed and its records get no author. Ctrl-C ends
    the work and writes what is finished; the same command then continues from there.
    """
    trained = _load(model)
    if threshold is not None:
        if not 0 <= threshold <= 1:
            raise ValueError(f"--threshold must be between 0 and 1; got {threshold!r}")
        trained = replace(trained, threshold=threshold)
    check_count("--review", review, 0)
    before = None if previous is None else read_authors(previous)
    named = _named(columns, block)
    reading, groups = _read(file, named, on_error, trained.columns)
    make_folder(out)
    write_problems(reading.problems, out / "problems.csv")
    start = time.perf_counter()
    with progress(groups, quiet) as on_done:
        found = resolve(
            groups,
            trained,
            method=method,
            review=review,
            previous=before,
            jobs=jobs,
            engine=engine,
            address=address,
            on_done=on_done,
            checkpoint=out / "finished-blocks",
            stamp=f"{grinch.__version__} {digest(model.read_bytes())}",
        )
    seconds = time.perf_counter() - start
    block_of = {record.id: name for name, group in groups.items() for record in group}
    write_authors(reading.records, found.authors, block_of, out)
    write_review(found.doubts, out / "review.csv")
    summary = {
        "version": grinch.__version__,
        "records": len(reading.records),
        "blocks": len(groups),
        "seconds": round(seconds, 1),
        "authors": len(set(found.authors.values())),
        "failed": found.failures,
        "unfinished": found.unfinished,
        "columns": {**trained.columns, **named},
    }
    with _writing(out / "summary.json") as written:
        written.write(json.dumps(summary, indent=2) + "\n")
    print_resolution(found, out, seconds)
    if found.unfinished:
        raise typer.Exit(130)
    if found.failures:
        raise typer.Exit(1)
    shutil.rmtree(out / "finished-blocks", ignore_errors=True)


@app.command(short_help="Evaluate predicted authors against the true ones.")
def evaluate(
    file: Annotated[Path, typer.Argument(metavar="RECORDS", help=f"Records with authors: {FORMATS}")],
    model: Annotated[Path | None, typer.Option("--model", "-m", help="Model to cluster the records with.")] = None,
    predicted: Annotated[
        Path | None, typer.Option(help="Authors found earlier: a file with the columns id and author.")
    ] = None,
    method: MethodName = "grinch",
    columns: Columns = None,
    block: Block = None,
    on_error: Errors = "raise",
    jobs: Jobs = 1,
    quiet: Quiet = False,
) -> None:
    """Evaluate the predicted authors by the true ones in RECORDS.

    The predicted authors are those of a file (--predicted) or of a model (--model); the latter says little if the model
    was trained on the same records. Two baselines are shown for comparison: one author per block, and one per spelling
    of a name.
    """
    if (model is None) == (predicted is None):
        raise ValueError("give either --model, to cluster the records, or --predicted, a file with their authors")
    trained = None if model is None else _load(model)
    remembered = {} if predicted is None else _columns_beside(predicted)
    if trained is not None:
        remembered = trained.columns
    reading, groups = _read(file, _named(columns, block), on_error, remembered)
    if not any(record.author is not None for record in reading.records):
        raise FileError(NO_AUTHORS.format(what="RECORDS", name=file.name))
    if predicted is not None:
        authors, name = read_authors(predicted), predicted.name
        check_ids(reading.records, authors, predicted)
    else:
        assert trained is not None
        with progress(groups, quiet) as on_done:
            found = resolve(groups, trained, method=method, review=0, jobs=jobs, on_done=on_done)
        if found.unfinished:
            raise KeyboardInterrupt
        print_failures(found.failures)
        authors, name = {**found.authors}, method
    print_comparison(groups, name, authors)
    lost = unreachable_share(groups)
    if lost > 0:
        console.print(
            f"\n{lost:.1%} of the pairs of records of one author are in different blocks, where no method finds them;"
            " they are not counted above."
        )


def _named(columns: list[str] | None, block: str | None) -> dict[str, str]:
    """Return the columns by field that a command names."""
    mapping = {}
    for each in columns or ():
        field, equals, column = each.partition("=")
        if not equals or not column:
            raise ValueError(f"--columns must be FIELD=COLUMN, such as name=author_name; got {each!r}")
        mapping[field] = column
    return mapping if block is None else {**mapping, "block": block}


def _columns_beside(predicted: Path) -> dict[str, str]:
    """Return the columns in the summary.json that was written with a file of authors, if there is one."""
    try:
        noted = json.loads((predicted.parent / "summary.json").read_text(encoding="utf-8")).get("columns")
    except (OSError, ValueError, AttributeError):
        return {}
    return {field: str(column) for field, column in noted.items() if field in FIELDS} if isinstance(noted, dict) else {}


def _read(
    file: Path, named: Mapping[str, str], on_error: OnError, remembered: Mapping[str, str] = {}
) -> tuple[Reading, Blocks]:
    """Return records and blocks; prints how many there are, and their problems."""
    by: Literal["block"] | None = "block" if "block" in {**named, **remembered} else None
    reading = read_records(file, named, on_error, [by] if by else [], remembered)
    groups = blocked(reading.records, by)
    largest = max(groups, key=lambda name: len(groups[name]))
    console.print(
        f"{escape(file.name)}: {len(reading.records):,} records in {len(groups):,} blocks;"
        f" the largest, {escape(repr(largest))}, has {len(groups[largest]):,}"
    )
    for left_out, what in ((True, "lines left out"), (False, "records repaired")):
        if problems := [problem for problem in reading.problems if problem.left_out == left_out]:
            console.print(f"[yellow]{len(problems):,} {what}[/yellow]; the first: {escape(str(problems[0]))}")
    return reading, groups


def _load(path: Path) -> Model:
    if not path.is_file():
        raise FileError(f"--model {str(path)!r} is not a file; make one with: grinch coref train LABELLED -o {path}")
    from grinch.resolve.authors.model import Model

    try:
        return Model.load(path)
    except OSError as error:
        raise FileError(f"--model {str(path)!r} cannot be read: {error.strerror or error}") from error
