"""What the tests of the README and of the documentation share: pages, their blocks of code, and how to run one."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from sklearn import datasets

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [README, ROOT / "CONTRIBUTING.md", *DOCS]

# What a reader has after the README's first example.
BEFORE = """from grinch import Grinch
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
"""


def script(path: Path) -> ModuleType:
    """Load a script of the repository as a module; its folder is on the path only while it is loaded."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, kind: str = "python") -> list[str]:
    """The blocks of code of a kind: "python" runs, "python fragment" need not run by itself."""
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def run(block: str, n_digits: int | None = None) -> dict:
    """Run a block as its reader would, in a folder of its own; returns the names it leaves.

    With ``n_digits``, there are only that many digits in scikit-learn's set of them.
    """
    load = datasets.load_digits
    names: dict = {}

    def load_some(return_X_y: bool = False) -> Any:
        found = load()
        X, y = found.data[:n_digits], found.target[:n_digits]
        found.update(data=X, target=y)
        return (X, y) if return_X_y else found

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        mock.patch.object(datasets, "load_digits", load_some),
    ):
        exec(BEFORE + block, names)
    return names
