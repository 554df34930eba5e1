"""The engine and the oracle side by side: the same records in, trees in the same form out."""

from __future__ import annotations

import random
from functools import reduce

import numpy as np
from hypothesis import strategies as st

from core.paper import Paper, Similarity
from grinch.core.engine import Engine
from grinch.core.rules import EXACT, Rules
from grinch.tree.links import NO_LIMIT

MOVES = ("rotate", "pull", "graft", "restructure")
SWITCHES = (
    *MOVES,
    "single_elimination",
    "single_search",
    "light_grafts",
    "uncap_unrelated",
    "growing_caps",
    "brief_grafts",
    "balanced_ties",
    "release",
)
CAPS = ("rotate_cap", "graft_cap", "restructure_cap")
NO_MOVES = EXACT._replace(**dict.fromkeys(MOVES, False))

all_rules = st.fixed_dictionaries(
    {name: st.booleans() for name in SWITCHES} | {name: st.sampled_from([1, 2, 3, 5, 20, NO_LIMIT]) for name in CAPS}
).map(lambda chosen: EXACT._replace(**chosen))


def by_engine(linkage, rules: Rules, records, k: int = 25) -> str:
    """The engine's tree as sorted Newick. All that these tests know of the engine is in here."""
    width = {"n_features": records.shape[1]} if isinstance(records, np.ndarray) else {}
    engine = Engine(linkage, rules, n_neighbors=k, **width)
    engine.insert(records)
    tree = engine.tree()
    names = range(len(records)) if width else records
    return newick(tree.root, tree.children, lambda leaf: names[leaf])


def by_paper(f: Similarity, rules: Rules, records, k: int = 25) -> str:
    """The oracle's tree as sorted Newick; f is a function of two sets of positions of records."""
    paper = Paper(f, rules, k)
    for point in range(len(records)):
        paper.insert(point)
    names = range(len(records)) if isinstance(records, np.ndarray) else records
    return newick(paper.root, lambda v: (v.left, v.right) if v.left else (), lambda leaf: names[leaf.point])


def newick(root, children, name) -> str:
    """Sorted, so that two trees are the same if and only if their strings are."""
    nodes, text = [root], {}
    for v in nodes:
        nodes.extend(children(v))
    for v in reversed(nodes):
        below = sorted(text.pop(c) for c in children(v))
        text[v] = f"({','.join(below)})" if below else str(name(v))
    return text[root]


def similarity(linkage, records) -> Similarity:
    """A linkage as a function of two sets of positions, its summaries made from the members in every call."""

    def summary(members):
        return reduce(linkage.merge, (linkage.leaf(records[i]) for i in sorted(members)))

    return lambda a, b: linkage.score(summary(a), summary(b))


class OfSets:
    """A linkage whose summaries are the sets of records themselves."""

    def leaf(self, record):
        return frozenset([record])

    def merge(self, a, b):
        return a | b


class Arbitrary(OfSets):
    """Any symmetric function at all: a random score for every two sets, continuous or one of a few levels."""

    def __init__(self, seed: int, levels: int | None = None):
        self.rng, self.levels = random.Random(seed), levels
        self.known: dict[frozenset, float] = {}

    def score(self, a, b):
        pair = frozenset((a, b))
        if pair not in self.known:
            self.known[pair] = float(self.rng.randrange(self.levels)) if self.levels else self.rng.random()
        return self.known[pair]


class Written(OfSets):
    """Scores from a table, such as ``{"ab c": 2.0}`` for the sets {a, b} and {c}; all others are 0."""

    def __init__(self, table: dict[str, float]):
        self.table = {frozenset(map(frozenset, pair.split())): value for pair, value in table.items()}

    def score(self, a, b):
        return self.table.get(frozenset((a, b)), 0.0)


class Ends:
    """Numbers on a line; a random score for every two spans, less the length of the span of both. Cheap for many."""

    def __init__(self, seed: int):
        self.chance = Arbitrary(seed)

    def leaf(self, record):
        return record, record

    def merge(self, a, b):
        return min(a[0], b[0]), max(a[1], b[1])

    def score(self, a, b):
        low, high = self.merge(a, b)
        return self.chance.score(a, b) - 0.003 * (high - low)
