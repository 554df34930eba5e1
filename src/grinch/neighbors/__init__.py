"""Where to look for neighbours: exact by matrix products, an approximate index, or any linkage by asking."""

from __future__ import annotations

from grinch.errors import unknown_name
from grinch.linkage.store import RecordStore, VectorStore
from grinch.neighbors.base import Search
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.scan import ScanSearch
from grinch.tally import Tally

SEARCHES = ("auto", "exact", "index")


def check_search(name: object) -> None:
    if name not in SEARCHES:
        raise unknown_name("search", name, SEARCHES)


def make_search(name: str, store: VectorStore | RecordStore, k: int, tally: Tally) -> Search:
    """The search meant by a name, on the points of a store."""
    check_search(name)
    if isinstance(store, RecordStore):
        if name == "index":
            raise ValueError("search='index' needs a linkage on vectors, given by name; got a linkage of your own")
        return ScanSearch(store, k, tally)
    if name == "index":
        from grinch.neighbors.index import IndexSearch

        return IndexSearch(store, k)
    return ExactSearch(store, k)
