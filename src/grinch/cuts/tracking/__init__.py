"""Cuts that follow a growing tree: clusters with ids that stay, and what changed from version to version."""

from grinch.cuts.tracking.follower import GrowingTree, WholeCut
from grinch.cuts.tracking.identity import KINDS, Change
from grinch.cuts.tracking.made_cut import MadeCut
from grinch.cuts.tracking.tracker import CUT_BY, DUE_SHARE, Drift, LiveCut, TrackedCut, Tracker

__all__ = [
    "CUT_BY",
    "DUE_SHARE",
    "KINDS",
    "Change",
    "Drift",
    "GrowingTree",
    "LiveCut",
    "MadeCut",
    "TrackedCut",
    "Tracker",
    "WholeCut",
]
