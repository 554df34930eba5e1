"""What commands refuse: in one line that says what is wrong and what to do, with exit code 2, and nothing written."""

import os
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from commands import run_command


@pytest.fixture
def run(tmp_path):
    """The command line in a folder of its own."""
    return partial(run_command, cwd=tmp_path)


def refused(done):
    """The one line of a refusal."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


MANY = ("--workers", 2)
REFUSED = {
    # More of what files may be: tests/io/test_read.py.
    **{(command, "broken.nwk"): "FILE must end in .npy" for command in ("cluster", "compare", "hint")},
    ("compare", "junk.npy"): "is no array of numpy",
    ("hint", "list.csv"): "seems to be JSON",
    ("cluster", "x[index].csv"): "error: FILE 'x[index].csv' does not exist\n",
    ("compare", "folder.csv"): "is a folder",
    ("cluster", "nan.csv"): "error: X must be finite, but contains NaN in row 1, column 0",
    ("cluster", "nan.csv", "--cap", -1): "cap must be a whole number of leaves",
    ("cluster", "nan.csv", "-k", 3, "-t", 0.5): "two ways to cut",
    ("cluster", "nan.csv", "--layer", "finest"): "layer must be one of 'auto', 'fine', 'coarse', or the number of",
    ("cluster", "nan.csv", "--cut", "height"): "give it with --clusters",
    ("cluster", "nan.csv", "--out", "nan.csv"): "--out must be a folder that can be made or written to; got 'nan.csv'",
    ("cluster", "nan.csv", "--payload", "nowhere"): "error: --payload must be one of 'a', 'b'; got 'nowhere'",
    ("cluster", "twice.csv"): "has more than one column 'a'",
    ("cluster", "x.csv", "--method", "birch", "--refine", 1): "--refine is for grinch, rotate and online",
    **{("cluster", "x.csv", "--threshold", t): "threshold must be" for t in ("nan", "inf", "-inf", "1e999")},
    ("cluster", "x.csv", "--scale", *MANY): "error: --scale is for one process",
    ("warmup", "denes"): "KIND must be one of 'dense', 'sparse', 'large', 'stores', 'metrics', 'others'; got 'denes'",
    # Texts.
    ("cluster", "texts.txt", "--scale"): "error: --scale standardises columns of numbers",
    ("cluster", "t.csv", "--text", "nowhere"): "--text must be one of 'doc', 'kind', 'title'; got 'nowhere'",
    ("cluster", "t.csv", "--text", "title", "--label", "kid"): "--label must be one of",
    ("cluster", "t.csv", "--text", "title", "--id", "kind"): "--id kind must be different for every point; '0' is",
    ("cluster", "t.csv", "--hashing"): "--hashing is for texts",
    ("cluster", "rows.jsonl"): "--text must name the column of FILE with the texts; it has 'a'",
    ("cluster", "texts.txt", "--text", "title"): "is a text per line and has no columns",
    ("cluster", "texts.txt", "--id", "doc"): "is a text per line and has no columns",
    ("cluster", "texts.txt", "--ngrams", 0): "--ngrams 0 leaves words out: give --characters as well",
    ("cluster", "texts.txt", "--characters", "four"): "--characters must be a length or two",
    ("cluster", "texts.txt", "--embed", "json:JSONEncoder", "--hashing"): "leave --hashing out",
    ("cluster", "texts.txt", "--embed", "nothing:here"): "cannot be imported",
    ("cluster", "texts.txt", "--embed", "someone/model"): "pip install sentence-transformers",
    ("cluster", "texts.txt", *MANY): "leave them out",
    ("cluster", "empty.txt"): "has no rows",
    ("cluster", "marks.txt"): "texts must have words of two letters or more",
    ("cluster", "nowhere.txt"): "does not exist",
    ("cluster", "t.jsonl", "--text", "a"): "line 2",
    ("cluster", "list.jsonl", "--text", "a"): "must have one JSON object on each line",
    # Many workers.
    ("cluster", "x.npy", "--shards", 3): "--shards is for many workers: give --workers N or --dask ADDRESS as well",
    ("cluster", "x.npy", "--columns", "a"): "--columns is for many workers",
    ("cluster", "x.npy", *MANY, "--dask", "tcp://x:1"): "--workers starts processes on this machine, and --dask",
    ("cluster", "x.npy", "--dask", "tcp://x:1", "--memory", "2GB"): "--memory is for --workers",
    ("cluster", "x.npy", *MANY, "--memory", "much"): "--memory must be a size such as 6GB",
    ("cluster", "x.npy", *MANY, "--method", "hac"): "--workers and --dask build trees by --method grinch alone",
    ("cluster", "x.npy", *MANY, "--label", "y"): "--label names columns, and FILE 'x.npy' has none",
    ("cluster", "x.npy", *MANY, "--shards", "few"): "--shards must be a whole number of at least 1 or 'auto'",
    ("cluster", "x.npy", *MANY, "--work", "."): "--work must be a new folder, an empty one, or that of an earlier run",
    ("cluster", "x.csv", *MANY): "FILE must be .npy or Parquet with --workers and --dask",
    ("cluster", "-", *MANY): "FILE must be .npy or Parquet with --workers and --dask",
    ("cluster", "y.npy", *MANY): "FILE 'y.npy' does not exist",
    ("cluster", "part-*.npy", *MANY): "FILE: no file matches 'part-*.npy'",
    ("cluster", "x.parquet", *MANY, "--columns", "a,c"): "--columns must be one of 'a', 'b', 'v'; got 'c'",
    ("cluster", "x.parquet", *MANY, "--columns", "a", "--drop", "b"): "--columns names the features, and --drop",
    ("cluster", "x.parquet", *MANY, "--id", "c"): "--id must be one of 'a', 'b', 'v'; got 'c'",
    ("cluster", "x.parquet", *MANY, "--drop", "b"): "are the points: --columns 'v' for a column of lists",
    # Stores.
    **{(name, "nowhere"): "'nowhere' does not exist; make it with: grinch add" for name in ("clusters", "changes")},
    **{("store", name, "nowhere"): "STORE 'nowhere' does not exist" for name in ("info", "check")},
    ("add", "pets", "x.csv", "--linkage", "ward"): "linkage cannot change",
    ("add", "pets", "t.csv"): "--payload doc",
    ("add", "pets", "x.csv", "--payload", "aa"): "did you mean 'a'?",
    ("add", "pets", "x.csv", "-k", 9): "grinch cuts pets --add NAME --clusters N",
    ("add", "pets", "x.csv", "--update"): "--update needs --id",
    ("clusters", "pets", "--cut", "coarse"): "cut must be one of 'default'; got 'coarse'",
    ("clusters", "."): "is a folder without a store in it",
    ("changes", "pets", "--since", "soon"): "--since must be a version",
    ("remove", "x.csv", "y"): "STORE 'x.csv' is a file; a store is a folder",
    ("remove", "pets"): "give at least one ID",
    ("remove", "pets", "nobody"): "ID must be a whole number, like the other ids in the store; got 'nobody'",
    ("label", "pets", 99, "x"): "(see grinch clusters pets); got 99",
    ("label", "pets", 1): "give NAME",
    ("recut", "pets"): "is not automatic",
    ("cuts", "pets", "--layer", 0): "--layer are for a cut to add",
    ("cuts", "pets", "--add", "b", "--layer", "finest"): "layer must be one of",
    ("--import", "nowhere_to_be_found", "clusters", "pets"): "--import nowhere_to_be_found failed",
    # The browser.
    ("explore", "none"): "PATH 'none' does not exist",
    ("explore", "."): "folder without a store",
    ("explore", "t.csv"): "cannot be opened; accepted are a store",
    ("explore", "tree.nwk", "--id", "key"): "--id names a column of --table",
    ("explore", "tree.nwk", "--table", "none.csv"): "the table 'none.csv' does not exist",
    ("explore", "tree.nwk", "--table", "t.csv"): "a row for each of the 3 points; 't.csv' has 2",
    ("explore", "tree.nwk", "--table", "t.csv", "--id", "nokey"): "got 'nokey'. There are: doc, kind, title",
    ("explore", "tree.nwk", "--table", "t.csv", "--id", "title"): "no id in column 'title'",
    ("explore", "tree.nwk", "--table", "texts.txt", "--id", "key"): "got 'key'. There are: none",
    ("explore", "tree.nwk", "--text", "title"): "text must name a field of the payload; got 'title'",
    ("explore", "tree.nwk", "--x", "left"): "give both of them, or none",
    ("explore", "pets", "--table", "t.csv"): "--table is for models and trees",
    ("explore", "broken.nwk"): "cannot be read as a tree",
}
CONTENTS = {
    "junk.npy": "a,b\n1,2\n",
    "list.csv": "[[1, 2]]",
    "nan.csv": "a,b\n1,2\nnan,4\n",
    "twice.csv": "a,a\n1,2\n3,4\n",
    "x.csv": "a,b\n1,2\n3,4\n",
    "t.csv": "doc,kind,title\nd0,0,an apple\nd1,0,a pear\n",
    "t.jsonl": '{"a": "x"}\n{"a": \n',
    "rows.jsonl": '{"a": "x"}\n',
    "list.jsonl": "[1]\n",
    "texts.txt": "an apple\na pear\n",
    "empty.txt": "",
    "marks.txt": "!\n?\n",
    "tree.nwk": "((a,b),c);",
    "broken.nwk": "((a,b),c;",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with files, and with a store that has two points."""
    folder = tmp_path_factory.mktemp("refusals")
    for name, content in CONTENTS.items():
        (folder / name).write_text(content)
    (folder / "folder.csv").mkdir()
    np.save(folder / "x.npy", np.eye(3))
    pd.DataFrame({"a": [1.0, 2], "b": [3.0, 4], "v": [[1.0, 2], [3.0, 4]]}).to_parquet(folder / "x.parquet")
    assert run_command("add", "pets", "x.csv", "-k", 2, "-q", cwd=folder).returncode == 0
    return folder


@pytest.mark.parametrize("arguments", REFUSED, ids=lambda arguments: " ".join(map(str, arguments)))
def test_what_is_wrong_is_said_in_a_line(folder, arguments):
    if "--workers" in arguments or "--dask" in arguments:
        pytest.importorskip("distributed", reason="dask is not installed: pip install 'grinch[dask]'")
    done = run_command(*arguments, cwd=folder)
    assert done.returncode == 2, done.stdout + done.stderr
    assert REFUSED[arguments] in done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert not list(folder.glob("grinch-out/*"))


def test_options_are_checked(folder):
    for name, value in (("--images", "none"), ("--port", "70000")):
        done = run_command("explore", "tree.nwk", name, value, cwd=folder)
        assert done.returncode == 2
        assert name in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder that nobody can write to")
def test_folders_that_cannot_be_written_to(run, tmp_path):
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    (tmp_path / "mine.csv").touch(0)
    if not os.access(tmp_path / "mine.csv", os.R_OK):  # root may read anything
        assert "Permission denied" in refused(run("cluster", "mine.csv"))
    for out in ("/proc/self", "/proc/nothing/below", "x.csv", "x.csv/below"):
        for command in ("cluster", "compare"):
            message = f"--out must be a folder that can be made or written to; got {out!r}"
            assert message in refused(run(command, "x.csv", "--out", out))


@pytest.fixture
def table(rng):
    y = rng.integers(0, 3, 40)
    frame = pd.DataFrame(8 * np.eye(3, 4)[y] + rng.normal(size=(40, 4)), columns=list("abcd"))
    frame["kind"] = np.array(["=ape", "-bee", "-1"])[y]
    return frame


def test_a_table_through_a_pipe(run, tmp_path, table):
    given, options = table.to_csv(index=False), ("--label", "kind", "-k", 3, "-q", "--no-picture")
    code, out, _ = run("cluster", "-", *options, given=given)
    assert code == 0
    assert "standard input: 40 points, 4 features" in out
    clusters = pd.read_csv(tmp_path / "grinch-out" / "clusters.csv")
    assert clusters["label"].tolist() == ["-1" if kind == "-1" else f"'{kind}" for kind in table["kind"]]
    code, out, _ = run("hint", "-", "--drop", "kind", given=given)
    assert code == 0
    assert "grinch cluster - --drop kind --linkage" in out
    assert "FILE '-' is empty" in refused(run("cluster", "-"))


@pytest.mark.slow
def test_methods_on_a_table_through_a_pipe(run, table):
    options = ("--label", "kind", "--methods", "hac", "--orders", 1)
    code, out, _ = run("compare", "-", *options, given=table.to_csv(index=False))
    assert code == 0
    assert "standard input: 40 points, 4 features; 1 shuffled orders each" in out


def test_old_results_survive_a_disk_that_is_full(run, tmp_path, table, monkeypatch):
    table.to_csv(tmp_path / "t.csv", index=False)
    arguments = ("cluster", "t.csv", "--drop", "kind", "-q")
    assert run(*arguments)[0] == 0
    out = tmp_path / "grinch-out"
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = run(*arguments, "-k", 2)
    assert code == 2
    assert err == "error: [Errno 28] No space left on device: 'grinch-out/tree.nwk'\n"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
