"""A folder of stores with one tree over all of them, for points that outgrow one store."""

from __future__ import annotations

from grinch.sharded.store.opening import BranchOfFit, make_sharded, open_sharded
from grinch.sharded.store.reading import BranchChange, Place
from grinch.sharded.store.store import ShardedStore

__all__ = ["BranchChange", "BranchOfFit", "Place", "ShardedStore", "make_sharded", "open_sharded"]
