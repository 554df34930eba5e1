"""Graphs, and linkages that separate them in the sense of the paper's Definition 1."""

from __future__ import annotations

import random

import networkx as nx


def chains(rng: random.Random, n: int) -> nx.Graph:
    return _union(rng, n, lambda m: nx.path_graph(m))


def trees(rng: random.Random, n: int) -> nx.Graph:
    return _union(rng, n, lambda m: nx.from_edgelist([(i, rng.randrange(i)) for i in range(1, m)]))


def cliques(rng: random.Random, n: int) -> nx.Graph:
    return _union(rng, n, lambda m: nx.complete_graph(m))


def stars(rng: random.Random, n: int) -> nx.Graph:
    return _union(rng, n, lambda m: nx.star_graph(m - 1))


def dense(rng: random.Random, n: int) -> nx.Graph:
    return nx.gnp_random_graph(n, rng.choice([0.05, 0.1, 0.2, 0.4]), seed=rng.randrange(2**31))


def _union(rng: random.Random, n: int, make) -> nx.Graph:
    """Disjoint graphs of random sizes on n vertices in all."""
    parts, left = [], n
    while left:
        m = rng.randint(1, left)
        part = make(m)
        part.add_nodes_from(range(m))
        parts.append(part)
        left -= m
    return nx.disjoint_union_all(parts)


KINDS = {"chains": chains, "trees": trees, "cliques": cliques, "dense": dense, "stars": stars}


def arrival(rng: random.Random, graph: nx.Graph, hubs_last: bool) -> list[int]:
    """A random order of the vertices; with ``hubs_last``, those with several neighbours come at the end."""
    order = list(graph)
    rng.shuffle(order)
    if hubs_last:
        order.sort(key=lambda v: graph.degree(v) > 1)
    return order


class SeparatingLinkage:
    """Random in [0, 1), plus 1 where the union of the two groups is connected. A summary is a bit mask."""

    def __init__(self, graph: nx.Graph, seed: int):
        self.rng = random.Random(seed)
        self.neighbors = {v: sum(1 << u for u in graph[v]) for v in graph}
        self.connected: dict[int, bool] = {}
        self.known: dict[tuple[int, int], float] = {}

    def leaf(self, vertex: int) -> int:
        return 1 << vertex

    def merge(self, a: int, b: int) -> int:
        return a | b

    def score(self, a: int, b: int) -> float:
        key = (a, b) if a < b else (b, a)
        if key not in self.known:
            self.known[key] = self.rng.random() + self.is_connected(a | b)
        return self.known[key]

    def is_connected(self, vertices: int) -> bool:
        if vertices not in self.connected:
            reached = frontier = vertices & -vertices
            while frontier:
                grown = 0
                while frontier:
                    low = frontier & -frontier
                    grown |= self.neighbors[low.bit_length() - 1]
                    frontier ^= low
                frontier = grown & vertices & ~reached
                reached |= frontier
            self.connected[vertices] = reached == vertices
        return self.connected[vertices]

    def as_function(self, a: list[int], b: list[int]) -> float:
        return self.score(sum(1 << v for v in a), sum(1 << v for v in b))


def missed_components(tree, graph: nx.Graph, order: list[int]) -> list[set[int]]:
    """Connected components that are no node of the tree; leaf i is vertex order[i]."""
    nodes = {frozenset(order[i] for i in tree.leaves(v).tolist()) for v in tree.nodes()}
    return [c for c in nx.connected_components(graph) if frozenset(c) not in nodes]
