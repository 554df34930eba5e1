"""PERCH in straightforward Python with numpy: nodes are objects, boxes arrays. The compiled one is measured by it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
# As in grinch.Perch: up to this many leaves of a node are looked at.
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

    def some_leaves(self) -> Vector:
        """Leaves from all over the subtree: breadth first, then down the left side."""
        found = [self]
        grew = True
        while grew and len(found) < EXACT_LEAVES:
            grew = False
            for i in range(len(found)):
                if found[i].children and len(found) < EXACT_LEAVES:
                    found[i], right = found[i].children
                    found.append(right)
                    grew = True
        points = []
        for node in found:
            while node.children:
                node = node.children[0]
            points.append(node.point)
        return np.array(points)


def gap(a: Node, b: Node) -> float:
    apart = np.maximum(np.maximum(a.low - b.high, b.low - a.high), 0)
    return float(apart @ apart)


def reach(a: Node, b: Node) -> float:
    apart = np.maximum(a.high - b.low, b.high - a.low)
    return float(apart @ apart)


def is_masked(v: Node, sib: Node, aunt: Node) -> bool:
    if reach(v, sib) <= gap(v, aunt):
        return False
    if gap(v, sib) > reach(v, aunt):
        return True
    own = v.some_leaves()
    far = ((own[:, None] - sib.some_leaves()[None]) ** 2).sum(2).max(1)
    near = ((own[:, None] - aunt.some_leaves()[None]) ** 2).sum(2).min(1)
    return bool((far > near).any())


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
                return
            p.children, top.children = [v, aunt], [p, sib]
            aunt.parent, sib.parent = p, top
            p.fit()
            self.rotations += 1
            v = p
