"""Points of every kind are the same rows, for this process and for workers."""

import os
import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import sharding
from grinch.errors import ShardError
from grinch.io import inputs
from grinch.io import rows as common
from grinch.io.inputs import open_rows
from grinch.io.rows import cut_into_pieces
from refusals import refused

pandas, polars, pyarrow, dask = map(pytest.importorskip, ("pandas", "polars", "pyarrow", "dask"))
pq, da, dd = map(pytest.importorskip, ("pyarrow.parquet", "dask.array", "dask.dataframe"))

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

N, WIDTH = 1000, 5
NAMES = [f"f{i}" for i in range(WIDTH)]


@pytest.fixture
def points(rng):
    return rng.normal(size=(N, WIDTH)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """64 rows each, so that a thousand points are many pieces."""
    monkeypatch.setattr(common, "PIECE_BYTES", 64 * WIDTH * 4)
    monkeypatch.setattr(common, "LARGEST_CUT", 4 * 64 * WIDTH * 4)
    monkeypatch.setattr(common, "BATCH_BYTES", 50 * WIDTH * 4)
    monkeypatch.setattr(common, "COLUMNS_AT_A_TIME", 2)


def dense(rows):
    return rows.toarray() if hasattr(rows, "toarray") else rows


def check_rows(rows, expected):
    """All there is to ask of rows, against numpy's answer."""
    assert (rows.n_rows, rows.n_features) == expected.shape
    assert [start for start, _ in rows.pieces] == [0, *(stop for _, stop in rows.pieces[:-1])]
    assert rows.pieces[-1][1] == len(expected)
    sent = pickle.loads(pickle.dumps(rows))
    assert sent == rows
    for number, (start, stop) in enumerate(rows.pieces):
        piece = dense(sent.read(number))
        assert piece.flags.c_contiguous
        np.testing.assert_array_equal(piece, expected[start:stop], strict=True)
    some = np.flatnonzero(np.arange(len(expected)) % 7 == 3)
    np.testing.assert_array_equal(dense(rows.take(some)), expected[some], strict=True)
    np.testing.assert_array_equal(dense(rows.take(np.array([], np.int64))), expected[:0], strict=True)
    refused("rows must be in ascending order, from 0 to", rows.take, np.array([len(expected)]))


def frame_of(points):
    return pandas.DataFrame(points, columns=NAMES)


def table_of(points, **more):
    return pyarrow.table({name: points[:, i] for i, name in enumerate(NAMES)} | more)


IN_MEMORY = {
    "float32": lambda X: X,
    "by column": np.asfortranarray,
    "a view": lambda X: np.repeat(X, 2, axis=0)[::2],
    "big-endian": lambda X: X.astype(">f4"),
    "sparse": scipy.sparse.coo_array,
    "pandas": frame_of,
    "pandas, nullable": lambda X: frame_of(X).astype("Float32"),
    "pandas, beside text": lambda X: frame_of(X).assign(name="x"),
    "pandas, arrays": lambda X: pandas.DataFrame({"v": list(X), "name": "x"}),
    "polars": lambda X: polars.DataFrame(X, schema=NAMES),
    "polars, lists": lambda X: polars.DataFrame({"v": polars.Series(X.tolist(), dtype=polars.List(polars.Float32))}),
    "list of arrays": list,
    "dask array": lambda X: da.from_array(X, chunks=(300, 2)),
    "dask frame": lambda X: dd.from_pandas(frame_of(X).assign(name="x"), npartitions=3),
}


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_what_is_handed_in_is_written_once(kind, points, tmp_path):
    X = IN_MEMORY[kind](points)
    rows = open_rows(X, tmp_path)
    expected = points if kind != "polars, lists" else points.astype(np.float64)
    check_rows(rows, expected)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    again = open_rows(IN_MEMORY[kind](points), tmp_path)
    assert again == rows
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")} == written
    assert len(written) == {"dask array": 4, "dask frame": 3, "sparse": 3}.get(kind, 1)
    changed = points.copy()
    changed[500, 2] += 1
    other = open_rows(IN_MEMORY[kind](changed), tmp_path)
    assert other.stamp != rows.stamp
    np.testing.assert_array_equal(dense(other.take(np.array([500]))), changed[500:501])


@pytest.mark.parametrize(
    ("given", "kept"),
    [("float64", "float64"), ("uint8", "float32"), ("bool", "float32"), ("int64", "float64"), ("float16", "float32")],
)
def test_types_of_numbers(given, kept, rng, tmp_path):
    X = rng.integers(0, 2, size=(70, WIDTH)).astype(given)
    check_rows(open_rows(X, tmp_path), X.astype(kept))
    np.save(tmp_path / "x.npy", X)
    check_rows(open_rows(tmp_path / "x.npy", tmp_path), X.astype(kept))
    pq.write_table(table_of(X), tmp_path / "x.parquet")
    check_rows(open_rows(tmp_path / "x.parquet", tmp_path), X.astype(kept))
    check_rows(open_rows(frame_of(X), tmp_path), X.astype(kept))
    check_rows(open_rows(polars.DataFrame(X.astype("float32") if given == "float16" else X), tmp_path), X.astype(kept))


def test_files_of_numpy_are_read_where_they_are(points, tmp_path):
    files, run = tmp_path / "files", tmp_path / "run"
    files.mkdir()
    for number, part in enumerate(np.array_split(points, [100, 130]), 9):
        np.save(files / f"part-{number}.npy", np.asfortranarray(part) if number == 10 else part)
    np.save(files / "_halves.npy", points[:3])
    for X in (files, str(files / "part-*.npy"), [files / f"part-{number}.npy" for number in (9, 10, 11)]):
        check_rows(open_rows(X, run), points)
    turned = [str(files / f"part-{number}.npy") for number in (10, 9)]
    check_rows(open_rows(turned, run), np.r_[points[100:130], points[:100]])
    assert not run.exists()


def test_memory_maps_are_read_where_they_are_unless_they_were_changed(points, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, points)
    check_rows(open_rows(np.load(path, mmap_mode="r"), tmp_path), points)
    raw = np.memmap(tmp_path / "raw", np.float32, "w+", 128, points.shape)
    raw[:] = points
    check_rows(open_rows(raw, tmp_path), points)
    assert not list((tmp_path / "input").iterdir())

    part = np.load(path, mmap_mode="r")[10:]
    check_rows(open_rows(part, tmp_path), points[10:])
    own = np.load(path, mmap_mode="c")
    own[0] = 7
    rows = open_rows(own, tmp_path)
    assert rows.read(0)[0, 0] == 7
    assert len(list((tmp_path / "input").iterdir())) == 2


def test_parquet_files(points, tmp_path):
    files = tmp_path / "files"
    (files / "more").mkdir(parents=True)
    names = pyarrow.array(["x"] * N)
    table = table_of(points, name=names)
    # Row groups that are put together, are as they are, and are cut; a file without rows.
    pq.write_table(table[:200], files / "more" / "part-2.parquet", row_group_size=10)
    pq.write_table(table[200:200], files / "more" / "part-3.parquet")
    pq.write_table(table[200:], files / "more" / "part-10.parquet", row_group_size=700)
    pq.write_table(table, tmp_path / "one.parquet")
    for X in (files, f"{files}/more/*.parquet", [files / "more" / f"part-{i}.parquet" for i in (2, 3, 10)]):
        check_rows(open_rows(X, tmp_path), points)
    one = open_rows(tmp_path / "one.parquet", tmp_path)
    check_rows(one, points)
    assert [stop - start for start, stop in one.pieces] == [125] * 8  # decoded eight times at most
    check_rows(open_rows(tmp_path / "one.parquet", tmp_path, columns=["f3", "f1"]), points[:, [3, 1]])
    check_rows(open_rows(tmp_path / "one.parquet", tmp_path, columns="f2"), points[:, [2]])
    assert not (tmp_path / "input").exists()


@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
def test_parquet_columns_of_lists(kind, points, tmp_path):
    number = pyarrow.float32()
    types = {"list": pyarrow.list_(number), "large": pyarrow.large_list(number), "fixed": pyarrow.list_(number, WIDTH)}
    lists = pyarrow.array(points.tolist(), types[kind])
    path = tmp_path / "x.parquet"
    pq.write_table(pyarrow.table({"name": ["x"] * N, "v": lists}), path, row_group_size=300)
    check_rows(open_rows(path, tmp_path), points)
    pq.write_table(pyarrow.table({"id": range(N), "v": lists}), path)
    for columns in ("v", ["v"]):
        check_rows(open_rows(path, tmp_path, columns=columns), points)
    refused(r"columns must say which of 'v', 'id' in .* are the points: columns='v'", open_rows, path, tmp_path)


def test_large_row_groups_parquet_written_by_pandas_and_decimals(points, tmp_path):
    many = np.tile(points, (5, 1))
    pq.write_table(table_of(many), tmp_path / "x.parquet")
    rows = open_rows(tmp_path / "x.parquet", tmp_path)
    assert len(rows.pieces) == 20  # 256 rows, four times the usual, rather than the 625 of eight pieces
    check_rows(rows, many)
    frame_of(points)[::2].to_parquet(tmp_path / "x.parquet")
    check_rows(open_rows(tmp_path / "x.parquet", tmp_path), points[::2])
    pq.write_table(pyarrow.table({"a": [Decimal("1.5"), Decimal("2.25")]}), tmp_path / "d.parquet")
    check_rows(open_rows(tmp_path / "d.parquet", tmp_path), np.array([[1.5], [2.25]]))


def test_stamps_are_of_files_and_columns_and_a_damaged_input_is_written_again(points, tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(table_of(points), path)
    stamp = open_rows(path, tmp_path).stamp
    assert open_rows(str(path), tmp_path / "elsewhere").stamp == stamp
    assert stamp not in {open_rows(path, tmp_path, columns=columns).stamp for columns in (NAMES[:3], NAMES[::-1])}
    pq.write_table(table_of(points + 1), path)
    assert open_rows(path, tmp_path).stamp != stamp
    os.truncate(open_rows(points, tmp_path).files[0].path, 500)
    check_rows(open_rows(points, tmp_path), points)


def test_blocks_of_dask_are_written_by_workers(workers, points, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    X = da.from_array(points, chunks=(300, WIDTH)).map_blocks(sharding.noted, str(notes), dtype=np.float32)
    rows = open_rows(X, tmp_path, workers=workers)
    check_rows(rows, points)
    assert [file.n_rows for file in rows.files] == [300, 300, 300, 100]
    Path(rows.files[1].path).unlink()
    assert open_rows(X, tmp_path, workers=workers) == rows
    assert len(list(notes.iterdir())) == 5  # four blocks, and one of them again
    # A block that fails is named.
    X = da.from_array(with_value(points, np.nan), chunks=(300, WIDTH))
    with pytest.raises(ShardError, match=r"'block-00001': ValueError: X must be finite, but contains NaN in row 150,"):
        open_rows(X, tmp_path, workers=workers)


def test_dask_of_unknown_sizes_and_with_empty_blocks(points, tmp_path):
    frame = dd.from_pandas(frame_of(points), npartitions=4)
    chosen = frame[frame.f0 > 0]
    expected = points[points[:, 0] > 0]
    check_rows(open_rows(chosen.to_dask_array(), tmp_path), expected)
    check_rows(open_rows(chosen, tmp_path, columns=["f1", "f0"]), expected[:, [1, 0]])
    with dask.config.set({"dataframe.convert-string": False}):
        lists = dd.from_pandas(pandas.DataFrame({"v": list(points)}), npartitions=4)
        check_rows(open_rows(lists.loc[300:], tmp_path), points[300:])
    refused("X must have at least one row; all of its 4 blocks are empty", open_rows, frame[frame.f0 > 1000], tmp_path)


def test_records(tmp_path, monkeypatch):
    monkeypatch.setattr("grinch.io.rows.MOST_RECORDS", 8)
    texts = [f"text {number}" for number in range(20)]
    objects = [{"name": text, "tags": {text, "x", 1.5}} for text in texts]
    for X in (texts, objects, tuple(texts), np.array(texts, dtype=object)):
        rows = open_rows(X, tmp_path)
        assert (rows.n_rows, rows.n_features, rows.pieces) == (20, 0, [(0, 8), (8, 16), (16, 20)])
        assert rows.read(1) == list(X[8:16])
        assert pickle.loads(pickle.dumps(rows)).take(np.array([0, 7, 8, 19])) == [X[i] for i in (0, 7, 8, 19)]
        assert rows.take(np.array([], np.int64)) == []
        assert open_rows(X, tmp_path) == rows
    assert open_rows(texts[::-1], tmp_path).stamp != open_rows(texts, tmp_path).stamp
    numbers = [[1, 2], [3, 4]]
    assert open_rows(numbers, tmp_path).n_features == 2
    assert open_rows(numbers, tmp_path, records=True).read(0) == numbers
    assert open_rows([[1, 2], [3]], tmp_path).read(0) == [[1, 2], [3]]
    assert open_rows(pandas.DataFrame({"a": [1]}), tmp_path, records=True).read(0) == [{"a": 1}]


def with_value(points, value):
    points = points.copy()
    points[450, 3] = value
    return points


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (-np.inf, "infinity")])
def test_what_is_not_finite_is_refused_with_its_place(value, name, points, tmp_path):
    X = with_value(points, value)
    for given in (X, scipy.sparse.csr_array(X), frame_of(X)):
        refused(f"contains {name} in row 450, column 3.", open_rows, given, tmp_path)
    assert not list((tmp_path / "input").iterdir())
    for kind, save in (("npy", np.save), ("parquet", lambda path, X: pq.write_table(table_of(X), path))):
        files = [tmp_path / f"{number}.{kind}" for number in (0, 1)]
        for file, some in zip(files, (points[:100], X), strict=True):
            save(file, some)
        rows = open_rows(files, tmp_path)
        piece = next(number for number, (_, stop) in enumerate(rows.pieces) if stop > 550)
        for read, what in ((rows.read, piece), (rows.take, np.array([3, 549, 550, 551]))):
            refused(f"contains {name} in row 450, column 3 of file '.*1.{kind}'", read, what)


def test_empty_values_of_parquet_are_refused_with_their_place(tmp_path):
    cells = [None if i == 150 else float(i) for i in range(200)]
    flat, lists, inside = (tmp_path / f"{name}.parquet" for name in ("flat", "lists", "inside"))
    pq.write_table(pyarrow.table({"b": cells}), flat)
    pq.write_table(pyarrow.table({"b": [None if cell is None else [cell, 1.0] for cell in cells]}), lists)
    pq.write_table(pyarrow.table({"b": [[1.0, cell] for cell in cells]}), inside)
    for path in (flat, lists, inside):
        rows = open_rows(path, tmp_path)
        refused(rf"{path.name}' has an empty value \(null\) in row 150 of column 'b'", rows.take, np.array([149, 151]))
    pq.write_table(pyarrow.table({"b": [[1.0, 2.0], [3.0]]}), lists)
    with pytest.raises(ValueError, match=r"lists of equal length; .* has 1 numbers in row 1 of column 'b', and 2"):
        open_rows(lists, tmp_path).read(0)


def test_files_that_do_not_go_together(points, tmp_path):
    first, second = tmp_path / "1.parquet", tmp_path / "2.parquet"
    pq.write_table(table_of(points), first)
    pq.write_table(table_of(points.astype(np.float64)), second)
    refused(r"the same columns; those of '.*2.parquet' are f0: double, .*f0: float,", open_rows, tmp_path, tmp_path)
    np.save(tmp_path / "1.npy", points)
    np.save(tmp_path / "2.npy", points[:, 1:])
    refused(r"'.*2.npy' has 4 columns, and '.*1.npy' has 5", open_rows, f"{tmp_path}/*.npy", tmp_path)
    refused(r"all end in .parquet or all in .npy; got '1.npy', '1.parquet'", open_rows, f"{tmp_path}/1.*", tmp_path)


def test_what_cannot_be_read_is_refused(points, tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(table_of(points, name=pyarrow.array(["x"] * N)), path)
    (tmp_path / "torn.parquet").write_bytes(path.read_bytes()[:1000])
    (tmp_path / "empty").mkdir()
    text = tmp_path / "text.parquet"
    pq.write_table(pyarrow.table({"name": ["x"]}), text)
    nothing = tmp_path / "nothing.parquet"
    pq.write_table(pyarrow.table({"v": pyarrow.array([], pyarrow.list_(pyarrow.float32()))}), nothing)
    for X, columns, message in [
        (tmp_path / "none.npy", None, "there is no file '.*none.npy'"),
        (str(tmp_path / "q*"), None, "no file matches"),
        (tmp_path / "empty", None, "no .parquet and no .npy file in folder"),
        (tmp_path / "torn.parquet", None, r"torn.parquet' cannot be read as .parquet \(truncated or damaged\?\)"),
        (path, ["f1", "g"], "columns must be one of 'f0'.*got 'g'"),
        (path, [], "columns must be names of columns, each once"),
        (path, ["f1", "name"], "'name' in '.*x.parquet' holds string"),
        (text, None, "X must have columns of numbers, or a column of lists of numbers"),
        (nothing, None, "X must have rows; there are none in"),
        (points, ["a"], "X is ndarray and has none"),
        (da.from_array(points), ["a"], "X is a dask array and has none"),
        (da.ones(7), None, "dask array with two dimensions.*got Array with 1 dimensions"),
        (points[0], None, r"X must be a matrix of real numbers .* got shape \(5,\)"),
        (points[:0], None, "at least one row and one column; got 0 rows and 5 columns"),
        (points.astype(complex), None, "Complex data not supported"),
        (np.array([["a", "b"]]), None, "X must be a matrix of"),
        (frame_of(points).assign(name="x"), ["f1", "name"], "column 'name' holds str values such as 'x'"),
        (pandas.DataFrame({"v": [[1.0, 2.0], [3.0]]}), None, "column 'v' has 1 in row 1, and 2 numbers in the first"),
        ([], None, "X must"),
        ([lambda: 1, (number for number in [1])], None, "number 1, a generator, cannot"),
    ]:
        refused(message, open_rows, X, tmp_path / "run", columns=columns)


def test_pieces_and_room():
    assert cut_into_pieces([], 3) == []
    assert cut_into_pieces([0, 4, 0, 3], 3) == [(0, 3), (3, 4), (4, 7)]
    refused("folder must have room for X: it takes", inputs.check_room, Path(), 2**62, error=OSError)
