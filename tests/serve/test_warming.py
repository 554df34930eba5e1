"""No client waits for code that is compiled or loaded first."""

import os
import subprocess
import sys
import textwrap

import pytest

import grinch
from effort import at_night
from grinch.serve.api.service import warm_up
from serving import some_rows

PROGRAM = """
import sys
import grinch
from grinch import _compile
from grinch.serve.api.service import warm_up
from serving import some_rows

with grinch.open(sys.argv[1]) as store:
    warm_up(store)
    load, loaded = _compile._PackageCache.load_overload, []
    def note(self, *given):
        loaded.append(self._name)
        return load(self, *given)
    _compile._PackageCache.load_overload = note
    X = some_rows(130, d=store.n_features or 4)
    store.insert(X[:100], ids=[f"q{i}" for i in range(100)])
    store.insert(X[100:101], ids=["q100"])
    store.predict(X[101:])
    store.remove(["q1", "q3"])
    print(len(store), loaded)
"""


@pytest.mark.parametrize("settings", [{"n_clusters": 4}, at_night({"linkage": "ward", "threshold": -2.0})])
def test_after_warming_up_nothing_is_compiled_or_loaded(tmp_path, settings):
    with grinch.open(tmp_path / "store", **settings) as store:
        store.insert(some_rows(60).astype(float), ids=[f"p{i}" for i in range(60)])
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path / "store")]
    given = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300)
    assert done.stdout == "159 []\n", done.stderr


@pytest.mark.parametrize("settings", [{}, {"linkage": lambda a, b: 1.0}])
def test_a_store_is_as_it_was_and_without_room_it_is_left_out(tmp_path, monkeypatch, settings):
    def full(*given, **named):
        raise OSError(28, "No space left on device")

    with grinch.open(tmp_path / "store", **settings) as store:
        store.insert(some_rows(30) if "linkage" not in settings else list("abc"))
        before = store.version, store.ids, store.tree.to_newick(lengths=False)
        warm_up(store)
        monkeypatch.setattr("tempfile.TemporaryDirectory", full)
        warm_up(store)
        assert (store.version, store.ids, store.tree.to_newick(lengths=False)) == before
