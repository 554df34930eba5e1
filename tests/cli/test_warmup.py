"""Everything is compiled before anybody waits for it."""

import os
import subprocess
import sys
import textwrap

import pytest

from commands import run_command
from effort import at_night

LISTENING = """
import sys
from numba.core import event

names = []

class Listener(event.Listener):
    def on_start(self, started):
        function = started.data["dispatcher"].py_func
        names.append((f"{function.__module__}.{function.__qualname__}", started.data["args"]))

    def on_end(self, ended):
        pass

event.register("numba:compile", Listener())
import numpy as np, scipy.sparse, grinch
rng = np.random.default_rng(3)
X = rng.normal(size=(30, 5))[rng.integers(0, 30, 700)] * 4 + rng.normal(size=(700, 5))
S = scipy.sparse.random(700, 200, 0.05, format="csr", random_state=0)
"""
CALLS = {
    "dense": """
        for given in (X, X.astype(np.float32), np.asfortranarray(X), X[:, :2], (10 * X).astype(int), X[:40].tolist()):
            model = grinch.Grinch(metric="sqeuclidean").fit(given)
            model.labels_, model.predict(given[:3]), model.partial_fit(given[:3]).labels_
        for linkage in ("average", "cosine", "centroid", "ward"):
            grinch.Grinch(linkage=linkage, n_clusters=4).fit(X).partial_fit(X[:1]).labels_
        model.remove([0, 3])
        model.refine()
        """,
    "sparse": """
        for metric in ("cosine", "sqeuclidean"):
            model = grinch.Grinch(metric=metric).fit(S)
            model.labels_, model.predict(S[:3]), model.partial_fit(S[:3]).labels_
        model.remove([0, 3])
        """,
    "stores": """
        import tempfile
        for cut in ({}, {"n_clusters": 4}, {"threshold": -3.0, "metric": "sqeuclidean"}):
            with tempfile.TemporaryDirectory() as folder, grinch.open(folder + "/store", **cut) as store:
                store.insert(X[:300])
                store.insert(X[300:])
                store.predict(X[:2])
                store.remove(store.ids[:2])
        """,
}


def run(program, cache=None):
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)} | ({"NUMBA_CACHE_DIR": str(cache)} if cache else {})
    done = subprocess.run(
        [sys.executable, "-c", LISTENING + textwrap.dedent(program)], env=given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["dense", at_night("sparse"), at_night("stores")])
def test_afterwards_nothing_is_compiled(tmp_path, kind):
    done = run_command("warmup", kind, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Compiled code is in " in done.stdout
    assert run(CALLS[kind] + "\n        print(names)") == "[]\n"


@pytest.mark.slow
def test_all_of_it_from_an_empty_cache(tmp_path):
    given = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "grinch.cli", "warmup"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith(f"Compiled code is in {tmp_path}")
    assert done.stderr.count("compiling") == 1
    for calls in CALLS.values():
        assert run(calls + "\n        print(names)", tmp_path) == "[]\n"


@pytest.mark.slow
def test_a_first_fit_compiles_what_it_needs_and_nothing_twice(tmp_path):
    found = run(
        """
        grinch.Grinch().fit(X).labels_
        assert len(set(names)) > 50
        print([name for name, _ in names if name.startswith("grinch.linkage.sparse")])
        engine = [name for name, _ in names if name.startswith(("grinch.core", "grinch.refine", "grinch.summaries"))]
        print([name for name in engine if engine.count(name) > 1])
        """,
        tmp_path,
    )
    assert found == "[]\n[]\n"
