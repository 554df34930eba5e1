"""The pages: code that runs, links that lead somewhere, figures that are those of the measurements."""

from __future__ import annotations

import importlib
import json
import re
import subprocess

import pytest

from effort import at_night, trials
from pages import DOCS, PAGES, ROOT, blocks, name_of, run

EXAMPLES = [(page, i) for page in DOCS for i in range(len(blocks(page)))]
FRAGMENTS = [block for page in PAGES for block in blocks(page, "python fragment")]
LINK = re.compile(r"\]\(((?!https?:|mailto:)[^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them.

    >>> sorted(anchors("# A b\\n## `C`: d-e, f"))
    ['a-b', 'c-d-e-f']
    """
    outside_code = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    headings = re.findall(r"^#+ (.+)$", outside_code, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# Those of sharded.md start worker processes.
BY_DAY = [at_night(page, i) if page.name == "sharded.md" else (page, i) for page, i in EXAMPLES]


@pytest.mark.parametrize(("page", "number"), BY_DAY, ids=[f"{name_of(page)}-{i}" for page, i in EXAMPLES])
def test_python_on_a_page_runs(page, number):
    assert "__builtins__" in run(blocks(page)[number], n_digits=trials(1000, 1797))


def test_fragments_are_python():
    for block in FRAGMENTS:
        compile(block, "fragment", "exec")


def test_code_is_marked_as_what_it_is():
    kinds = {kind for page in PAGES for kind in re.findall(r"^```(\S.*)$", page.read_text("utf-8"), flags=re.M)}
    assert kinds <= {"python", "python fragment"}


def test_there_are_examples():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{target}: there is no such file"
        assert goal.is_relative_to(ROOT), f"{target} leads out of the repository"
        if anchor:
            assert anchor in anchors(goal.read_text(encoding="utf-8")), f"{target}: there is no such heading"


@pytest.mark.parametrize("page", [page for page in DOCS if page.name != "README.md"], ids=name_of)
def test_every_page_is_in_its_index(page):
    index = (page.parent / "README.md").read_text(encoding="utf-8")
    assert f"]({page.name})" in index


@pytest.fixture
def measurements(monkeypatch):
    """The modules that write figures into pages."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("fill"), importlib.import_module("page")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_figures_are_those_of_the_files(page, measurements):
    text = page.read_text(encoding="utf-8")
    assert text == measurements[0].filled(text), "out of date: run python benchmarks/page.py"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_says_which_code_wrote_its_figures(page):
    text = page.read_text(encoding="utf-8")
    beside = {
        code for codes in re.findall(r"<!-- figures: [\w-]+; code: ([^>]*) -->", text) for code in codes.split(", ")
    }
    said = re.findall(r"^\*Figures written by (different code:|code) (.*)\.\*$", text, flags=re.M)
    if beside:
        assert said == [("different code:" if len(beside) > 1 else "code", ", ".join(sorted(beside)))]


def test_figures_of_other_code_are_noticed(measurements, monkeypatch):
    page = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
    monkeypatch.setattr(measurements[0], "code_of", lambda names: ["0a1b2c3d", "4e5f6a7b"])
    assert "Figures written by different code: 0a1b2c3d, 4e5f6a7b." in measurements[0].filled(page)


def test_code_is_noted_for_what_was_measured_anew(measurements, monkeypatch, tmp_path):
    written = importlib.import_module("written")
    monkeypatch.setattr(written, "HERE", tmp_path)
    monkeypatch.setattr(written, "CODE", tmp_path / "code.json")
    digests = iter(["first", "second", "third"])
    monkeypatch.setattr(written, "_digest", lambda: next(digests))
    written.write_figures(tmp_path / "found.json", {"digits": 1, "usps": 2})
    written.write_figures(tmp_path / "found.json", {"digits": 1, "usps": 3})
    assert json.loads((tmp_path / "code.json").read_text()) == {"found.json": {"digits": "first", "usps": "second"}}
    assert written.code_of(["found.json", "another.json"]) == ["earlier", "first", "second"]
    written.write_figures(tmp_path.parent / "elsewhere.json", [1])
    assert "elsewhere.json" not in (tmp_path / "code.json").read_text()


def test_the_benchmarks_page_is_that_of_the_results(measurements):
    results = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
    written = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert written == measurements[1].text(results), "out of date: run python benchmarks/page.py"


def test_make_draws_the_pictures_of_the_pages():
    made = subprocess.run(["make", "-n", "docs-figures"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "docs/figures.py" in made.stdout
    assert "docs/images" not in made.stdout, "nothing else writes over them"
