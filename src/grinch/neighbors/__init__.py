"""Where to look for neighbours: exact by matrix products, an approximate index, or any linkage by asking."""

from __future__ import annotations

from typing import Any

from grinch.core.counters import Tally
from grinch.errors import unknown_name
from grinch.neighbors.auto import AutoSearch
from grinch.neighbors.base import Search
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.scan import ScanSearch
from grinch.neighbors.sources import ByKey, ByVector, Source
from grinch.summaries.store import RecordStore, VectorStore

__all__ = ["ByKey", "ByVector", "Search", "check_search", "make_search"]

SEARCHES = ("auto", "exact", "index")


def check_search(search: Any) -> None:
    """A name, a source of candidates, or a list of sources."""
    if isinstance(search, str):
        if search not in SEARCHES:
            raise unknown_name("search", search, SEARCHES, " (or ByVector(...), ByKey(...), or a list of them)")
        return
    sources = search if isinstance(search, (list, tuple)) else [search]
    if not sources or not all(isinstance(source, Source) and not isinstance(source, type) for source in sources):
        raise TypeError(
            f"search must be one of {', '.join(map(repr, SEARCHES))}, or ByVector(...), ByKey(...), or a list of them;"
            f" got {search!r}"
        )


def make_search(search: Any, store: VectorStore | RecordStore, k: int, tally: Tally) -> Search:
    """The search that is meant, on the points of a store."""
    check_search(search)
    if isinstance(store, RecordStore):
        if search == "index":
            raise ValueError(
                "search='index' needs a linkage on vectors; for yours, use search=ByVector(embed, index=True)"
            )
        sources = () if isinstance(search, str) else search if isinstance(search, (list, tuple)) else (search,)
        return ScanSearch(store, k, tally, [source.proposer() for source in sources])
    if not isinstance(search, str):
        raise ValueError("ByVector and ByKey are for linkages of your own; vectors are searched by 'exact' or 'index'")
    if search == "index":
        from grinch.neighbors.index import IndexSearch

        return IndexSearch(store, k)
    return ExactSearch(store, k) if search == "exact" else AutoSearch(store, k)
