"""Points from files of every kind, and files that hold none."""

import gzip
import io
import re
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from grinch.io import points as sizes
from grinch.io.read import FileError, read_points
from grinch.io.tables import read_rows
from refusals import refused


def test_every_format_is_read_alike(table, tmp_path):
    features = table.filter(regex="^f").to_numpy(np.float32)
    labels, ids = table["species"].to_numpy(str), table["name"].to_numpy(str)
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    table.to_csv(tmp_path / "t.csv.gz", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=features, species=labels, name=ids)
    for name in ("t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.npz"):
        points = read_points(tmp_path / name, label="species", id="name")
        np.testing.assert_allclose(points.vectors, features, rtol=1e-6, err_msg=name)
        assert points.labels.tolist() == labels.tolist()
        assert points.ids.tolist() == ids.tolist()
        points = read_points(tmp_path / name, id="name", keep=["species", "name"])
        assert points.vectors.shape == (120, 6)
        assert points.kept == {"species": labels.tolist(), "name": ids.tolist()}
    np.save(tmp_path / "t.npy", features)
    points = read_points(tmp_path / "t.npy")
    np.testing.assert_array_equal(points.vectors, features)
    assert points.labels is None
    assert read_points(tmp_path / "t.csv", label="species", drop=["name", "f0"]).vectors.shape == (120, 5)


def test_lists_of_id_label_vector_and_embeddings_in_one_column(tmp_path, rng):
    (tmp_path / "x.tsv").write_text("a\tcat\t1.5\t2\nb\tdog\t3\t4e-1\n")
    points = read_points(tmp_path / "x.tsv")
    assert points.vectors.tolist() == [[1.5, 2.0], [3.0, 0.4]]
    assert (points.ids.tolist(), points.labels.tolist()) == (["a", "b"], ["cat", "dog"])
    (tmp_path / "y.csv").write_text("1,2\n3,4\n")
    assert read_points(tmp_path / "y.csv").vectors.tolist() == [[1, 2], [3, 4]]
    X = rng.normal(size=(5, 3)).astype(np.float32)
    pd.DataFrame({"id": list("abcde"), "embedding": list(X)}).to_parquet(tmp_path / "e.parquet")
    np.testing.assert_array_equal(read_points(tmp_path / "e.parquet", id="id").vectors, X)
    pd.DataFrame({"embedding": [None, X[0]]}).to_parquet(tmp_path / "n.parquet")
    with pytest.raises(FileError, match=r"has an empty value \(null\) in row 0 of column 'embedding'"):
        read_points(tmp_path / "n.parquet")
    np.savez(tmp_path / "d.npz", X=rng.normal(size=(6, 2, 2)), y=np.arange(6))
    points = read_points(tmp_path / "d.npz")
    assert (points.vectors.shape, points.labels.tolist()) == ((6, 4), list(range(6)))


SQUARES = b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(999))


BROKEN = {
    "missing.csv": (None, {}, r"FILE .*missing.csv' does not exist"),
    "x.txt": (b"1 2", {}, r"FILE must end in .npy, .npz, .csv, .tsv, .parquet .*; got 'x.txt'"),
    "empty.csv": (b"", {}, "'empty.csv' is empty"),
    "word.csv": (b"a,b\n1,2\n3,x\n", {}, r"column 'b' must be numeric, but line 3 holds 'x'.*--label b"),
    "hole.csv": (b"a,b\n1,2\n3,\n", {}, r"column 'b' has no value in line 3"),
    "head.csv": (b"a,b\n", {}, "'head.csv' has a header and no rows"),
    "semi.csv": (b"a;b\n1;2\n", {}, "seems to be separated by ';'"),
    "short.csv": (b"a,b\n1,2\n3\n", {}, r"line 3 must have 2 cells like the first line; it has 1 \(truncated\?\)"),
    "long.csv": (b"a,b\n1,2\n3,4,5\n", {}, r"line 3 must have 2 cells like the first line; it has 3 \(a separator"),
    "quoted.csv": (b'name,b\n"two\nlines",2\nx,4,5\n', {"id": "name"}, r"line 4 must have 2 cells"),
    "underscore.csv": (b"a,b\n1,2019_01\n", {}, r"column 'b' must be numeric, but line 2 holds '2019_01'"),
    "json.csv": (b'{"a": [[[1, 2], [3]]]}\n', {}, "seems to be JSON"),
    "nested.csv": (b"[" * 100_000, {}, "seems to be JSON"),
    "junk.csv": (bytes(range(256)) * 4, {}, "must be text in UTF-8"),
    "latin.csv": ("a,b\n1,2\né,3\n".encode("latin-1"), {}, "must be text in UTF-8"),
    "wide.csv": (b"x" * 200_000 + b",b\n1,2\n", {}, "line 1 cannot be read: field larger than field limit"),
    "open.csv": (b'a,b\n1,"2\n' + b"3,4\n" * 50_000, {}, "is a quote not closed"),
    "array.npy.gz": (gzip.compress(b"x"), {}, r"\(text also in .gz or .xz\); got 'array.npy.gz'"),
    "text.npy": (b"1,2\n3,4\n", {}, "'text.npy' is no array of numpy"),
    "zip.npy": (b"PK\x03\x04" + bytes(99), {}, "is no array of numpy"),
    "text.npz": (b"1,2\n3,4\n", {}, r"cannot be read as .npz \(truncated or damaged\?\): File is not a zip file"),
    "label.csv": (b"a,kind\n1,2\n", {"label": "kinds"}, r"--label must be one of .*got 'kinds'; did you mean 'kind'"),
    "id.csv": (b"a,kind\n1,2\n", {"id": "nr"}, r"--id must be one of 'a', 'kind'; got 'nr'"),
    "only.csv": (b"a,b\n1,2\n", {"label": "a", "id": "b"}, "no feature columns left"),
    "cut.npy": (b"\x93NUMPY\x01\x00v\x00", {}, r"cannot be read as .npy \(truncated or damaged\?\)"),
    "cut.npz": (b"PK\x03\x04abc", {}, r"cannot be read as .npz \(truncated or damaged\?\)"),
    "cut.parquet": (b"PAR1abc", {}, r"cannot be read as .parquet \(truncated or damaged\?\)"),
    "cut.csv.gz": (gzip.compress(SQUARES)[:900], {}, r"cannot be read as .csv \(truncated or damaged\?\)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_explained(tmp_path, name):
    content, options, message = BROKEN[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused(message, read_points, tmp_path / name, error=FileError, **options)


def test_a_truncated_array_is_explained(tmp_path, rng):
    np.save(tmp_path / "x.npy", rng.normal(size=(100, 10)))
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:4000])
    refused(r"truncated or damaged\?", read_points, tmp_path / "x.npy", error=FileError)
    np.save(tmp_path / "v.npy", np.arange(5))
    refused(r"must hold a matrix .* got shape \(5,\)", read_points, tmp_path / "v.npy", error=FileError)
    refused("has no columns; --label and --id need", read_points, tmp_path / "v.npy", error=FileError, label="y")


def npy(shape, descr="<f8", data=b"", version=b"\x01\x00"):
    """An .npy file whose header may say anything."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + data


HEADERS = {
    "negative": (npy("(-1, 4)", data=bytes(64)), r"shape of whole numbers from 0 on; its header says \(-1, 4\)"),
    "both negative": (npy("(-2, -4)", data=bytes(64)), r"its header says \(-2, -4\)"),
    "absurd": (npy(f"({10**15}, {10**15})", data=bytes(64)), r"must hold 8,000,.* bytes of data .*; it has 64"),
    "empty": (npy("(0, 4)"), r"must hold a matrix \(points x features\); got shape \(0, 4\)"),
    "no features": (npy(f"({10**15}, 0)"), r"must hold a matrix"),
    "scalar": (npy("()", data=bytes(8)), r"must hold a matrix .* got shape \(\)"),
    "one-dimensional": (npy("(8,)", data=bytes(64)), r"must hold a matrix .* got shape \(8,\)"),
    "objects": (npy("(2, 2)", "|O", bytes(64)), "holds Python objects, which are not read"),
    "text": (npy("(2, 2)", "<U1", bytes(64)), "must hold real numbers; got <U1"),
    "complex": (npy("(2, 2)", "<c16", bytes(64)), "must hold real numbers; got complex128"),
    "dates": (npy("(2, 2)", "<M8[s]", bytes(64)), "must hold real numbers; got datetime64"),
    "not a shape": (npy("'wide'", data=bytes(64)), r"truncated or damaged\?"),
    "nested": (npy("(" * 3000, data=bytes(64)), r"truncated or damaged\?"),
    "version": (npy("(2, 2)", data=bytes(64), version=b"\x09\x09"), "must be .npy version 1.0 or 2.0; got 9.9"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_promise_nonsense_are_explained(tmp_path, name):
    content, message = HEADERS[name]
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(FileError, match=message) as caught:
        read_points(tmp_path / "x.npy")
    assert "\n" not in str(caught.value)
    # The same inside an archive.
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", content)
    with pytest.raises(FileError):
        read_points(tmp_path / "x.npz")


def test_labels_must_be_one_for_each_point(tmp_path, rng):
    for y in (np.array(3), np.zeros((4, 2)), np.zeros(3)):
        np.savez(tmp_path / "x.npz", X=rng.normal(size=(4, 2)), y=y)
        message = f"array 'y' must have one entry for each of the 4 points; got shape {y.shape}"
        refused(re.escape(message), read_points, tmp_path / "x.npz", error=FileError)


def test_only_the_arrays_that_are_asked_for_are_read(tmp_path, rng):
    X = rng.normal(size=(4, 2))
    np.savez(tmp_path / "x.npz", X=X, y=np.arange(4), notes=np.array([{"a": 1}], dtype=object), more=np.zeros(9))
    points = read_points(tmp_path / "x.npz")
    np.testing.assert_array_equal(points.vectors, X)
    assert points.labels.tolist() == [0, 1, 2, 3]
    with pytest.raises(FileError, match="notes' holds Python objects, which are not read"):
        read_points(tmp_path / "x.npz", label="notes")
    # The only matrix is the points.
    np.savez(tmp_path / "x.npz", vectors=X, y=np.arange(4), notes=np.array([None], dtype=object))
    np.testing.assert_array_equal(read_points(tmp_path / "x.npz").vectors, X)
    np.savez(tmp_path / "two.npz", a=X, b=X)
    refused("must hold the points as array 'X'; it has 'a', 'b'", read_points, tmp_path / "two.npz", error=FileError)


def test_archives_that_unpack_to_more_than_the_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "available_memory", lambda: 1_000_000)
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((1000, 1000)))
    assert (tmp_path / "bomb.npz").stat().st_size < 100_000
    with pytest.raises(FileError, match=r"'bomb.npz' would unpack to 8,000,128 bytes, and 1,000,000 are free"):
        read_points(tmp_path / "bomb.npz")
    for content in (b"0,0\n" * 1_000_000, b"0" * 4_000_000):
        (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(content))
        with pytest.raises(FileError, match=r"'bomb.csv.gz' unpacks to more than 1,000,000 bytes"):
            read_points(tmp_path / "bomb.csv.gz")
    # What is not read does not count.
    np.savez_compressed(tmp_path / "fine.npz", X=np.ones((10, 10)), other=np.zeros((1000, 1000)))
    assert read_points(tmp_path / "fine.npz").vectors.sum() == 100


def test_tables_keep_all_digits(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n16777217,0.1\n1e300,-2.5\n\n")
    pd.DataFrame({"a": [16777217, 1e300], "b": [0.1, -2.5]}).to_parquet(tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        points = read_points(tmp_path / name)
        assert points.vectors.dtype == np.float64
        assert points.vectors.tolist() == [[16777217.0, 0.1], [1e300, -2.5]]


def test_a_table_of_thousands_of_columns_is_explained_in_a_line_of_decent_length(tmp_path):
    names = [f"column{i}" for i in range(20_000)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    assert read_points(tmp_path / "wide.csv").vectors.shape == (1, 20_000)
    with pytest.raises(FileError, match=r"and 19,970 more; got 'kind'") as caught:
        read_points(tmp_path / "wide.csv", label="kind")
    assert len(str(caught.value)) < 1000


def test_a_table_from_the_standard_input(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO("\ufeffname,x,y\né,1,2\nb,3,4\n".encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    points = read_points("-", id="name")
    assert (points.ids.tolist(), points.vectors.tolist()) == (["é", "b"], [[1, 2], [3, 4]])
    assert not stream.closed


# Tables as they are: a row, or a line, for each point -----------------------------------------------------------------

TABLES = [
    ("a.csv", "title,day\nRain,Monday\n", [{"title": "Rain", "day": "Monday"}]),
    ("a.csv", '\ufefftitle,n\r\n"a,\nb",1\r\n', [{"title": "a,\nb", "n": "1"}]),
    *(("a.CSV", "a\n1\n", [{"a": "1"}]), ("a.tsv", "a\tb\n1\t2,3\n", [{"a": "1", "b": "2,3"}])),
    ("a.csv", "a,b\n1\n1,2,3\n", [{"a": "1", "b": None}, {"a": "1", "b": "2"}]),
    *(("a.csv", "a,,b\n1,2,3\n", [{"a": "1", "b": "3"}]), ("a.csv", "a,b\n", []), ("a.csv", "", [])),
    *(("a.txt", "one\ntwo\r\n\nfour", ["one", "two", "", "four"]), ("a.txt", "", [])),
    *(("a.csv", "a\n日本\n", [{"a": "日本"}]), ("a.csv", "a\n" + "x" * 1_000_000, [{"a": "x" * 1_000_000}])),
]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "text", "expected"), TABLES, ids=range(len(TABLES)))
def test_tables_of_text(tmp_path, name, text, expected, packed):
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert read_rows(path) == expected
    assert read_rows(str(path)) == expected


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"a": [1, None], "b": ["x", "y"]}), tmp_path / "a.parquet")
    assert read_rows(tmp_path / "a.parquet") == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.json", b"[]", "must have one JSON object on each line; it begins with a list"),
        ("a", b"", "must end in .jsonl, .json, .ndjson, .csv, .tsv, .parquet, .txt"),
        ("a.csv", "ä\n1\n".encode("latin-1"), "a.csv' must be text in UTF-8"),
        ("a.txt", b"\xff\xfe", "the table .*a.txt' must be text in UTF-8, .*iconv -f UTF-16 -t UTF-8 a.txt > a-"),
        ("b.txt", b"caf\xe9\n", "byte 0xe9 is none .*If it is LATIN1, convert it: iconv -f LATIN1 .* > b-utf8.txt"),
        ("a.csv", b"a,b,a\n1,2,3\n", "more than one column 'a'"),
        ("a.csv.gz", b"not packed", "cannot be read as .csv .truncated or damaged..: Not a gzipped file"),
        ("a.parquet", b"PAR1 but not", "cannot be read as .parquet .truncated or damaged"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content)
    for path, match in ((tmp_path / name, why), (tmp_path / "none.csv", "does not exist"), (tmp_path, "is a folder")):
        refused(match, read_rows, path, error=FileError)
