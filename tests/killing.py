"""The harness of benchmarks/kills.py, without putting its folder on the path: names there are also names here."""

from __future__ import annotations

import importlib.util
import sys

from pages import ROOT

spec = importlib.util.spec_from_file_location("kills", ROOT / "benchmarks" / "kills.py")
kills = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = kills
spec.loader.exec_module(kills)
