"""Tables as they are: a row, or a line, for each point."""

from __future__ import annotations

import gzip

import pytest

from grinch.io.points import FileError
from grinch.io.tables import read_rows


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "title,day\nRain,Monday\n", [{"title": "Rain", "day": "Monday"}]),
        ("a.csv", '\ufefftitle,n\r\n"a,\nb",1\r\n', [{"title": "a,\nb", "n": "1"}]),
        ("a.CSV", "a\n1\n", [{"a": "1"}]),
        ("a.tsv", "a\tb\n1\t2,3\n", [{"a": "1", "b": "2,3"}]),
        ("a.csv", "a,b\n1\n1,2,3\n", [{"a": "1", "b": None}, {"a": "1", "b": "2"}]),
        ("a.csv", "a,,b\n1,2,3\n", [{"a": "1", "b": "3"}]),
        ("a.csv", "a,b\n", []),
        ("a.csv", "", []),
        ("a.txt", "one\ntwo\r\n\nfour", ["one", "two", "", "four"]),
        ("a.txt", "", []),
        ("a.csv", "a\n日本\n", [{"a": "日本"}]),
    ],
)
def test_tables_of_text(tmp_path, name, text, expected, packed):
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert read_rows(path) == expected
    assert read_rows(str(path)) == expected


def test_a_cell_may_be_long(tmp_path):
    (tmp_path / "a.csv").write_text("a\n" + "x" * 1_000_000 + "\n")
    assert len(read_rows(tmp_path / "a.csv")[0]["a"]) == 1_000_000


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
    with pytest.raises(FileError, match=why):
        read_rows(tmp_path / name)


def test_what_is_not_there_is_refused(tmp_path):
    for path, why in ((tmp_path / "none.csv", "does not exist"), (tmp_path, "is a folder")):
        with pytest.raises(FileError, match=why):
            read_rows(path)
