"""Where the branches of a dendrogram are, and what color they have."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from grinch._types import Floats
from grinch.plots.commonest import Groups, whole_nodes
from grinch.plots.heights import Scale, scale_of
from grinch.plots.naming import MOST, NEARLY_ALL
from grinch.plots.outline import Branch
from grinch.plots.style import ACCENT, GREY, PALETTE, cluster_slots
from grinch.tree import Tree

# How thick branches are on average, in rows, and the thickest as a share of all rows.
THICKNESS, THICKEST = 0.55, 0.2
# The share of the width before the first split, where points are folded there.
ROOM_FOR_FOLDED = 0.12
# Rows between thick branches.
GAP = 0.3
# Rows there is room for at least, so that a single branch is no block.
FEWEST_ROWS = 3


class Places(NamedTuple):
    """By branch: the heights where its line begins and ends, its row, and its thickness where it is a last one.

    ``n_rows`` is the height of the picture, in rows; the last branches have one each, or more if they are thick.
    """

    begins: Floats
    ends: Floats
    rows: Floats
    widths: Floats
    n_rows: float
    scale: Scale
    axis: str
    """What the axis of heights is called; empty where nothing meets."""


def place(tree: Tree, heights: Floats, branches: list[Branch], order: list[int]) -> Places:
    """The last branches in this order from top to bottom, the others in the middle of what they are split into."""
    levels, has_heights = _levels(tree, heights, branches)
    scale = scale_of(np.array([levels[i] for i, branch in enumerate(branches) if branch.parts] or [levels[0]]))
    if branches[0].folded:
        scale = scale._replace(margin=ROOM_FOR_FOLDED)
    pitches = row_heights(tree, branches, order)
    n_rows = max(float(pitches.sum()), FEWEST_ROWS)
    ends = np.maximum(levels, scale.low)
    begins, rows, widths = np.full(len(branches), scale.left), np.zeros(len(branches)), np.zeros(len(branches))
    rows[order] = np.cumsum(pitches) - pitches / 2 + (n_rows - pitches.sum()) / 2
    widths[order] = _widths(tree, branches, order)
    for i in range(len(branches) - 1, -1, -1):
        if branches[i].parts:
            parts = list(branches[i].parts)
            rows[i], begins[parts] = rows[parts].mean(), ends[i]
    axis = scale.title if has_heights else "splits (all merges are at height 0)"
    return Places(begins, ends, rows, widths, n_rows, scale, axis if tree.n_leaves > 1 else "")


def row_heights(tree: Tree, branches: list[Branch], order: list[int]) -> Floats:
    """A row for the name of each last branch, or more if the branch is thick."""
    return np.maximum(_widths(tree, branches, order) + GAP, 1.0)


def _widths(tree: Tree, branches: list[Branch], order: list[int]) -> Floats:
    """How thick the last branches are, in rows: as their numbers of points."""
    shares = tree.sizes()[[branches[i].node for i in order]] / tree.n_leaves
    return shares * (len(order) * min(THICKNESS, THICKEST / shares.max()) if len(order) > 1 else 1.0)


def _levels(tree: Tree, heights: Floats, branches: list[Branch]) -> tuple[Floats, bool]:
    """Where each branch is split, or comes together; in splits above the last one, and False, where all is at 0."""
    if heights[tree.root] > 0:
        return heights[[branch.split if branch.parts else branch.node for branch in branches]], True
    levels = np.zeros(len(branches))
    for i in range(len(branches) - 1, -1, -1):
        if branches[i].parts:
            levels[i] = 1 + levels[list(branches[i].parts)].max()
    return levels, False


class Paint(NamedTuple):
    """The color of each branch; and of the clusters that begin in a branch, the branch and where they come together."""

    colors: list[str]
    starts: list[tuple[int, float]]


def paint(
    tree: Tree, heights: Floats, branches: list[Branch], order: list[int], cut: Groups | None, classes: Groups | None
) -> Paint:
    """Colors of clusters or else of labels; grey where several come together."""
    for known in (cut, classes):
        codes = [] if known is None else _codes(branches, known, NEARLY_ALL if known is cut else MOST)
        # A cut far below the branches colors none of them: labels do, then.
        if known is not None and max(codes) >= 0:
            slots = _slots(known, [codes[i] for i in order if codes[i] >= 0], is_cut=known is cut)
            colors = [PALETTE[slots[code]] if code >= 0 else GREY for code in codes]
            return Paint(colors, _starts(tree, heights, branches, codes, known) if known is cut else [])
    return Paint([ACCENT if not branch.parts else GREY for branch in branches], [])


def _starts(
    tree: Tree, heights: Floats, branches: list[Branch], codes: list[int], cut: Groups
) -> list[tuple[int, float]]:
    """Branches in which a cluster begins, each with the height of the lowest node over all its points."""
    tops = whole_nodes(tree, cut)
    if heights[tree.root] <= 0:
        return []
    above = {part: codes[i] for i, branch in enumerate(branches) for part in branch.parts}
    begun = [(i, code) for i, code in enumerate(codes) if code >= 0 and code != above.get(i)]
    return [(i, float(heights[tops[code]])) for i, code in begun if tops[code] >= 0]


def _codes(branches: list[Branch], known: Groups, least: float) -> list[int]:
    """The number of the label or cluster that most of a branch have (this share), and all branches below, or -1."""
    codes = [-1] * len(branches)
    for i in range(len(branches) - 1, -1, -1):
        below = {codes[part] for part in branches[i].parts}
        if not below:
            codes[i] = known.code(branches[i].node) if known.share(branches[i].node) >= least else -1
        elif len(below) == 1:
            codes[i] = below.pop()
    return codes


def _slots(known: Groups, codes: list[int], is_cut: bool) -> dict[int, int]:
    """Which color of the palette each label or cluster has."""
    return cluster_slots(known.named.values, codes) if is_cut else {code: code % len(PALETTE) for code in codes}
