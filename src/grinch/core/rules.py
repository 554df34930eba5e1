"""The rules that the moves follow. A mode is a complete set of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from grinch._by_reference import by_reference
from grinch._checks import check_count
from grinch.errors import SavedModelError, unknown_name
from grinch.tree.links import NO_LIMIT

# An insert is several changes, so a large node is looked at again when it has grown by a hundredth or so.
LAG = 8
CAPPED = ("rotate", "graft", "restructure")
# Without grafts a tree is one of the systems that ours is compared with, and stays as it is.
NEED_GRAFTS = ("balanced_ties", "release", "polish")


@by_reference
class Rules(NamedTuple):
    """The moves and their reach: a value for ``Grinch(mode=...)`` instead of the name of a mode.

    Start from a mode and change what you like with :meth:`fast`, :meth:`paper`, :meth:`authors` or :meth:`exact`;
    ``cap`` there sets the three caps at once (a dict for single ones, ``float("inf")`` for none).

    >>> from grinch import Rules
    >>> Rules.fast(cap=100, single_elimination=True).graft_cap
    100
    >>> Rules.exact(pull=False) == Rules(pull=False)
    True
    >>> Rules.fast(cap=100, pull=True)
    Rules.fast(pull=True, cap=100)
    """

    rotate: bool = True
    pull: bool = True
    graft: bool = True
    restructure: bool = True
    single_elimination: bool = False
    """Grafting ends for a point once two nodes both prefer their siblings."""
    single_search: bool = False
    """The candidates of all grafts come from the one neighbour search of the point."""
    n_candidates: int = 25
    """How many neighbours that search finds, unless ``n_neighbors`` of the estimator is given."""
    rotate_cap: int = NO_LIMIT
    """No rotation or pull at a node with more leaves than this."""
    graft_cap: int = NO_LIMIT
    restructure_cap: int = NO_LIMIT
    uncap_unrelated: bool = False
    """The cap of rotations does not hold for a point that has nothing in common with its nearest neighbour, such as a
    row of zeros: it would stay in a group that it has no place in."""
    growing_caps: bool = False
    """Caps start at 100 and grow with the tree, to a tenth of its points, up to the caps."""
    light_grafts: bool = False
    """Of the two nodes that a graft joins, the one with fewer leaves moves; in the paper, the one that was found."""
    brief_grafts: bool = False
    """A graft is given up once two nodes both prefer their siblings, and the next one starts at their common ancestor;
    in the paper both climb on."""
    balanced_ties: bool = False
    """A point goes to the smaller side of what is all equally close, so that copies do not make a chain. This rule and
    the next one and ``polish`` need grafts: ``graft=False`` switches them off."""
    release: bool = False
    """Where a node has doubled, its sibling goes to their aunt if both like that better: so that points in order do
    not make a chain."""
    lagging: bool = False
    """Summaries of nodes beyond the caps may lag behind, by changes below them of up to an eighth of their leaves."""
    polish: bool = False
    """A tree of up to 16,384 points is polished as it grows, by swaps that bring neighbours together: the order of
    arrival matters less then."""
    most_entries: int = NO_LIMIT
    """Of the mean of sparse vectors only the largest entries are kept, at most this many."""

    def __repr__(self) -> str:
        """Return the call that makes these rules, from the mode that they differ least from."""
        calls = [_call(name, rules, self) for name, rules in MODES.items()]
        return min(calls, key=lambda call: call.count("="))

    @property
    def size_limit(self) -> int:
        """Sizes above the widest cap are never looked at, so they need not be exact."""
        return max(self.rotate_cap, self.graft_cap, self.restructure_cap)

    @property
    def lag(self) -> int:
        """Of how many leaves of a large node one may have changed before its summary is out of date; 0: of none."""
        return LAG if self.lagging else 0

    @classmethod
    def fast(cls, **changes: Any) -> Rules:
        """Return the rules of the default mode."""
        return FAST.changed(**changes)

    @classmethod
    def paper(cls, **changes: Any) -> Rules:
        """Return the rules of the paper's large experiments (its section 4.2): single elimination, a cap of 100 on
        rotations alone, a single search of 50 neighbours.
        """
        return PAPER.changed(**changes)

    @classmethod
    def authors(cls, **changes: Any) -> Rules:
        """Return the rules of the script for ALOI that the authors published: the paper's, with a cap of 100 on grafts
        and restructuring, too.
        """
        return AUTHORS.changed(**changes)

    @classmethod
    def exact(cls, **changes: Any) -> Rules:
        """Return rules without any approximation, which carry the guarantee of the paper's theorem."""
        return EXACT.changed(**changes)

    def changed(self, cap: Any = None, **changes: Any) -> Rules:
        """Return these rules with some of them changed."""
        for name in changes:
            if name not in self._fields:
                raise unknown_name("a rule", name, ("cap", *self._fields))
        if cap is not None:
            caps = cap if isinstance(cap, Mapping) else dict.fromkeys(CAPPED, cap)
            for move in caps:
                if move not in CAPPED:
                    raise unknown_name("cap's keys", move, CAPPED)
            changes = {"growing_caps": False, **{f"{move}_cap": limit for move, limit in caps.items()}, **changes}
        if not changes.get("graft", True):
            changes = {**dict.fromkeys(NEED_GRAFTS, False), **changes}
        return checked_rules(self._replace(**changes))


EXACT = Rules()

# docs/development/settings.md has the measurements behind it.
FAST = EXACT._replace(
    pull=False,
    single_search=True,
    rotate_cap=300,
    graft_cap=300,
    restructure_cap=300,
    uncap_unrelated=True,
    growing_caps=True,
    light_grafts=True,
    brief_grafts=True,
    balanced_ties=True,
    release=True,
    lagging=True,
    polish=True,
    most_entries=128,
)

PAPER = EXACT._replace(pull=False, single_search=True, single_elimination=True, rotate_cap=100, n_candidates=50)
AUTHORS = PAPER._replace(graft_cap=100, restructure_cap=100)

ROTATE = FAST._replace(
    graft=False,
    restructure=False,
    uncap_unrelated=False,
    balanced_ties=False,
    release=False,
    lagging=False,
    polish=False,
    most_entries=NO_LIMIT,
)
ONLINE = ROTATE._replace(rotate=False)
# What is left of a removal when nothing is repaired.
NO_MOVES = EXACT._replace(rotate=False, pull=False, graft=False, restructure=False)

MODES: dict[str, Rules] = {"fast": FAST, "paper": PAPER, "authors": AUTHORS, "exact": EXACT}


def rules_of(mode: Any) -> Rules:
    """Return the rules meant by the name of a mode, or by themselves.

    >>> rules_of("exact") == Rules()
    True
    """
    if isinstance(mode, Rules):
        return checked_rules(mode)
    if not isinstance(mode, str) or mode not in MODES:
        raise unknown_name("mode", mode, MODES, " or rules, such as Rules.fast(cap=100)")
    return MODES[mode]


def checked_rules(rules: Rules) -> Rules:
    """Return the same rules as plain numbers and flags, each of which can be what it is."""
    chosen: dict[str, Any] = {}
    for name, value in rules._asdict().items():
        if name.endswith("_cap"):
            chosen[name] = _whole_number(name, value, "leaves")
        elif name == "most_entries":
            chosen[name] = _whole_number(name, value, "entries")
        elif name == "n_candidates":
            chosen[name] = check_count(name, value, 1)
        elif value not in (True, False):
            raise ValueError(f"{name} must be True or False; got {value!r}")
        else:
            chosen[name] = bool(value)
    for name in NEED_GRAFTS:
        if chosen[name] and not chosen["graft"]:
            raise ValueError(
                f"{name}=True needs grafts; got graft=False."
                f" Leave {name} out, as in Rules.fast(graft=False), or use graft=True"
            )
    return Rules(**chosen)


def rules_to_state(rules: Rules) -> dict[str, Any]:
    return {
        name: bool(value) if isinstance(value, (bool, np.bool_)) else int(min(value, NO_LIMIT))
        for name, value in rules._asdict().items()
    }


def rules_from_state(state: Any) -> Rules:
    if isinstance(state, dict) and "rotate_cap" in state:
        # Rules of 0.1.0 and before: without caps, this rule says nothing.
        since = {"n_candidates": EXACT.n_candidates, "uncap_unrelated": state["rotate_cap"] != NO_LIMIT}
        state = {**since, **state}
    if not isinstance(state, dict) or set(state) != set(Rules._fields):
        raise SavedModelError(f"rules are not those that this version knows: {state!r:.200}")
    return checked_rules(Rules(**state))


def _call(mode: str, start: Rules, wanted: Rules) -> str:
    """Return the call that makes the wanted rules from those of a mode."""
    changes = {name: value for name, value in wanted._asdict().items() if value != getattr(start, name)}
    caps = {move: getattr(wanted, f"{move}_cap") for move in CAPPED}
    if len(set(caps.values())) == 1 and any(f"{move}_cap" in changes for move in CAPPED):
        # ``cap`` also ends the growing.
        changes = {name: value for name, value in changes.items() if not name.endswith("_cap")}
        changes.pop("growing_caps", None)
        changes |= {"growing_caps": True} if wanted.growing_caps else {}
        changes["cap"] = caps["rotate"]
    shown = ('float("inf")' if value == NO_LIMIT else repr(value) for value in changes.values())
    return f"Rules.{mode}({', '.join(f'{name}={value}' for name, value in zip(changes, shown, strict=True))})"


def _whole_number(name: str, value: Any, of: str) -> int:
    """Return a limit as a whole number; infinity is no limit."""
    number = isinstance(value, (int, float, np.integer)) and not isinstance(value, bool)
    if not number or math.isnan(value) or value < 1 or (value != math.inf and value != int(value)):
        raise ValueError(
            f"{name} must be a whole number of {of}, at least 1, or float('inf') for no limit; got {value!r}"
        )
    return int(min(value, NO_LIMIT))
