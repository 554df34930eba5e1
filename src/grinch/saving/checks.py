"""Whether what was put together is a model: checked before compiled code sees it.

Compiled code trusts its arrays: a node or a neighbour that is not there would be read all the same. So whatever it uses
as an index is looked at here, and so are the sizes of all arrays. Right checksums are no reason to trust a file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch.baselines.birch import BirchBuilder
from grinch.baselines.hac import BEST_FIRST, CHAIN, SCIPY, HACBuilder
from grinch.baselines.minibatch import BufferBuilder
from grinch.baselines.perch import PerchBuilder
from grinch.baselines.perch_boxes import N_ENDS
from grinch.core.engine import LEAST_ROOM, Engine
from grinch.core.places import SPARE
from grinch.estimators.fit import Fit
from grinch.neighbors.auto import AutoSearch
from grinch.neighbors.base import BATCH
from grinch.neighbors.cell_kernels import CELLS, ENTERED, TILE
from grinch.neighbors.cells import CellSearch
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.scan import ScanSearch
from grinch.neighbors.sources import _NearVectors, _SharedKeys
from grinch.neighbors.sparse import SparseSearch
from grinch.refine.known_neighbors import KnownNeighbors
from grinch.refine.polish import COUNTED, POLISHED_UP_TO, Polisher
from grinch.saving.must import are_within, must
from grinch.saving.sparse import check_sparse
from grinch.saving.trees import check_tree
from grinch.summaries import RecordSummaries, SparseSummaries, Summaries
from grinch.summaries.arrays import LARGE, STALE
from grinch.summaries.counters import COUNTERS
from grinch.summaries.frame import Frame
from grinch.tree.links import CHANGE, LEAVES, LIMIT, NO_LIMIT, NONE, SIZE, USED, nodes_in

# Numbers that decide how much room is set aside.
MANY = 2**20


def check_model(model: Any) -> None:
    """Raise if anything of a model is inconsistent; the work is in proportion to its points.

    >>> from grinch import Grinch
    >>> model = Grinch().fit([[1.0, 0], [0, 9], [2, 0.1]])
    >>> check_model(model)
    >>> model._fitted.builder.links.table[0, 0] = 99
    >>> check_model(model)
    Traceback (most recent call last):
    grinch.errors.SavedModelError: the tree is damaged: a child does not point back at its parent
    """
    fitted = model.__dict__.get("_fitted")
    if fitted is None:
        return
    builder = fitted.builder
    if isinstance(builder, Engine):
        _check_engine(builder, model)
    elif isinstance(builder, PerchBuilder):
        _check_perch(builder)
    elif isinstance(builder, HACBuilder):
        _check_hac(builder)
    elif isinstance(builder, BufferBuilder):
        _check_buffer(builder)
    elif isinstance(builder, BirchBuilder):
        _check_birch(builder)
    summaries = getattr(builder, "summaries", None)
    if summaries is not None and not isinstance(summaries, RecordSummaries):
        must(model.__dict__.get("n_features_in_") == summaries.n_features, "vectors are not as long as they should be")
    _check_ids(fitted)


def _check_ids(fitted: Fit) -> None:
    ids, builder = fitted.ids, fitted.builder
    n = builder.n_slots if isinstance(builder, Engine) else builder.n_leaves
    must(ids.n_slots == n <= len(ids._positions), f"there are ids for {ids.n_slots} points, and {n} points")
    must(are_within(ids.positions, 0, max(ids._next, 0)), "a point has a position that was never given")
    must(not ids.is_in_order or (np.diff(ids.positions) > 0).all(), "positions are said to be in order and are not")
    slot, position, _ = ids._latest
    must(0 <= slot <= MANY**2 and 0 <= position <= ids._next, "the points that came last are none")
    if ids.names is not None:
        must(type(ids.names) is list and len(ids.names) == n, f"there are not {n} names")
        try:
            set(ids.names)
        except TypeError:
            must(False, "an id cannot be one")
    there = ids.positions[fitted._slots()]
    must(len(np.unique(there)) == len(there), "two points have the same position")


# The engine -----------------------------------------------------------------------------------------------------------


def _check_engine(engine: Engine, model: Any) -> None:
    links, summaries, rules, n = engine.links, engine.summaries, engine.rules, engine.n_slots
    check_tree(links)
    must(int(links.head[LIMIT]) == rules.size_limit, "sizes are counted up to another limit than the caps")
    must(0 <= links.head[CHANGE] < NO_LIMIT, "changes are not counted")
    must(len(links.table) == 2 * summaries.capacity and n + SPARE <= summaries.capacity, "there is no room to work in")
    k = int(model._fitted.parameters.get("n_neighbors", 1)) if rules.single_search else 1
    must(1 <= engine.search.k <= MANY and engine.search.k == k, f"{engine.search.k} neighbours are not looked for")
    most = max(engine.search.k, rules.size_limit, LEAST_ROOM) if rules.single_search else NO_LIMIT
    must(summaries.most_asked == most, "there is no room for questions to the linkage")
    _check_summaries(summaries, n)
    leaves, internal = nodes_in(links)
    must(not summaries.arrays.stale[leaves].any(), "a point is out of date")
    must((summaries.arrays.stale[internal] <= STALE | LARGE).all(), "marks of nodes are none")
    _check_search(engine.search, n)
    must((engine.found is not None) == isinstance(summaries, RecordSummaries), "candidates are kept of vectors")
    if engine.found is not None:
        near = engine.found._near
        must(near.shape[1] == engine.search.k and len(near) >= n, "candidates are not there for all records")
        must(are_within(near[:n], NONE, max(n, 1)), "a candidate is none of the records")
    # A tree that was handed in (`fit_tree`) is tended by nobody, whatever the rules.
    must(engine.gardener is None or rules.polish, "somebody tends the tree, and the rules have nobody")
    if isinstance(engine.gardener, Polisher):
        _check_known(engine.gardener.neighbors, n, engine._is_due[0])


def _check_known(known: KnownNeighbors, n: int, is_due: bool) -> None:
    must(known.most_points == POLISHED_UP_TO and known.width == COUNTED, "other neighbours are known than should be")
    must(known.near.shape == known.scores.shape and known.near.shape[1] == known.width, "neighbours have no scores")
    must(known.met.shape == (1,) and 0 <= known.met[0] <= n, "not that many points have met")
    must(np.isfinite(known.unit) and known.unit > 0, "scores of neighbours have no unit")
    if known.is_complete:
        must(len(known.near) >= min(n, known.most_points), "neighbours are not known of all points")
        must(not is_due or n <= known.most_points, "too many points are to be polished")
    near = known.near[:n]
    must(are_within(near, NONE, max(min(n, len(known.near)), 1)), "a neighbour is none of the points")
    is_none = near == NONE
    must(not (is_none[:, :-1] & ~is_none[:, 1:]).any(), "there are gaps between neighbours")


def _check_summaries(summaries: Summaries, n: int = 0) -> None:
    arrays, capacity = summaries.arrays, summaries.capacity
    must(capacity >= 0, "there is no room for points")
    for name in ("sibling_scores", "stale", "counted", "changes"):
        must(getattr(arrays, name).shape == (2 * capacity,), f"{name!r} is not there for every node")
    must(arrays.gone.shape == (capacity,) and are_within(arrays.gone, 0, 2), "points are not marked as gone or not")
    must(arrays.counts.shape == (len(COUNTERS),), "the counters are others")
    must(len(arrays.nodes) == len(arrays.answers) == min(capacity, summaries.most_asked), "there is no room for scores")
    if isinstance(summaries, RecordSummaries):
        must(len(summaries.items) == 2 * capacity, "summaries are not there for every node")
        must(arrays.means.shape == (0, 0) and arrays.moments.shape == (0, 3), "records have vectors")
        return
    if isinstance(summaries, SparseSummaries):
        must(arrays.means.shape == (0, 0), "sparse vectors have dense ones")
        check_sparse(summaries, n)
        return
    must(arrays.means.shape == (2 * capacity, summaries.n_features), "vectors are not there for every node")
    must(arrays.moments.shape == (2 * capacity, 3), "vectors have no lengths")
    must(np.isfinite(arrays.means).all() and np.isfinite(arrays.moments).all(), "a vector is not finite")
    must(np.isfinite(summaries.longest) and summaries.longest >= 0, "the longest vector has no length")
    _check_frame(summaries.frame, capacity)


def _check_frame(frame: Frame, capacity: int) -> None:
    must(np.isfinite(frame.scale) and frame.scale > 0 and np.isfinite(frame.longest), "vectors have no scale")
    must(frame._most >= 1 and frame._stride >= 1, "no vectors are kept as they came")
    must(frame.origin is None or np.isfinite(frame.origin).all(), "vectors have no origin")
    must(are_within(frame.positions, 0, max(capacity, 1)), "vectors are kept of points that are not there")
    must((np.diff(np.array(frame.positions, np.int64)) > 0).all(), "vectors kept as they came are out of order")


# Search ---------------------------------------------------------------------------------------------------------------


def _check_search(search: Any, n: int) -> None:
    must(1 <= search.k <= MANY, f"{search.k} neighbours cannot be looked for")
    if isinstance(search, AutoSearch):
        must(search.k == search._exact.k == search._cells.k, "two searches look for different numbers of neighbours")
        _check_cells(search._cells)
    elif isinstance(search, CellSearch):
        _check_cells(search)
    elif isinstance(search, ScanSearch):
        must(1 <= search.batch <= MANY, f"records cannot be looked up {search.batch} at a time")
        for proposer in search.proposers:
            _check_proposer(proposer, search.summaries.capacity)
    else:
        must(isinstance(search, ExactSearch), "there is no such search")
        must(not isinstance(search, SparseSearch) or search.most_points >= 1, "nothing is searched")


def _check_cells(search: CellSearch) -> None:
    cells, width, capacity = search._cells, search.summaries.n_features, search.summaries.capacity
    rows = len(cells.sizes)
    must(cells.head.shape == (2,) and 0 <= cells.head[CELLS] <= rows, "there are not that many cells")
    must(0 <= cells.head[ENTERED] <= capacity, "more points are in cells than there are")
    must(all(1 <= number <= MANY for number in (search.room, search.probes, search.around)), "cells have no room")
    must(0 <= search.extra <= MANY and search._homes.shape == (BATCH,), "cells have no room")
    members = rows, search.room
    must(cells.centres.shape == (rows, width) and cells.halves.shape == (rows,), "cells have no centres")
    must(cells.tiles.shape == (-(-rows // TILE), width, TILE), "cells have no centres")
    must(cells.ids.shape == cells.scales.shape == cells.shifts.shape == members, "cells have no members")
    must(cells.codes.shape == (*members, width), "members of cells have no vectors")
    n = search.n_cells
    must(are_within(cells.sizes[:n], 0, search.room + 1), f"a cell has more than {search.room} members")
    must(are_within(search._homes, NONE, max(n, 1)), "a point is to enter a cell that is not there")
    for part in (cells.centres[:n], cells.halves[:n], cells.tiles[: -(-n // TILE)]):
        must(np.isfinite(part).all(), "a centre of a cell is not finite")
    is_member = np.arange(search.room) < cells.sizes[:n, None]
    must(are_within(cells.ids[:n][is_member], 0, max(search.entered, 0)), "a member of a cell is none of the points")


def _check_proposer(proposer: Any, capacity: int) -> None:
    if isinstance(proposer, _NearVectors):
        must(proposer.inserted >= 0 and proposer.at >= 0, "vectors of records are not counted")
        if proposer.summaries is not None:
            must(proposer.summaries.most_asked == NO_LIMIT, "there is no room for scores")
            must(proposer.inserted <= proposer.summaries.capacity <= 2 * capacity + MANY, "vectors are not of records")
            _check_summaries(proposer.summaries)
            must(proposer.search.k == proposer.source.n, "another number of candidates is proposed")
            must(isinstance(proposer.search, CellSearch if proposer.source.index else ExactSearch), "no such search")
            _check_search(proposer.search, proposer.inserted)
        return
    must(isinstance(proposer, _SharedKeys), "candidates are proposed by nobody")
    must(
        type(proposer.of_record) is list and 0 <= proposer.filed <= len(proposer.of_record) <= capacity, "keys are lost"
    )
    must(all(type(keys) is tuple for keys in proposer.of_record), "the keys of a record are none")
    for positions in proposer.of_key.values():
        must(type(positions) is list and all(type(each) is int for each in positions), "keys are of no records")
        must(are_within(positions, 0, max(proposer.filed, 1)), "a key is that of a record that is not there")


# The other systems ----------------------------------------------------------------------------------------------------


def _check_perch(builder: PerchBuilder) -> None:
    links, boxes, rules, capacity = builder.links, builder.boxes, builder.rules, builder.summaries.capacity
    check_tree(links)
    n, width = builder.n_leaves, builder.summaries.n_features
    must(n == int(links.head[USED]) and len(links.table) == 2 * capacity, "there is no room for the points")
    must(int(links.head[LIMIT]) == builder._size_limit, "sizes are counted up to another limit")
    must(builder.summaries.most_asked == NO_LIMIT, "there is no room for scores")
    _check_summaries(builder.summaries)
    must(rules.max_leaves >= 0 and 0 <= rules.beam_width <= MANY, "rules are none")
    must(boxes.low.shape == boxes.high.shape == (capacity, width), "nodes have no boxes")
    must(np.isfinite(boxes.low).all() and np.isfinite(boxes.high).all(), "a box is not finite")
    must(boxes.witness.shape == boxes.collapsed.shape == (capacity,), "nodes have no witnesses")
    # A collapsed node counts as a leaf.
    must(are_within(boxes.witness, 0, max(2 * capacity, 1)), "a witness is none of the nodes")
    must(are_within(boxes.collapsed, 0, 2), "nodes are neither collapsed nor not")
    must(len(boxes.sample) == 3 and 1 <= boxes.sample.shape[1] <= MANY, "there is no room for a sample")
    must(len(boxes.beam) == len(boxes.gaps) == 2 * max(rules.beam_width, 1), "there is no room for the search")
    must(boxes.counts.shape == (4,), "the counters are others")
    n_ends = int(boxes.counts[N_ENDS])
    must(boxes.place.shape == (2 * capacity,) and 0 <= n_ends <= len(boxes.ends), "ends have no places")
    if rules.max_leaves:
        must(len(boxes.ends) >= min(rules.max_leaves, capacity) + 2 and n_ends <= rules.max_leaves + 1, "too many ends")
    ends = boxes.ends[:n_ends]
    must(are_within(ends, 0, 2 * capacity), "an end is none of the nodes")
    must((links.table[ends, SIZE] != NONE).all() if n_ends else True, "an end is none of the nodes")
    must(np.array_equal(boxes.place[ends], np.arange(n_ends)), "an end is not in its place")
    must(builder._search.k == 1, "one neighbour is to be looked for")


def _check_hac(builder: HACBuilder) -> None:
    must(builder._way in (SCIPY, BEST_FIRST, CHAIN), "there is no such way to build a tree")
    n = sum(_count(rows) for rows in builder._rows)
    must((builder._tree is None) == (n == 0), "there are points without a tree")
    if builder._tree is None:
        return
    links = builder._tree.links
    check_tree(links)
    must(
        int(links.head[LEAVES]) == int(links.head[USED]) == n == len(links.table) // 2, "the tree is not of the points"
    )
    scores = builder._tree._scores
    must(scores is None or scores.shape == (2 * n,), "scores are not there for every node")


def _count(rows: Any) -> int:
    return int(rows.shape[0]) if hasattr(rows, "shape") else len(rows)


def _check_buffer(builder: BufferBuilder) -> None:
    waiting, pool = builder._waiting, builder._waiting.pool
    n, capacity, size = pool.n_nodes, pool.summaries.capacity, pool.size
    must(pool.summaries.most_asked == NO_LIMIT, "there is no room for scores")
    _check_summaries(pool.summaries)
    must(0 <= n <= min(len(pool.slot_of), len(pool.sides), len(pool.score_of)), "nodes are missing")
    must(pool.sides.shape[1:] == (2,) and builder._buffer_size >= 2, "nodes do not have two sides")
    must(0 <= size <= min(len(pool._nodes), len(pool._slots), capacity), "the buffer is larger than it is")
    must(len(pool._place) == len(pool._nodes) == len(pool._slots) == capacity, "the buffer has no room")
    sides = pool.sides[:n]
    is_leaf = sides[:, 0] == NONE
    must(np.array_equal(is_leaf, sides[:, 1] == NONE) and are_within(sides, NONE, max(n, 1)), "a side is no node")
    must((sides.max(axis=1, initial=NONE) < np.arange(n)).all(), "a node is made of later ones")
    must(int(is_leaf.sum()) == pool.n_leaves == sum(map(_count, builder._rows)), "records are missing")
    used = np.bincount(sides[~is_leaf].ravel(), minlength=n)
    nodes, slots = pool._nodes[:size], pool._slots[:size]
    must((used <= 1).all() and np.array_equal(np.sort(nodes), np.flatnonzero(used == 0)), "nodes do not wait")
    must(are_within(slots, 0, max(capacity, 1)), "a node has no slot")
    must(np.array_equal(pool.slot_of[nodes], slots), "a node is in another slot")
    must((np.delete(pool.slot_of[:n], nodes) == NONE).all(), "a merged node has a slot")
    must(np.array_equal(pool._place[slots], np.arange(size)), "a node is not in its place")
    must(np.array_equal(np.sort([*pool._free, *slots.tolist()]), np.arange(capacity)), "slots are used twice")
    must(set(waiting._heaps) == set(nodes.tolist()), "nodes have no heaps")
    for node, (_, partners) in waiting._heaps.items():
        must(are_within(partners, 0, max(node, 1)), "a pair has a node that is not there")
    must(all(0 <= node < n for _, node in waiting._tops), "a pair has a node that is not there")
    alive = {node for _, node in waiting._tops}
    must(all(not len(keys) or node in alive for node, (keys, _) in waiting._heaps.items()), "a pair is not on top")


def _check_birch(builder: BirchBuilder) -> None:
    widths = {piece.shape[1] for piece in builder._pieces}
    must(len(widths) <= 1 and (builder._model is None) == (not builder._pieces), "points are missing")
    must(all(np.isfinite(piece).all() for piece in builder._pieces), "a vector is not finite")
    if builder._model is not None:
        must(builder._model.n_features_in_ in widths, "vectors are not as long as they should be")
