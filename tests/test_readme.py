"""What the README and the documentation show must run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# What a reader has by then: the first example's points.
BEFORE = """from grinch import Grinch
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
"""


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)


@pytest.mark.parametrize(("page", "number"), [(page.name, i) for page in PAGES for i in range(len(blocks(page)))])
def test_python_on_a_page_runs(page, number, capsys):
    path = next(path for path in PAGES if path.name == page)
    names: dict = {}
    exec(BEFORE + blocks(path)[number], names)
    if "model" in names and "refine" not in blocks(path)[number]:
        assert names["model"].tree_.n_leaves == 1797
        assert "'grafts'" in capsys.readouterr().out
    elif "model" in names:
        assert names["model"].tree_.n_leaves == 1795


def test_there_are_examples():
    assert len(blocks(PAGES[0])) >= 3
    assert sum(len(blocks(page)) for page in PAGES) >= 7


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_on_a_page_exist(page):
    for target in re.findall(r"\]\(((?!http|#)[^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
