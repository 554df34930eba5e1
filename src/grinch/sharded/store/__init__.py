"""A folder of stores with one tree over all of them, for points that outgrow one store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grinch.sharded.store.opening import BranchOfFit, make_sharded, open_sharded
from grinch.sharded.store.reading import Place
from grinch.sharded.store.store import ShardedStore

if TYPE_CHECKING:
    from grinch.store.face import AnyStore

    _as_others_see_it: type[AnyStore] = ShardedStore

__all__ = ["BranchOfFit", "Place", "ShardedStore", "make_sharded", "open_sharded"]
