"""An automatic cut as it is written down: which points were in one part, and which parts in one cluster.

It is made of the tree of one version, and can be applied to that of a later one (:mod:`grinch.cuts.tracking.tracker`).
"""

from __future__ import annotations

import json
import zlib
from typing import NamedTuple, Self

import numpy as np

from grinch._types import Counts, Labels
from grinch.cuts.choice import Choice
from grinch.cuts.tracking import cut_nodes, identity
from grinch.cuts.tracking.follower import GrowingTree

# The bytes of a number, the fewest that hold the largest; and how hard they are packed, which takes less than to write.
WIDTHS, LEVEL = ("|u1", "<u2", "<u4", "<u8"), 1


class MadeCut(NamedTuple):
    """An automatic cut of the tree at a version.

    ``positions``: those of the points, ascending; ``parts``: by point, the number of the subtree that is whole;
    ``clusters``: by part, the number of its cluster; ``written``: all that as bytes, if they are known.

    >>> cut = MadeCut(3, np.array([0, 1, 4]), np.array([0, 1, 0]), np.array([0, 0]))
    >>> [array.tolist() for array in MadeCut.from_bytes(cut.to_bytes())[1:4]]
    [[0, 1, 4], [0, 1, 0], [0, 0]]
    """

    version: int
    positions: Counts
    parts: Labels
    clusters: Labels
    written: bytes | None = None

    @classmethod
    def of(cls, tree: GrowingTree, how: Choice, version: int) -> Self:
        """Make the automatic cut of a tree; this is what takes long."""
        links, slots = tree.links, tree.slots()
        if not len(slots):
            nothing = np.empty(0, np.int64)
            return cls(version, nothing, nothing, nothing)
        is_split, labels = tree.cut_automatically(how)
        internal, marks = links.nodes()[1], np.zeros(len(links.table), np.uint8)
        marks[internal] = is_split[tree.handed_out(internal)]
        ends = cut_nodes.whole_nodes(links, marks)
        numbers, by_node = np.arange(len(ends)), np.full(len(links.table), identity.NEW, np.int64)
        identity.relabel(links, ends, numbers, ends, numbers, by_node)
        parts, clusters = by_node[slots], np.empty(len(ends), np.int64)
        clusters[parts] = labels
        return cls(version, tree.positions[slots], parts, clusters)

    def to_bytes(self) -> bytes:
        """Return the cut as a few bytes for each point."""
        if self.written is not None:
            return self.written
        numbers = [np.diff(self.positions, prepend=-1), self.parts, self.clusters]
        widths = [next(w for w in WIDTHS if array.max(initial=0) <= np.iinfo(w).max) for array in numbers]
        about = {"version": self.version, "lengths": [len(array) for array in numbers], "widths": widths}
        content = b"".join(array.astype(width).tobytes() for array, width in zip(numbers, widths, strict=True))
        return json.dumps(about).encode() + b"\n" + zlib.compress(content, LEVEL)

    @classmethod
    def from_bytes(cls, written: bytes) -> Self:
        """Return what was written; raises ValueError if it is none."""
        head, _, packed = written.partition(b"\n")
        try:
            about, content, at = json.loads(head), zlib.decompress(packed), 0
            numbers = []
            for length, width in zip(about["lengths"], about["widths"], strict=True):
                size = length * np.dtype(WIDTHS[WIDTHS.index(width)]).itemsize
                numbers.append(np.frombuffer(content[at : at + size], width).astype(np.int64))
                at += size
            steps, parts, clusters = numbers
            is_right = at == len(content) and len(steps) == len(parts) and steps.min(initial=1) > 0
            if not is_right or parts.max(initial=-1) >= len(clusters):
                raise ValueError("its numbers do not fit together")
            return cls(int(about["version"]), np.cumsum(steps) - 1, parts, clusters, written)
        except (zlib.error, ValueError, TypeError, LookupError) as error:
            raise ValueError(f"an automatic cut that was written down cannot be read: {error}") from error
