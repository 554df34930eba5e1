"""Where to look for neighbours: exact by matrix products, approximate by cells, or any linkage by asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grinch.errors import SavedModelError, unknown_name
from grinch.neighbors.auto import AutoSearch
from grinch.neighbors.base import Search
from grinch.neighbors.cells import CellSearch
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.scan import ScanSearch
from grinch.neighbors.sources import ByKey, ByVector, Source
from grinch.neighbors.sparse import MOST_POINTS, SparseSearch
from grinch.saving.state import item
from grinch.summaries import RecordSummaries, SparseSummaries, Summaries
from grinch.tree.links import NO_LIMIT

__all__ = ["ByKey", "ByVector", "Search", "check_search", "make_search", "search_of_state"]

SEARCHES = ("auto", "exact", "index")
RECORDS_AT_ONCE = 16


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


def make_search(search: Any, summaries: Summaries, k: int, at_once: bool = True) -> Search:
    """The search that is meant, on the points there are summaries of.

    ``at_once``: records may be looked up several at a time, for nothing else is asked of the search meanwhile.
    """
    check_search(search)
    if isinstance(summaries, RecordSummaries):
        if search == "index":
            raise ValueError(
                "search='index' needs a linkage on vectors; for yours, use search=ByVector(embed, index=True)"
            )
        sources = () if isinstance(search, str) else search if isinstance(search, (list, tuple)) else (search,)
        return ScanSearch(summaries, k, [source.proposer() for source in sources], RECORDS_AT_ONCE if at_once else 1)
    if not isinstance(search, str):
        raise ValueError("ByVector and ByKey are for linkages of your own; vectors are searched by 'exact' or 'index'")
    if isinstance(summaries, SparseSummaries):
        return SparseSearch(summaries, k, most_points=NO_LIMIT if search == "exact" else MOST_POINTS)
    if search == "index":
        return CellSearch(summaries, k)
    return ExactSearch(summaries, k) if search == "exact" else AutoSearch(summaries, k)


def search_of_state(state: Any, summaries: Summaries, sources: Sequence[Any]) -> Search:
    """Return the search of a state on the points there are summaries of; ``sources`` are those that the user gave."""
    if isinstance(summaries, RecordSummaries):
        return ScanSearch.from_state(state, summaries, sources)
    if isinstance(summaries, SparseSummaries):
        return SparseSearch.from_state(state, summaries)
    kinds: dict[Any, Any] = {"exact_search": ExactSearch, "cell_search": CellSearch, "auto_search": AutoSearch}
    kind = kinds.get(item(state, "part"))
    if kind is None:
        raise SavedModelError(f"{state['part']!r:.60} is no search that this version knows")
    found: Search = kind.from_state(state, summaries)
    return found
