"""Read a file as points, whether it has vectors or texts, and what makes rows of texts."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from grinch._types import Labels, Mask
from grinch.cli.app import title_of
from grinch.cuts import collapse
from grinch.io.points import Asked, FileError, Points, ending_of
from grinch.io.read import Texts, read_points, read_texts
from grinch.plots.style import counted
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


class NamedBranch(NamedTuple):
    """A cluster, or a branch above clusters: nodes of the tree, the number of points, and keywords."""

    node: int
    parent: int | None
    cluster: int | None
    size: int
    words: list[str]


class Input(NamedTuple):
    """The points of a file; if they are texts, also what makes rows of them, and a note on words that do not count."""

    points: Points
    made_by: Rows | None = None
    note: str | None = None

    def describe(self, file: Path) -> str:
        """Return a line about the file: its name, and the numbers of points and features."""
        (n, d), made_by = self.points.vectors.shape, self.made_by
        if made_by is None:
            return f"{title_of(file)}: {counted(n, 'point')}, {counted(d, 'feature')}"
        if isinstance(made_by, EncodedTexts):
            columns = f"{d:,} features by {made_by.name}"
        else:
            columns = f"hashed to {d:,} columns" if made_by.hashing else f"{d:,} terms"
        return f"{title_of(file)}: {counted(n, 'text')}, {columns}"


class TextOptions(NamedTuple):
    """The options for texts as they were given; None and False where they were not."""

    text: str | None = None
    ngrams: int | None = None
    characters: str | None = None
    hashing: bool = False
    embed: str | None = None

    def are_for(self, file: Path) -> bool:
        """Return whether a file has texts, and refuse options for texts if it has none."""
        if self.text is not None or ending_of(file) in ALWAYS_TEXTS:
            return True
        if self._given():
            raise FileError(
                f"{self._given()[0]} is for texts: FILE must be a .txt with a text per line, or --text name a column"
            )
        return False

    def new_rows(self) -> Rows:
        """Return what makes rows of texts, before it has seen any."""
        if self.embed is not None:
            if len(self._given()) > 1:
                raise ValueError(f"--embed makes the rows by itself: leave {self._given()[0]} out")
            return _encoder(self.embed)
        return TextVectors(**self._settings())

    def kept_rows(self, path: Path) -> Rows:
        """Return what made the rows of a store, and refuse options that differ from it."""
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
        given = self._asdict().items()
        return [f"--{name}" for name, value in given if name != "text" and value is not None and value is not False]

    def _settings(self) -> dict[str, Any]:
        if self.ngrams == 0 and self.characters is None:
            raise ValueError("--ngrams 0 leaves words out: give --characters as well, such as --characters 3-4")
        n = 1 if self.ngrams is None else self.ngrams
        return {"words": n, "characters": _lengths(self.characters), "hashing": self.hashing}


def _lengths(characters: str | None) -> tuple[int, int] | None:
    if characters is None:
        return None
    first, _, last = characters.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal() and 1 <= int(first) <= int(last or first)):
        raise ValueError(f"--characters must be a length or two, such as 4 or 3-4; got {characters!r}")
    return int(first), int(last or first)


def _encoder(name: str) -> EncodedTexts:
    # Modules are also found in the current folder, as with --import.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return EncodedTexts(find_encoder(name), name)


def read_input(file: Path, texts: TextOptions, asked: Asked, store: Path | None = None) -> Input:
    """Read the vectors or texts of a file; texts for a store become rows as those in it did."""
    is_kept = store is not None and is_of_texts(store)
    if not texts.are_for(file):
        if is_kept:
            raise FileError(f"STORE {str(store)!r} is of texts: name the column of FILE that has them with --text")
        return Input(read_points(file, asked.label, asked.id, asked.drop, asked.keep))
    made_by = texts.kept_rows(store / TEXT_FILE) if store is not None and is_kept else texts.new_rows()
    found = read_texts(file, texts.text, asked.label, asked.id, asked.keep)
    rows = made_by.transform(found.texts) if is_kept else made_by.fit_transform(found.texts)
    points = Points(rows, found.ids, found.labels, found.kept)
    if isinstance(made_by, EncodedTexts):
        return Input(points, made_by)
    if not is_kept:
        return Input(points, made_by, note_on_words(rows, "no word, and no cluster (-1)"))
    return Input(points, made_by, note_on_unknown(found, rows, made_by))


def note_on_unknown(found: Texts, rows: Any, made_by: TextVectors) -> str | None:
    """Return a note on words that do not count, because the words of a store are those of its first file."""
    note = note_on_words(rows, "no word" if made_by.hashing else "no word that the store knows")
    share = made_by.unknown_share(found.texts)
    if share <= MANY_UNKNOWN:
        return note
    many = f"{share:.0%} of the words are unknown to the store and do not count"
    advice = "new words count in a store that is begun with --hashing, which cannot be changed later"
    return f"{f'{note}; ' if note else 'note: '}{many}: {advice}"


def note_on_words(rows: Any, what: str) -> str | None:
    """Return a note on how many texts have no words, if some have none."""
    n, count = rows.shape[0], int(are_wordless(rows).sum())
    return f"note: {count:,} of the {n:,} texts {'has' if count == 1 else 'have'} {what}" if count else None


def metric_of_texts(linkage: str | None, metric: str | None) -> str | None:
    """Return the metric to compare texts by if none is given: average linkage compares them by direction.

    Their rows are of length 1, but those of texts without known words, which are not to be near all others.
    """
    return "cosine" if metric is None and linkage in (None, "average") else metric


def is_of_texts(store: Path) -> bool:
    """Return whether the points of a store are texts."""
    return (store / TEXT_FILE).exists()


def are_wordless(rows: Any) -> Mask:
    """Return which rows of texts are empty: they are as near to any text as to each other, and in no cluster.

    >>> from grinch.text import TextVectors
    >>> are_wordless(TextVectors().fit_transform(["a red apple", "!?"])).tolist()
    [False, True]
    """
    is_sparse = scipy.sparse.issparse(rows)
    return np.diff(rows.indptr) == 0 if is_sparse else np.zeros(rows.shape[0], np.bool_)


def named_branches(tree: Tree, flat: Labels, points: Points, made_by: Rows) -> list[NamedBranch]:
    """Return the clusters and the branches above them with their keywords, the largest first.

    Keywords are those of the rows that were clustered, if they are of words; rows of sequences of characters name
    branches only where the texts have no words. Without any words, there are no branches.
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
        found.append(NamedBranch(node, parent, cluster, int(above.sizes[v]), words[node]))
    return found
