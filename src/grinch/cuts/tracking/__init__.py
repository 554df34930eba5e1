"""Cuts that follow a growing tree: clusters with ids that stay, and what changed from version to version."""

from grinch.cuts.tracking.changes import KINDS, Change
from grinch.cuts.tracking.cut import CUT_BY, Drift, TrackedCut
from grinch.cuts.tracking.follower import GrowingTree, WholeCut
from grinch.cuts.tracking.tracker import LiveCut, Tracker

__all__ = ["CUT_BY", "KINDS", "Change", "Drift", "GrowingTree", "LiveCut", "TrackedCut", "Tracker", "WholeCut"]
