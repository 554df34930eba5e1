"""How the package is compiled: what is kept, by which key, and what the user hears of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import grinch
from grinch import _compile


def twice(x):
    return 2 * x


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("decorator", [_compile.kernel, _compile.entry, _compile.compiled])
def test_what_was_compiled_is_found_again_until_any_source_changes(folder, monkeypatch, decorator):
    """numba by itself looks at the file of the function only."""
    for digest, hits in ((_compile.source_digest(), 0), (_compile.source_digest(), 1), ("another", 0)):
        monkeypatch.setattr(_compile, "source_digest", lambda digest=digest: digest)
        function = decorator(twice)
        assert function(4) == 8
        assert sum(function.stats.cache_hits.values()) == hits


COMPILES = re.compile(
    r"from grinch\._(compile import .*\b(addressed|compiled|entry|jitable|kernel)\b|by_reference import)"
)


def test_every_file_that_compiles_is_part_of_the_key():
    package = Path(grinch.__file__).parent
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if COMPILES.search(text) or path.name in ("_compile.py", "_bounds.py"):
            assert path.relative_to(package).parts[0] not in _compile.NOT_COMPILED


def test_a_damaged_file_is_compiled_again(folder):
    assert _compile.entry(twice)(4) == 8
    files = list(folder.rglob("*.nb[ic]"))
    assert files
    for path in files:
        path.write_bytes(b"not a cache")
    assert _compile.entry(twice)(4) == 8


@pytest.mark.parametrize("decorator", [_compile.kernel, _compile.entry, _compile.compiled])
def test_ctrl_c_waits_until_it_is_compiled(folder, monkeypatch, decorator):
    """Cut short, LLVM frees things twice, and Python ends."""
    load = _compile._PackageCache.load_overload

    def interrupted(self, *given):
        signal.raise_signal(signal.SIGINT)
        return load(self, *given)

    monkeypatch.setattr(_compile._PackageCache, "load_overload", interrupted)
    function = decorator(twice)
    with pytest.raises(KeyboardInterrupt):
        function(4)
    assert len(function.signatures) == 1
    assert function(4) == 8


def test_processes_that_compile_at_once_keep_all_of_it(tmp_path):
    """Locks are by opened file, so that threads stand for processes here."""

    def save(which):
        for i in range(20):
            files(tmp_path).save((which, i), f"code {which} {i}")

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(save, range(6)))
    assert all(files(tmp_path).load((which, i)) == f"code {which} {i}" for which in range(6) for i in range(20))


def test_whoever_reads_while_code_is_written_finds_none(tmp_path, monkeypatch):
    files(tmp_path, "before").save("key", "code of an earlier release")
    write, seen = _compile._CacheFiles._save_data, []

    def look(self, name, data):
        seen.append(files(tmp_path).load("key"))
        write(self, name, data)
        seen.append(files(tmp_path).load("key"))

    monkeypatch.setattr(_compile._CacheFiles, "_save_data", look)
    files(tmp_path).save("key", "code")
    assert seen == [None, None]
    assert files(tmp_path).load("key") == "code"
    assert len(list(tmp_path.glob("*.nbc"))) == 1, "the earlier one is gone"


def files(folder, stamp="now"):
    return _compile._CacheFiles(str(folder), "f-1.py3", stamp)


def test_without_a_folder_it_runs_and_says_so_once(monkeypatch, capsys):
    monkeypatch.setattr(_compile._PackageCacheImpl, "_locator_classes", [])
    _compile._say_uncached.cache_clear()
    assert _compile.entry(twice)(4) == 8
    assert _compile.kernel(twice)(5) == 10
    said = capsys.readouterr().err
    assert said.count("no folder for compiled code can be written") == 1
    assert "NUMBA_CACHE_DIR" in said


def test_a_full_disk_does_not_stop_compiling(folder, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    _compile._say_uncached.cache_clear()
    monkeypatch.setattr("grinch._compile._CacheFiles.save", full)
    assert _compile.entry(twice)(4) == 8
    assert "no folder for compiled code can be written" in capsys.readouterr().err


def test_compiling_is_said_only_while_it_takes_long(capsys):
    quick = _compile._Notice(30.0)
    quick.start()
    quick.stop()
    slow = _compile._Notice(0.01)
    for _ in range(2):
        slow.start()
        slow.start()  # what it is made of is compiled within
        slow.stop()
        time.sleep(0.1)
        slow.stop()
    assert capsys.readouterr().err.count("grinch: compiling what this call needs") == 1


# Too long to be inlined, and with arguments that LLVM leaves out where nobody else can call it.
LINES = "\n".join(f"    values[{k}] += np.sin(values[{k}]) * {k}" for k in range(25))
CALLS = "return part(values, others, 1) + part(values, others, 2)"
SHARING = f"""
import numpy as np
from grinch import _compile

@_compile.jitable
def part(values, unused, n):
{LINES}
    return values.sum() + n

@_compile.entry
def entry(values, others):
    {CALLS}

@_compile.kernel
def kernel(values, others):
    {CALLS}

@_compile.compiled
def compiled(values, others):
    {CALLS}
"""
LOADING = """
import sys
import numpy as np

for place in sys.argv[1:]:
    module, names = place.split(":")
    functions = vars(__import__(module))
    found = [functions[name](np.ones(25), np.ones(3)) for name in names.split(",")]
    expected = functions["entry"].py_func(np.ones(25), np.ones(3))
    assert np.allclose(found, expected, rtol=1e-12), (place, found, expected)
"""


@pytest.mark.parametrize("debug", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_functions_that_share_a_part_load_in_any_order(tmp_path, debug):
    """Compiled in processes of their own, their parts have the same names; not even then does one call another's."""
    for module in ("first", "second"):
        (tmp_path / f"{module}.py").write_text(SHARING, encoding="utf-8")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DEBUGINFO": debug}

    def load(*places):
        subprocess.run([sys.executable, "-c", LOADING, *places], env=environment, check=True)

    for names in ("entry", "compiled,kernel"):
        load(f"first:{names}", f"second:{names}")
    load("first:entry,kernel,compiled", "second:compiled,kernel,entry")


@pytest.mark.slow
def test_everything_runs_with_debug_information(tmp_path):
    """Compiled, and then from the cache."""
    program = "from killing import kills; kills.warm_up()"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DEBUGINFO": "1"}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)


PROGRAM = """
import numpy as np
from grinch import Grinch
X = np.random.default_rng(0).normal(size=(60, 3))
print(Grinch(n_clusters=2).fit(X).tree_.to_newick(lengths=False))
"""


@pytest.mark.slow
def test_a_formula_that_is_edited_is_what_runs(tmp_path):
    shutil.copytree(Path(grinch.__file__).parent, tmp_path / "grinch", ignore=shutil.ignore_patterns("__pycache__"))

    def tree():
        environment = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PATH": ""}
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    before = tree()
    assert tree() == before
    source = tmp_path / "grinch" / "linkage" / "named.py"
    text = source.read_text(encoding="utf-8")
    edited = text.replace("return -(gap + moments", "return (gap + moments")
    assert edited != text
    source.write_text(edited, encoding="utf-8")
    assert tree() != before
