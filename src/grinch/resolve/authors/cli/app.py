"""The command line of author coreference: grinch coref …"""

from __future__ import annotations

import hashlib
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

import grinch
from grinch.files.read import FileError
from grinch.resolve.authors.cli.output import read_authors, write_authors, write_problems, write_records, write_review
from grinch.resolve.authors.cli.telling import (
    Blocks,
    check_ids,
    compared,
    console,
    progress,
    tell_failures,
    tell_reading,
    tell_resolution,
)
from grinch.resolve.authors.records.blocking import blocks as blocked
from grinch.resolve.authors.records.record import FIELDS, Reading, read_records
from grinch.resolve.authors.records.synthetic import make_records
from grinch.resolve.authors.results.judging import out_of_reach
from grinch.resolve.authors.runs.resolve import resolve

if TYPE_CHECKING:
    from grinch.resolve.authors.learned.model import Model

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Which records are of one author? Records in, author ids out.

A record is one author's name on one publication, with title, coauthors, venue, year and so on, as far as is known.
Records with the same last name and first initial form a block, and in each block those of one person are found, by a
model that you train on records whose authors are known.

[bold]Try it, without data of your own:[/bold]

- grinch coref sample -o labelled.jsonl --seed 1

- grinch coref sample -o records.jsonl --seed 2

- grinch coref train labelled.jsonl -o model.grinch

- grinch coref cluster records.jsonl --model model.grinch -o out

- grinch coref evaluate records.jsonl --predicted out/authors.csv""",
)

Method = Literal["grinch", "rotate", "online", "mb-hac", "hac"]
Kind = Literal["boosting", "logistic"]
Engine = Literal["joblib", "dask"]
OnError = Literal["raise", "skip"]

FORMATS = "JSON lines (.jsonl, .json), a table (.csv, .tsv), all also in .gz or .xz, or .parquet."

NO_AUTHORS = (
    "{what} must have records with authors; {name!r} has none in a column known to hold them."
    " Say which one does: --columns author=COLUMN"
)
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="FIELD=COLUMN",
        help=f"The column of a field, if it has another name; may be repeated. Fields: {', '.join(FIELDS)}.",
    ),
]
Block = Annotated[
    str | None,
    typer.Option(
        "--block", metavar="COLUMN", help="Column that tells the block, instead of last name and first initial."
    ),
]
Errors = Annotated[
    OnError, typer.Option("--on-error", help="At a line that cannot be used: stop, or leave it out and tell of it.")
]
Folder = Annotated[Path, typer.Option("--out", "-o", help="Folder for the results; made if it is not there.")]
Seed = Annotated[int, typer.Option(help="Seed of all that is random.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, and only the result in words.")]
ModelFile = Annotated[Path, typer.Option("--model", "-m", help="Model made by grinch coref train.")]
MethodName = Annotated[Method, typer.Option("--method", help="How records are clustered.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", help="Processes on this machine; -1 for one on each core.")]


@app.command()
def sample(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write, as JSON lines.")] = Path("records.jsonl"),
    authors: Annotated[int, typer.Option(help="How many authors.")] = 120,
    blocks: Annotated[int, typer.Option(help="How many names they share.")] = 12,
    seed: Seed = 0,
) -> None:
    """Make up labelled records, to try things on."""
    records = make_records(authors, blocks, seed)
    write_records(records, out)
    console.print(
        f"{len(records):,} records of {authors:,} made-up authors who share {blocks:,} names: written to {out}"
    )


@app.command()
def train(
    labelled: Annotated[Path, typer.Argument(metavar="LABELLED", help=f"Records with authors: {FORMATS}")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the model.")] = Path("model.grinch"),
    kind: Annotated[Kind, typer.Option(help="What the model is: boosted trees, or logistic regression.")] = "boosting",
    rounds: Annotated[int, typer.Option(help="How often it learns from the merges it proposes itself.")] = 3,
    columns: Columns = None,
    block: Block = None,
    on_error: Errors = "raise",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train a model on the records of LABELLED, whose authors are known.

    It needs at least two blocks in which different authors share a name; dozens are better. Some are held out in turn,
    to choose the threshold by and to tell how good the model is on names it has not seen.
    """
    from grinch.resolve.authors.training import train as train_model

    if out.is_dir() or not out.resolve().parent.is_dir():
        raise FileError(f"--out must be a file in a folder that is there; got {str(out)!r}")
    reading, groups = _read(labelled, columns, block, on_error)
    known = sum(record.author is not None for record in reading.records)
    if not known:
        raise FileError(NO_AUTHORS.format(what="LABELLED", name=labelled.name))
    if known < len(reading.records):
        console.print(
            f"{len(reading.records) - known:,} of them have no author, and are only used to see which words are rare."
        )
    with Console(stderr=True, quiet=quiet).status("training") as status:
        model = train_model(
            groups,
            kind=kind,
            rounds=rounds,
            random_state=seed,
            progress=lambda words: status.update(f"training: {words}"),
        )
    model.save(out)
    found = model.report["held_out"]
    console.print(
        f"On {found['names']:,} names held out in turn, the pairs of records put together have an F1 of"
        f" [bold]{found['f1']:.3f}[/bold] (threshold {model.threshold:.2f})"
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
            help="How sure to be, from 0 to 1; higher splits more. Default: the model's own.",
        ),
    ] = None,
    previous: Annotated[
        Path | None, typer.Option(help="An authors.csv of before: authors who are still there keep their ids.")
    ] = None,
    review: Annotated[int, typer.Option(help="How many doubtful decisions are listed in review.csv.")] = 100,
    columns: Columns = None,
    block: Block = None,
    on_error: Errors = "raise",
    jobs: Jobs = 1,
    engine: Annotated[
        Engine, typer.Option(help="joblib: on this machine. dask: on a cluster (grinch\\[dask]).")
    ] = "joblib",
    address: Annotated[str | None, typer.Option(help="Scheduler of the dask cluster, as tcp://HOST:PORT.")] = None,
    quiet: Quiet = False,
) -> None:
    """Find the author of each record of RECORDS.

    Into the folder of --out go an author id for each record (authors.csv, and the same as authors.jsonl), the decisions
    that were nearest to falling the other way with what speaks for each (review.csv), the lines that something was
    wrong with (problems.csv), and a summary.

    Blocks are independent of each other. One that fails is told by its name, and its records are left without an
    author. Ctrl-C ends the work, and what is finished is written; the same command then goes on from there.
    """
    trained = _load(model)
    if threshold is not None:
        if not 0 <= threshold <= 1:
            raise ValueError(f"--threshold must be between 0 and 1; got {threshold!r}")
        trained = replace(trained, threshold=threshold)
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
            stamp=f"{grinch.__version__} {hashlib.blake2b(model.read_bytes()).hexdigest()}",
        )
    seconds = time.perf_counter() - start
    write_authors(reading.records, found.authors, _block_of(groups), out)
    write_review(found.doubts, out / "review.csv")
    tell_resolution(found, out, {"records": len(reading.records), "blocks": len(groups), "seconds": round(seconds, 1)})
    if found.unfinished:
        raise typer.Exit(130)
    if found.failures:
        raise typer.Exit(1)
    shutil.rmtree(out / "finished-blocks", ignore_errors=True)


@app.command()
def evaluate(
    file: Annotated[Path, typer.Argument(metavar="RECORDS", help=f"Records with authors: {FORMATS}")],
    model: Annotated[Path | None, typer.Option("--model", "-m", help="Model to cluster the records by.")] = None,
    predicted: Annotated[
        Path | None, typer.Option(help="Authors found earlier, to be judged: columns id and author.")
    ] = None,
    method: MethodName = "grinch",
    columns: Columns = None,
    block: Block = None,
    on_error: Errors = "raise",
    jobs: Jobs = 1,
    quiet: Quiet = False,
) -> None:
    """Tell how good authors are that were found, given the true ones.

    Either those of a file (--predicted), or those that a model finds (--model); which tells little about a model that
    was trained on the same records. Beside them stand two simple ways: one author for each block, and one for each
    name as it is written.
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
        tell_failures(found.failures)
        authors, name = {**found.authors}, method
    console.print(compared(groups, {name: authors}))
    lost = out_of_reach(groups)
    if lost > 0:
        console.print(
            f"\n{lost:.1%} of the pairs of records of one author are in different blocks, where no method can find"
            " them; they are not counted above."
        )


def _read(file: Path, columns: list[str] | None, block: str | None, on_error: OnError) -> tuple[Reading, Blocks]:
    """Records and blocks; and in words, what they are and what is wrong with them."""
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
    tell_reading(file, reading, groups)
    return reading, groups


def _load(path: Path) -> Model:
    if not path.is_file():
        raise FileError(f"--model {str(path)!r} is not there; make one with: grinch coref train LABELLED -o {path}")
    from grinch.resolve.authors.learned.model import Model

    return Model.load(path)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"--out must be a folder that can be made or written to; got {str(out)!r}: {error}") from None


def _block_of(groups: Blocks) -> dict[str, str]:
    return {record.id: name for name, group in groups.items() for record in group}
