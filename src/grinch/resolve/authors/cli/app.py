"""The command line of author coreference: grinch coref …"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

import grinch
from grinch._checks import check_count
from grinch.io.read import FileError
from grinch.io.write import digest
from grinch.resolve.authors.cli.messages import (
    Blocks,
    check_ids,
    comparison,
    console,
    print_failures,
    print_reading,
    print_resolution,
    progress,
)
from grinch.resolve.authors.cli.output import (
    read_authors,
    write_authors,
    write_problems,
    write_records,
    write_review,
    write_summary,
)
from grinch.resolve.authors.records.blocking import blocks as blocked
from grinch.resolve.authors.records.record import FIELDS, Reading, read_records
from grinch.resolve.authors.records.synthetic import make_records
from grinch.resolve.authors.results.evaluation import unreachable_share
from grinch.resolve.authors.runs import resolve

if TYPE_CHECKING:
    from grinch.resolve.authors.learned.model import Model

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Which records are of the same author? Records in, author ids out.

A record is one author's name on one publication, with title, coauthors, venue, year and so on, where they are known.
Records with the same last name and first initial form a block. In each block, the records of one person are found by a
model that you train on records whose authors are known.

\b
Try it, without data of your own:
  grinch coref sample -o labelled.jsonl --seed 1
  grinch coref sample -o records.jsonl --seed 2
  grinch coref train labelled.jsonl -o model.grinch
  grinch coref cluster records.jsonl --model model.grinch -o out
  grinch coref evaluate records.jsonl --predicted out/authors.csv""",
)

Method = Literal["grinch", "rotate", "online", "mb-hac", "hac"]
Kind = Literal["boosting", "logistic"]
Engine = Literal["joblib", "dask"]
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
        help=f"The column of a field that has another name; may be repeated. Fields: {', '.join(FIELDS)}.",
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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
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
    """Make up labelled records to try things on."""
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
    kind: Annotated[Kind, typer.Option(help="Kind of model: boosted trees, or logistic regression.")] = "boosting",
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
    reading, groups = _read(labelled, columns, block, on_error)
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
        model.save(out)
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
            help="How sure to be, from 0 to 1; higher splits more. Default: the threshold of the model.",
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
        Engine, typer.Option(help="joblib: on this machine. dask: on a cluster (grinch[dask]).")
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
    reading, groups = _read(file, columns, block, on_error)
    _make_folder(out)
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
    write_authors(reading.records, found.authors, _block_of(groups), out)
    write_review(found.doubts, out / "review.csv")
    summary = {
        "version": grinch.__version__,
        "records": len(reading.records),
        "blocks": len(groups),
        "seconds": round(seconds, 1),
        "authors": len(set(found.authors.values())),
        "failed": found.failures,
        "unfinished": found.unfinished,
    }
    write_summary(summary, out / "summary.json")
    print_resolution(found, out, seconds)
    if found.unfinished:
        raise typer.Exit(130)
    if found.failures:
        raise typer.Exit(1)
    shutil.rmtree(out / "finished-blocks", ignore_errors=True)


@app.command(short_help="Measure how good the found authors are.")
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
    """Measure how good the found authors are, given the true ones in RECORDS.

    They are either those of a file (--predicted) or those that a model finds (--model); the latter says little about a
    model that was trained on the same records. Two baselines are shown for comparison: one author per block, and one
    per spelling of a name.
    """
    if (model is None) == (predicted is None):
        raise ValueError("give either --model, to cluster the records, or --predicted, a file with their authors")
    reading, groups = _read(file, columns, block, on_error)
    if not any(record.author is not None for record in reading.records):
        raise FileError(NO_AUTHORS.format(what="RECORDS", name=file.name))
    if predicted is not None:
        authors, name = read_authors(predicted), predicted.name
        check_ids(reading.records, authors, predicted)
    else:
        assert model is not None
        trained = _load(model)
        with progress(groups, quiet) as on_done:
            found = resolve(groups, trained, method=method, review=0, jobs=jobs, on_done=on_done)
        if found.unfinished:
            raise KeyboardInterrupt
        print_failures(found.failures)
        authors, name = {**found.authors}, method
    console.print(comparison(groups, name, authors))
    lost = unreachable_share(groups)
    if lost > 0:
        console.print(
            f"\n{lost:.1%} of the pairs of records of one author are in different blocks, where no method finds them;"
            " they are not counted above."
        )


def _read(file: Path, columns: list[str] | None, block: str | None, on_error: OnError) -> tuple[Reading, Blocks]:
    """Records and blocks; prints how many there are, and their problems."""
    mapping = {}
    for each in columns or ():
        field, equals, column = each.partition("=")
        if not equals or not column:
            raise ValueError(f"--columns must be FIELD=COLUMN, such as name=author_name; got {each!r}")
        mapping[field] = column
    if block is not None:
        mapping["block"] = block
    reading = read_records(file, mapping, on_error, ["block"] if block is not None else [])
    groups = blocked(reading.records, None if block is None else "block")
    print_reading(file, reading, groups)
    return reading, groups


def _load(path: Path) -> Model:
    if not path.is_file():
        raise FileError(f"--model {str(path)!r} is not a file; make one with: grinch coref train LABELLED -o {path}")
    from grinch.resolve.authors.learned.model import Model

    try:
        return Model.load(path)
    except OSError as error:
        raise FileError(f"--model {str(path)!r} cannot be read: {error.strerror or error}") from error


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"--out must be a folder that can be created; got {str(out)!r}: {error}") from None


def _block_of(groups: Blocks) -> dict[str, str]:
    return {record.id: name for name, group in groups.items() for record in group}
