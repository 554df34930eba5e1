"""The map in CONTRIBUTING.md: the picture of the rooms, and the files that run for a fit, an insert and a zoom step."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def script(path):
    """Return a script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_the_rooms_as_they_are():
    rooms = script(ROOT / "docs" / "rooms.py")
    assert rooms.PICTURE.read_text() == rooms.picture(), "out of date: run python docs/rooms.py"


@pytest.mark.slow
def test_the_files_that_run_are_listed():
    files_run = script(ROOT / "benchmarks" / "files_run.py")
    assert json.loads(files_run.OUT.read_text()) == files_run.measured(), "run python benchmarks/files_run.py, fill.py"
