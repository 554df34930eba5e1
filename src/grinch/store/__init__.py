"""A clustering on disk: a folder with a tree, its points, and clusters with permanent ids."""

from __future__ import annotations

from grinch.store.damage import DamagedStore, EarlierFormat, OtherEngine
from grinch.store.lock import StoreLocked
from grinch.store.opening import Replayed, open, replay
from grinch.store.recovery import Recovered, recover
from grinch.store.store import Store

__all__ = [
    "DamagedStore",
    "EarlierFormat",
    "OtherEngine",
    "Recovered",
    "Replayed",
    "Store",
    "StoreLocked",
    "open",
    "recover",
    "replay",
]
