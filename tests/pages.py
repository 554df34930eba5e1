"""What the tests of the README and of the documentation share: pages, their blocks of code, and how to run one."""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [README, *DOCS]

# What a reader has after the README's first example.
BEFORE = """from grinch import Grinch
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
"""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, kind: str = "python") -> list[str]:
    """The blocks of code of a kind: "python" runs, "python fragment" need not run by itself."""
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def run(block: str) -> dict:
    """Run a block as its reader would, in a folder of its own; returns the names it leaves."""
    names: dict = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(BEFORE + block, names)
    return names
