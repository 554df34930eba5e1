"""Refusing a saved model, in one line."""

from __future__ import annotations

from typing import Any

import numpy as np

from grinch.errors import SavedModelError


def must(is_so: Any, problem: str) -> None:
    """Refuse a saved model unless something is so."""
    if not bool(is_so):
        raise SavedModelError(f"the saved model is damaged: {problem}")


def are_within(values: Any, low: int, high: int) -> bool:
    """Whether all of these are from ``low`` up to, not including, ``high``."""
    return not np.size(values) or bool(low <= np.min(values) and np.max(values) < high)
