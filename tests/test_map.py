"""The map in CONTRIBUTING.md: the picture of the rooms, and the files that run for a fit, an insert and a zoom step."""

from __future__ import annotations

import json

import pytest

from pages import ROOT, script


def test_the_picture_shows_the_rooms_as_they_are():
    rooms = script(ROOT / "docs" / "rooms.py")
    assert rooms.PICTURE.read_text() == rooms.picture(), "out of date: run python docs/rooms.py"


@pytest.mark.slow
def test_the_files_that_run_are_listed():
    files_run = script(ROOT / "benchmarks" / "files_run.py")
    assert json.loads(files_run.OUT.read_text()) == files_run.measured(), "run python benchmarks/files_run.py, fill.py"
