"""The files of the page."""

from __future__ import annotations


def served_page(nonce: str) -> str:
    """The page, for the server; scripts in it carry the nonce."""
    return f'<!doctype html><meta charset="utf-8"><title>grinch</title><script nonce="{nonce}"></script>'


def asset(name: str) -> tuple[bytes, str]:
    """A file of the page and its media type; raises KeyError if there is none."""
    raise KeyError(f"the page has no file {name!r:.60}")
