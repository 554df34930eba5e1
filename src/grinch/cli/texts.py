"""Texts as points: which file has them, and what makes rows of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse
import typer

from grinch._types import Labels, Mask
from grinch.cuts import collapse
from grinch.io.points import FileError, Points
from grinch.io.read import Texts
from grinch.io.tables import ending_of
from grinch.store.inputs import TEXT_FILE
from grinch.text import EncodedTexts, TextVectors, find_encoder
from grinch.text.encoders import saved_encoder
from grinch.tree import Tree

Rows = TextVectors | EncodedTexts
# Files that hold nothing but texts, or nothing that is a feature without being named.
ALWAYS_TEXTS = (".txt", ".jsonl")
N_WORDS = 5
# From this share of unknown words on, a store is better off with hashing.
MANY_UNKNOWN = 0.2

Text = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column with the texts to cluster by; other columns are no features then."),
]
Ngrams = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="N", help="For texts: runs of up to N words count (default 1); 0 for --characters alone."
    ),
]
Characters = Annotated[
    str | None,
    typer.Option(metavar="A-B", help="For texts: runs of A to B characters count, too, such as 3-4; for typos."),
]
Hashing = Annotated[
    bool, typer.Option("--hashing", help="For texts: hash words instead of keeping a list, so that new ones count.")
]
Embed = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="For texts: embeddings by MODULE:OBJECT that has encode(texts), or by a model of sentence-transformers,"
        " such as sentence-transformers/all-MiniLM-L6-v2.",
    ),
]


class Branch(NamedTuple):
    """A cluster, or a branch above clusters: nodes of the tree, how many points it has, and its words."""

    node: int
    parent: int | None
    cluster: int | None
    size: int
    words: list[str]


class TextOptions(NamedTuple):
    """How rows are made of texts; None and False where nothing was said."""

    text: str | None = None
    ngrams: int | None = None
    characters: str | None = None
    hashing: bool = False
    embed: str | None = None

    def are_for(self, file: Path) -> bool:
        """Whether a file is one of texts; refuses options that are for texts if it is not."""
        if self.text is not None or ending_of(file) in ALWAYS_TEXTS:
            return True
        if self._given():
            raise FileError(
                f"{self._given()[0]} is for texts: FILE must be a .txt with a text per line, or --text name a column"
            )
        return False

    def new_rows(self) -> Rows:
        """What makes rows of texts, for the first time."""
        if self.embed is not None:
            if len(self._given()) > 1:
                raise ValueError(f"--embed makes the rows by itself: leave {self._given()[0]} out")
            return _encoder(self.embed)
        return TextVectors(**self._settings())

    def kept_rows(self, path: Path) -> Rows:
        """What made the rows of a store, which stays; refuses options that say otherwise."""
        name = saved_encoder(path)
        if name is not None:
            if self.embed != name:
                raise FileError(f"STORE has texts by the embeddings of {name!r}; give --embed {name}")
            return _encoder(name)
        kept = TextVectors.load(path)
        settings = self._settings()
        for option in self._given():
            parameter = option.removeprefix("--").replace("ngrams", "words")
            if parameter == "embed" or kept.get_params()[parameter] != settings[parameter]:
                raise FileError(f"{option} is for a new store: rows of texts are made as those in it; leave it out")
        return kept

    def _given(self) -> list[str]:
        given = {"--ngrams": self.ngrams, "--characters": self.characters, "--hashing": self.hashing or None}
        return [option for option, value in {**given, "--embed": self.embed}.items() if value is not None]

    def _settings(self) -> dict[str, Any]:
        if self.ngrams == 0 and self.characters is None:
            raise ValueError("--ngrams 0 leaves words out: give --characters as well, such as --characters 3-4")
        return {
            "words": 1 if self.ngrams is None else self.ngrams,
            "characters": _lengths(self.characters),
            "hashing": self.hashing,
        }


def _lengths(characters: str | None) -> tuple[int, int] | None:
    if characters is None:
        return None
    first, _, last = characters.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal() and 1 <= int(first) <= int(last or first)):
        raise ValueError(f"--characters must be a length or two, such as 4 or 3-4; got {characters!r}")
    return int(first), int(last or first)


def _encoder(name: str) -> EncodedTexts:
    # The current folder is looked in, too, as with --import.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return EncodedTexts(find_encoder(name), name)


def metric_of_texts(linkage: str | None, metric: str | None) -> str | None:
    """Return the metric to compare texts by if none is given: average linkage compares them by direction.

    Their rows are of length 1, but those of texts without known words, which are not to be near all others.
    """
    return "cosine" if metric is None and linkage in (None, "average") else metric


def is_of_texts(store: Path) -> bool:
    """Whether the points of a store are texts."""
    return (store / TEXT_FILE).exists()


def as_points(found: Texts, rows: Any) -> Points:
    """Texts with their rows, as points that are clustered."""
    return Points(rows, found.ids, found.labels, found.kept)


def said_of(rows: Any, made_by: Rows) -> str:
    """How many columns rows of texts have, and of what."""
    if isinstance(made_by, EncodedTexts):
        return f"{rows.shape[1]:,} features by {made_by.name}"
    return f"hashed to {rows.shape[1]:,} columns" if made_by.hashing else f"{rows.shape[1]:,} terms"


def note_on_words(rows: Any, made_by: Rows) -> str | None:
    """How many of the first texts are not clustered by anything, if some are."""
    return _without_words(rows, made_by, "no word, and no cluster (-1)")


def note_on_unknown(found: Texts, rows: Any, made_by: Rows) -> str | None:
    """What of later texts does not count, because the words of a store are those of its first file."""
    if isinstance(made_by, EncodedTexts):
        return None
    note = _without_words(rows, made_by, "no word" if made_by.hashing else "no word that the store knows")
    share = made_by.unknown_share(found.texts)
    if share <= MANY_UNKNOWN:
        return note
    many = f"{share:.0%} of the words are unknown to the store and do not count"
    advice = "new words count in a store that is begun with --hashing, which cannot be changed later"
    return f"{f'{note}; ' if note else 'note: '}{many}: {advice}"


def are_wordless(rows: Any) -> Mask:
    """Which rows of texts have nothing in them: they are as near to any text as to each other, and in no cluster.

    >>> from grinch.text import TextVectors
    >>> are_wordless(TextVectors().fit_transform(["a red apple", "!?"])).tolist()
    [False, True]
    """
    is_sparse = scipy.sparse.issparse(rows)
    return np.diff(rows.indptr) == 0 if is_sparse else np.zeros(rows.shape[0], np.bool_)


def _without_words(rows: Any, made_by: Rows, what: str) -> str | None:
    if isinstance(made_by, EncodedTexts):
        return None
    n, count = rows.shape[0], int(are_wordless(rows).sum())
    return f"note: {count:,} of the {n:,} texts {'has' if count == 1 else 'have'} {what}" if count else None


def named_branches(tree: Tree, flat: Labels, points: Points, made_by: Rows) -> list[Branch]:
    """The clusters and the branches above them by their words, from the rows that were clustered if they are of words.

    Where they are of runs of characters, these are the names only if the texts have no words.

    The largest first; none if there are no words at all.
    """
    rows: Any = points.vectors
    if isinstance(made_by, EncodedTexts) or not made_by.words:
        by_words = TextVectors()
        try:
            rows, made_by = by_words.fit_transform(next(iter(points.kept.values()))), by_words
        except ValueError:
            if isinstance(made_by, EncodedTexts):
                return []
    words, above = made_by.tree_keywords(rows, tree, N_WORDS), collapse(tree, flat)
    found = []
    for v in sorted(above.tree.nodes(), key=lambda v: (-int(above.sizes[v]), v)):
        node, up = int(above.nodes[v]), above.tree.parent(v)
        parent = None if up is None else int(above.nodes[up])
        cluster = int(above.clusters[v]) if above.tree.is_leaf(v) else None
        found.append(Branch(node, parent, cluster, int(above.sizes[v]), words[node]))
    return found
