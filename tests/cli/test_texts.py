"""Texts on the command line, from a file to names of branches, and in a store."""

import csv
import json

import numpy as np
import pandas as pd
import pytest

import commands
import grinch
from grinch.text import TextVectors

FRUIT = ["a red apple", "green apple", "apple pie, pear", "apple, pear juice", "an apple a day"]
MONEY = ["stocks fell today", "bonds and stocks rose", "stocks fell again", "bonds fell, stocks too"]
ENCODER = """
class Letters:
    def encode(self, texts):
        return [[text.count(letter) + 0.1 for letter in "aeiost"] for text in texts]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(FRUIT + MONEY) + "\n", encoding="utf-8")
    rows = [{"doc": f"d{i}", "kind": int(i >= 5), "title": text, "year": 1} for i, text in enumerate(FRUIT + MONEY)]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame(rows).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "letters.py").write_text(ENCODER)
    return tmp_path


def run(*arguments, **more):
    return commands.run(*arguments, *(["-q"] if arguments[0] in ("cluster", "add") else []), **more)


def clusters_in(folder, out="grinch-out"):
    return pd.read_csv(folder / out / "clusters.csv")


def branches_of(out):
    with open(out / "branches.csv", newline="") as lines:
        return list(csv.DictReader(lines))


def test_lines_are_clustered_by_their_words(folder):
    done = run("cluster", "texts.txt", "-k", 2, "-o", "out", cwd=folder)
    assert "no font" not in done.stdout
    out = folder / "out"
    assert "texts.txt: 9 texts, 16 terms" in done.stdout
    assert "explore out/model.grinch --table out/clusters.csv --text text" in done.stdout
    clusters = clusters_in(folder, "out")
    assert clusters["text"].tolist() == FRUIT + MONEY
    assert clusters["cluster"].tolist() == [0] * 5 + [1] * 4
    branches = branches_of(out)
    assert [(row["cluster"], row["size"]) for row in branches] == [("", "9"), ("0", "5"), ("1", "4")]
    assert branches[1]["keywords"].startswith("apple, pear")
    assert branches[2]["keywords"].startswith("stocks, fell")
    assert {row["parent"] for row in branches[1:]} == {branches[0]["node"]}
    # The model and what made its rows are beside each other, and say the same of the clusters.
    model, vectors = grinch.load(out / "model.grinch"), TextVectors.load(out / "text.grinch")
    found = vectors.keywords(vectors.transform(FRUIT + MONEY), model.labels_)
    assert [", ".join(words) for words in found] == [row["keywords"] for row in branches[1:]]
    assert all((out / name).read_bytes()[:4] == b"\x89PNG" for name in ("dendrogram.png", "icicle.png"))


@pytest.mark.parametrize("file", ["t.csv", "t.parquet", "t.jsonl", "-"])
def test_a_column_of_a_table(folder, file):
    given = (folder / "t.csv").read_text() if file == "-" else ""
    options = ("--text", "title", "--id", "doc", "--label", "kind", "--payload", "year", "-k", 2, "--no-picture")
    done = run("cluster", file, *options, cwd=folder, given=given)
    assert f"{'standard input' if file == '-' else file}: 9 texts" in done.stdout
    assert "1.000" in done.stdout  # purity
    clusters = clusters_in(folder)
    assert list(clusters) == ["id", "cluster", "label", "text", "year"]
    assert clusters["id"].tolist() == [f"d{i}" for i in range(9)]
    assert clusters["cluster"].tolist() == clusters["label"].tolist()


@pytest.mark.parametrize("options", [["--hashing"], ["--ngrams", 2], ["--characters", "3-4"], ["--characters", "3"]])
def test_other_ways_to_make_rows(folder, options, monkeypatch):
    # Until rows stay sparse inside.
    monkeypatch.setattr("grinch.text.vectors.N_COLUMNS", 512)
    run("cluster", "texts.txt", *options, "-k", 2, "--no-picture", cwd=folder)
    assert clusters_in(folder)["cluster"].tolist() == [0] * 5 + [1] * 4
    assert branches_of(folder / "grinch-out")[1]["keywords"].startswith("apple")


def test_embeddings_of_an_object_of_ones_own(folder):
    embed = ("--embed", "letters:Letters")
    done = run("cluster", "texts.txt", *embed, "-k", 2, "--no-picture", cwd=folder)
    assert "9 texts, 6 features by letters:Letters" in done.stdout
    assert len(branches_of(folder / "grinch-out")) == 3
    run("add", "store", "texts.txt", *embed, cwd=folder)
    assert "give --embed letters:Letters" in run("add", "store", "texts.txt", cwd=folder, expect=2).stderr
    run("add", "store", "texts.txt", *embed, cwd=folder)


def test_unicode_empty_lines_and_a_line_of_a_megabyte(folder):
    before = csv.field_size_limit(2**24)  # that of the whole process
    lines = ["Äpfel und Birnen", "äpfel", "", "東京 の 天気", "🍎🍐", "東京 の 天気", "x" * 1_000_000, "  "]
    (folder / "odd.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run("cluster", "odd.txt", cwd=folder)
    with open(folder / "grinch-out" / "clusters.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    csv.field_size_limit(before)
    assert [row["text"] for row in rows] == lines
    assert rows[3]["cluster"] == rows[5]["cluster"]
    tree = grinch.load(folder / "grinch-out" / "model.grinch").tree_
    assert tree.lca(3, 5) == tree.parent(3)


def test_stop_words_alone_are_clustered_too(folder):
    (folder / "stop.txt").write_text("the and of\nis it\nthe and\nis it not\n")
    run("cluster", "stop.txt", "-k", 2, cwd=folder)
    assert clusters_in(folder)["cluster"].tolist() == [0, 1, 0, 1]
    assert {row["keywords"] for row in branches_of(folder / "grinch-out")} == {""}


def test_a_store_keeps_what_makes_rows_of_its_texts(folder):
    (folder / "more.txt").write_text("green apple pie\nunheard words\n\nstocks rose\n")
    run("add", "news", "texts.txt", "-k", 2, cwd=folder)
    before = (folder / "news" / "text.grinch").read_bytes()
    done = run("add", "news", "more.txt", cwd=folder)
    assert "more.txt: 4 texts, 16 terms" in done.stdout
    said = " ".join(done.stdout.split())
    assert "note: 2 of the 4 texts have no word that the store knows; 29% of the words are unknown to the store" in said
    assert "begun with --hashing, which cannot be changed later" in said
    assert (folder / "news" / "text.grinch").read_bytes() == before
    with grinch.open(folder / "news", readonly=True) as store:
        vectors = TextVectors.load(folder / "news" / "text.grinch")
        expected = vectors.transform([*FRUIT, *MONEY, "green apple pie", "unheard words", "", "stocks rose"])
        rows = store.vectors(list(range(13)))
        rows = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
        np.testing.assert_array_equal(rows, expected.toarray())
        assert store.payload([0, 9]) == [{"text": "a red apple"}, {"text": "green apple pie"}]
    done = run("predict", "news", "more.txt", cwd=folder)
    assert "note: 2 of the 4 texts have no word that the store knows" in done.stderr
    found = [line.split(",") for line in done.stdout.split()[1:]]
    assert [name for name, _ in found] == ["0", "1", "2", "3"]
    assert found[0][1] != found[3][1]
    assert [cluster for _, cluster in found[1:3]] == ["-1", "-1"], "they have no word that the store knows"
    with grinch.open(folder / "news") as store:
        for method in (store.predict, store.insert):
            with pytest.raises(ValueError, match=r"texts such as 'pie'.*TextVectors.load\('.*text.grinch'\).transform"):
                method(["pie"])
    run("store", "backup", "news", "copy", cwd=folder)
    assert (folder / "copy" / "text.grinch").read_bytes() == before


def test_texts_and_vectors_are_not_mixed_in_a_store(folder):
    (folder / "v.csv").write_text("a,b\n1,2\n3,4\n")
    for store, own, other, message in (
        ("news", "texts.txt", "v.csv", "is of texts: name the column of FILE that has them with --text"),
        ("numbers", "v.csv", "texts.txt", "is of vectors, and FILE has texts"),
    ):
        run("add", store, own, cwd=folder)
        for command in ("add", "predict"):
            assert message in run(command, store, other, cwd=folder, expect=2).stderr
    done = run("add", "news", "texts.txt", "--ngrams", 2, cwd=folder, expect=2)
    assert "--ngrams is for a new store" in done.stderr
    assert not (folder / "numbers" / "text.grinch").exists()


def test_columns_of_clusters_csv_have_different_names(folder):
    options = ("--text", "title", "--id", "doc", "--payload", "id", "--payload", "year", "-k", 2, "--no-picture")
    frame = pd.read_csv(folder / "t.csv")
    frame.assign(id=frame["year"]).to_csv(folder / "t.csv", index=False)
    done = run("cluster", "t.csv", *options, cwd=folder)
    assert "  time of the fit " in done.stdout
    assert list(clusters_in(folder)) == ["id", "cluster", "text", "payload.id", "year"]


@pytest.mark.slow
def test_the_demonstration_on_docstrings(folder, monkeypatch):
    monkeypatch.setattr("grinch.datasets.docstrings.load_docstrings.__defaults__", (("networkx",),))
    done = run("demo", "--text", cwd=folder)
    assert "docstrings of networkx" in done.stdout
    keywords = " ".join(row["keywords"] for row in branches_of(folder / "grinch-out"))
    assert {"graph", "nodes", "shortest", "clique"} <= set(keywords.replace(",", "").split())


def test_small_clusters_point_to_coarser_layers(capsys):
    from grinch.cli.results import Results
    from grinch.io.read import Points

    X = np.repeat(np.random.default_rng(0).normal(size=(60, 8)), 3, axis=0)
    X += np.random.default_rng(1).normal(size=X.shape) * 0.01
    X[:90, 0] += 8
    X[90:, 0] -= 8
    model = grinch.Grinch().fit(X)
    assert len(model.layers_) > 1
    for layer, is_said in ((model.layers_[0], True), (model.layers_[-1], False)):
        Results.of(model, Points(X, None, None), 1.0, layer).print()
        assert ("layers.csv has coarser ones" in capsys.readouterr().out) == is_said


def test_letters_that_no_font_has_are_a_note(tmp_path):
    (tmp_path / "cuneiform.txt").write_text("𒀀𒀁 𒀂𒀃\n𒀀𒀁 𒀄𒀅\n𒁀𒁁 𒁂𒁃\n𒁀𒁁 𒁄𒁅\n", encoding="utf-8")
    said = " ".join(run("cluster", "cuneiform.txt", cwd=tmp_path).stdout.split())
    assert "no font of this machine has all letters of the texts" in said
    assert (tmp_path / "grinch-out" / "dendrogram.png").exists()


def test_texts_without_words_are_in_no_cluster(tmp_path):
    words = ["red apple", "green apple", "stocks fell", "stocks rose", "an apple", "bonds fell"]
    texts = ["!!!", *words, "😀", "!!!", "?"]
    (tmp_path / "texts.txt").write_text("\n".join(texts), encoding="utf-8")
    said = " ".join(run("cluster", "texts.txt", "--clusters", 2, cwd=tmp_path).stdout.split())
    assert "note: 4 of the 10 texts have no word, and no cluster (-1)" in said
    clusters = clusters_in(tmp_path)
    assert [cluster == -1 for cluster in clusters["cluster"]] == [text not in words for text in texts]
    assert (tmp_path / "grinch-out" / "dendrogram.png").exists()
