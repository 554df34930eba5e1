"""What the README shows must run."""

from __future__ import annotations

import re

import pytest

from grinch import plots
from pages import README, ROOT, blocks, run

BLOCKS = blocks(README)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_python_in_the_readme_runs(number, capsys):
    names = run(BLOCKS[number])
    if "model" in names and "remove" not in BLOCKS[number]:
        assert names["model"].tree_.n_leaves == 1797
        assert "'grafts'" in capsys.readouterr().out
    elif "model" in names:
        assert names["model"].tree_.n_leaves == 1795
        assert "cost_after" in capsys.readouterr().out


def test_the_readme_has_examples():
    assert len(BLOCKS) >= 5
    assert sum("model.partial_fit" in block for block in BLOCKS) == 1


def test_there_are_two_commands_for_a_fresh_machine_and_how_long_they_take():
    commands = re.findall(r"^make .*$", README.read_text(encoding="utf-8"), flags=re.M)
    named = [re.match(r"make (\w+) +# \d+ (?:minutes?|seconds)\b", command)[1] for command in commands]
    assert named == ["run", "check"]
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{name}:", made, flags=re.M) for name in named)


def test_the_first_example_has_ten_lines():
    assert len([line for line in BLOCKS[0].splitlines() if line]) <= 10


def test_the_commands_for_one_table_say_the_same_of_its_columns():
    commands = [line for line in README.read_text().splitlines() if line.startswith("grinch ") and "table.csv" in line]
    assert len(commands) >= 2
    for command in commands:
        assert "--label species --id name" in command


def test_a_reader_sees_where_pictures_are_imported_from():
    text = README.read_text(encoding="utf-8")
    imported = re.search(r"^from grinch\.plots import (.*)$", text, flags=re.M)[1].split(", ")
    for before, name in re.findall(r"([\w.]*?)\b(plot_\w+)\(", text):
        assert hasattr(plots, name)
        assert before == "grinch.plots." or name in imported
