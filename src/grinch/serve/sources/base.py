"""What a source of a tree is, and what it hands out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from grinch._checks import check_count
from grinch._types import Counts, Floats, Labels
from grinch.cuts.tracking import Change
from grinch.linkage.base import Linkage
from grinch.linkage.named import VectorLinkage
from grinch.tree import Tree

Id = Any

# The automatic cut and the layers of more points than this take a while, in which nobody else is answered: they are
# found on request.
MOST_FOR_LAYERS = 100_000


class Seen(NamedTuple):
    """A tree at one version; arrays are by leaf.

    ``keys``: by which the source knows the points; ``arrived``: the version in which each came (or its number, where
    there are no versions); ``times``: when, in seconds since 1970; ``cuts``: cluster ids by name of the cut;
    ``cluster_names``: by cut, the names of clusters; ``drifted``: cuts that should be made again.
    """

    version: int
    tree: Tree
    keys: Counts
    arrived: Counts
    times: Floats | None
    cuts: dict[str, Labels]
    cluster_names: dict[str, dict[int, str]]
    drifted: frozenset[str] = frozenset()


class Layer(NamedTuple):
    """The clusters of one resolution, by leaf, and how long they last, from 0 to 1."""

    labels: Labels
    persistence: float


class Place(NamedTuple):
    """Where a point would go: beside which node of the tree of a version, the key of the point that is nearest (-1 if
    none is known), and by name of the cut the cluster it would join (-1 for none).
    """

    version: int
    beside: int
    nearest: int
    clusters: dict[str, int]


class Source(Protocol):
    """What is looked at. ``keys`` are those of :class:`Seen`, so that points are found although others came since."""

    title: str
    kind: str
    has_versions: bool
    names_file: Path | None

    def latest(self) -> int: ...
    def see(self) -> Seen: ...
    def points(self, keys: Iterable[int]) -> list[tuple[Id | None, Any]]: ...
    def payloads(self, keys: Counts) -> Iterator[Any]: ...
    # Dense, or a CSR matrix.
    def rows(self, keys: Counts) -> Any: ...
    def columns(self) -> list[str] | None: ...
    def metric(self) -> str: ...
    def n_features(self) -> int | None: ...
    def key_of(self, name: Id) -> int | None: ...
    def find_text(self, text: str, limit: int) -> tuple[list[int], bool]: ...
    def place(self, row: Any) -> Place: ...
    def layers(self, seen: Seen) -> list[Layer] | None: ...
    def changes(self, since: int, cut: str, limit: int, until: int) -> tuple[list[Change], bool]: ...
    def times(self) -> dict[int, float]: ...
    def close(self) -> None: ...


def metric_of(linkage: VectorLinkage | Linkage) -> str:
    """Return "cosine" if a linkage compares directions, "euclidean" if it compares distances."""
    if isinstance(linkage, VectorLinkage):
        return "euclidean" if linkage.leaf_metric == "sqeuclidean" else "cosine"
    return "cosine" if getattr(linkage, "distance", None) == "cosine" else "euclidean"


def sampled(n: int, most: int) -> Counts:
    """Up to ``most`` numbers from 0 to n - 1, evenly spread.

    >>> sampled(10, 4).tolist()
    [1, 3, 6, 8]
    """
    check_count("most", most, 1)
    if n <= most:
        return np.arange(n)
    return ((np.arange(most) + 0.5) * n / most).astype(np.int64)
