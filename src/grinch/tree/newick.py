"""Trees in Newick, as other programs write them; :meth:`grinch.Tree.from_newick` reads them."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from grinch._types import Floats, Labels

# Comments, quoted names (in which '' is a quote), signs, and everything else up to the next sign.
TOKEN = re.compile(r"\[[^\]]*\]|'(?:[^']|'')*'|\"[^\"]*\"|[(),:;]|[^\s(),:;'\"\[\]]+|\S")


class Merges(NamedTuple):
    """A binary tree as merges, as :meth:`grinch.Tree.from_merges` takes them; ``scores`` are minus the heights."""

    pairs: Labels
    scores: Floats
    names: list[str]


def merges_of_newick(text: str) -> Merges:
    """Parse the first tree of a text.

    A node with more than two children becomes several, one above the other at the same height; one with a single child
    is left out. Heights come from branch lengths; without them a node is one higher than the highest below it.
    Where the leaves are called 0 to n - 1, that is what they are.

    >>> merges_of_newick("((a:1,b:1):2,'c d':3);")
    Merges(pairs=array([[0, 1],
           [3, 2]]), scores=array([-1., -3.]), names=['a', 'b', 'c d'])
    """
    names: list[str] = []
    depths: list[list[int]] = [[]]  # by level that is open, the children so far
    # Of nodes, -1 - k for the k-th merge until all leaves are known; heights are of merges, branches those above.
    pairs: list[tuple[int, int]] = []
    heights: dict[int, float] = {}
    branch: dict[int, float] = {}
    has_lengths, node, is_done = False, None, False
    previous = ""
    for token in TOKEN.findall(text):
        if token.startswith("["):
            continue
        if token == ";":
            is_done = True
            break
        if token == "(":
            if node is not None:
                raise _bad(f"'(' after {previous!r}")
            depths.append([])
        elif token in ",)":
            if node is None:
                raise _bad(f"{token!r} after {previous!r}, where a node must be")
            if len(depths) == 1:
                raise _bad(f"{token!r} outside of all brackets")
            depths[-1].append(node)
            node = None
            if token == ")":
                children = depths.pop()
                node = children[0]
                for child in children[1:]:
                    high = max(heights.get(c, 0.0) + branch.get(c, 0.0 if has_lengths else 1.0) for c in (node, child))
                    pairs.append((node, child))
                    node = -len(pairs)
                    heights[node] = high
                    branch[node] = 0.0
                if len(children) > 1:
                    branch.pop(node, None)
        elif token == ":":
            if node is None:
                raise _bad("a length without a node")
        elif previous == ":":
            assert node is not None
            try:
                branch[node] = branch.get(node, 0.0) + max(float(token), 0.0)
            except ValueError:
                raise _bad(f"{token!r} is no length") from None
            has_lengths = True
        elif node is None:
            names.append(_unquoted(token))
            node = len(names) - 1
        elif previous != ")":
            raise _bad(f"{token!r} after {previous!r}")
        previous = token
    if len(depths) > 1 or node is None or (not is_done and not text.strip()):
        raise _bad("it ends too early" if text.strip() else "it is empty")
    n = len(names)
    found = np.array(pairs, np.int64).reshape(-1, 2)
    scores = -np.array([heights[-1 - k] for k in range(len(pairs))], np.float64)
    found = np.where(found < 0, n - 1 - found, found)
    if set(names) == {str(i) for i in range(n)}:
        number = np.array([int(name) for name in names])
        found = np.where(found < n, number[np.minimum(found, n - 1)], found)
        names = [str(i) for i in range(n)]
    return Merges(found, scores, names)


def _unquoted(token: str) -> str:
    if token[0] == "'" and len(token) > 1:
        return token[1:-1].replace("''", "'")
    if token[0] == '"' and len(token) > 1:
        return token[1:-1]
    if token in "'\"[]":
        raise _bad(f"{token!r} that is not closed")
    # As the format has it, where names are not quoted.
    return token.replace("_", " ")


def _bad(why: str) -> ValueError:
    return ValueError(f"text must be a tree in Newick, such as '((a:1,b:1):2,c:3);': {why}")
