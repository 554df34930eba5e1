"""Whether what was put together is a model."""

from __future__ import annotations

from typing import Any


def check_model(model: Any) -> None:
    """Raise if anything of a model is inconsistent."""
