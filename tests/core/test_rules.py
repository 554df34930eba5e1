"""Rules as a user sees them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch import Grinch, Rules
from grinch.compare.methods import parse_method
from grinch.core.rules import rules_from_state, rules_to_state
from grinch.estimators.registry import make_system
from grinch.tree.links import NO_LIMIT
from refusals import refused

LIMITS = ("_cap", "most_entries")
NEED_GRAFTS = ("balanced_ties", "release", "polish")
FLAGS = [name for name in Rules._fields if not name.endswith((*LIMITS, "n_candidates"))]
CAPS = [name for name in Rules._fields if name.endswith(LIMITS)]


@pytest.mark.parametrize(
    "shown",
    [
        "Rules.fast()",
        "Rules.paper()",
        "Rules.authors()",
        "Rules.exact()",
        "Rules.exact(pull=False)",
        "Rules.fast(light_grafts=False, polish=False)",
        "Rules.fast(single_elimination=True, cap=50)",
        'Rules.fast(cap=float("inf"))',
        "Rules.fast(graft_cap=50)",
    ],
)
def test_rules_are_shown_as_the_call_that_makes_them(shown):
    assert repr(eval(shown)) == shown
    assert repr(Grinch(mode=eval(shown))) == f"Grinch(mode={shown})"


@given(
    st.sampled_from([Rules.fast, Rules.paper, Rules.authors, Rules.exact]),
    st.dictionaries(st.sampled_from(FLAGS), st.booleans()),
    st.dictionaries(st.sampled_from(CAPS), st.sampled_from([7, 100, 1000, float("inf")])),
)
def test_what_is_shown_makes_the_same_rules(mode, flags, caps):
    if any(flags.get(name) for name in NEED_GRAFTS):
        flags["graft"] = True
    rules = mode(**flags, **caps)
    assert eval(repr(rules)) == rules
    asked = {**flags, **{name: min(cap, NO_LIMIT) for name, cap in caps.items()}}
    assert {name: getattr(rules, name) for name in asked} == asked


@pytest.mark.parametrize("name", NEED_GRAFTS)
def test_rules_that_need_grafts_are_refused_without_them(name):
    asked = {"graft": False, name: True}
    said = f"{name}=True needs grafts; got graft=False.*Rules.fast"
    refused(said, Rules.fast, **asked)
    refused(said, make_system, "grinch", **asked)
    refused(said, Grinch(mode=Rules(**asked)).fit, [[1.0], [2.0]])
    refused(said, parse_method, f"grinch:graft=false:{name}=true")
    for rules in (Rules.fast(graft=False), Rules.fast(graft=False, **{name: False}), Rules.exact(graft=False)):
        assert not rules.graft
        assert not getattr(rules, name)


@pytest.mark.parametrize("rules", [Rules.fast(), Rules.exact(), Rules.authors(), Rules.exact(cap={"graft": 9})])
def test_rules_of_earlier_files_mean_what_they_did(rules):
    """Where rotations had a cap, it did not hold for what had nothing in common with its nearest neighbour."""
    earlier = rules_to_state(rules)
    del earlier["uncap_unrelated"], earlier["n_candidates"]
    assert rules_from_state(earlier) == rules._replace(uncap_unrelated=rules.rotate_cap < NO_LIMIT, n_candidates=25)
    assert rules_from_state(rules_to_state(rules)) == rules
