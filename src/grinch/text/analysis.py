"""The terms of texts: runs of words, and runs of characters within words.

Where words are written without spaces, pairs of characters are words.
"""

from __future__ import annotations

import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import CountVectorizer

from grinch._types import Labels, Mask
from grinch.cuts.scripts import WORD, in_pairs

Analyze = Callable[[str], list[str]]
# No word begins with it: with it in front, a run of characters is no word.
CHARACTERS = "#"


class Counted(NamedTuple):
    """How often each term is in each text; terms in the order of their first appearance."""

    terms: list[str]
    counts: scipy.sparse.csr_array

    def in_texts(self) -> Labels:
        """In how many texts each term is."""
        return np.bincount(self.counts.indices, minlength=len(self.terms))

    def moved(self, columns: Labels, width: int) -> scipy.sparse.csr_array:
        """The same with each term in another column, or in none (-1); terms may share one."""
        rows, indices = self.counts, columns[self.counts.indices]
        is_known = indices >= 0
        ends = np.concatenate([[0], np.cumsum(is_known)])[rows.indptr]
        moved = scipy.sparse.csr_array((rows.data[is_known], indices[is_known], ends), (rows.shape[0], width))
        moved.sum_duplicates()
        return moved


def analyzer(words: int, characters: tuple[int, int] | None) -> Analyze:
    """What makes terms of a text: runs of up to so many words, and runs of characters from one length to another.

    >>> analyzer(2, None)("Big cats, a dog")
    ['big', 'cats', 'dog', 'big cats', 'cats dog']
    >>> analyzer(0, (4, 4))("Cats")
    ['# cat', '#cats', '#ats ']
    >>> analyzer(1, None)("iPhone发布会")
    ['iphone', '发布', '布会']
    """
    by_word = _by_scikit_learn("word", (1, words)) if words else None
    by_character = _by_scikit_learn("char_wb", characters) if characters else None

    def analyze(text: str) -> list[str]:
        plain = unicodedata.normalize("NFC", text).lower()
        found = by_word(in_pairs(plain)) if by_word else []
        if by_character:
            found += [CHARACTERS + run for run in by_character(plain)]
        return found

    return analyze


def _by_scikit_learn(kind: str, lengths: tuple[int, int]) -> Analyze:
    analyze: Analyze = CountVectorizer(
        analyzer=kind, ngram_range=lengths, lowercase=False, token_pattern=WORD
    ).build_analyzer()
    return analyze


def count_terms(texts: Iterable[str], analyze: Analyze) -> Counted:
    """Count the terms of some texts.

    >>> found = count_terms(["a dog and a dog", "cats"], analyzer(1, None))
    >>> found.terms, found.counts.toarray().tolist()
    (['dog', 'and', 'cats'], [[2, 1, 0], [0, 0, 1]])
    """
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    found, ends = array("i"), array("q", [0])
    for text in texts:
        found.extend(map(numbers.__getitem__, analyze(text)))
        ends.append(len(found))
    counts = scipy.sparse.csr_array(
        (np.ones(len(found), np.int32), np.asarray(found), np.asarray(ends)), (len(ends) - 1, len(numbers))
    )
    counts.sum_duplicates()
    return Counted(list(numbers), counts)


def are_words(terms: Iterable[str]) -> Mask:
    """Which terms are words, or runs of them."""
    return np.array([not term.startswith(CHARACTERS) for term in terms], np.bool_)
