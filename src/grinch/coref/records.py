"""A bibliographic record as seen from one of its authors."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Record:
    """One mention of an author: who, on what paper, with whom. All but ``id`` and ``name`` may be missing.

    >>> Record("1", "Wei Wang", title="Deep trees", coauthors=("Li Chen",), year=2019).year
    2019
    """

    id: str
    name: str
    title: str = ""
    coauthors: tuple[str, ...] = ()
    venue: str = ""
    year: int | None = None
    affiliation: str = ""
    abstract: str = ""
    keywords: tuple[str, ...] = ()
    author: str | None = None
    block: str | None = None
    orcid: str | None = None
    paper: str | None = None
