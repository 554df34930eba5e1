"""Bytes of a store that change on disk: what is read is right, or an error names the file, says why and what to do."""

import re
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import grinch
from effort import trials
from grinch.store import DamagedStore
from grinch.store.database import Database, row_checksum
from grinch.store.snapshots import read_snapshot
from killing import kills
from store.made import die_after, execute, overwrite, points, snapshot_of
from store.made import flip as flip_bit

PAGE = 4096


def write(folder):
    """A store with something in every table, and changes since its last snapshot."""
    store = grinch.open(folder, n_clusters=5)
    store.insert(points(200), ids=[f"p{i}" for i in range(200)], payload=[{"n": i, "t": "x" * i} for i in range(200)])
    store.label(0, "zero")
    store.add_cut("fine", n_clusters=12)
    store.remove(["p3", "p4"])
    store.snapshot()
    store.insert(points(40, 5), ids=[f"q{i}" for i in range(40)], payload=[{"q": i} for i in range(40)])
    store.update(["p7"], points(1, 9))
    store.label(1, "one")
    store.remove(["p9"])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "store"

    die_after(lambda: write(folder))
    execute(folder / "store.sqlite")
    return folder


@pytest.fixture
def copies(made, tmp_path):
    """Makes copies of the store whose snapshots count as written here: those are not verified when they are opened."""

    def copy(number):
        folder = shutil.copytree(made, tmp_path / str(number))
        with closing(Database(folder, readonly=False)) as database, database.changing():
            status = (folder / database.get("snapshot")).stat()
            database.set("snapshot_is", [status.st_dev, status.st_ino])
        return folder

    return copy


def read(folder, readonly):
    """All that can be read of a store, before and after a few changes; what was read before an error is with it."""
    found = {}
    try:
        with grinch.open(folder, readonly=readonly) as store:
            found["ids"], found["version"], found["tree"] = store.ids, store.version, store.tree.to_newick()
            found["payload"], found["arrived"] = store.payload(store.ids), store.arrived().tolist()
            for cut in store.cuts():
                found[f"labels of {cut}"], found[f"clusters of {cut}"] = store.labels(cut).tolist(), store.clusters(cut)
                found[f"changes of {cut}"] = [str(change) for change in store.changes(0, cut)]
            found["found"] = store.find_text("p1")
            if not readonly:
                store.insert(points(4, 77), ids=list("abcd"))
                store.remove(["p20"])
            store.check()
            found["after"] = kills.state_of(store)
    except BaseException as error:
        return found, error
    return found, None


def flip(data, at, rng):
    data[at] ^= 1 << int(rng.integers(8))


def zero_some(data, at, rng):
    data[at : at + 16] = bytes(len(data[at : at + 16]))


def page_at(at):
    return slice(at // PAGE * PAGE, at // PAGE * PAGE + PAGE)


def zero_page(data, at, rng):
    data[page_at(at)] = bytes(len(data[page_at(at)]))


def noise_in_page(data, at, rng):
    data[page_at(at)] = rng.bytes(len(data[page_at(at)]))


def swap_pages(data, at, rng):
    one, other = page_at(at), page_at(int(rng.integers(len(data))))
    data[one], data[other] = data[other], data[one]


def truncate(data, at, rng):
    del data[at:]


KINDS = (flip, flip, zero_some, zero_page, noise_in_page, swap_pages, truncate)
# A page that is taken for another one may be an empty table, which only check() notices.
CHECKED_LATER = {"store.sqlite": (swap_pages, zero_some), "vectors": (), "snapshot": ()}


@pytest.mark.parametrize("part", ["store.sqlite", "snapshot", "vectors"])
def test_what_is_read_is_right_or_an_error_names_the_file(copies, part):
    truth = {readonly: read(copies(f"truth {readonly}"), readonly) for readonly in (True, False)}
    assert truth[True][1] is truth[False][1] is None
    rng, n_noticed = np.random.default_rng(20), 0
    for number in range(trials(50, 400)):
        folder, kind, readonly = copies(number), KINDS[rng.integers(len(KINDS))], bool(rng.integers(2))
        path = next(path for path in folder.iterdir() if path.name.startswith(part))
        data = bytearray(path.read_bytes())
        at = int(rng.integers(len(data)))
        kind(data, at, rng)
        with open(path, "r+b") as file:
            file.truncate(len(data))
            file.write(data)
        what = f"{kind.__name__} at {at} of {part}, {readonly=}"
        expected, (found, error) = truth[readonly][0], read(folder, readonly)
        if error is None:
            assert found == expected, what
        else:
            assert isinstance(error, DamagedStore), f"{what}: {error!r}"
            assert re.search(rf"{folder}/(store\.sqlite|snapshot-|vectors-).* is damaged: .+ NEW$", str(error)), what
            if kind not in CHECKED_LATER[part]:
                assert {name: expected[name] for name in found} == found, what
            n_noticed += 1
        shutil.rmtree(folder)
    assert n_noticed > 25


CELLS = ("about", "value"), ("operations", "data"), ("points", "payload"), ("changes", "records"), ("names", "name")


@pytest.mark.parametrize(("table", "column"), CELLS)
@pytest.mark.parametrize("cell", ["{", "[1, 2]", "", "null", "[" * 100_000])
@pytest.mark.parametrize("has_checksum", [False, True])
def test_cells_that_make_no_sense(copies, table, column, cell, has_checksum):
    """Edited by hand, with or without the right checksum."""
    folder = copies("edited")
    with sqlite3.connect(folder / "store.sqlite") as connection:
        connection.execute(f"update {table} set {column} = ?", (cell.encode() if column == "data" else cell,))
        if has_checksum:
            for number, *row, _ in connection.execute(f"select rowid, * from {table}").fetchall():
                values = row_checksum(table, tuple(row)), number
                connection.execute(f"update {table} set row_checksum = ? where rowid = ?", values)
    connection.close()
    for readonly in (True, False):
        _, error = read(folder, readonly)
        # A name may be any text, and so may a payload that is JSON.
        is_right = has_checksum and (table == "names" or (table == "points" and cell in ("null", "[1, 2]")))
        if is_right and error is None:
            continue
        assert isinstance(error, DamagedStore), repr(error)
        assert re.search(r"store\.sqlite is damaged: .+ grinch store recover", str(error))


def test_an_index_that_lost_an_id_is_noticed(copies):
    folder = copies("index")
    path = folder / "store.sqlite"
    # In the index, where an id is followed by its row's number; in the table, by its payload.
    (at,) = (match.start() for match in re.finditer(rb"p42(?![0-9{])", path.read_bytes()))
    overwrite(path, at, b"o")
    with grinch.open(folder, readonly=True) as store:
        assert "p42" in store.ids
        with pytest.raises(DamagedStore, match="the index of 'points' does not have the id 'p42'"):
            store.payload(["p42"])


def test_a_large_snapshot_is_verified_where_numbers_are_followed(copies, monkeypatch):
    """Otherwise compiled code would follow them out of its arrays."""
    monkeypatch.setattr("grinch.store.snapshots.VERIFIED_BYTES", 0)
    folder = copies("owners")
    path = snapshot_of(folder)
    arrays = read_snapshot(path).arrays
    for name in ("followed/cut0.owners", "followed/cut0.keys"):
        at = path.read_bytes().index(arrays[name].tobytes()[:512]) + 9
        flip_bit(path, at)
        with pytest.raises(DamagedStore, match=f"the checksum of '{name}' is wrong"):
            grinch.open(folder, readonly=True)
        flip_bit(path, at)
    grinch.open(folder, readonly=True).close()


def test_damage_in_node_names_is_not_that_of_the_store(copies):
    """And the other way round: whoever reads both is told which."""
    folder = copies("names")
    (folder / "node-names.sqlite").write_bytes(b"no database" * 1000)
    with grinch.open(folder) as store, pytest.raises(DamagedStore, match=r"node-names\.sqlite is damaged"):
        store.check()
