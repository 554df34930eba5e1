"""The settings of the engine. A mode is a complete set of them; any single one can be overridden."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from grinch.errors import unknown_name
from grinch.tree.links import NO_LIMIT


class Rules(NamedTuple):
    """Which moves are made and how far they reach.

    Caps count descendant leaves. With ``growing_caps`` they start at 100 and grow with the tree, to a tenth of its
    points, up to the caps.
    """

    rotate: bool
    pull: bool
    graft: bool
    restructure: bool
    single_elimination: bool
    single_search: bool
    rotate_cap: int
    graft_cap: int
    restructure_cap: int
    growing_caps: bool = False
    light_grafts: bool = False
    """Of the two nodes that a graft joins, the one with fewer leaves moves; in the paper, the one that was found."""
    polish: bool = False
    """A small tree is polished as it grows, by swaps that bring neighbours together (:mod:`grinch.refine`)."""

    @property
    def size_limit(self) -> int:
        """Sizes above the widest cap are never looked at, so they need not be exact."""
        return max(self.rotate_cap, self.graft_cap, self.restructure_cap)


EXACT = Rules(
    rotate=True,
    pull=True,
    graft=True,
    restructure=True,
    single_elimination=False,
    single_search=False,
    rotate_cap=NO_LIMIT,
    graft_cap=NO_LIMIT,
    restructure_cap=NO_LIMIT,
)

# What is left of a removal when nothing is repaired.
NO_MOVES = EXACT._replace(rotate=False, pull=False, graft=False, restructure=False)

# The everyday mode; docs/settings.md has the measurements behind it.
FAST = EXACT._replace(
    pull=False,
    single_search=True,
    rotate_cap=1000,
    graft_cap=1000,
    restructure_cap=1000,
    growing_caps=True,
    light_grafts=True,
    polish=True,
)

# One knob, from fastest to best: the paper's settings, the everyday mode, and that with passes of refinement after fit.
PAPER = EXACT._replace(
    pull=False,
    single_search=True,
    single_elimination=True,
    rotate_cap=100,
    graft_cap=100,
    restructure_cap=100,
)
EFFORTS: dict[int, int] = {0: 0, 1: 0, 2: 1, 3: 3}

MODES: dict[str, Rules] = {"fast": FAST, "exact": EXACT}
N_NEIGHBORS = 25

SWITCHES = ("rotate", "pull", "graft", "restructure", "single_elimination", "single_search", "light_grafts", "polish")
CAPPED = ("rotate", "graft", "restructure")


def refine_passes(effort: Any) -> int:
    """How many passes of refinement an effort adds to a fit.

    >>> [refine_passes(effort) for effort in (0, 1, 2, 3)]
    [0, 0, 1, 3]
    """
    if isinstance(effort, bool) or effort not in EFFORTS:
        raise ValueError(f"effort must be 0 (fastest), 1, 2 or 3 (best); got {effort!r}")
    return EFFORTS[effort]


def make_rules(mode: str, cap: Any = None, effort: int = 1, **switches: bool | None) -> Rules:
    """The rules of a mode, with whatever is not None in place of the mode's own.

    >>> make_rules("fast", cap=100, single_elimination=True).graft_cap
    100
    >>> make_rules("fast", cap={"restructure": 50}).rotate_cap == FAST.rotate_cap
    True
    """
    if mode not in MODES:
        raise unknown_name("mode", mode, MODES)
    chosen: dict[str, Any] = {}
    for name, value in switches.items():
        if value is None:
            continue
        if value not in (True, False):
            raise ValueError(f"{name} must be True, False, or None (as the mode has it); got {value!r}")
        chosen[name] = bool(value)
    caps = cap if isinstance(cap, Mapping) else dict.fromkeys(CAPPED, cap)
    if cap is not None:
        chosen["growing_caps"] = False
    for move, limit in caps.items():
        if move not in CAPPED:
            raise unknown_name("cap's keys", move, CAPPED)
        if limit is not None:
            chosen[f"{move}_cap"] = _cap(limit)
    rules = (PAPER if mode == "fast" and effort == 0 else MODES[mode])._replace(**chosen)
    # Without grafts a tree is one of the systems that ours is compared with, and stays as it is.
    return rules if rules.graft else rules._replace(polish=False)


def _cap(value: Any) -> int:
    """A cap as a number of leaves; infinity is no cap."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or math.isnan(value) or value < 1 or (value != math.inf and value != int(value)):
        raise ValueError(
            f"cap must be a whole number of leaves, at least 1, or float('inf') for none"
            f" (or a dict of those for {', '.join(map(repr, CAPPED))}); got {value!r}"
        )
    return int(min(value, NO_LIMIT))
