"""Cuts that follow a growing tree: clusters with ids that stay, and what changed from version to version."""

from grinch.cuts.tracking.follower import GrowingTree, WholeCut
from grinch.cuts.tracking.identity import KINDS, Change
from grinch.cuts.tracking.tracker import CUT_BY, Drift, LiveCut, TrackedCut, Tracker

__all__ = ["CUT_BY", "KINDS", "Change", "Drift", "GrowingTree", "LiveCut", "TrackedCut", "Tracker", "WholeCut"]
