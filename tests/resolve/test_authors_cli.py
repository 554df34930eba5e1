"""The commands of author coreference, as a user types them."""

import csv
import importlib.util
import json

import pytest

import commands
from grinch.cli.coref import read_authors, write_records
from grinch.resolve.authors import Model, make_records, read_records

needs_model = pytest.mark.skipif(
    importlib.util.find_spec("rapidfuzz") is None, reason="rapidfuzz is not installed: pip install 'grinch[coref]'"
)


def run(*arguments, **more):
    """Run a command of author coreference, and check its exit code."""
    return commands.run("coref", *arguments, **more)


def words(done):
    """Return what was printed, without line breaks."""
    return " ".join(done.stdout.split())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a model and records it has not seen."""
    folder = tmp_path_factory.mktemp("coref")
    for seed, name in enumerate(("labelled", "records"), 1):
        done = run("sample", "-o", f"{name}.jsonl", "--authors", 15, "--blocks", 6, "--seed", seed, cwd=folder)
        records = read_records(folder / f"{name}.jsonl").records
        assert records == make_records(15, 6, seed)
        assert words(done) == f"{len(records)} records of 15 made-up authors who share 6 names: written to {name}.jsonl"
    done = run("train", "labelled.jsonl", "-o", "model.grinch", "--kind", "logistic", "--rounds", 1, cwd=folder)
    assert "records in 6 blocks; the largest, '" in words(done)
    assert "Pairwise F1 on 6 held-out names: 0." in words(done)
    assert "Written to model.grinch" in done.stdout
    return folder


@needs_model
def test_cluster_writes_all_it_promises(trained):
    done = run("cluster", "records.jsonl", "--model", "model.grinch", "-o", "out", "--review", 7, cwd=trained)
    records = read_records(trained / "records.jsonl").records
    assert f"{len(records)} of {len(records)}" in done.stderr
    out = trained / "out"
    written = ["authors.csv", "authors.jsonl", "problems.csv", "review.csv", "summary.json"]
    assert sorted(path.name for path in out.iterdir()) == written
    authors = read_authors(out / "authors.csv")
    assert authors == read_authors(out / "authors.jsonl")
    assert list(authors) == [record.id for record in records]
    assert all(authors[record.id].startswith(f"{record.block}-") for record in records)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["records"] == len(records)
    assert summary["authors"] == len(set(authors.values()))
    assert f"{summary['authors']} authors of {len(records)} records" in done.stdout
    review = list(csv.DictReader((out / "review.csv").read_text(encoding="utf-8").splitlines()))
    assert len(review) == 7
    margins = [float(row["margin"]) for row in review]
    assert margins == sorted(margins)
    for row in review:
        assert row["decision"] == ("together" if row["author a"] == row["author b"] else "apart")
        assert authors[row["ids a"].split()[0]] == row["author a"]
        assert authors[row["ids b"].split()[0]] == row["author b"]
    printed = run("evaluate", "records.jsonl", "--predicted", "out/authors.csv", cwd=trained).stdout
    scores = {line.split("  ")[1]: line.split()[-4:] for line in printed.splitlines() if line.startswith("  ")}
    assert float(scores["authors.csv"][2]) > float(scores["one author per block"][2])
    assert float(scores["authors.csv"][2]) > float(scores["one author per spelling"][2])
    again = run("evaluate", "records.jsonl", "--model", "model.grinch", "-q", cwd=trained).stdout
    found, expected = (
        [line.split()[1:] for line in said.splitlines() if line.startswith(f"  {name}")]
        for said, name in ((again, "grinch"), (printed, "authors.csv"))
    )
    assert found == expected


@needs_model
@pytest.mark.slow
def test_processes_find_the_same_authors(trained):
    for jobs in (1, 2):
        run("cluster", "records.jsonl", "-m", "model.grinch", "-o", jobs, "--jobs", jobs, "-q", cwd=trained)
    for name in ("authors.csv", "review.csv"):
        assert (trained / "1" / name).read_bytes() == (trained / "2" / name).read_bytes()


@needs_model
def test_authors_keep_their_ids(trained):
    records = read_records(trained / "records.jsonl").records
    write_records(records[10:], trained / "some.jsonl")
    options = ("-m", "model.grinch", "-q", "--threshold", 0.7)
    run("cluster", "some.jsonl", *options, "-o", "some", cwd=trained)
    run("cluster", "records.jsonl", *options, "-o", "all", "--previous", "some/authors.csv", cwd=trained)
    before, now = read_authors(trained / "some/authors.csv"), read_authors(trained / "all/authors.csv")
    kept = sum(now[record] == author for record, author in before.items())
    assert kept > 0.8 * len(before)
    groups = {frozenset(r for r in before if before[r] == author): author for author in set(before.values())}
    for group in {frozenset(r for r in now if now[r] == author) for author in set(now.values())}:
        if group in groups:
            assert now[next(iter(group))] == groups[group]


@needs_model
def test_a_higher_threshold_splits_more(trained):
    found = []
    for threshold in (0.05, 0.95):
        run("cluster", "records.jsonl", "-m", "model.grinch", "-o", "t", "-t", threshold, "-q", cwd=trained)
        found.append(len(set(read_authors(trained / "t/authors.csv").values())))
    assert found[0] < found[1]
    done = run("cluster", "records.jsonl", "-m", "model.grinch", "-t", 2, cwd=trained, expect=2)
    assert "error: --threshold must be between 0 and 1; got 2.0" in done.stderr


@needs_model
def test_bad_lines_stop_or_are_reported(trained):
    lines = (trained / "records.jsonl").read_text().splitlines()
    lines[3] = lines[3][:40]
    lines[5] = json.dumps({**json.loads(lines[5]), "year": "in press"})
    lines[8] = lines[7]
    (trained / "bad.jsonl").write_text("\n".join(lines))
    done = run("cluster", "bad.jsonl", "-m", "model.grinch", "-o", "bad", cwd=trained, expect=2)
    assert "error: FILE 'bad.jsonl', line 4 is not JSON" in done.stderr
    assert "--on-error skip" in done.stderr
    assert not (trained / "bad").exists()
    done = run("cluster", "bad.jsonl", "-m", "model.grinch", "-o", "bad", "-q", "--on-error", "skip", cwd=trained)
    assert "2 lines left out; the first: line 4 is not JSON" in words(done)
    assert "1 records repaired; the first: line 6 has the year 'in press', which is not a year" in words(done)
    found = list(csv.DictReader((trained / "bad/problems.csv").read_text().splitlines()))
    assert [(row["line"], row["record"]) for row in found] == [("4", "left out"), ("6", "kept"), ("9", "left out")]
    assert len(read_authors(trained / "bad/authors.csv")) == len(lines) - 2


ENDED = {
    RuntimeError("no such luck"): (1, "block '{odd}' failed, its records have no author: RuntimeError: no such luck"),
    KeyboardInterrupt(): (130, "blocks are not done, and their records have no author. Run the same command again"),
}


@needs_model
@pytest.mark.parametrize("error", ENDED, ids=repr)
def test_whatever_ends_a_block_others_are_kept_and_the_same_command_goes_on(trained, monkeypatch, error):
    from grinch.resolve.authors import block_clustering as clustering

    records = read_records(trained / "records.jsonl").records
    # The smallest comes last.
    odd = min({record.block for record in records}, key=lambda block: sum(record.block == block for record in records))
    sound, out = clustering.cluster_block, f"ended by {type(error).__name__}"

    def fails_once(group, *arguments, **options):
        if group[0].block == odd:
            raise error
        return sound(group, *arguments, **options)

    arguments = ("cluster", "records.jsonl", "-m", "model.grinch", "-o", out, "-q")
    with monkeypatch.context() as patched:
        patched.setattr(clustering, "cluster_block", fails_once)
        done = run(*arguments, cwd=trained, expect=ENDED[error][0])
    assert ENDED[error][1].format(odd=odd) in words(done)
    authors = read_authors(trained / out / "authors.csv")
    assert {record.id for record in records if record.block == odd} == {r for r in authors if authors[r] is None}
    failed = json.loads((trained / out / "summary.json").read_text())["failed"]
    assert list(failed) == ([odd] if isinstance(error, RuntimeError) else [])
    kept = trained / out / "finished-blocks"
    assert len(list(kept.iterdir())) == 5
    run(*arguments, cwd=trained)
    assert None not in read_authors(trained / out / "authors.csv").values()
    assert not kept.exists()


@needs_model
def test_other_columns_and_blocks(trained):
    frame = [json.loads(line) for line in (trained / "records.jsonl").read_text().splitlines()]
    with open(trained / "t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["nr", "creator", "with", "group", "true"])
        for row in frame:
            writer.writerow([row["id"], row["name"], "; ".join(row.get("coauthors", [])), row["block"], row["author"]])
    columns = ("--columns", "id=nr", "--columns", "name=creator", "--columns", "coauthors=with")
    run("cluster", "t.csv", *columns, "--block", "group", "-m", "model.grinch", "-o", "t", "-q", cwd=trained)
    assert len(read_authors(trained / "t/authors.csv")) == len(frame)
    done = run("cluster", "t.csv", *columns, "--block", "grp", "-m", "model.grinch", cwd=trained, expect=2)
    assert "has no block (its columns are 'nr', 'creator', 'with', 'group', 'true'; name the right one" in done.stderr
    done = run("train", "t.csv", *columns, cwd=trained, expect=2)
    assert "error: LABELLED must have records with authors; 't.csv' has none" in done.stderr
    assert "--columns author=COLUMN" in done.stderr


@needs_model
def test_columns_are_named_once(trained):
    frame = [json.loads(line) for line in (trained / "labelled.jsonl").read_text().splitlines()]
    names = {"id": "nr", "name": "creator", "coauthors": "with", "block": "group", "author": "true"}
    for file in ("named.csv", "unlabelled.csv"):
        fields = [field for field in names if field != "author" or file == "named.csv"]
        with open(trained / file, "w", newline="") as written:
            writer = csv.writer(written)
            writer.writerow([names[field] for field in fields])
            for row in ({**row, "coauthors": "; ".join(row.get("coauthors", []))} for row in frame):
                writer.writerow([row[field] for field in fields])
    columns = [part for field in names if field != "block" for part in ("--columns", f"{field}={names[field]}")]
    kind = ("--kind", "logistic", "--rounds", 1)
    run("train", "named.csv", *columns, "--block", "group", *kind, "-o", "named.grinch", "-q", cwd=trained)
    assert Model.load(trained / "named.grinch").columns == names
    for file in ("named", "unlabelled"):
        run("cluster", f"{file}.csv", "-m", "named.grinch", "-o", file, "-q", cwd=trained)
    authors = read_authors(trained / "named/authors.csv")
    assert authors == read_authors(trained / "unlabelled/authors.csv")
    assert {author.rpartition("-")[0] for author in authors.values()} == {row["block"] for row in frame}
    by_file = run("evaluate", "named.csv", "--predicted", "named/authors.csv", cwd=trained).stdout
    by_model = run("evaluate", "named.csv", "-m", "named.grinch", "-q", cwd=trained).stdout
    assert by_file.splitlines()[-2:] == by_model.splitlines()[-2:]
    # A file with the usual names is read, too; one without a block is not put into other blocks silently.
    run("cluster", "labelled.jsonl", "-m", "named.grinch", "-o", "usual", "-q", cwd=trained)
    assert read_authors(trained / "usual/authors.csv").keys() == authors.keys()
    (trained / "blockless.csv").write_text("nr,creator\n1,Wei Wang\n")
    done = run("cluster", "blockless.csv", "-m", "named.grinch", cwd=trained, expect=2)
    assert "has no block" in done.stderr


def test_mistakes_are_explained_in_one_line(tmp_path):
    write_records(make_records(9, 2), tmp_path / "r.jsonl")
    for arguments, message in {
        ("cluster", "r.jsonl", "-m", "none"): "--model 'none' is not a file; make one with: grinch coref train",
        ("evaluate", "r.jsonl"): "give either --model, to cluster the records, or --predicted",
        ("evaluate", "r.jsonl", "--predicted", "none.csv"): "FILE 'none.csv' does not exist",
        ("evaluate", "r.jsonl", "--columns", "name", "--predicted", "r.jsonl"): "--columns must be FIELD=COLUMN",
        ("evaluate", "r.jsonl", "--columns", "nam=x", "--predicted", "r.jsonl"): "did you mean 'name'",
        ("sample", "--authors", 1, "--blocks", 2): "n_authors must be at least n_blocks",
    }.items():
        done = run(*arguments, cwd=tmp_path, expect=2)
        assert done.stderr.startswith("error: ")
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_evaluate_authors_of_a_file(tmp_path):
    records = make_records(9, 2)
    write_records(records, tmp_path / "r.jsonl")
    done = run("evaluate", "r.jsonl", "--predicted", "r.jsonl", cwd=tmp_path)
    assert "  r.jsonl                      1.000   1.000  1.000               1.000" in done.stdout
    (tmp_path / "few.csv").write_text(f"id,author\n{records[0].id},a\n")
    done = run("evaluate", "r.jsonl", "--predicted", "few.csv", cwd=tmp_path)
    assert f"{len(records) - 1} records are not in few.csv" in words(done)
    (tmp_path / "others.csv").write_text("id,author\nx,a\n")
    done = run("evaluate", "r.jsonl", "--predicted", "others.csv", cwd=tmp_path, expect=2)
    assert "--predicted 'others.csv' must have the ids of RECORDS" in done.stderr
