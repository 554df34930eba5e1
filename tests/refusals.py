"""A check that a call is refused, and in which words."""

from __future__ import annotations

import pytest


def refused(words, call, *arguments, error=ValueError, **settings):
    """Check that a call with these arguments raises an error whose message matches a pattern."""
    with pytest.raises(error, match=words):
        call(*arguments, **settings)
