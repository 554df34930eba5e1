"""A damaged store is rebuilt in a new folder: what comes back is right, what does not is said."""

import os
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import grinch
from commands import run_command
from effort import trials
from grinch.legacy import convert
from grinch.store import DamagedStore, StoreLocked, recover
from grinch.store.database import TABLES
from grinch.store.sqlite_pages import salvage
from killing import kills
from refusals import refused
from store.made import die_after, execute, files, names, overwrite, similar, snapshot_of

N = 120


def points(n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, 3)) + 3 * rng.integers(0, 4, (n, 1))).astype(np.float32)


def payloads(n):
    # Some take several pages.
    return [{"n": i, "text": "x" * (3 * i if i % 40 else 9_000)} for i in range(n)]


def write(folder, **kind):
    """A store with something of everything; open."""
    store = grinch.open(folder, n_clusters=5)
    store.insert(points(N), ids=names(N), payload=payloads(N))
    store.label(0, "zero")
    store.add_cut("fine", n_clusters=12)
    store.remove(["p3", "p4"])
    store.update(["p7"], points(1, 9))
    return store


def write_more(store):
    store.insert(points(30, 5), ids=names(30, letter="q"), payload=payloads(30))
    store.remove(["p9"])
    store.label(1, "one")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store that was closed, and one whose writer died after changes since the snapshot; and what is in them."""
    folder = tmp_path_factory.mktemp("stores")
    with write(folder / "closed") as store:
        write_more(store)
    die_after(lambda: (store := write(folder / "killed"), store.snapshot(), write_more(store)))
    found = {}
    for name in ("closed", "killed"):
        copy = shutil.copytree(folder / name, folder / f"copy of {name}")
        found[name] = folder / name, seen(copy)
    return found


@pytest.fixture
def copied(stores, tmp_path):
    def copied(name, number=0):
        return shutil.copytree(stores[name][0], tmp_path / f"{name} {number}"), stores[name][1]

    return copied


def seen(folder, **how):
    """All that a store has."""
    with grinch.open(folder, readonly=True, **how) as store:
        store.check()
        ids = store.ids
        rows = store.vectors(ids)
        return {
            "ids": ids,
            "vectors": rows.toarray().tolist() if scipy.sparse.issparse(rows) else list(rows),
            "payload": store.payload(ids),
            "tree": store.tree.to_newick(ids, lengths=False),
            "clusters": {cut: store.clusters(cut) for cut in store.cuts()},
            "names": {cut: store.names(cut) for cut in store.cuts()},
            "changes": [str(change) for change in store.changes()],
            "arrived": store.arrived().tolist(),
        }


def same(found, expected, *parts):
    for part in parts or expected:
        assert np.array_equal(found[part], expected[part]) if part == "vectors" else found[part] == expected[part], part


def recovered(folder, **how):
    """What is recovered from a folder, which stays as it is; the new store goes on."""
    before, new = files(folder), folder.with_name(f"{folder.name} again")
    report = recover(folder, new, **how)
    assert files(folder) == before
    own = {name: value for name, value in how.items() if name == "linkage" and not isinstance(value, str)}
    found = seen(new, **own)
    assert report.points == len(found["ids"])
    assert report.payloads == sum(payload is not None for payload in found["payload"])
    assert {path.name.split("-")[0] for path in new.iterdir()} <= {
        *("store.sqlite", "snapshot", "vectors", "writer.lock", "text.grinch", "node")
    }
    with grinch.open(new, **own) as store:
        assert store.version == report.version
        if not own:
            more = {"text": names(4, letter="a"), "number": list(range(1000, 1004)), None: None}
            store.insert(points(4, 77), ids=more[store.id_kind])
            store.refine()
        store.check()
    return report, found


def empty(folder):
    os.truncate(folder / "store.sqlite", 0)


# The database ---------------------------------------------------------------------------------------------------------


def test_a_closed_store_without_its_database(copied):
    folder, truth = copied("closed")
    empty(folder)
    # What is beside the store comes along.
    (folder / "text.grinch").write_bytes(b"terms")
    (folder / "node-names.sqlite").write_bytes(b"damaged" * 1000)
    (folder / "mine.txt").write_text("mine")
    report, found = recovered(folder)
    same(found, truth, "ids", "vectors", "tree", "clusters")
    assert found["payload"] == [None] * len(truth["ids"])
    assert (report.ids, report.payloads, report.names) == (len(truth["ids"]), 0, 0)
    assert report.clusters == {cut: len(clusters) for cut, clusters in truth["clusters"].items()}
    assert report.lost == (
        "store.sqlite is lost (it is empty): payloads, names of clusters, and what happened to them",
        "node-names.sqlite is damaged: names of nodes",
    )
    new = folder.with_name(f"{folder.name} again")
    assert (new / "text.grinch").read_bytes() == b"terms"
    assert not (new / "mine.txt").exists()


def test_rows_that_came_after_the_snapshot_come_back(copied):
    folder, truth = copied("killed")
    # All that is not in the snapshot: the log of SQLite is lost, too.
    for path in folder.glob("store.sqlite*"):
        path.unlink()
    report, found = recovered(folder)
    n = N - 2
    # p9, which was removed since, is in the snapshot.
    assert found["ids"][:n] == [name for name in names(N) if name not in ("p3", "p4")]
    assert report.ids == n
    assert report.points == len(found["ids"]) == n + 30
    vectors = dict(zip(truth["ids"], truth["vectors"], strict=True))
    assert all(np.array_equal(vectors[f"q{i}"], found["vectors"][n + i]) for i in range(30))
    assert "30 rows that came after the last snapshot are points now, without their ids" in report.lost[-1]


def test_a_killed_writer_and_an_emptied_database(copied):
    """Its log is whole."""
    folder, truth = copied("killed")
    empty(folder)
    report, found = recovered(folder)
    same(found, truth, "vectors", "tree", "clusters")
    assert report.payloads > 0
    for id, payload in zip(found["ids"], found["payload"], strict=True):
        assert payload is None or payload == truth["payload"][truth["ids"].index(id)]


def test_a_store_that_is_whole_comes_back_as_it_is(copied):
    for name in ("closed", "killed"):
        folder, truth = copied(name)
        report, found = recovered(folder)
        same(found, truth)
        assert report.lost == ()
        assert report.names == 2


@pytest.mark.parametrize("name", ["closed", "killed"])
def test_whatever_is_damaged_in_the_database_what_comes_back_is_right(copied, name):
    rng, n_payloads = np.random.default_rng(11), 0
    for number in range(trials(8, 200)):
        folder, truth = copied(name, number)
        execute(folder / "store.sqlite")
        data = bytearray((folder / "store.sqlite").read_bytes())
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(data)))
            start = at // 4096 * 4096
            kind = rng.integers(4)
            if kind == 0:
                data[start : start + 4096] = bytes(4096)
            elif kind == 1:
                data[start : start + 4096] = rng.bytes(4096)
            elif kind == 2:
                data[at] ^= 1 << int(rng.integers(8))
            else:
                del data[max(at, 10_000) :]
        (folder / "store.sqlite").write_bytes(data)
        report, found = recovered(folder)
        known = dict(zip(truth["ids"], zip(truth["vectors"], truth["payload"], strict=True), strict=True))
        right = [
            id in known and np.array_equal(known[id][0], row) and payload in (None, known[id][1])
            for id, row, payload in zip(found["ids"], found["vectors"], found["payload"], strict=True)
        ]
        # Those that have other ids now, and those that were removed after what could be read.
        assert sum(right) >= report.ids - 1
        assert report.points >= len(truth["ids"]) - 31
        n_payloads += report.payloads
        shutil.rmtree(folder)
    assert n_payloads > 0


def test_ids_that_are_lost_are_new_ones(tmp_path):
    """In the tree and after it, of a store whose snapshot, taken in the background, has none."""
    folder = tmp_path / "store"

    def work():
        store = write(folder)
        store.check()  # waits for the snapshot that the first points call for
        write_more(store)

    die_after(work)
    assert int(snapshot_of(folder).name.split("-")[1]) == 1
    # The versions that insert and update are lost, and the rows of three points.
    lost_points = "update points set payload = 'spoiled' where id in ('p20', 'p21', 'q5')"
    execute(folder / "store.sqlite", "update operations set at = 0 where version > 4", lost_points)
    report, found = recovered(folder)
    # p9 was removed in a version that is lost.
    lost = {"p9": "recovered-0", "p20": "recovered-1", "p21": "recovered-2"}
    assert found["ids"][: N - 2] == [lost.get(name, name) for name in names(N) if name not in ("p3", "p4")]
    # An update came in between, so it is not known which of the others is which.
    assert found["ids"][N - 2 :] == [f"recovered-{i}" for i in range(3, 34)]
    assert (report.ids, report.points) == (N - 5, N - 2 + 31)


def test_all_rows_come_back_without_the_first_page(copied):
    folder, truth = copied("closed")
    overwrite(folder / "store.sqlite", 0, bytes(4096))
    report, found = recovered(folder)
    same(found, truth)
    assert len(report.lost) == 1
    assert "store.sqlite is damaged (it does not begin as a database does)" in report.lost[0]


def test_rows_are_those_that_sqlite_reads(tmp_path, copied):
    """Of databases with rows of several pages, deleted ones, and changes in the log; without any, none."""
    for name in ("closed", "killed"):
        path = copied(name)[0] / "store.sqlite"
        found = salvage(path)
        with closing(sqlite3.connect(path)) as connection:
            for table in TABLES:
                expected = [row[:-1] for row in connection.execute(f"select * from {table}")]
                assert sorted(found.tables[table], key=repr) == sorted(expected, key=repr), table
        assert found.n_unclear == 0
    assert not any(salvage(tmp_path / "nothing").tables.values())


# The snapshot ---------------------------------------------------------------------------------------------------------


def spoil(path):
    third = path.stat().st_size // 3
    overwrite(path, third, np.random.default_rng(0).bytes(third // 2))


@pytest.mark.parametrize("harm", [Path.unlink, spoil, lambda path: os.truncate(path, 5_000)])
def test_without_a_snapshot_the_log_is_done_again(copied, harm):
    for name in ("closed", "killed"):
        folder, truth = copied(name)
        harm(snapshot_of(folder))
        report, found = recovered(folder)
        same(found, truth)
        assert len(report.lost) == 1
        assert report.lost[0].startswith("snapshot-")


def test_without_a_snapshot_after_compacting_the_tree_is_built_again(copied, tmp_path):
    folder, numbered = copied("closed")[0], tmp_path / "numbered"
    with grinch.open(folder) as store:
        store.compact()
        store.insert(points(3, 4), ids=["x", "y", "z"])
        store.remove(["p11"])
    with grinch.open(numbered) as store:
        store.insert(points(40))
        store.remove([3, 17])
        store.refine()
    for store in (folder, numbered):
        truth = seen(store)
        snapshot_of(store).unlink()
        report, found = recovered(store)
        same(found, truth, "ids", "vectors", "payload")
        assert (report.clusters, report.names, report.ids) == ({}, 0, len(truth["ids"]))
        assert any("the tree: it is built again" in line for line in report.lost)
        again = grinch.Grinch().fit(np.array(truth["vectors"]))
        assert found["tree"] == again.tree_.to_newick(truth["ids"], lengths=False)


# The rows -------------------------------------------------------------------------------------------------------------


def test_points_whose_rows_are_gone_are_left_out(copied):
    folder, truth = copied("closed")
    os.truncate(next(folder.glob("vectors-*")), 12 * 60)
    report, found = recovered(folder)
    left = [i for i, name in enumerate(truth["ids"]) if name in names(60) and name != "p7"]
    assert all(found[part] == [truth[part][i] for i in left] for part in ("ids", "payload"))
    assert any("points, whose rows are not there" in line for line in report.lost)
    assert report.points == len(left)


def test_rows_that_are_not_those_that_were_written_are_said(copied):
    folder, truth = copied("closed")
    overwrite(next(folder.glob("vectors-*")), 12 * 10, np.array([7, 7, 7, np.nan, 0, 0], "<f4").tobytes())
    report, found = recovered(folder)
    assert found["ids"] == [name for name in truth["ids"] if name != "p11"]
    assert found["vectors"][found["ids"].index("p10")].tolist() == [7, 7, 7]
    assert any("vectors of version 1 are not those that were written" in line for line in report.lost)
    assert any(line.startswith("1 points, whose rows") for line in report.lost)


def test_without_rows_there_is_nothing(copied):
    folder, _ = copied("closed")
    path = next(folder.glob("vectors-*"))
    path.unlink()
    with pytest.raises(DamagedStore, match=rf"{path.name}: it is not there.*restore .* from a backup"):
        recover(folder, folder.with_name("new"))
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


# Other kinds of stores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", [empty, lambda folder: snapshot_of(folder).unlink()])
def test_sparse_rows(tmp_path, harm):
    folder = tmp_path / "store"
    with grinch.open(folder) as store:
        X = scipy.sparse.csr_matrix(np.where(points(50) > 4, points(50), 0))
        store.insert(X, ids=list(range(50)))
        store.update([5, 2], X[:2])
        store.remove([1])
    truth = seen(folder)
    harm(folder)
    report, found = recovered(folder)
    same(found, truth, "ids", "vectors", "tree", "clusters")
    assert report.ids == 49


def test_records(tmp_path):
    folder = tmp_path / "store"
    with grinch.open(folder, linkage=similar, n_clusters=3) as store:
        store.insert([{"x": float(i * i % 17)} for i in range(30)], ids=names(30), payload=payloads(30))
        store.remove(["p5"])
    truth = seen(folder, linkage=similar)
    shutil.copytree(folder, tmp_path / "emptied")
    overwrite(folder / "store.sqlite", 0, bytes(4096))
    report, found = recovered(folder, linkage=similar)
    same(found, truth)
    assert len(report.lost) == 1
    # The records were in the database.
    empty(tmp_path / "emptied")
    with pytest.raises(DamagedStore, match=r"emptied has no points left: store\.sqlite is lost"):
        recover(tmp_path / "emptied", tmp_path / "new", linkage=similar)


# A store of an earlier release ----------------------------------------------------------------------------------------


@pytest.fixture
def earlier(tmp_path):
    with zipfile.ZipFile(Path(__file__).parent / "data" / "format_1.zip") as archive:
        archive.extractall(tmp_path / "old")
    return tmp_path / "old"


def test_a_store_of_an_earlier_release_goes_on(earlier):
    before = files(earlier)
    refused(r"grinch convert \S*old NEW", grinch.open, earlier)
    refused(r"grinch convert \S*old NEW", recover, earlier, earlier.with_name("recovered"))
    new = earlier.with_name("new")
    assert convert(earlier, new) == "store"
    assert files(earlier) == before
    with grinch.open(new) as store:
        store.check()
        assert store.ids == [name for name in names(60) if name != "p3"]
        assert store.names() == {0: "zero"}
        store.insert(points(5, 3), ids=list("abcde"))
        store.compact()
        store.check()
        truth = kills.state_of(store)
    with grinch.open(new) as store:
        assert kills.state_of(store) == truth
    assert len(list(new.glob("snapshot-*"))) == 1
    empty(new)
    assert recovered(new)[0].ids == 64


# What is refused ------------------------------------------------------------------------------------------------------


def test_what_is_refused(copied, tmp_path):
    folder, _ = copied("closed")
    (tmp_path / "there").mkdir()
    (tmp_path / "sharded").mkdir()
    (tmp_path / "sharded" / "sharded.json").write_text("{}")
    for store, new, how, error, match in (
        (folder, tmp_path / "there", {}, FileExistsError, r"^new must be"),
        (folder, folder, {}, FileExistsError, r"^new must be"),
        (folder, folder / "new", {}, ValueError, r"^new must be"),
        (folder, tmp_path / "new", {"dtype": "int8"}, ValueError, r"^dtype must be"),
        (tmp_path / "there", tmp_path / "new", {}, FileNotFoundError, "has no files of a store"),
        (tmp_path / "sharded", tmp_path / "new", {}, ValueError, "has a sharded store, made by grinch before 0.2"),
    ):
        refused(match, recover, store, new, error=error, **how)
    with grinch.open(folder), pytest.raises(StoreLocked, match="is being written to by process"):
        recover(folder, tmp_path / "new")
    # What nothing says is asked for.
    unsaid = shutil.copytree(folder, tmp_path / "unsaid")
    execute(unsaid / "store.sqlite", "delete from about where name = 'model'")
    snapshot_of(unsaid).unlink()
    refused("linkage must be given", recover, unsaid, tmp_path / "new")
    refused(r"metric must be given.*'cosine' was the default", recover, unsaid, tmp_path / "new", linkage="average")
    execute(folder / "store.sqlite", "update about set value = '99' where name = 'format'")
    refused("Upgrade grinch", recover, folder, tmp_path / "new", error=DamagedStore)
    assert not (tmp_path / "new").exists()


def test_on_the_command_line(copied, tmp_path):
    folder, truth = copied("closed")
    empty(folder)
    done = run_command("store", "recover", folder.name, "new", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        f"{len(truth['ids'])} points, version 9: written to new/",
        f"ids                {len(truth['ids'])} points have those that they had",
        "payloads           0",
        "clusters           5 of cut default, 12 of cut fine, with the ids that they had",
        "- store.sqlite is lost (it is empty): payloads,",
    ):
        assert line in done.stdout
    again = run_command("store", "recover", folder.name, "new", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (2, "error: new must be a folder that is not there yet; 'new' is\n")
    assert run_command("store", "check", "new", cwd=tmp_path).returncode == 0
