"""The choice of a linkage for vectors."""

from grinch.hints.suggest import suggest_linkage

__all__ = ["suggest_linkage"]
