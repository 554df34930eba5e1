"""The upkeep of a store: grinch store …"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

import grinch
from grinch.cli.app import LinkageName, app, make_folder, say, screen
from grinch.cli.options import DtypeName
from grinch.errors import SavedModelError
from grinch.io.read import FileError
from grinch.io.trees import write_clusters, write_clusters_parquet, write_newick, write_tree_parquet
from grinch.store.lock import StoreLocked, describe, holder
from grinch.store.opening import is_store
from grinch.store.recovery import recover
from grinch.store.replay import replay

FormatName = Literal["parquet", "newick", "csv"]
StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="The folder of the store.")]
# Columns that are there in any case; and payloads of more fields than this are one column, as JSON.
TAKEN, MOST_FIELDS = ("id", "cluster", "name", "payload"), 500
CutName = Annotated[str, typer.Option(metavar="NAME", help="Which of the cuts of the store.")]
NewPath = Annotated[Path, typer.Argument(metavar="NEW", help="The folder for the new store; it must not be there yet.")]

upkeep = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="""Look after a store: what is in it, whether it is whole, copies of it, and other formats.

A store is a folder that grinch add makes: a clustering that outlives the process and grows day by day.

\b
For example:
  grinch store info news
  grinch store export news --format parquet --out tables
  grinch store backup news /backups/news-monday
  grinch store recover news news-again""",
    short_help="Look after a store: check it, copy it, export it, rebuild it.",
)
app.add_typer(upkeep, name="store")


def open_existing(path: Path, readonly: bool = False) -> Any:
    """The store in a folder, if there is one."""
    if path.is_file():
        raise FileError(f"STORE {str(path)!r} is a file; a store is a folder. Make one with: grinch add STORE {path}")
    if not path.exists():
        raise FileError(f"STORE {str(path)!r} does not exist; make it with: grinch add {path} FILE")
    if not is_store(path):
        raise FileError(f"STORE {str(path)!r} is a folder without a store in it; make one with: grinch add STORE FILE")
    with _said_for_commands(path):
        return grinch.open(path, readonly=readonly)


def open_or_create(path: Path, **settings: Any) -> Any:
    """The store in a folder, or a new one with these settings."""
    if path.is_file():
        raise FileError(f"STORE {str(path)!r} is a file; a store is a folder: grinch add STORE FILE")
    with _said_for_commands(path):
        return grinch.open(path, **{name: value for name, value in settings.items() if value is not None})


@contextmanager
def _said_for_commands(path: Path) -> Iterator[None]:
    """Errors of opening a store, with what to do on the command line instead of in Python."""
    try:
        yield
    except StoreLocked:
        raise StoreLocked(
            f"{path} is being written to by {describe(holder(path))}. Wait until it is done; grinch clusters and"
            " grinch changes read beside it"
        ) from None
    except SavedModelError as error:
        needed = re.search(r"needs '(([^':]+):[^']*)'", str(error))
        if needed:
            raise FileError(
                f"STORE {str(path)!r} needs {needed[1]!r}, a linkage or search of your own; say where it is:"
                f" grinch --import {needed[2]} COMMAND ..."
            ) from error
        if "a file cannot hold" in str(error):
            raise FileError(
                f"STORE {str(path)!r} was made with a linkage or search that has no name in a module, so that only"
                " Python can open it: grinch.open(folder, linkage=...). Functions at the top of a module are found with"
                " grinch --import MODULE COMMAND ..."
            ) from error
        raise
    except ValueError as error:
        if "n_clusters, threshold, cut and layer are for a new store" in str(error):
            raise FileError(
                f"--clusters, --threshold and --layer are for a new store, and {str(path)!r} is cut in another way."
                f" Follow another cut with: grinch cuts {path} --add NAME --clusters N"
            ) from None
        raise


def count_of(n: int, what: str) -> str:
    """As in "1 point" and "2,000 points"."""
    return f"{n:,} {what}" + ("" if n == 1 else "s")


@upkeep.command(short_help="What is in a store, and what it takes on disk.")
def info(store: StorePath) -> None:
    """Show how many points, features, versions and clusters a store has, and what it takes on disk."""
    with open_existing(store, readonly=True) as opened:
        about, cuts, sizes = opened.info(), opened.cuts(), {}
        for name in cuts:
            sizes[name] = len(set(opened.labels(name).tolist()) - {-1})
        behind = about["operations_since_snapshot"]
        metric = f" ({about['metric']})" if about["metric"] else ""
        facts = {
            "points": f"{about['points']:,}",
            "features": f"{about['n_features']:,}, as {about['dtype']}" if about["n_features"] else "none yet",
            "linkage": f"{about['linkage']}{metric}",
            "version": f"{about['version']:,}" + (f", {behind:,} of them since the last snapshot" if behind else ""),
            **{_cut_title(name): f"{size:,}" for name, size in sizes.items()},
            "removed": f"{count_of(about['rows_of_removed_points'], 'row')} on disk until grinch store compact",
            "writer": describe(about["writer"]) if about["writer"] else "nobody",
        }
        if not about["rows_of_removed_points"]:
            del facts["removed"]
    for name, fact in facts.items():
        say(f"{name:17} {fact}", "  ", " " * 18)
    _print_bytes(about["bytes"], about["points"])


@upkeep.command(short_help="Verify that a store is whole.")
def check(store: StorePath) -> None:
    """Verify every file, checksum and link of a store; what is wrong is said, and the exit code is 2."""
    with open_existing(store, readonly=True) as opened:
        opened.check()
        say(f"{count_of(len(opened), 'point')}, version {opened.version}: all is well")


@upkeep.command(short_help="Take removed points off the disk.")
def compact(store: StorePath) -> None:
    """Write the files of a store again without what was removed or replaced."""
    before = _bytes_in(store)
    with open_existing(store) as opened:
        opened.compact()
        left = f"{count_of(len(opened), 'point')}, version {opened.version}"
    say(f"{left}: {size_of(_bytes_in(store))} on disk, {size_of(before)} before")


@upkeep.command(short_help="Write down the tree as it is, so that opening is quick.")
def snapshot(store: StorePath) -> None:
    """Write down the tree as it is, so that the next to open the store has nothing to catch up with."""
    with open_existing(store) as opened:
        opened.snapshot()
        say(f"{count_of(len(opened), 'point')}, version {opened.version}: written")


@upkeep.command(short_help="Copy a store, also while somebody writes to it.")
def backup(
    store: StorePath,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the copy goes; it must not be there yet.")],
) -> None:
    """Copy a store to another folder, as of its last version; somebody may be writing to it meanwhile."""
    with open_existing(store, readonly=True) as opened:
        opened.backup(folder)
        say(
            f"{count_of(len(opened), 'point')}, version {opened.version}: copied to {folder}/"
            f" ({size_of(_bytes_in(folder))})"
        )


@upkeep.command(name="recover", short_help="Rebuild a damaged store in a new folder.")
def rebuild(
    store: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the damaged store.")],
    new: NewPath,
    linkage: Annotated[
        LinkageName | None, typer.Option(metavar="NAME", help="The linkage of the store, where nothing left says it.")
    ] = None,
    metric: Annotated[str | None, typer.Option(metavar="NAME", help="Its metric, where nothing left says it.")] = None,
    dtype: Annotated[DtypeName | None, typer.Option(help="How numbers are kept, where nothing left says it.")] = None,
) -> None:
    """Rebuild in the folder NEW what can be rebuilt of a damaged store, and say what came back and what did not.

    Nothing in FOLDER is changed. The tree and the clusters are those of the last whole snapshot, and of what the
    database says was done since; of the database, all rows are taken that can be read.
    """
    with _said_for_commands(store):
        found = recover(store, new, linkage=linkage, metric=metric, dtype=dtype)
    say(f"{count_of(found.points, 'point')}, version {found.version}: written to {new}/")
    cuts = ", ".join(f"{count:,} of cut {name}" for name, count in found.clusters.items())
    for name, fact in {
        "ids": f"{found.ids:,} points have those that they had",
        "payloads": f"{found.payloads:,}",
        "clusters": f"{cuts}, with the ids that they had" if cuts else "made again, with new ids",
        "names of clusters": f"{found.names:,}",
    }.items():
        say(f"{name:18} {fact}", "  ", " " * 19)
    say("")
    say("What did not come back, or is not sure:" if found.lost else "All of it came back.")
    for line in found.lost:
        say(f"- {line}", "  ", "  ")


@upkeep.command(name="replay", short_help="Take over a store of another release, in a new folder.")
def redo(store: StorePath, new: NewPath) -> None:
    """Copy a store to the folder NEW, with its operations since the last snapshot done again by this release.

    For a store that cannot be opened because another engine of grinch wrote to it last, and did not close it. The tree
    in NEW, and so its clusters, may differ from those in STORE, which is not changed.
    """
    with _said_for_commands(store):
        done = replay(store, new)
    say(
        f"Version {done.version}: written to {new}/, with {count_of(done.operations, 'operation')} done again,"
        f" {done.of_others:,} of them by another engine before"
    )
    if done.of_others:
        say(f"Its tree and its clusters may differ from those in {store}.")


@upkeep.command(short_help="Write the tree and the clusters of a store to files.")
def export(
    store: StorePath,
    format: Annotated[
        FormatName,
        typer.Option(
            help="parquet: tree.parquet, a row for each node, and clusters.parquet, a row for each point; newick:"
            " tree.nwk; csv: clusters.csv."
        ),
    ] = "parquet",
    cut: CutName = "default",
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the files; made if it is not there.")
    ] = Path("grinch-out"),
) -> None:
    """Write the tree and the clusters of a store to files.

    The clusters are a row for each point: id, cluster, name of the cluster, and a column for each field of the payload
    (fields that are called like one of the others are called payload.FIELD). In .csv files, text that a spreadsheet
    would run as a formula gets a single quote in front.
    """
    with open_existing(store, readonly=True) as opened:
        make_folder(out)
        ids = list(opened.ids)
        if format == "newick":
            write_newick(opened.tree, out / "tree.nwk", ids)
            written = ["tree.nwk"]
        else:
            labels, names = opened.labels(cut), opened.names(cut)
            named = [names.get(cluster) for cluster in labels.tolist()]
            columns = {"name": named, **payload_columns(opened.payload(ids))}
            if format == "csv":
                write_clusters(out / "clusters.csv", labels, ids, columns=columns)
                written = ["clusters.csv"]
            else:
                write_tree_parquet(opened.tree, out / "tree.parquet", ids)
                write_clusters_parquet(out / "clusters.parquet", labels, ids, columns)
                written = ["tree.parquet", "clusters.parquet"]
        say(f"{count_of(len(ids), 'point')}, version {opened.version}: written to {out}/ ({', '.join(written)})")


def payload_columns(payloads: list[Any]) -> dict[str, list[Any]]:
    """A column for each field; payloads that have no fields are a column of their own, as JSON.

    >>> payload_columns([{"title": "A", "name": "x"}, None, "text"])
    {'payload': [None, None, '"text"'], 'title': ['A', None, None], 'payload.name': ['x', None, None]}
    """
    fields = dict.fromkeys(field for payload in payloads if isinstance(payload, dict) for field in payload)
    if len(fields) > MOST_FIELDS:
        fields = {}
    found: dict[str, list[Any]] = {}
    rest = [None if payload is None or (fields and isinstance(payload, dict)) else payload for payload in payloads]
    if any(payload is not None for payload in rest):
        found["payload"] = [None if payload is None else json.dumps(payload) for payload in rest]
    for field in fields:
        name = f"payload.{field}" if field in TAKEN else field
        found[name] = [_cell(payload.get(field)) if isinstance(payload, dict) else None for payload in payloads]
    return found


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def _cut_title(name: str) -> str:
    return "clusters" if name == "default" else f"clusters, {name}"


def _print_bytes(sizes: dict[str, int], n: int) -> None:
    if not sizes:
        return
    table = Table(box=None, pad_edge=False)
    for name in ("  on disk", "", "bytes a point"):
        table.add_column(name, justify="left" if name == "  on disk" else "right")
    total = sum(sizes.values())
    for name, size in [*sizes.items(), ("in all", total)]:
        table.add_row(f"  {name}", size_of(size), f"{size / n:,.0f}" if n else "")
    say("")
    screen().print(table)


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def size_of(count: float) -> str:
    """Bytes as a person reads them.

    >>> size_of(999), size_of(12_345), size_of(5_000_000_000)
    ('999 bytes', '12.3 kB', '5.0 GB')
    """
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:,.1f} {unit}"
    return f"{count / 1000:,.1f} GB"
