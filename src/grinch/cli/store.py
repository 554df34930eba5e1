"""Look after stores and saved files: grinch store ..., grinch convert."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

import grinch
from grinch.cli.app import console, make_folder, new_app, print_facts, print_table, say, size_of
from grinch.cli.options import DtypeName, LinkageName, Out, StoreCut, StorePath
from grinch.errors import SavedModelError
from grinch.io.read import FileError
from grinch.io.trees import write_clusters, write_clusters_parquet, write_newick, write_tree_parquet
from grinch.legacy import convert as convert_old
from grinch.plots.style import counted
from grinch.store.lock import StoreLocked, describe, holder
from grinch.store.opening import is_store, replay
from grinch.store.recovery import recover

# Columns that are there in any case; and payloads of more fields than this are one column, as JSON.
TAKEN, MAX_FIELDS = ("id", "cluster", "name", "payload"), 500
NewPath = Annotated[Path, Argument(metavar="NEW", help="The folder for the new store; it must not exist yet.")]

upkeep = new_app("""Check, copy, export and rebuild a store.

A store is a folder that grinch add creates: a clustering on disk that points are added to from day to day.

\b
For example:
  grinch store info news
  grinch store export news --format parquet --out tables
  grinch store backup news /backups/news-monday
  grinch store recover news news-again""")


def open_existing(path: Path, readonly: bool = False) -> Any:
    """Open the store in a folder, if there is one."""
    if path.is_file():
        raise FileError(f"STORE {str(path)!r} is a file; a store is a folder. Make one with: grinch add STORE {path}")
    if not path.exists():
        raise FileError(f"STORE {str(path)!r} does not exist; make it with: grinch add {path} FILE")
    if not is_store(path):
        raise FileError(f"STORE {str(path)!r} is a folder without a store in it; make one with: grinch add STORE FILE")
    with _errors_for_commands(path):
        return grinch.open(path, readonly=readonly)


def open_or_create(path: Path, **settings: Any) -> Any:
    """Open the store in a folder, or create one with these settings."""
    if path.is_file():
        raise FileError(f"STORE {str(path)!r} is a file; a store is a folder: grinch add STORE FILE")
    with _errors_for_commands(path):
        return grinch.open(path, **{name: value for name, value in settings.items() if value is not None})


@contextmanager
def _errors_for_commands(path: Path) -> Iterator[None]:
    """Raise errors of opening a store with what to do on the command line instead of in Python."""
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


def _state(opened: Any) -> str:
    return f"{counted(len(opened), 'point')}, version {opened.version}"


@upkeep.command()
def info(store: StorePath) -> None:
    """Show the contents of a store and its size on disk."""
    with open_existing(store, readonly=True) as opened:
        about = opened.info()
        sizes = {name: len(set(opened.labels(name).tolist()) - {-1}) for name in opened.cuts()}
    behind, removed = about["operations_since_snapshot"], about["rows_of_removed_points"]
    facts = {
        "points": f"{about['points']:,}",
        "features": f"{about['n_features']:,}, as {about['dtype']}" if about["n_features"] else "none yet",
        "linkage": about["linkage"] + (f" ({about['metric']})" if about["metric"] else ""),
        "version": f"{about['version']:,}" + (f", {behind:,} of them since the last snapshot" if behind else ""),
        **{"clusters" if name == "default" else f"clusters, {name}": f"{n:,}" for name, n in sizes.items()},
        **({"removed": f"{counted(removed, 'row')} on disk until grinch store compact"} if removed else {}),
        "writer": describe(about["writer"]) if about["writer"] else "nobody",
    }
    print_facts(facts)
    files, n = about["bytes"], about["points"]
    if files:
        say("")
        rows = [*files.items(), ("in all", sum(files.values()))]
        cells = [(f"  {name}", size_of(size), f"{size / n:,.0f}" if n else "") for name, size in rows]
        print_table(["  on disk", "", "bytes per point"], cells, left=["  on disk"])


@upkeep.command()
def check(store: StorePath) -> None:
    """Verify every file, checksum and link of a store.

    If something is wrong, it is named, and the exit code is 2.
    """
    with open_existing(store, readonly=True) as opened:
        opened.check()
        say(f"{_state(opened)}: all is well")


@upkeep.command()
def compact(store: StorePath) -> None:
    """Delete removed and replaced points from the files."""
    before = _bytes_in(store)
    with open_existing(store) as opened:
        opened.compact()
        state = _state(opened)
    say(f"{state}: {size_of(_bytes_in(store))} on disk, {size_of(before)} before")


@upkeep.command()
def snapshot(store: StorePath) -> None:
    """Write a snapshot of the tree, so that opening is fast."""
    with open_existing(store) as opened:
        opened.snapshot()
        say(f"{_state(opened)}: written")


@upkeep.command()
def backup(
    store: StorePath,
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder for the copy; it must not exist yet.")],
) -> None:
    """Copy a store, also while another process writes to it.

    The copy is that of the last version.
    """
    with open_existing(store, readonly=True) as opened:
        opened.backup(folder)
        say(f"{_state(opened)}: copied to {folder}/ ({size_of(_bytes_in(folder))})")


@upkeep.command(name="recover")
def rebuild(
    store: Annotated[Path, Argument(metavar="FOLDER", help="The folder of the damaged store.")],
    new: NewPath,
    linkage: Annotated[LinkageName | None, Option(metavar="NAME", help="Its linkage, if no file has it.")] = None,
    metric: Annotated[str | None, Option(metavar="NAME", help="Its metric, if no file has it.")] = None,
    dtype: Annotated[DtypeName | None, Option(help="The type of its vectors, if no file has it.")] = None,
) -> None:
    """Rebuild a damaged store in a new folder.

    What was recovered and what was lost is printed. Nothing in FOLDER is changed. The tree and the clusters are those
    of the last whole snapshot, and of the operations since then in the database; of the database, all rows are taken
    that can be read.
    """
    with _errors_for_commands(store):
        found = recover(store, new, linkage=linkage, metric=metric, dtype=dtype)
    say(f"{counted(found.points, 'point')}, version {found.version}: written to {new}/")
    cuts = ", ".join(f"{count:,} of cut {name}" for name, count in found.clusters.items())
    print_facts(
        {
            "ids": f"{found.ids:,} points have those that they had",
            "payloads": f"{found.payloads:,}",
            "clusters": f"{cuts}, with the ids that they had" if cuts else "made again, with new ids",
            "names of clusters": f"{found.names:,}",
        },
        width=18,
    )
    say("")
    say("Lost, or uncertain:" if found.lost else "All of it was recovered.")
    for line in found.lost:
        say(f"- {line}", "  ", "  ")


@upkeep.command(name="replay")
def redo(store: StorePath, new: NewPath) -> None:
    """Take over a store of another release, in a new folder.

    The store is copied to NEW, and its operations since the last snapshot are done again by this release. This is for a
    store that cannot be opened because another engine of grinch wrote to it last, and did not close it. The tree in
    NEW, and so its clusters, may differ from those in STORE, which is not changed.
    """
    with _errors_for_commands(store):
        done = replay(store, new)
    say(
        f"Version {done.version}: written to {new}/, with {counted(done.operations, 'operation')} done again,"
        f" {done.of_others:,} of them by another engine before"
    )
    if done.of_others:
        say(f"Its tree and its clusters may differ from those in {store}.")


@upkeep.command()
def export(
    store: StorePath,
    format: Annotated[
        Literal["parquet", "newick", "csv"],
        Option(
            help="parquet: tree.parquet, a row for each node, and clusters.parquet, a row for each point; newick:"
            " tree.nwk; csv: clusters.csv."
        ),
    ] = "parquet",
    cut: StoreCut = "default",
    out: Out = Path("grinch-out"),
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
        say(f"{_state(opened)}: written to {out}/ ({', '.join(written)})")


def payload_columns(payloads: list[Any]) -> dict[str, list[Any]]:
    """Return a column for each field; payloads that have no fields are a column of their own, as JSON.

    >>> payload_columns([{"title": "A", "name": "x"}, None, "text"])
    {'payload': [None, None, '"text"'], 'title': ['A', None, None], 'payload.name': ['x', None, None]}
    """
    fields = dict.fromkeys(field for payload in payloads if isinstance(payload, dict) for field in payload)
    if len(fields) > MAX_FIELDS:
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


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def convert(
    old: Annotated[Path, Argument(metavar="OLD", help="A saved model, text vectors, a coreference model, or a store.")],
    new: Annotated[Path, Argument(metavar="NEW", help="The file or folder to write; it must not exist yet.")],
) -> None:
    """Convert a file or a store of an earlier format.

    OLD is not changed, and nothing in it is executed. Example:

    grinch convert model.grinch new.grinch
    """
    if new.exists():
        raise typer.BadParameter(f"{str(new)!r} is there already; give a name that is free", param_hint="NEW")
    console.print(f"{new} holds the {convert_old(old, new)} of {old}")
