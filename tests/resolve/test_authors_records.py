"""Names, blocks and records: what people write, and what is wrong with files."""

import gzip
import json
import lzma
import tracemalloc

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import at_night
from grinch.io.read import FileError
from grinch.resolve.authors import Record, block_key, blocks, compatible, folded, parsed, read_records
from grinch.resolve.authors.synthetic import make_records
from refusals import refused

SPELLINGS = {
    (("wei",), "wang"): ["Wei Wang", "Wang, Wei", "WANG, WEI", "Wei Wang 0001", "  Wei \t Wang  "],
    (("w",), "wang"): ["W. Wang", "Wang W", "Wang W."],
    (("j", "c"), "smith"): ["Smith JC", "JC Smith", "J.C. Smith"],
    (("j", "p"), "serre"): ["J.-P. Serre"],
    (("jean", "pierre"), "serre"): ["Jean-Pierre Serre"],
    (("maria", "e"), "silva"): ["Maria E. Silva"],
    (("juan", "carlos"), "de la cruz"): ["Juan-Carlos de la Cruz", "de la Cruz, Juan Carlos"],
    (("j",), "van der berg"): ["van der Berg, J.", "Berg, J. van der", "van der Berg J"],
    (("johannes", "diderik"), "van der waals"): ["Johannes Diderik van der Waals"],
    (("gabriel",), "garcia marquez"): ["García Márquez, Gabriel", "García-Márquez, Gabriel", "Gabriel García-Márquez"],
    (("gabriel", "garcia"), "marquez"): ["Gabriel García Márquez"],
    (("conan",), "obrien"): ["Conan O'Brien", "Conan O’Brien"],
    (("martin", "luther"), "king"): ["Martin Luther King, Jr.", "King, Martin Luther, Jr."],
    (("di",), "wang"): ["Di Wang", "Wang, Di"],
    (("xiao", "ming"), "li"): ["Xiao-Ming Li"],
    # Not to be told from a first name in capitals.
    (("li",), "wei"): ["LI Wei"],
    (("nguyen",), "van duc"): ["Nguyễn Văn Đức"],
    ((), ""): ["", " .,-", "12345"],
    # A last name alone, and a first and a last name.
    **{((), last): [name] for name, last in {"de la Cruz": "de la cruz", "Plato": "plato", "Wang,": "wang"}.items()},
    ((), "wei"): [", Wei"],
    **{
        ((first,), last): [name]
        for name, first, last in [
            *(("Ludwig von Mises", "ludwig", "von mises"), ("Łukasz Kaiser", "lukasz", "kaiser")),
            *(("Kevin L&uuml;", "kevin", "lu"), ("Jörg Strauß", "jorg", "strauss"), ("Andrew NG", "andrew", "ng")),
            *(("Søren Kierkegaard", "soren", "kierkegaard"), ("William Gates III", "william", "gates")),
            *(("Dr. Jane Doe, PhD", "jane", "doe"), ("Le Zhang", "le", "zhang"), ("Bin Li", "bin", "li")),
            *(("Yu Du", "yu", "du"), ("王伟", "伟", "王"), ("김민수", "민수", "김"), ("Иван Петров", "иван", "петров")),
            *(("Sayed El-Hassan", "sayed", "el hassan"), ("Smith (ed.), John", "john", "smith")),
        ]
    },
}


@pytest.mark.parametrize("parts", SPELLINGS)
def test_names_are_taken_apart(parts):
    assert {name: parsed(name) for name in SPELLINGS[parts]} == dict.fromkeys(SPELLINGS[parts], parts)


KEYS = {
    "w wang": ["Wei Wang", "Wang, Wei", "W. Wang", "WANG W", "Wéi Wáng", "Ｗei Ｗang", "W Wang 0012"],
    "j berg": ["Jan van der Berg", "Berg, J.", "van der Berg, Jan", "Berg, J. van der", "J Berg Jr."],
    "g marquez": ["Gabriel García Márquez", "García-Márquez, G.", "G. Garcia Marquez", "G Marquez"],
    "s hassan": ["Sayed El-Hassan", "S. Al Hassan", "Hassan, Sayed"],
    "j serre": ["J.-P. Serre", "Jean-Pierre Serre", "Serre, Jean"],
    "伟 王": ["王伟"],
    "plato": ["Plato", "PLATO"],
    "": ["", "  ", "?!", "42"],
}


@pytest.mark.parametrize("key", KEYS)
def test_spellings_of_a_name_meet_in_one_block(key):
    assert {name: block_key(name) for name in KEYS[key]} == dict.fromkeys(KEYS[key], key)


AGREE = [
    *(("W. Wang", "Wei Wang"), ("Wang", "Wei Wang"), ("", "Wei Wang"), ("Xiao-Ming Li", "Xiaoming Li")),
    *(("X. M. Li", "Xiao-Ming Li"), ("X. Li", "Xiaoming Li"), ("John Smith", "John A. Smith")),
    *(("J. A. Smith", "John Andrew Smith"), ("Ana Smith-Jones", "Ana Jones"), ("J. van der Berg", "Jan Berg")),
    *(("Gabriel García Márquez", "García-Márquez, G."), ("O'Brien, C", "Conan OBrien"), ("José Núñez", "Jose Nunez")),
]
CONFLICT = [
    *(("Wei Wang", "Wen Wang"), ("W. Wang", "Li Wang"), ("Wei Wang", "Wei Zhang"), ("Wei Wang", "Weiming Wang")),
    *(("John A. Smith", "John B. Smith"), ("John Andrew Smith", "John B. Smith"), ("J. P. Serre", "JB Serre")),
    ("Yu Li", "Y. O. Li-Wu"),
]


@pytest.mark.parametrize(("a", "b"), AGREE + CONFLICT)
def test_names_that_can_be_one_person_and_that_conflict(a, b):
    assert compatible(a, b) == compatible(b, a) == ((a, b) in AGREE)


@given(st.text(), st.text())
def test_no_text_breaks_a_name(a, b):
    name = parsed(a)
    assert folded(folded(a)) == folded(a)
    assert all(name.first)
    assert name.last == " ".join(name.last.split())
    assert compatible(a, a)
    assert compatible(a, b) == compatible(b, a)
    assert bool(block_key(a)) == bool(name.last)


def test_blocks_keep_every_record_in_order():
    records = [Record(str(i), name) for i, name in enumerate(["Wei Wang", "Na Li", "W. Wang", "N Li", "Wang, Wu"])]
    found = {key: [record.id for record in group] for key, group in blocks(records).items()}
    assert found == {"w wang": ["0", "2", "4"], "n li": ["1", "3"]}
    assert blocks([]) == {}
    # By a column.
    records = [Record("1", "A", block="x"), Record("2", "B", block="x"), Record("3", "A", block="y")]
    assert {key: len(group) for key, group in blocks(records, by="block").items()} == {"x": 2, "y": 1}
    with pytest.raises(ValueError, match="must have a block to be put in a block; record '4' has no block; fill it in"):
        blocks([Record("4", "A")], by="block")
    refused(r"must have a name .*; record '5' has the name '\?'", blocks, [Record("5", "?")])
    refused("by must be one of 'block' or None", blocks, records, by="year")


ROWS = [
    {"id": 7, "name": "Wei Wang", "title": "Deep trees", "coauthors": ["Na Li", "J. Doe"], "venue": "KDD", "year": 2019,
     "affiliation": "UMass", "abstract": "Trees.", "keywords": ["tree", "graft"], "author": "a1", "block": "b",
     "orcid": "0000-0001", "paper": "p1"},
    {"id": 8, "name": "王伟", "title": "", "coauthors": [], "venue": None, "year": None, "keywords": []},
]  # fmt: skip
RECORDS = [
    Record("7", "Wei Wang", "Deep trees", ("Na Li", "J. Doe"), "KDD", 2019, "UMass", "Trees.", ("tree", "graft"), "a1",
           "b", "0000-0001", "p1"),
    Record("8", "王伟"),
]  # fmt: skip


def write(path, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


@pytest.mark.parametrize("name", ["r.jsonl", "r.json", "r.jsonl.gz", "r.jsonl.xz"])
def test_json_lines(tmp_path, name):
    assert read_records(write(tmp_path / name, ROWS)) == (RECORDS, [])


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.csv.gz", "r.parquet"])
def test_tables(tmp_path, name):
    frame = pd.DataFrame(ROWS)
    frame["year"] = frame["year"].astype("Int64")
    if name == "r.parquet":
        frame.to_parquet(tmp_path / name)
        # Years of a column with holes are floats in pandas.
        frame.assign(year=[2019.0, None]).to_parquet(tmp_path / "holes.parquet")
        assert read_records(tmp_path / "holes.parquet") == (RECORDS, [])
    else:
        for column, mark in (("coauthors", "; "), ("keywords", "|")):
            frame[column] = frame[column].map(mark.join)
        frame.to_csv(tmp_path / name, index=False, sep="\t" if name == "r.tsv" else ",")
    assert read_records(tmp_path / name) == (RECORDS, [])


def test_columns_by_other_names(tmp_path):
    row = {"mention_id": 0, "block": "AGupta", "label": "AGupta#10", "author_name": "A Gupta", "orgs": ["IIT", "MIT"]}
    more = {"coauthors": ["Kurt Maly"], "abstract_words": ["deep", "tree"], "Publication Year": "2003", "DOI": ""}
    (record,) = read_records(write(tmp_path / "r.jsonl", [row | more])).records
    expected = {"affiliation": "IIT; MIT", "abstract": "deep tree", "author": "AGupta#10", "block": "AGupta"}
    assert record == Record("0", "A Gupta", coauthors=("Kurt Maly",), year=2003, **expected)
    rows = [{"nr": "x", "creator": "A. Gupta", "who": 5, "name": "not this one", "title": "T"}]
    columns = {"id": "nr", "name": "creator", "author": "who", "block": "creator"}
    (record,) = read_records(write(tmp_path / "r.jsonl", rows), columns).records
    assert record == Record("x", "A. Gupta", "T", author="5", block="A. Gupta")
    # The author is no coauthor.
    rows = [{"id": 1, "name": "José Núñez", "authors": "Na Li; Jose Nunez | J. Núñez"}]
    assert read_records(write(tmp_path / "r.jsonl", rows)).records[0].coauthors == ("Na Li", "J. Núñez")


GOOD = '{"id": 1, "name": "A B"}\n'
PROBLEMS = {
    "broken": ('{"id": 2, "name": "C', "line 2 is not JSON: .* at character"),
    "not an object": ("[1, 2]", "line 2 must be a JSON object, .*; it is a list"),
    **{
        f"no name {i}": (f'{{"id": 2{name}}}', "line 2 has no name")
        for i, name in enumerate(("", ', "name": "  "', ', "name": null'))
    },
    "half a character": ('{"id": 2, "name": "A \\ud800B"}', "line 2 has half of a surrogate pair in its name"),
    "digits": ('{"id": 2, "name": "A B", "year": ' + "9" * 10_000 + "}", "line 2 is JSON with a number of too many"),
    "nested": ("[" * 100_000, "line 2 is JSON that is nested too deep"),
    "name without letters": ('{"id": 2, "name": "?"}', r"line 2 has a name without letters, '\?'"),
    "name list": ('{"id": 2, "name": {"a": 1}}', "line 2 must have a text as name; it has a dict"),
    "no id": ('{"name": "C D"}', "line 2 has no id"),
    "same id": ('{"id": "1", "name": "C D"}', "line 2 has the id '1', which line 1 has too"),
    "bad title": ('{"id": 2, "name": "C D", "title": {"en": "x"}}', "line 2 must have a text as title; it has a dict"),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_bad_lines_stop_or_are_reported(tmp_path, case):
    line, message = PROBLEMS[case]
    path = tmp_path / "r.jsonl"
    path.write_text(GOOD + line + '\n\n{"id": 3, "name": "E F"}\n')
    with pytest.raises(FileError, match=f"FILE 'r.jsonl', {message}.*; on_error='skip' .--on-error skip. leaves out"):
        read_records(path)
    records, problems = read_records(path, on_error="skip")
    assert [r.id for r in records] == ["1", "3"]
    assert [(p.line, p.left_out) for p in problems] == [(2, True)]


def test_a_year_that_is_text_is_a_warning(tmp_path):
    years = [2001, "2002", 2003.0, "2004-05-06", "in press", "", 12, True, "２００５"]
    rows = [{"id": i, "name": "A B", "year": year} for i, year in enumerate(years)]
    path = write(tmp_path / "r.jsonl", rows)
    refused("line 5 has the year 'in press', which is not a year", read_records, path, error=FileError)
    records, problems = read_records(path, on_error="skip")
    assert [r.year for r in records] == [2001, 2002, 2003, 2004, None, None, None, None, None]
    assert [(p.line, p.left_out) for p in problems] == [(5, False), (7, False), (8, False), (9, False)]


def test_bad_rows_of_a_table(tmp_path):
    path = tmp_path / "r.csv"
    path.write_bytes(
        b'\xef\xbb\xbfid,name,title\n1,A B,"two\nlines"\n2,C D\n3,E \xff,x\n4,"F, G",y\n5,,z\n\n6,H I,"left open\n'
    )
    records, problems = read_records(path, on_error="skip")
    assert [(r.id, r.name) for r in records] == [("1", "A B"), ("4", "F, G"), ("6", "H I")]
    assert [str(p) for p in problems] == [
        "line 4 must have 3 cells like the header; it has 2",
        "line 5 is not UTF-8 in column 'name'",
        "line 7 has no name",
    ]


def test_a_broken_line_in_many_is_found_without_holding_the_file(tmp_path):
    path = tmp_path / "many.jsonl"
    n, broken = 4_000, 3_678
    with open(path, "w") as file:
        for i in range(1, n + 1):
            file.write('{"id": ' if i == broken else f'{{"id": {i}, "name": "A B", "junk": "{"x" * 500}"}}\n')
            file.write("\n" if i == broken else "")
    tracemalloc.start()
    refused("line 3,678 is not JSON", read_records, path, error=FileError)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size
    records, problems = read_records(path, on_error="skip")
    assert len(records) == n - 1
    assert problems[0].line == broken


@pytest.mark.parametrize("name", ["long.jsonl.gz", at_night("long.csv.xz")])
def test_a_line_without_end_does_not_fill_the_memory(tmp_path, name):
    path = tmp_path / name
    with (gzip.open if name.endswith(".gz") else lzma.open)(path, "wb") as file:
        file.write(b'{"id": "' if "jsonl" in name else b"id,name\n1,")
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"line \d must be shorter than 16,777,216 characters"):
            read_records(path, on_error="skip")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6


NO_RECORDS = {"empty.jsonl": b"", "blank.jsonl": b"\n \n", "empty.csv": b"", "head.csv": b"id,name\n"}
CREATER = "must be one of 'id', 'creator'; got 'creater'; did you mean 'creator'"
CUT_SHORT = b"".join(b'{"id": %d, "name": "A"}\n' % hash((i, i)) for i in range(999))
BROKEN = {
    "gone.csv": (None, {}, "FILE .*gone.csv' does not exist"),
    "r.txt": (b"x", {}, "FILE must end in .jsonl, .json, .ndjson, .csv, .tsv, .parquet .*; got 'r.txt'"),
    **{name: (content, {}, f"FILE '{name}' has no records$") for name, content in NO_RECORDS.items()},
    "twice.csv": (b"id,name,name\n", {}, "has more than one column 'name'"),
    "list.json": (b'[{"id": 1}]', {}, "must have one JSON object on each line; it begins with a list. .*jq"),
    "bad.jsonl": (b"x\ny\n", {}, "has no records that can be used; the first of 2 problems: line 1 is not JSON"),
    "map.csv": (b"id,creator\n1,A B\n", {"name": "creater"}, f"the column of 'name' {CREATER}"),
    "cut.jsonl.gz": (gzip.compress(CUT_SHORT)[:6000], {}, r"be read after line \d\d\d \(truncated or damaged\?\)"),
    "cut.parquet": (b"PAR1abc", {}, r"truncated or damaged\?"),
}


@pytest.mark.parametrize("on_error", ["raise", "skip"])
@pytest.mark.parametrize("name", BROKEN)
def test_files_that_cannot_be_read_are_explained(tmp_path, name, on_error):
    content, columns, message = BROKEN[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    if on_error == "raise" and name in ("bad.jsonl", "map.csv"):
        message = "line 1 is not JSON" if name == "bad.jsonl" else "line 2 has no name .its columns are 'id', 'creator'"
    refused(message, read_records, tmp_path / name, columns, on_error, error=FileError)


def test_wrong_parameters(tmp_path):
    path = write(tmp_path / "r.jsonl", ROWS)
    for how, error, match in (
        ({"on_error": "ignore"}, ValueError, "on_error must be one of 'raise', 'skip'; got 'ignore'"),
        ({"columns": {"nam": "x"}}, ValueError, "a field of a record must be one of .* got 'nam'; did you mean 'name'"),
        ({"needs": ["author"]}, FileError, "line 2 has no author"),
    ):
        refused(match, read_records, path, error=error, **how)
    assert len(read_records(path, on_error="skip", needs=["author"]).records) == 1


def test_made_up_records_are_what_they_say():
    records = make_records(n_authors=90, n_blocks=9, random_state=3)
    assert len({record.id for record in records}) == len(records)
    groups = blocks(records)
    assert len(groups) == 9
    assert all({record.block for record in group} == {key} for key, group in groups.items())
    assert sum(len({record.author for record in group}) for group in groups.values()) == 90
    assert len({record.author for record in records}) == 90
    assert 4 < len(records) / 90 < 14
    assert all(1985 <= record.year <= 2025 for record in records if record.year is not None)
    for field in ("coauthors", "venue", "year", "affiliation", "abstract", "keywords", "orcid"):
        assert 0 < sum(not getattr(record, field) for record in records) < len(records), field
    names = [record.name for record in records if "." not in record.name]
    assert any(len({r.author for r in records if r.name == name}) > 1 for name in names)
    # They are the same again, and others with another seed.
    assert make_records(12, 3, 1) == make_records(12, 3, 1) != make_records(12, 3, 2)
    assert len(blocks(make_records(700, 700, records_per_author=1))) == 700
    refused("n_authors must be at least n_blocks; got n_authors=2, n_blocks=3", make_records, 2, 3)
    refused(r"records_per_author must be a number of at least 1; got 0\.5", make_records, records_per_author=0.5)
