"""What is reported of found authors: ids, evidence, doubts, scores, and the files they are written to."""

import csv
import json

import numpy as np
import pytest

from grinch import Tree
from grinch.cli.coref import read_authors, write_authors, write_problems, write_records, write_review
from grinch.io.read import FileError
from grinch.metrics import bcubed, pairwise_scores
from grinch.resolve.authors import Record, blocks, make_records, read_records
from grinch.resolve.authors.block_clustering import stable_ids
from grinch.resolve.authors.evaluation import (
    doubts,
    evaluate,
    evaluate_authors,
    evidence,
    one_per_block,
    one_per_spelling,
    unreachable_share,
)
from grinch.resolve.authors.record import Problem
from refusals import refused


def test_records_and_authors_written_are_read_back(tmp_path):
    records = make_records(30, 4)
    write_records(records, tmp_path / "r.jsonl")
    assert read_records(tmp_path / "r.jsonl") == (records, [])
    assert [path.name for path in tmp_path.iterdir()] == ["r.jsonl"]
    refused("must be a file that can be written", write_records, records, tmp_path / "no" / "r.jsonl", error=FileError)
    records = [Record("1", "Wei, Wang"), Record("2", 'W "X" Wang'), Record("3", "Na Li")]
    write_authors(records, {"1": "a-1", "2": "a-2"}, {"1": "a", "2": "a", "3": "b"}, tmp_path)
    for name in ("authors.csv", "authors.jsonl"):
        assert read_authors(tmp_path / name) == {"1": "a-1", "2": "a-2", "3": None}
    last = json.loads((tmp_path / "authors.jsonl").read_text().splitlines()[2])
    assert last == {"id": "3", "author": None, "block": "b", "name": "Na Li"}
    write_problems([Problem(7, "has no name", True), Problem(9, "has the year 'x', …", False)], tmp_path / "p.csv")
    rows = list(csv.reader((tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[1:] == [["7", "left out", "has no name"], ["9", "kept", "has the year 'x', …"]]
    write_review([], tmp_path / "v.csv")
    assert (tmp_path / "v.csv").read_text() == "block,decision,score,verdict\n"


def test_a_file_without_authors_is_explained(tmp_path):
    for text, message in {
        "id,who\n1,a\n": "must have the columns 'id' and 'author'; it has 'id', 'who' in line 2",
        "id,author\n1,a\n1,b\n": "must have each id once; '1' is in line 3 again",
        "id,author\n1\n": "line 2 must have 2 cells",
    }.items():
        (tmp_path / "a.csv").write_text(text)
        refused(message, read_authors, tmp_path / "a.csv", error=FileError)


def test_cells_that_a_spreadsheet_would_run_are_quoted(tmp_path):
    ids = ["=1+1", "+x", "-x", "@x", "'=1+1", "''@x", "'s", "-1", "plain"]
    records = [Record(name, "=HYPERLINK(1)") for name in ids]
    write_authors(records, {name: f"{name}-1" for name in ids}, dict.fromkeys(ids, "@b"), tmp_path)
    found = list(csv.reader((tmp_path / "authors.csv").read_text().splitlines()))[1:]
    assert [row[0] for row in found] == ["'=1+1", "'+x", "'-x", "'@x", "''=1+1", "'" + "''@x", "'s", "-1", "plain"]
    assert {row[2] for row in found} == {"'@b"}
    assert {row[3] for row in found} == {"'=HYPERLINK(1)"}
    assert json.loads((tmp_path / "authors.jsonl").read_text().splitlines()[0])["id"] == "=1+1"
    for name in ("authors.csv", "authors.jsonl"):
        assert read_authors(tmp_path / name) == {name: f"{name}-1" for name in ids}
    write_review([{"block": "=b", "decision": "apart", "score": -999999.5}], tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text() == "block,decision,score,verdict\n'=b,apart,-999999.5,\n"


def test_evidence_of_many_is_cut_short():
    a = [Record(str(i), "W. Wang", coauthors=tuple(f"{c}o {c}a" for c in "BCDFGHJKL")) for i in range(9)]
    common = evidence(a, a)
    assert common["ids a"] == "0 1 2 3 4 5 … 9 in all"
    assert common["same coauthors"].endswith("; … 9 in all")
    assert common["years a"] == ""
    assert evidence(a, [Record("x", "W. Wang")])["same coauthors"] == ""


class Closeness:
    """Groups are ranges of years; the closer, the nearer to 1."""

    def leaf(self, record):
        return [record.year]

    def merge(self, a, b):
        return a + b

    def scores(self, a, others):
        return np.array([1 / (1 + abs(np.mean(a) - np.mean(b))) for b in others])


def test_doubts_are_the_scores_nearest_to_the_threshold():
    years = [2000, 2000, 2001, 2002, 2010]
    records = [Record(str(i), "W. Wang", year=year) for i, year in enumerate(years)]
    tree = Tree.from_merges(np.array([[0, 1], [5, 2], [6, 3], [7, 4]]), np.array([1.0, 0.5, 0.4, 0.1]))
    labels = np.array([0, 0, 0, 1, 2])
    found = doubts(records, labels, tree, Closeness(), 0.45, 3)
    assert [(d["decision"], d["score"], d["author a"], d["author b"]) for d in found] == [
        ("together", 0.5, 0, 0),
        ("apart", 0.375, 0, 1),
        ("apart", 0.1111, 1, 2),
    ]
    assert found[0]["margin"] == 0.05
    assert {found[0]["ids a"], found[0]["ids b"]} == {"0 1", "2"}
    single = Tree.from_merges(np.empty((0, 2), int), np.empty(0))
    assert doubts(records[:1], labels[:1], single, Closeness(), 0.5, 3) == []
    assert doubts(records, labels, tree, Closeness(), 0.5, 0) == []


def test_ids_last():
    before = {"1": "x-1", "2": "x-1", "3": "x-1", "4": "x-2", "5": "x-3"}
    same = stable_ids({"1": "p-9", "2": "p-9", "3": "p-9", "4": "p-8", "5": "p-7"}, before)
    assert same == {"p-9": "x-1", "p-8": "x-2", "p-7": "x-3"}
    apart = stable_ids({"1": "x-1", "2": "x-2", "3": "x-2", "4": "x-3", "5": "x-4"}, before)
    assert apart == {"x-2": "x-1", "x-3": "x-2", "x-4": "x-3", "x-1": "x-4"}
    merged = stable_ids(dict.fromkeys("12345", "x-1") | {"6": "x-2"}, before)
    assert merged == {"x-1": "x-1", "x-2": "x-4"}
    assert stable_ids({}, before) == {}
    assert stable_ids({"1": "x-5", "2": "x-7"}, {}) == {"x-5": "x-1", "x-7": "x-2"}
    # An id that was ever given is never given to another; one with endless digits is only a name.
    assert stable_ids({"1": "x-1", "2": "x-2"}, {"1": "x-1"}, {"x-1", "x-3"}) == {"x-1": "x-1", "x-2": "x-4"}
    endless = f"x-{'9' * 5000}"
    assert stable_ids({"1": "x-1", "2": "x-2"}, {"1": endless}) == {"x-1": endless, "x-2": "x-1"}


def test_no_two_authors_get_one_id(rng):
    for _ in range(50):
        before, now = ({str(i): f"x-{rng.integers(6)}" for i in range(n)} for n in (20, 30))
        stable = stable_ids(now, before)
        assert set(stable) == set(now.values())
        assert len(set(stable.values())) == len(stable)


def test_authors_are_evaluated_like_the_metrics_over_all_blocks(rng):
    groups = blocks(make_records(40, 5))
    records = [record for group in groups.values() for record in group]
    authors = {r.id: f"{r.author if rng.random() < 0.8 else 'odd'}" for r in records}
    truth, found = [f"{r.block} {r.author}" for r in records], [f"{r.block} {authors[r.id]}" for r in records]
    evaluated = evaluate_authors(groups, authors)
    assert evaluated.pairwise == pytest.approx(pairwise_scores(truth, found))
    assert evaluated.bcubed == pytest.approx(bcubed(truth, found))
    f1s = [pairwise_scores([r.author for r in g], [authors[r.id] for r in g]).f1 for g in groups.values()]
    assert evaluated.pairwise_macro.f1 == pytest.approx(np.mean(f1s))
    assert evaluate_authors(groups, {r.id: r.author for r in records}).pairwise.f1 == 1
    true = {name: [record.author for record in group] for name, group in groups.items()}
    per_block, per_spelling = (
        evaluate({name: (true[name], baseline(group)) for name, group in groups.items()}).pairwise
        for baseline in (one_per_block, one_per_spelling)
    )
    assert per_block.recall == 1
    assert 0 < per_spelling.f1 < 1
    assert evaluate_authors(groups, {}).pairwise.recall == 0
    assert unreachable_share(groups) == 0
    # Records without an author are not evaluated.
    few = {"a": [Record("1", "A", author="x"), Record("2", "A", author="x"), Record("3", "A")], "b": [Record("4", "B")]}
    assert evaluate_authors(few, {"1": "p", "2": "p", "3": "p", "4": "q"}).pairwise == (1, 1, 1)
    refused("at least one record with its true author", evaluate_authors, {"b": few["b"]}, {})
