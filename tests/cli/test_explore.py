"""What ``grinch explore`` makes of its arguments; the server itself is not started."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

import grinch
from commands import run
from grinch import Grinch
from grinch.cli import serve
from serve.looked import news, points


@pytest.fixture
def served(monkeypatch):
    """What is served or exported, in place of doing so."""
    calls = []

    def note(viewer, *arguments):
        members = viewer.members(viewer.scene.tree.root, limit=3, order="arrival")["members"] if viewer.n else []
        calls.append((viewer.about(), members, arguments))

    monkeypatch.setattr(serve, "_show", note)
    monkeypatch.setattr(serve, "_export", note)
    return calls


def explore(cwd, *arguments):
    return run("explore", *arguments, cwd=cwd)


def test_a_store(tmp_path, served):
    X, payload = news(30)
    with grinch.open(tmp_path / "store") as store:
        store.insert(X, payload=[{**row, "headline": f"h{i}"} for i, row in enumerate(payload)])
    explore(tmp_path, "store", "--text", "headline", "--no-browser", "--port", "5000")
    [(about, members, (path, port, browser))] = served
    assert (about["kind"], about["n"], members[0]["text"]) == ("store", 30, "h0")
    assert (str(path), port, browser) == ("store", 5000, False)


def test_a_model_with_a_table_in_its_order_and_by_ids(tmp_path, served):
    model = Grinch().fit(points(12)[0], ids=[f"p{i}" for i in range(12)])
    model.save(tmp_path / "m.grinch")
    (tmp_path / "t.csv").write_text("title,class\n" + "".join(f"t{i},c{i % 2}\n" for i in range(12)))
    explore(tmp_path, "m.grinch", "--table", "t.csv")
    [(about, members, _)] = served
    assert about["labels"] == ["c0", "c1"]
    assert [member["text"] for member in members] == ["t0", "t1", "t2"]
    model.remove(["p0"]).save(tmp_path / "m.grinch")
    rows = "".join(f"p{i},t{i}\n" for i in range(11, -1, -1) if i != 2)
    (tmp_path / "t.csv").write_text(f"key,title\n{rows}")
    explore(tmp_path, "m.grinch", "--table", "t.csv", "--id", "key")
    assert [(member["id"], member["text"]) for member in served[1][1]] == [("p1", "t1"), ("p2", None), ("p3", "t3")]


def test_a_linkage_with_lines_of_text(tmp_path, served):
    np.save(tmp_path / "tree.npy", linkage(points(5)[0]))
    (tmp_path / "t.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    explore(tmp_path, "tree.npy", "--table", "t.txt", "--export", "page.html")
    [(about, members, (path,))] = served
    assert (about["kind"], members[1]["text"], str(path)) == ("tree", "two", "page.html")


def test_a_map_of_columns_and_a_folder_of_images(tmp_path, served):
    (tmp_path / "tree.nwk").write_text("((a,b),c);")
    (tmp_path / "pictures").mkdir()
    (tmp_path / "t.csv").write_text("left,up,pic\n1,2,a.png\n3,4,b.png\n5,6,c.png\n")
    options = ("--x", "left", "--y", "up", "--image", "pic", "--images", "pictures")
    explore(tmp_path, "tree.nwk", "--table", "t.csv", *options)
    [(about, members, _)] = served
    assert about["map"]["method"] == "columns"
    assert members[0]["image"] == "api/image/0?version=1"


def test_a_model_beside_the_results_of_its_run(tmp_path, served):
    X, _ = points(4)
    Grinch().fit(X, ids=["a", "=b", "c", "d"]).save(tmp_path / "model.grinch")
    table = "id,cluster,label,text\na,0,x,red\n'=b,0,x,blue\nc,1,y,green\nd,1,y,pink\n"
    (tmp_path / "clusters.csv").write_text(table)
    done = explore(tmp_path, "model.grinch")
    assert "the points are described by clusters.csv (label, text)" in " ".join(done.stdout.split())
    # Of another run, or of nobody knows what: it is not used.
    for other in (table.replace("c,1,y", "e,1,y"), table.rpartition("d")[0], "a,b\n1,2\n", "\xff"):
        (tmp_path / "clusters.csv").write_bytes(other.encode("latin-1"))
        explore(tmp_path, "model.grinch")
    assert served[0][0]["labels"] == ["x", "y"]
    assert [member["text"] for member in served[0][1]] == ["red", "blue", "green"]
    assert all(not about["has_text"] for about, *_ in served[1:])
    assert len(served) == 5
