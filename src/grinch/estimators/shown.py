"""A fit as readers see it while another thread changes the fit itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._types import Counts, Ids, Labels
from grinch.core.standing import Standing
from grinch.cuts.automatic import AutomaticCut
from grinch.tree import Tree


class NotShown(Exception):
    """What is asked for cannot be seen from beside a writer; wait for it."""


@dataclass(frozen=True)
class Shown:
    """What there was before a change began; nothing of it changes.

    ``face`` is the estimator as it was, to check input by; ``points`` those of a builder that has them, by leaf;
    ``standing`` is where other points would go (None where that cannot be said beside the change), in the ids of the
    builder's tree, and ``leaves`` the leaves of the tree handed out by its leaves.
    """

    face: Any
    handed_out: Tree
    stats: dict[str, int]
    refinements: list[Any]
    points: npt.NDArray[Any] | None
    standing: Standing | None
    leaves: Counts
    found: AutomaticCut | None = None
    """The automatic cut, if somebody had asked for it."""
    _labels: dict[Hashable, Labels] = field(default_factory=dict)

    @property
    def n_leaves(self) -> int:
        return self.handed_out.n_leaves

    def automatic(self, find: object) -> AutomaticCut:
        """The automatic cut that was there; nothing can be looked for beside a change."""
        if self.found is None:
            raise NotShown
        return self.found

    def tree(self) -> Tree:
        return self.handed_out

    def point_ids(self) -> list[Any]:
        names = self.handed_out.names
        return list(range(self.n_leaves)) if names is None else list(names)

    def node_labels(self, cut: Hashable, find: Callable[[Tree], Labels]) -> Labels:
        """Flat clusters by node id, -1 above the cut; ``cut`` names what ``find`` finds, so that it is done once."""
        if cut not in self._labels:
            self._labels[cut] = find(self.handed_out)
        return self._labels[cut]

    def public_ids(self, nodes: Ids) -> Counts:
        """Node ids of the builder's tree as ids of the tree handed out; NONE becomes some id."""
        return np.where(nodes < self.n_leaves, self.leaves[np.minimum(nodes, self.n_leaves - 1)], nodes)


NOT_FITTED = Shown(None, Tree(), {}, [], None, None, np.empty(0, np.int64))
