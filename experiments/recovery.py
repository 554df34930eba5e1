"""Cliques and chains (the paper's figure 1): which systems recover the components of a graph that f separates."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.setting import Result, Setting, end_at_one
from grinch import cluster_with
from grinch.plots import plot_comparison

SYSTEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "Grinch (exact)": ("grinch", {"mode": "exact"}),
    "Grinch (exact, no pull)": ("grinch", {"mode": "exact", "pull": False}),
    "Rotate": ("rotate", {}),
    "Online": ("online", {}),
    "HAC": ("hac", {}),
}
KINDS = ("cliques", "chains", "stars")
TRIALS = {"full": 2000, "quick": 150, "tiny": 5}
N = 16


class Separating:
    """A linkage that separates a graph: random in [0, 1), plus 1 where the union of two groups is connected.

    A summary is a set of vertices as the bits of a number.
    """

    def __init__(self, neighbors: list[int], rng: np.random.Generator):
        self.neighbors, self.rng = neighbors, rng
        self.known: dict[tuple[int, int], float] = {}

    def leaf(self, vertex: int) -> int:
        return 1 << vertex

    def merge(self, a: int, b: int) -> int:
        return a | b

    def score(self, a: int, b: int) -> float:
        key = (min(a, b), max(a, b))
        if key not in self.known:
            self.known[key] = self.rng.random() + self.is_connected(a | b)
        return self.known[key]

    def is_connected(self, vertices: int) -> bool:
        reached = frontier = vertices & -vertices
        while frontier:
            around = 0
            for v in range(len(self.neighbors)):
                if frontier >> v & 1:
                    around |= self.neighbors[v]
            frontier = around & vertices & ~reached
            reached |= frontier
        return reached == vertices


def _components(rng: np.random.Generator) -> list[list[int]]:
    """N vertices in components of random sizes."""
    ends = np.sort(rng.choice(np.arange(1, N), size=int(rng.integers(1, 5)), replace=False)).tolist()
    return [list(range(a, b)) for a, b in zip([0, *ends], [*ends, N], strict=True)]


def _neighbors(kind: str, components: list[list[int]]) -> list[int]:
    neighbors = [0] * N
    for members in components:
        hub = members[0]
        for u in members:
            for v in members:
                is_edge = {"cliques": u != v, "chains": abs(u - v) == 1, "stars": u != v and hub in (u, v)}[kind]
                neighbors[u] |= is_edge << v
    return neighbors


def run(setting: Setting) -> Result:
    result = Result("recovery", "Trees that have every component as a node", ["system", *KINDS])
    trials = TRIALS[setting.scale.name]
    for title in SYSTEMS:
        row: dict[str, Any] = {"system": title}
        for kind in KINDS:
            cell = setting.measure(f"{title}, {kind}", n_recovered, title, kind, trials, setting.seed)
            found = cell.found.get("recovered", 0)
            row[kind] = cell.failure or f"{found:,} of {trials:,}"
            row[f"{kind} share"] = found / trials
        result.rows.append(row)
    result.remarks.append(
        f"Random graphs of {N} vertices in components, random orders of arrival; in stars the hub comes last, which is"
        " where the printed algorithm, without our pull, can miss one (in a few of thousands)."
    )
    return result


def n_recovered(title: str, kind: str, trials: int, seed: int) -> dict[str, int]:
    name, settings = SYSTEMS[title]
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    return {"recovered": sum(_is_recovered(kind, name, settings, rng) for _ in range(trials))}


def _is_recovered(kind: str, name: str, settings: dict[str, Any], rng: np.random.Generator) -> bool:
    components = _components(rng)
    linkage = Separating(_neighbors(kind, components), rng)
    order = rng.permutation(N)
    if kind == "stars":
        hubs = [members[0] for members in components]
        order = np.concatenate([[v for v in order if v not in hubs], [v for v in order if v in hubs]])
    tree = cluster_with(name, order.astype(int).tolist(), linkage=linkage, **settings).tree_
    nodes = {frozenset(order[tree.leaves(v)].tolist()) for v in tree.nodes()}
    return all(frozenset(members) in nodes for members in components)


def draw(result: Result) -> Any:
    import matplotlib.pyplot as plt

    kinds = result.columns[1:]
    figure, axes = plt.subplots(1, len(kinds), figsize=(5.5 * len(kinds), 3), layout="constrained", squeeze=False)
    for ax, kind in zip(axes[0], kinds, strict=True):
        ours = ("Grinch (exact)",)
        plot_comparison(
            result.rows, f"{kind} share", method="system", highlight=ours, xlabel="share of trees", title=kind, ax=ax
        )
        end_at_one(ax)
    return figure
