"""Which linkage suits some vectors."""

from grinch.hints.suggest import suggest_linkage

__all__ = ["suggest_linkage"]
