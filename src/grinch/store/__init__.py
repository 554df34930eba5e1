"""A clustering that outlives the process: a folder with a tree, its points, and clusters that keep their ids."""

from __future__ import annotations

from grinch.store.damage import DamagedStore
from grinch.store.lock import StoreLocked
from grinch.store.opening import open
from grinch.store.recovery import Recovered, recover
from grinch.store.store import Store

__all__ = ["DamagedStore", "Recovered", "Store", "StoreLocked", "open", "recover"]
