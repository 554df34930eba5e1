"""Cells of points that are near each other: compiled kernels.

A point goes to the cell with the nearest centre. A cell has room for a fixed number of members; when it is full, two
means divide it, and the cells around exchange members. Of each member a cell keeps the step from the centre, rounded
to bytes: those of a cell lie side by side, a quarter as long as the vectors.

Every score is computed alone, in the same order of additions, however many points are looked up at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._by_reference import by_reference
from grinch._compile import jitable, kernel
from grinch._types import Counts, Flags, Floats, Ids, Numbers, Slots, Vectors32, as_id
from grinch._vectors import keep_best, sift_down
from grinch.linkage.named import LENGTH, dot, squared_distance
from grinch.summaries.arrays import Arrays
from grinch.tree.links import NONE

# Entries of ``head``: how many cells there are, and how many points were entered.
CELLS, ENTERED = 0, 1
# Two halves that are more unequal than this are divided at the median instead.
MIN_SIDE_SHARE = 8
# Two sides stay as unequal as they are if this many times their mean squared width is between them.
FAR_APART = 64.0**2
STEPS = 5
STRIDE = 64
# Centres that a vector is compared with at once, and vectors that are compared with them while they are in the cache.
TILE, TOGETHER = 256, 8
_HIGHEST_BYTE = 127.0


@by_reference
class Cells(NamedTuple):
    """Cells and their members.

    ``centres`` has a row for each cell; ``tiles`` has the same numbers, of TILE cells side by side, feature by
    feature: a vector is compared with all of a tile at once. ``halves`` is half the squared length of the centres,
    ``sizes`` how many members a cell has, and ``ids`` who they are, in the order they came. Member i of cell c is the
    centre plus ``scales[c, i]`` times ``codes[c, i]``; ``shifts[c, i]`` is minus half of its squared distance from it.
    """

    centres: Vectors32
    tiles: np.ndarray[tuple[int, int, int], np.dtype[np.float32]]
    halves: Vectors32
    sizes: Ids
    ids: Ids
    codes: np.ndarray[tuple[int, int, int], np.dtype[np.int8]]
    scales: Vectors32
    shifts: Vectors32
    head: Counts


@by_reference
class Workspace(NamedTuple):
    """What near means, by direction alone or not, and by product or by distance; and scratch space of one thread.

    The latter is for vectors, a step, scores of cells and of members, and cells chosen.
    """

    is_cosine: bool
    is_product: bool
    together: Vectors32
    row: Vectors32
    step: Vectors32
    cell_scores: Vectors32
    scores: Vectors32
    probed: Ids
    probed_scores: Floats
    around: Ids
    around_scores: Floats


@by_reference
class SplitSpace(NamedTuple):
    """Scratch space for dividing a cell: its members, their places along a line, their sides and their order."""

    rows: Vectors32
    low: Vectors32
    high: Vectors32
    along: Vectors32
    sides: Flags
    order: Ids


@jitable
def _copy(source: Numbers, target: Numbers) -> None:
    """Copy a row; assigning a slice would count references."""
    for j in range(source.shape[0]):
        target[j] = source[j]


# Looking up -----------------------------------------------------------------------------------------------------------


@jitable
def _read(arrays: Arrays, x: int, is_cosine: bool, row: Vectors32) -> None:
    """Read point x as it is compared."""
    factor = np.float32(1.0)
    if is_cosine:
        length = arrays.moments[x, LENGTH]
        factor = np.float32(1.0 / length) if length > 0.0 else np.float32(0.0)
    for j in range(row.shape[0]):
        row[j] = arrays.means[x, j] * factor


@jitable
def _score_tile(tile: Vectors32, row: Vectors32, scores: Vectors32) -> None:
    """Write the product of a vector with every centre of a tile, adding in the same order for any number of them."""
    whole = row.shape[0] - row.shape[0] % 4
    for i in range(TILE):
        scores[i] = np.float32(0.0)
    for j in range(0, whole, 4):
        a, b, c, d = tile[j], tile[j + 1], tile[j + 2], tile[j + 3]
        for i in range(TILE):
            scores[i] += row[j] * a[i] + row[j + 1] * b[i] + row[j + 2] * c[i] + row[j + 3] * d[i]
    for j in range(whole, row.shape[0]):
        a = tile[j]
        for i in range(TILE):
            scores[i] += row[j] * a[i]


@jitable
def _n_tiles(cells: Cells) -> int:
    return (cells.head[CELLS] + TILE - 1) // TILE


@jitable
def _score_cells(cells: Cells, row: Vectors32, scores: Vectors32) -> None:
    """Write the product of a vector with every centre."""
    for t in range(_n_tiles(cells)):
        _score_tile(cells.tiles[t], row, scores[t * TILE : (t + 1) * TILE])


@jitable
def _score_together(arrays: Arrays, cells: Cells, points: Slots, first: int, count: int, space: Workspace) -> None:
    """Read some points, and write their products with every centre, each tile of which is read once."""
    for i in range(count):
        _read(arrays, points[first + i], space.is_cosine, space.together[i])
    for t in range(_n_tiles(cells)):
        for i in range(count):
            _score_tile(cells.tiles[t], space.together[i], space.cell_scores[i, t * TILE : (t + 1) * TILE])


@jitable
def _home(cells: Cells, scores: Vectors32) -> int:
    """Return the cell with the nearest centre, by the products with all of them; the first of equals."""
    home = 0
    for c in range(1, cells.head[CELLS]):
        if scores[c] - cells.halves[c] > scores[home] - cells.halves[home]:
            home = c
    return home


@jitable
def _choose(cells: Cells, by_product: bool, scores: Vectors32, chosen: Ids, chosen_scores: Floats) -> int:
    """Return the best cells by the products with their centres, best first; returns how many."""
    n, most, total = 0, chosen.shape[0], cells.head[CELLS]
    share, halves = np.float32(0.0 if by_product else 1.0), cells.halves
    for first in range(0, total, STRIDE):
        end = min(first + STRIDE, total)
        if n == most:
            # Most strides hold nothing better; counting has no branches, so it runs in SIMD lanes.
            hits, bar = np.int32(0), np.float32(chosen_scores[most - 1])
            for c in range(first, end):
                hits += np.int32(scores[c] - share * halves[c] > bar)
            if hits == 0:
                continue
        for c in range(first, end):
            score = scores[c] - share * halves[c]
            if n < most or score > chosen_scores[most - 1]:
                n = keep_best(np.float64(score), c, chosen_scores, chosen, n, most)
    return n


@jitable
def _score_members(cells: Cells, c: int, row: Vectors32, base: np.float32, space: Workspace) -> None:
    """Write about how near the members of a cell are to a vector; ``base`` is its product with the centre."""
    step = space.step
    if space.is_product:
        _copy(row, step)
    else:
        for j in range(step.shape[0]):
            step[j] = row[j] - cells.centres[c, j]
        base = np.float32(-0.5) * np.float32(dot(step, step))
    for i in range(cells.sizes[c]):
        code, product = cells.codes[c, i], np.float32(0.0)
        for j in range(step.shape[0]):
            product += np.float32(code[j]) * step[j]
        score = base + cells.scales[c, i] * product
        space.scores[i] = score if space.is_product else score + cells.shifts[c, i]


@jitable
def _offer_members(
    arrays: Arrays, cells: Cells, c: int, limit: int, scores: Vectors32, best: Vectors32, ids: Ids
) -> None:
    """Offer the members of a cell to a heap with the worst on top; ties go to the earlier point."""
    for i in range(cells.sizes[c]):
        if scores[i] >= best[0]:
            x = as_id(cells.ids[c, i])
            if x < limit and not arrays.gone[x] and (scores[i] > best[0] or x < ids[0]):
                best[0], ids[0] = scores[i], x
                sift_down(best, ids, 0, best.shape[0])


@kernel
def look_up(
    arrays: Arrays, cells: Cells, queries: Slots, limits: Slots, space: Workspace, best: Vectors32, ids: Ids, homes: Ids
) -> None:
    """Find about the nearest points of each query before its limit, in heaps that start out full of ``-inf``.

    ``homes`` becomes the cell that each query would enter.
    """
    for first in range(0, queries.shape[0], TOGETHER):
        count = min(TOGETHER, queries.shape[0] - first)
        _score_together(arrays, cells, queries, first, count, space)
        for i in range(count):
            r, scores = first + i, space.cell_scores[i]
            n = _choose(cells, space.is_product, scores, space.probed, space.probed_scores)
            homes[r] = _home(cells, scores) if space.is_product else space.probed[0]
            for j in range(n):
                c = as_id(space.probed[j])
                _score_members(cells, c, space.together[i], scores[c], space)
                _offer_members(arrays, cells, c, limits[r], space.scores, best[r], ids[r])


# Entering -------------------------------------------------------------------------------------------------------------


@jitable
def _set_centre(cells: Cells, c: int, centre: Vectors32) -> None:
    _copy(centre, cells.centres[c])
    for j in range(centre.shape[0]):
        cells.tiles[c // TILE, j, c % TILE] = centre[j]
    cells.halves[c] = np.float32(0.5) * np.float32(dot(centre, centre))


@jitable
def _put(cells: Cells, c: int, i: int, x: int, row: Vectors32) -> None:
    """Make x, whose vector is ``row``, member i of cell c."""
    centre, code = cells.centres[c], cells.codes[c, i]
    largest = np.float32(0.0)
    for j in range(row.shape[0]):
        largest = max(largest, abs(row[j] - centre[j]))
    scale = largest / np.float32(_HIGHEST_BYTE)
    for j in range(row.shape[0]):
        code[j] = np.int8(np.rint((row[j] - centre[j]) / scale)) if scale > 0.0 else np.int8(0)
    cells.ids[c, i], cells.scales[c, i] = x, scale
    cells.shifts[c, i] = np.float32(-0.5) * np.float32(squared_distance(row, centre))


@jitable
def _farthest(rows: Vectors32, n: int, row: Vectors32) -> int:
    farthest, most = 0, -1.0
    for i in range(n):
        distance = squared_distance(rows[i], row)
        if distance > most:
            farthest, most = i, distance
    return farthest


@jitable
def _mean(space: SplitSpace, n: int, side: int, mean: Vectors32) -> int:
    """Return the mean of the members on one side, to the last bit if they are all equal; returns how many they are."""
    first = n
    for i in range(n):
        if space.sides[i] == side:
            first = i
            break
    if first == n:
        return 0
    origin, count = space.rows[first], 0
    mean[:] = np.float32(0.0)
    for i in range(first, n):
        if space.sides[i] == side:
            count += 1
            for j in range(mean.shape[0]):
                mean[j] += space.rows[i, j] - origin[j]
    for j in range(mean.shape[0]):
        mean[j] = origin[j] + mean[j] / np.float32(count)
    return count


@jitable
def _project(space: SplitSpace, n: int) -> None:
    """Measure how far each member is along the line from ``low`` to ``high``, from the middle of the two."""
    low, high = space.low, space.high
    for i in range(n):
        row, total = space.rows[i], np.float32(0.0)
        for j in range(low.shape[0]):
            total += (row[j] - np.float32(0.5) * (low[j] + high[j])) * (high[j] - low[j])
        space.along[i] = total


@jitable
def _halve(space: SplitSpace, n: int) -> None:
    """Put the farther half to one side, of equals those that came later."""
    for i in range(n):
        at = i
        while at > 0 and space.along[space.order[at - 1]] > space.along[i]:
            space.order[at] = space.order[at - 1]
            at -= 1
        space.order[at] = i
    for i in range(n):
        space.sides[space.order[i]] = i >= n // 2


@jitable
def _are_apart(space: SplitSpace, n: int) -> bool:
    """Return whether two sides are far from each other for their width: outliers would spoil the bytes of others."""
    within = 0.0
    for i in range(n):
        within += squared_distance(space.rows[i], space.high if space.sides[i] else space.low)
    return squared_distance(space.low, space.high) * n > FAR_APART * within


@jitable
def _divide(space: SplitSpace, n: int) -> None:
    """Put each of n rows on one of two sides, and the mean of each side into ``low`` and ``high``."""
    space.sides[:n] = 0
    _mean(space, n, 0, space.low)
    _copy(space.rows[_farthest(space.rows, n, space.low)], space.high)
    _copy(space.rows[_farthest(space.rows, n, space.high)], space.low)
    above = 0
    for _ in range(STEPS):
        _project(space, n)
        above = 0
        for i in range(n):
            space.sides[i] = space.along[i] > 0.0
            above += space.sides[i]
        if above == 0 or above == n:
            break
        _mean(space, n, 0, space.low)
        _mean(space, n, 1, space.high)
    if MIN_SIDE_SHARE * min(above, n - above) < n and not (0 < above < n and _are_apart(space, n)):
        _halve(space, n)
        _mean(space, n, 0, space.low)
        _mean(space, n, 1, space.high)


@jitable
def _split(arrays: Arrays, cells: Cells, c: int, is_cosine: bool, space: SplitSpace) -> int:
    """Divide a full cell in two; returns the new one."""
    n, new = as_id(cells.sizes[c]), as_id(cells.head[CELLS])
    for i in range(n):
        _read(arrays, as_id(cells.ids[c, i]), is_cosine, space.rows[i])
    _divide(space, n)
    _set_centre(cells, c, space.low)
    _set_centre(cells, new, space.high)
    cells.sizes[c] = cells.sizes[new] = 0
    cells.head[CELLS] += 1
    for i in range(n):
        to = new if space.sides[i] else c
        _put(cells, to, as_id(cells.sizes[to]), as_id(cells.ids[c, i]), space.rows[i])
        cells.sizes[to] += 1
    return new


@jitable
def _take_out(cells: Cells, c: int, i: int) -> None:
    """Take member i out of cell c; the last takes its place."""
    last = as_id(cells.sizes[c]) - 1
    cells.ids[c, i] = cells.ids[c, last]
    cells.scales[c, i], cells.shifts[c, i] = cells.scales[c, last], cells.shifts[c, last]
    _copy(cells.codes[c, last], cells.codes[c, i])
    cells.sizes[c] = last


@jitable
def _exchange(arrays: Arrays, cells: Cells, c: int, space: Workspace) -> None:
    """Move members of the cells around c to the nearest of these cells; none becomes full by that."""
    row, room = space.step, cells.ids.shape[1]
    _score_cells(cells, cells.centres[c], space.cell_scores[0])
    n = _choose(cells, False, space.cell_scores[0], space.around, space.around_scores)
    for a in range(n):
        own = as_id(space.around[a])
        for i in range(cells.sizes[own] - 1, -1, -1):
            x = as_id(cells.ids[own, i])
            _read(arrays, x, space.is_cosine, row)
            to, best = own, dot(row, cells.centres[own]) - cells.halves[own]
            for b in range(n):
                other = as_id(space.around[b])
                score = dot(row, cells.centres[other]) - cells.halves[other]
                if score > best and cells.sizes[other] < room - 1:
                    to, best = other, score
            if to != own:
                _put(cells, to, as_id(cells.sizes[to]), x, row)
                cells.sizes[to] += 1
                _take_out(cells, own, i)


@jitable
def _nearest_of_new(cells: Cells, home: int, first_new: int, row: Vectors32) -> int:
    """Return the nearest of one cell and of those that were made since."""
    best = dot(row, cells.centres[home]) - cells.halves[home]
    for c in range(first_new, cells.head[CELLS]):
        score = dot(row, cells.centres[c]) - cells.halves[c]
        if score > best:
            home, best = c, score
    return home


@kernel
def find_homes(arrays: Arrays, cells: Cells, points: Slots, homes: Ids, space: Workspace) -> None:
    """Let ``homes`` be the cells that points would enter; 0, if there is none yet."""
    for first in range(0, points.shape[0], TOGETHER):
        count = min(TOGETHER, points.shape[0] - first)
        _score_together(arrays, cells, points, first, count, space)
        for i in range(count):
            homes[first + i] = _home(cells, space.cell_scores[i])


@kernel
def enter(
    arrays: Arrays, cells: Cells, points: Slots, homes: Ids, entered: int, space: Workspace, split: SplitSpace
) -> None:
    """Put points into cells; then ``entered`` is how many are in.

    ``homes`` are their nearest cells as they are now, and all are NONE afterwards, for the cells have changed. Ctrl-C
    does not come between any of this.
    """
    row, room = space.row, cells.ids.shape[1]
    if cells.head[CELLS] == 0:
        # Not the first point: it may be an outlier, and the steps of all others from it would have no digits left.
        for j in range(row.shape[0]):
            row[j] = np.float32(0.0)
        _set_centre(cells, 0, row)
        cells.sizes[0], cells.head[CELLS] = 0, 1
    first_new = as_id(cells.head[CELLS])
    for i in range(points.shape[0]):
        _read(arrays, points[i], space.is_cosine, row)
        home = _nearest_of_new(cells, as_id(homes[i]), first_new, row)
        if cells.sizes[home] == room:
            new = _split(arrays, cells, home, space.is_cosine, split)
            _exchange(arrays, cells, home, space)
            _exchange(arrays, cells, new, space)
            home = _nearest_of_new(cells, home, new, row)
        _put(cells, home, as_id(cells.sizes[home]), points[i], row)
        cells.sizes[home] += 1
        homes[i] = NONE
    cells.head[ENTERED] = entered


# Compacting -----------------------------------------------------------------------------------------------------------


@kernel
def renumber(cells: Cells, numbers: Ids, loose: Ids) -> int:
    """Give members their new numbers, drop those without, and close up; cells that are nearly empty are dissolved.

    Returns how many members of dissolved cells were put into ``loose``.
    """
    kept, n_loose, room = 0, 0, cells.ids.shape[1]
    for c in range(cells.head[CELLS]):
        size = 0
        for i in range(cells.sizes[c]):
            x = numbers[cells.ids[c, i]]
            if x != NONE:
                cells.ids[kept, size] = x
                _copy(cells.codes[c, i], cells.codes[kept, size])
                cells.scales[kept, size], cells.shifts[kept, size] = cells.scales[c, i], cells.shifts[c, i]
                size += 1
        if MIN_SIDE_SHARE * size < room:
            for i in range(size):
                loose[n_loose + i] = cells.ids[kept, i]
            n_loose += size
            continue
        cells.sizes[kept], cells.halves[kept] = size, cells.halves[c]
        _set_centre(cells, kept, cells.centres[c])
        kept += 1
    cells.head[CELLS] = kept
    return n_loose
