"""`grinch cluster` by many workers, with real processes."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import scipy.cluster.hierarchy as sch
import scipy.sparse

import grinch
from commands import run
from grinch.cli import sharded
from grinch.sharded import ShardedGrinch

pytest.importorskip("distributed", reason="dask is not installed: pip install 'grinch[dask]'")

N, N_CLASSES, N_SHARDS = 1_200, 12, 8
FEATURES = [f"f{i}" for i in range(8)]
STAGES = ["sample", "skeleton", "route", "neighbors", "moves", "trees", "top"]
COLUMNS = ("--label", "kind", "--id", "doc", "--drop", "year")
COMMAND = ("cluster", "parts", "--shards", N_SHARDS, *COLUMNS, "-k", N_CLASSES)


@pytest.fixture(scope="module")
def address(cluster):
    return cluster.client.scheduler.address


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two Parquet files with features, and with numbers that are none."""
    folder = tmp_path_factory.mktemp("sharded")
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_CLASSES, N)
    X = 2 * rng.normal(size=(N_CLASSES, len(FEATURES)))[y] + 0.5 * rng.normal(size=(N, len(FEATURES)))
    frame = pd.DataFrame(X.astype(np.float32), columns=FEATURES)
    frame["kind"], frame["year"] = y, 1900 + np.arange(N) % 100
    frame["doc"], frame["title"] = [f"doc {i}" for i in range(N)], [f"word{kind} story" for kind in y]
    (folder / "parts").mkdir()
    frame[: N // 3].to_parquet(folder / "parts" / "part-2.parquet")
    frame[N // 3 :].to_parquet(folder / "parts" / "part-10.parquet")
    return folder


@pytest.fixture(scope="module")
def finished(folder, address):
    """A run with everything: what it printed."""
    return run(*COMMAND, "--payload", "title", "--dask", address, "--work", "kept", "-o", "whole", cwd=folder)


def summary_of(out):
    return json.loads((out / "summary.json").read_text())


def test_a_run_writes_what_one_process_does(folder, finished):
    out = folder / "whole"
    written = {path.name for path in out.iterdir()}
    assert written == {
        *("clusters.csv", "dendrogram.png", "icicle.png", "layers.csv", "linkage.npy"),
        *("model.grinch", "summary.json", "tree.nwk", "tree.tsv"),
    }
    assert sch.is_valid_linkage(np.load(out / "linkage.npy"))
    clusters = pd.read_csv(out / "clusters.csv")
    # The files in the order of their numbers.
    assert clusters["id"].tolist() == [f"doc {i}" for i in range(N)]
    assert clusters["text"].tolist() == [f"word{kind} story" for kind in clusters["label"]]
    assert clusters["cluster"].nunique() == N_CLASSES
    model = grinch.load(out / "model.grinch")
    assert model.labels_.tolist() == clusters["cluster"].tolist()
    assert model.n_features_in_ == len(FEATURES)
    summary = summary_of(out)
    assert (summary["points"], summary["features"], summary["clusters"]) == (N, len(FEATURES), N_CLASSES)
    assert summary["dendrogram_purity"] > 0.9
    assert (summary["shards"], list(summary["stages"])) == (N_SHARDS, STAGES)


def test_a_run_says_what_it_does_and_what_to_do_next(finished, address):
    out, err = finished.stdout, finished.stderr
    assert "parts: 1,200 points, 8 features (f0, f1, f2, …, f7)" in out
    assert f"The workers of {address}, 8 shards. Finished stages are kept in kept/" in out
    lines = [line.split() for line in out.splitlines()]
    assert [words[0] for words in lines if words and words[0] in STAGES] == STAGES
    assert all(f"\n{stage} ━" in f"\n{err}" for stage in STAGES)
    assert "dendrogram purity" in out
    assert "grinch explore whole/model.grinch --table whole/clusters.csv --label label --text text" in out
    assert "Finished stages are kept in kept/" in out


def test_what_is_finished_is_found_and_cut_otherwise(folder, finished, address, monkeypatch):
    """With too little memory for the model, there is the tree, and its cut."""
    monkeypatch.setattr(sharded, "available_memory", lambda: 400_000)
    arguments = ("--dask", address, "--work", "kept", "-o", "again", "-q")
    done = run(*COMMAND[:-1], 5, *arguments, cwd=folder)
    assert sorted(path.name for path in (folder / "again").iterdir()) == ["clusters.csv", "linkage.npy", "summary.json"]
    assert "note: no model and pictures, which would take all points in memory\n" in done.stdout
    assert pd.read_csv(folder / "again" / "clusters.csv")["cluster"].nunique() == 5
    trees = [grinch.Tree.from_scipy(np.load(folder / out / "linkage.npy")) for out in ("again", "whole")]
    assert (np.sort(trees[0].keys()) == np.sort(trees[1].keys())).all()
    summary = summary_of(folder / "again")
    assert summary["dendrogram_purity"] == summary_of(folder / "whole")["dendrogram_purity"]
    assert all(stage["found"] == stage["tasks"] > 0 for stage in summary["stages"].values())
    done = run(*COMMAND[:-2], *arguments, cwd=folder)
    assert "without --clusters or --threshold, only the tree will be written" in done.stdout
    assert "note: no clusters, for which the neighbours of all points must fit into memory" in done.stdout
    monkeypatch.undo()
    monkeypatch.setattr(sharded, "MAX_FOR_MODEL", 1_000)
    done = run(*COMMAND[:-2], *arguments, cwd=folder)
    assert "of more than 1,000 points" in " ".join(done.stdout.split())
    assert list(summary_of(folder / "again")["stages"])[-2:] == ["near", "graph"]
    assert len(pd.read_csv(folder / "again" / "layers.csv")) == N
    assert summary_of(folder / "again")["pairwise_f1"] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=lambda how: how.name)
def test_the_same_command_goes_on_after_it_was_ended(folder, finished, how):
    """In the middle of the trees; with another number of workers, the tree is the same."""
    out = folder / how.name
    command = (*COMMAND, "--workers", "1", "--memory", "4GB", "--no-picture", "-q", "-o", how.name)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = [sys.executable, "-m", "grinch.cli", *map(str, command)]
    process = subprocess.Popen(words, cwd=folder, start_new_session=True, **pipes)
    trees, done_ones = out / "work", "stages-*/trees/shard-*.json"
    while not list(trees.glob(done_ones)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    # Ctrl-C reaches all processes of a terminal.
    os.killpg(process.pid, how) if how == signal.SIGINT else process.kill()
    said, errors = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130
        said = " ".join(said.split())  # lines end where the terminal does
        assert "Interrupted. Finished stages are kept in SIGINT/work/: the same command resumes from there." in said
        assert errors.strip() == ""
    n_done = len(list(trees.glob(done_ones)))
    assert 0 < n_done < N_SHARDS
    assert not (out / "clusters.csv").exists()

    done = run(*command, cwd=folder)
    stages = summary_of(out)["stages"]
    assert all(stages[stage]["found"] == stages[stage]["tasks"] > 0 for stage in STAGES[:5])
    assert n_done <= stages["trees"]["found"] < N_SHARDS
    assert "done before" in done.stdout
    assert (np.load(out / "linkage.npy") == np.load(folder / "whole" / "linkage.npy")).all()
    assert not (out / "work").exists()


def test_a_shard_that_fails_is_named_with_its_cause(tmp_path, address, rng):
    X = rng.normal(size=(300, 4))
    X[7, 2] = np.nan
    np.save(tmp_path / "x.npy", X)
    done = run("cluster", "x.npy", "--dask", address, "-q", cwd=tmp_path, expect=2)
    error = " ".join(done.stderr.split())
    assert error.startswith(
        "error: stage sample failed at piece-000000: ValueError: X must be finite, but contains NaN"
    )
    assert "once the cause is removed, the same command resumes from there" in error
    assert "Traceback" not in error
    X[7, 2] = 0
    np.save(tmp_path / "x.npy", X)
    run("cluster", "x.npy", "--dask", address, "-q", "--no-picture", "--linkage", "ward", cwd=tmp_path)
    assert pd.read_csv(tmp_path / "grinch-out" / "clusters.csv")["id"].tolist() == list(range(300))


def test_a_sparse_matrix_stays_sparse(tmp_path, address):
    X = scipy.sparse.random(200, 60, density=0.1, random_state=0, dtype=np.float32)
    scipy.sparse.save_npz(tmp_path / "x.npz", X)
    run("cluster", "x.npz", "--dask", address, "-q", "-k", 4, "--work", "w", cwd=tmp_path)
    assert len(list((tmp_path / "w" / "input").glob("*.columns.npy"))) == 1
    assert grinch.load(tmp_path / "grinch-out" / "model.grinch").n_features_in_ == 60


def test_ctrl_c_says_that_the_same_command_goes_on(tmp_path, address, rng, monkeypatch):
    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(ShardedGrinch, "fit", interrupted)
    np.save(tmp_path / "x.npy", rng.normal(size=(30, 4)))
    done = run("cluster", "x.npy", "--dask", address, cwd=tmp_path, expect=130)
    assert "Interrupted. Finished stages are kept in grinch-out/work/: the same command resumes from" in done.stdout


def test_a_missing_extra_is_named_with_its_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    np.save(tmp_path / "x.npy", np.eye(3))
    done = run("cluster", "x.npy", "--workers", 2, cwd=tmp_path, expect=2)
    assert "pip install 'grinch[dask]'" in done.stderr
