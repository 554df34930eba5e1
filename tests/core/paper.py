# ruff: noqa: E741 (l is the paper's name for the leaf that a search finds)
"""GRINCH as the paper has it, with pull: small objects, nothing cached. It shares no line with the engine it checks.

Names and order are the paper's (Algorithms Insert, graft and restruct). Where the paper leaves a choice, a comment
says "open in the paper" and the choice is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable

from grinch.core.rules import Rules

Similarity = Callable[[frozenset[int], frozenset[int]], float]


class Node:
    """A node of a cluster tree; a leaf holds the number of its point, in the order of arrival."""

    def __init__(self, point: int = -1, left: Node | None = None, right: Node | None = None):
        self.point, self.left, self.right = point, left, right
        self.parent: Node | None = None

    @property
    def leaves(self) -> list[Node]:
        found, waiting = [], [self]
        while waiting:
            v = waiting.pop()
            found += [v] if v.left is None else []
            waiting += [] if v.left is None else [v.right, v.left]
        return found

    @property
    def members(self) -> frozenset[int]:
        return frozenset(leaf.point for leaf in self.leaves)

    @property
    def size(self) -> int:
        return len(self.leaves)

    @property
    def sibling(self) -> Node:
        return self.parent.right if self is self.parent.left else self.parent.left

    @property
    def lineage(self) -> list[Node]:
        """The node and its ancestors, up to the root."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found


def lca(u: Node, v: Node) -> Node:
    return next(a for a in u.lineage if a in v.lineage)


class Paper:
    """A tree that grows by the paper's Insert under a similarity f of two sets of points."""

    def __init__(self, f: Similarity, rules: Rules, k: int = 25):
        self.rules, self.k = rules, k
        self.f = lambda u, v: f(u.members, v.members)
        self.root: Node | None = None

    def insert(self, point: int) -> None:
        x = Node(point)
        if self.root is None:
            self.root = x
            return
        earlier = sorted(self.root.leaves, key=lambda l: l.point)
        # Open in the paper: of equally near leaves, the one that arrived first (sorting keeps the order of equals).
        nearest = sorted(earlier, key=lambda l: self.f(x, l), reverse=True)
        self.make_sib(x, self.rotate(x, nearest[0]))
        self.release(x.parent)
        self.pull(x)
        # Open in the paper: of candidates that a graft likes equally, the nearest to x, or else the first to arrive.
        candidates = nearest[: self.k] if self.rules.single_search else earlier
        p = x.parent
        while p is not None and self.rules.graft:
            p = self.graft(p, candidates)
            if p is not None:
                self.pull(p)

    def cap(self, limit: int) -> int:
        # Open in the paper, where caps do not grow: x counts from when it is in the tree, so after rotate.
        return min(limit, max(100, self.root.size // 10)) if self.rules.growing_caps else limit

    def rotate(self, x: Node, c: Node) -> Node:
        """Rotating x upward is walking up to where it stops; the node it becomes the sibling of."""
        # Not the paper's: what has nothing in common with its nearest neighbour stays in no group by a cap.
        is_free = self.rules.uncap_unrelated and self.f(x, c) == 0
        cap = float("inf") if is_free else self.cap(self.rules.rotate_cap)
        # Open in the paper: the parent is counted without x, which is not there yet.
        while (
            self.rules.rotate and c.parent and c.parent.size <= cap and self.better(self.f(c, c.sibling), self.f(x, c))
        ):
            c = c.parent
        return self.among_equals(x, c) if self.rules.rotate and self.rules.balanced_ties else c

    def among_equals(self, x: Node, c: Node) -> Node:
        """Not the paper's: where everything around c is equally close to x, the smaller side of it all."""
        if c.parent is None or not self.equal(self.f(x, c), self.f(c, c.sibling)):
            return c
        top, f = c, self.f(c, c.sibling)
        while top.parent and self.equal(self.f(top, top.sibling), f) and self.equal(self.f(x, top.parent), f):
            top = top.parent
        while top is not c and top.left:
            # Open in the note on ties: of two of the same size the left one. Beyond all caps sizes are not known.
            most = 1 + max(self.rules.rotate_cap, self.rules.graft_cap, self.rules.restructure_cap)
            sides = sorted((top.left, top.right), key=lambda side: min(side.size, most))
            top = next((side for side in sides if self.equal(self.f(x, side), f)), c)
        return top

    def equal(self, f: float, g: float) -> bool:
        # Under the formulas on float32 also what differs by rounding alone, which exact sums do not.
        return f == g

    def better(self, f: float, g: float) -> bool:
        return f > g

    def release(self, v: Node) -> None:
        """Not the paper's: from v upwards, where a node has doubled, its sibling and their aunt may join."""
        cap = self.cap(self.rules.restructure_cap)
        while self.rules.release and v.parent and v.parent.parent and v.size <= cap:
            u, aunt = v.sibling, v.parent.sibling
            bonds = self.f(u, v), self.f(v.parent, aunt)
            if v.size in (2, 4, 8, 16, 32, 64, 128) and self.better(self.f(u, aunt), max(bonds)):
                self.swap(v, aunt)
            else:
                v = v.parent

    def pull(self, v: Node) -> None:
        """Not the paper's: from v upwards, a child of sib(v) that likes v better than its own sibling joins v."""
        cap = self.cap(self.rules.rotate_cap)
        # Open in the note on pull: the cap of rotate holds for it too, for the parent as it is with v in it.
        while self.rules.pull and v.parent and v.parent.size <= cap:
            s = v.sibling
            fond = [c for c in (s.left, s.right) if c and self.f(c, v) > self.f(c, c.sibling)]
            if fond:
                # Open in the note on pull: of two that like v equally, the left one, which max finds first.
                self.swap(max(fond, key=lambda c: self.f(c, v)).sibling, v)
            else:
                v = v.parent

    def graft(self, v: Node, candidates: list[Node]) -> Node | None:
        """Where to graft from next, or None when this insert is done."""
        inside = v.members
        outside = [l for l in candidates if l.point not in inside]
        if not outside:
            return None
        l = max(outside, key=lambda l: self.f(v, l))
        a, cap = lca(v, l), self.cap(self.rules.graft_cap)
        while v is not a and l is not a and v.sibling is not l and max(v.size, l.size) <= cap:
            fvl, fv, fl = self.f(v, l), self.f(v, v.sibling), self.f(l, l.sibling)
            if self.better(fvl, max(fv, fl)):
                return self.merge(v, l)
            # Open in the paper: whether a tie is a preference. It is, as where the two climb.
            l_stays, v_stays = not self.better(fvl, fl), not self.better(fvl, fv)
            if self.rules.single_elimination and l_stays and v_stays:
                return None
            if self.rules.brief_grafts and l_stays and v_stays:
                return a if a.size <= cap else None
            l, v = l.parent if l_stays else l, v.parent if v_stays else v
        # Open in the paper: what a cap that ends the loop returns. a is above the cap too, so nothing more is grafted.
        return a

    def merge(self, v: Node, l: Node) -> Node:
        moved, kept = (v, l) if self.rules.light_grafts and v.size < l.size else (l, v)
        z = self.detach(moved)
        p = self.make_sib(moved, kept)
        if self.rules.restructure:
            self.restruct(z, lca(z, p))
        return p

    def restruct(self, z: Node, r: Node) -> None:
        cap = self.cap(self.rules.restructure_cap)
        while z is not r:
            # Open in the paper: whether the cap counts the ancestor or its sibling. The ancestor, and z itself.
            below = [a for a in z.lineage if a not in r.lineage and a.size <= cap]
            if below:
                # Open in the paper: of equals the lowest.
                m = z.sibling
                for a in below:
                    m = a.sibling if self.better(self.f(z, a.sibling), self.f(z, m)) else m
                if m is not z.sibling:
                    self.swap(z.sibling, m)
            z = z.parent

    # How a tree is changed -----------------------------------------------------------------------------------------

    def put(self, new: Node, parent: Node | None, old: Node) -> None:
        """Let new be where old was below parent."""
        new.parent = parent
        if parent is None:
            self.root = new
        elif parent.left is old:
            parent.left = new
        else:
            parent.right = new

    def make_sib(self, x: Node, c: Node) -> Node:
        p = Node(left=c, right=x)
        self.put(p, c.parent, c)
        c.parent = x.parent = p
        return p

    def detach(self, v: Node) -> Node:
        """Take v out; its sibling takes the place of their parent."""
        z = v.sibling
        self.put(z, v.parent.parent, v.parent)
        return z

    def swap(self, u: Node, v: Node) -> None:
        above_u, above_v = u.parent, v.parent
        mark = Node()
        self.put(mark, above_u, u)
        self.put(u, above_v, v)
        self.put(v, above_u, mark)
