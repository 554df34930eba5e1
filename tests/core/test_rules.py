"""Rules as a user sees them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grinch import Grinch, Rules

LIMITS = ("_cap", "most_entries")
FLAGS = [name for name in Rules._fields if not name.endswith(LIMITS)]
CAPS = [name for name in Rules._fields if name.endswith(LIMITS)]


@pytest.mark.parametrize(
    "shown",
    [
        "Rules.fast()",
        "Rules.paper()",
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
    st.sampled_from([Rules.fast, Rules.paper, Rules.exact]),
    st.dictionaries(st.sampled_from(FLAGS), st.booleans()),
    st.dictionaries(st.sampled_from(CAPS), st.sampled_from([7, 100, 1000, float("inf")])),
)
def test_what_is_shown_makes_the_same_rules(mode, flags, caps):
    rules = mode(**flags, **caps)
    assert eval(repr(rules)) == rules
