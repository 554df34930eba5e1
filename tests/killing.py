"""The harness of benchmarks/kills.py; names in its folder are also names here, so that it is not on the path."""

from __future__ import annotations

from pages import ROOT, script

kills = script(ROOT / "benchmarks" / "kills.py")
