"""The command line, as a user types it, and the files it reads and writes."""

import contextlib
import csv
import itertools
import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.cluster.hierarchy as sch
import treeswift
from typer.main import get_command

import grinch
from commands import run, run_command
from effort import at_night
from grinch import Grinch, Rules
from grinch.cli import app
from grinch.io.tables import read_rows
from grinch.linkage.named import NAMES
from grinch.serve.model_backend import open_backend
from grinch.serve.views.viewer import Viewer
from interrupts import interrupting

QUIETLY = ("-q", "--no-picture")


def summary_of(out):
    return json.loads((out / "summary.json").read_text())


def test_cluster_writes_all_it_promises(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    done = run("cluster", "t.csv", "--label", "species", "--id", "name", "-k", 4, "-o", "res", cwd=tmp_path)
    assert "120 points, 6 features" in done.stdout
    assert "dendrogram purity" in done.stdout
    assert "120 of 120" in done.stderr
    res = tmp_path / "res"
    assert {path.name for path in res.iterdir()} == {
        *("clusters.csv", "dendrogram.png", "icicle.png", "layers.csv", "linkage.npy"),
        *("model.grinch", "summary.json", "tree.nwk", "tree.tsv"),
    }
    assert sch.is_valid_linkage(np.load(res / "linkage.npy"))
    tree = treeswift.read_tree_newick(str(res / "tree.nwk"))
    assert sorted(n.label for n in tree.traverse_leaves()) == sorted(table["name"])
    clusters = pd.read_csv(res / "clusters.csv")
    assert clusters["id"].tolist() == table["name"].tolist()
    assert clusters["label"].tolist() == table["species"].tolist()
    assert pd.crosstab(clusters["cluster"], clusters["label"]).gt(0).sum().tolist() == [1, 1, 1, 1]
    nodes = list(csv.DictReader((res / "tree.tsv").read_text().splitlines(), delimiter="\t"))
    assert len(nodes) == 239
    assert sum(n["parent"] == "" for n in nodes) == 1
    assert {n["parent"] for n in nodes} - {""} < {n["node"] for n in nodes}
    assert [n["label"] for n in nodes if n["node"] == "point 0, of 120"] == [table["species"][0]]
    summary = summary_of(res)
    assert (summary["points"], summary["dendrogram_purity"], summary["settings"]["n_clusters"]) == (120, 1.0, 4)
    for name in ("dendrogram.png", "icicle.png"):
        assert (res / name).read_bytes()[:4] == b"\x89PNG"
        assert name in done.stdout
    assert grinch.load(res / "model.grinch").labels_.tolist() == clusters["cluster"].tolist()


def test_dollar_signs_in_labels_are_drawn_and_a_picture_that_cannot_be_is_a_note(table, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no ink")

    table["species"] = [f"$\\frac{{$ {name}" for name in table["species"]]
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ("cluster", "t.csv", "-q", "--label", "species", "--drop", "name", "-o")
    done = run(*command, "res", cwd=tmp_path)
    assert "note:" not in done.stdout
    assert {"dendrogram.png", "icicle.png", "summary.json"} <= {path.name for path in (tmp_path / "res").iterdir()}
    monkeypatch.setattr("grinch.plots.plot_dendrogram", fail)
    done = run(*command, "failed", cwd=tmp_path)
    assert "note: dendrogram.png could not be drawn: RuntimeError: no ink" in done.stdout
    assert "a picture of the main branches" not in done.stdout
    assert summary_of(tmp_path / "failed")["points"] == 120
    assert {path.name for path in (tmp_path / "failed").glob("*.png")} == {"icicle.png"}


def test_cluster_says_how_to_look_at_the_result(table, tmp_path):
    table["title"] = ["=red apple", "blue sky"] * 60
    table.to_csv(tmp_path / "t.csv", index=False)
    columns = ("--id", "name", "--label", "species", "--payload", "title")
    done = run("cluster", "t.csv", *columns, "-o", "my res", "--no-picture", cwd=tmp_path)
    assert ".png" not in done.stdout
    assert not list((tmp_path / "my res").glob("*.png"))
    words = shlex.split(done.stdout.strip().splitlines()[-1])
    assert words[:3] == ["grinch", "explore", "my res/model.grinch"]
    context = get_command(app).commands["explore"].make_context("explore", words[2:])
    assert (context.params["label"], context.params["text"]) == ("label", "text")
    with contextlib.chdir(tmp_path):
        rows = read_rows(context.params["table"])
        assert [row["label"] for row in rows] == table["species"].tolist()
        assert [row["text"].lstrip("'") for row in rows] == table["title"].tolist()
        viewer = Viewer(open_backend(context.params["path"], payload=rows), label="label", text="text")
        assert viewer.about()["n"] == 120
        viewer.close()


def test_layers_and_least_sizes(tmp_path):
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=(20, 3)) + 60 * rng.normal(size=3) + 8 * offset for offset in np.eye(3) for _ in range(4)]
    points = np.concatenate([*groups, rng.normal(size=(4, 3)) * 200])
    np.savetxt(tmp_path / "points.csv", points, delimiter=",", header="a,b,c", comments="")
    model = grinch.Grinch().fit(np.float32(points))
    asked = {
        ("--layer", "coarse"): model.layers_[-1],
        ("--layer", "0"): model.layers_[0],
        ("--min-size", "8"): model.set_params(min_cluster_size=8).labels_,
        ("-k", "4"): grinch.Grinch(n_clusters=4).fit(np.float32(points)).labels_,
        ("-k", "4", "--cut", "height"): grinch.Grinch(n_clusters=4, cut="height").fit(np.float32(points)).labels_,
    }
    for options, labels in asked.items():
        run("cluster", "points.csv", "--no-picture", *options, cwd=tmp_path)
        found = pd.read_csv(tmp_path / "grinch-out" / "clusters.csv")["cluster"]
        assert found.tolist() == labels.tolist(), options


def test_missing_labels(table, tmp_path):
    table.loc[3, "species"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        run("cluster", name, "--label", "species", "--id", "name", *QUIETLY, "-o", name + "-out", cwd=tmp_path)
    purities = [summary_of(tmp_path / f"{name}-out")["dendrogram_purity"] for name in ("t.csv", "t.parquet")]
    assert purities[0] == purities[1] > 0.9


def commands(group, path=()):
    """Yield all commands of a group, as words."""
    yield path
    for name, command in getattr(group, "commands", {}).items():
        if name not in ("bench", "report", "coref"):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", list(commands(get_command(app))), ids=" ".join)
def test_help_fits_the_screen(tmp_path, command, columns):
    page = run_command(*command, "--help", cwd=tmp_path, columns=columns).stdout
    assert max(map(len, page.splitlines())) <= columns
    assert "..." not in re.sub(r"\[(ARGS|ID|KIND)\]\.\.\.", "", page), "a command whose line is cut off"
    assert "<bool>" not in page
    # The first paragraph is filled: it does not break where the source does.
    for line, following in itertools.pairwise(page.split("\n\n")[1].splitlines()):
        assert len(line) + 1 + len(following.split()[0]) > min(columns, 100) - 2


def process_of_its_own(*arguments, cwd):
    command = [sys.executable, "-m", "grinch.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("way", [run_command, at_night(process_of_its_own)])
def test_demo(way, tmp_path):
    done = way("demo", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("points", "time", "rotations", "grafts", "restructurings", "dendrogram purity", "HAC", "here/"):
        assert word in done.stdout
    assert all((tmp_path / "here" / name).exists() for name in ("dendrogram.png", "icicle.png", "model.grinch"))
    expected = "grinch explore here/model.grinch --table here/clusters.csv --label label"
    assert done.stdout.strip().endswith(expected)


def test_ctrl_c_writes_what_is_there(tmp_path, rng, monkeypatch):
    np.save(tmp_path / "big.npy", rng.normal(size=(3_000, 8)).astype(np.float32))
    monkeypatch.setattr("grinch.progress.progress_bar", interrupting(after=300))
    done = run("cluster", "big.npy", "--no-picture", cwd=tmp_path)
    assert "Interrupted: continuing with the" in done.stdout
    n = summary_of(tmp_path / "grinch-out")["points"]
    assert 0 < n < 3_000
    assert len((tmp_path / "grinch-out" / "clusters.csv").read_text().splitlines()) == n + 1


def test_modes_and_how_the_summary_names_them(tmp_path, rng):
    np.save(tmp_path / "x.npy", rng.normal(size=(50, 4)))
    for said, expected in {
        ("--mode", "paper"): "paper",
        ("--cap", 20, "--refine", 1): Rules.fast(cap=20)._asdict(),
        ("--mode", "exact", "--cap", 20): Rules.exact(cap=20)._asdict(),
    }.items():
        run("cluster", "x.npy", *said, *QUIETLY, cwd=tmp_path)
        assert summary_of(tmp_path / "grinch-out")["settings"]["mode"] == expected


def test_a_hint_names_a_linkage_and_how_to_go_on(rng, tmp_path):
    """Groups on a line through the origin: only distances tell them apart."""
    y = rng.integers(0, 5, 150)
    frame = pd.DataFrame(2.0 + 3.0 * y[:, None] + 0.3 * rng.normal(size=(150, 4)), columns=list("abcd"))
    frame["my kind"], frame["name"] = y, [f"p{i}" for i in range(150)]
    frame.to_csv(tmp_path / "t.csv", index=False)
    arguments = ("hint", "t.csv", "--label", "my kind", "--id", "name", "--sample", 100)
    said = run(*arguments, cwd=tmp_path).stdout
    assert "150 points, 4 features; 100 of them used" in said
    assert all(
        f"\n{name} " in said for name in ("average (cosine)", "average (sqeuclidean)", "cosine", "ward", "centroid")
    )
    command = said.split("Go on with: ")[1].strip()
    assert command.startswith("grinch cluster t.csv --label 'my kind' --id name --linkage ")
    assert command.endswith("--metric sqeuclidean")
    assert said == run(*arguments, cwd=tmp_path).stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv"]
    refused = run("hint", "t.csv", cwd=tmp_path, expect=2).stderr
    assert "column 'name' must be numeric" in refused


def test_all_linkages_by_name_are_choices(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    done = run("cluster", "x.npy", "--linkage", "wards", cwd=tmp_path, expect=2)
    said = " ".join(done.stderr.split())
    assert "Invalid value for '--linkage': 'wards' is not one of" in said
    assert all(repr(name) in said for name in NAMES)
    page = " ".join(run("cluster", "--help", cwd=tmp_path).stdout.split())
    assert all(name in page for name in ("tanimoto", "hellinger"))


# Settings that do not suit the points ---------------------------------------------------------------------------------

TEXTS = ["red apple pie", "stocks fell today", "green apple", "bonds and stocks", "rain in spain", "..."]


@pytest.fixture
def two_groups(rng, tmp_path):
    """Two groups by the first column; the second is a large number that says nothing."""
    y = np.arange(60) % 2
    X = np.column_stack([10 * y + rng.normal(size=60), 1e6 * rng.normal(size=60)])
    rows = [f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True)]
    (tmp_path / "x.csv").write_text("\n".join(["years,dollars,y", *rows]))
    return X


def test_warnings_are_lines_on_the_standard_error_and_scale_standardises_columns(two_groups, tmp_path):
    done = run("cluster", "x.csv", "--label", "y", "--clusters", "40", "--out", "plain", cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if "warning" in line]
    assert [line.partition(": ")[2][:20] for line in lines] == ["the columns of X hav", "n_clusters=40 is mor"]
    assert all(line.startswith("warning: ") for line in lines)
    assert "--scale" in lines[0]
    assert ".py" not in done.stderr
    assert "warning" not in done.stdout
    done = run("cluster", "x.csv", "--label", "y", "--clusters", "2", "--scale", cwd=tmp_path)
    assert "warning" not in done.stderr
    expected = Grinch(n_clusters=2).fit((two_groups - two_groups.mean(axis=0)) / two_groups.std(axis=0))
    assert json.loads((tmp_path / "grinch-out" / "summary.json").read_text())["settings"]["metric"] == "sqeuclidean"
    scaled, plain = (grinch.load(tmp_path / out / "model.grinch").tree_ for out in ("grinch-out", "plain"))
    np.testing.assert_array_equal(scaled.child_pairs(), expected.tree_.child_pairs())
    assert plain.child_pairs().tolist() != expected.tree_.child_pairs().tolist()


def test_texts_are_compared_by_cosine_and_vectors_by_position(two_groups, tmp_path):
    (tmp_path / "x.txt").write_text("\n".join(TEXTS * 5))
    for linkage, metric in (("average", "cosine"), ("ward", None)):
        run("cluster", "x.txt", "--linkage", linkage, "--no-picture", "--out", linkage, cwd=tmp_path)
        assert grinch.load(tmp_path / linkage / "model.grinch").metric == metric
    for file, options, metric in (("x.txt", (), "cosine"), ("x.csv", ("--label", "y"), "sqeuclidean")):
        run("add", metric, file, *options, cwd=tmp_path)
        assert f"average ({metric})" in run("store", "info", metric, cwd=tmp_path).stdout
    run("add", "sqeuclidean", "x.csv", "--label", "y", "--metric", "sqeuclidean", cwd=tmp_path)
