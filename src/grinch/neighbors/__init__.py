"""Neighbour search: exact by matrix products, approximate by cells or a graph, or under any linkage by its scores."""

from grinch.neighbors.choice import AutoSearch, check_search, make_search, nearest_among, search_of_state
from grinch.neighbors.exact import Search
from grinch.neighbors.scan import ByKey, ByVector
