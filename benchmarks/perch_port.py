"""PERCH in straightforward Python with numpy: nodes are objects, boxes arrays. The compiled one is measured by it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
# As in grinch.Perch: a node of up to this many leaves is as many points, a larger one its box.
EXACT_LEAVES = 16


class Node:
    def __init__(self, low: Vector, high: Vector, point: Vector | None = None):
        self.low, self.high, self.point = low, high, point
        self.parent: Node | None = None
        self.children: list[Node] = []

    @property
    def sibling(self) -> Node:
        assert self.parent is not None
        a, b = self.parent.children
        return b if a is self else a

    def fit(self) -> None:
        a, b = self.children
        self.low, self.high = np.minimum(a.low, b.low), np.maximum(a.high, b.high)

    def parts(self) -> tuple[Vector, Vector]:
        """Lowest and highest corners: of each point, or of the box."""
        found: list[Vector] = []
        waiting = [self]
        while waiting and len(found) <= EXACT_LEAVES:
            node = waiting.pop()
            if node.point is None:
                waiting += node.children
            else:
                found.append(node.point)
        if waiting or len(found) > EXACT_LEAVES:
            return self.low[None], self.high[None]
        return np.array(found), np.array(found)


def from_corners(a: Node, b: Node) -> tuple[float, float]:
    """The smallest and the largest distance of two corners of one box and the other node."""
    low, high = b.parts()
    corners = np.array([a.low, a.high])[:, None]
    near = np.maximum(np.maximum(low - corners, corners - high), 0)
    far = np.maximum(high - corners, corners - low)
    return float((near**2).sum(2).min()), float((far**2).sum(2).max())


def is_masked(v: Node, sib: Node, aunt: Node) -> bool:
    largest = min(from_corners(v, aunt)[1], from_corners(aunt, v)[1])
    return largest < max(from_corners(v, sib)[0], from_corners(sib, v)[0])


class PerchPort:
    def __init__(self) -> None:
        self.leaves: list[Node] = []
        self.points: list[Vector] = []
        self.rotations = 0

    def insert(self, x: Vector) -> None:
        leaf = Node(x, x, x)
        if self.leaves:
            nearest = self.leaves[int(((np.array(self.points) - x) ** 2).sum(1).argmin())]
            self._attach(leaf, nearest)
            self._rotate(nearest)
        self.leaves.append(leaf)
        self.points.append(x)

    def _attach(self, leaf: Node, nearest: Node) -> None:
        top, parent = nearest.parent, Node(leaf.low, leaf.high)
        parent.children, parent.parent = [nearest, leaf], top
        if top is not None:
            top.children[top.children.index(nearest)] = parent
        nearest.parent = leaf.parent = parent
        node: Node | None = parent
        while node is not None:
            node.fit()
            node = node.parent

    def _rotate(self, v: Node) -> None:
        while v.parent is not None and v.parent.parent is not None:
            p, top = v.parent, v.parent.parent
            sib, aunt = v.sibling, p.sibling
            if not is_masked(v, sib, aunt):
                if v.children:
                    return
                v = p
                continue
            p.children, top.children = [v, aunt], [p, sib]
            aunt.parent, sib.parent = p, top
            p.fit()
            self.rotations += 1
            v = p
