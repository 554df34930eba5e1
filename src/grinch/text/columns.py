"""Which column a term is in: by a vocabulary that stays, or by its hash. Words come before runs of characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import scipy.sparse
from sklearn.feature_extraction import FeatureHasher

from grinch._types import Labels
from grinch.text.analysis import CHARACTERS, Counted, are_words

# From this many texts on, a term of a single text is left out. It makes no two of them similar; in a stream it may come
# again, so that where there is room for all, purity is a point or two higher with them.
MANY_TEXTS = 100_000


class Columns(Protocol):
    """Places of terms."""

    names: list[str | None]
    n_words: int

    def place(self, counted: Counted) -> scipy.sparse.csr_array:
        """Counts in these columns."""


class Vocabulary:
    """Terms that are known, in alphabetical order; others have no column.

    >>> columns = Vocabulary(["dog", "#cat", "cat"])
    >>> columns.names, columns.n_words
    (['cat', 'dog', '#cat'], 2)
    """

    def __init__(self, terms: Sequence[str]):
        self.names: list[str | None] = [*sorted(terms, key=lambda term: (term.startswith(CHARACTERS), term))]
        self.n_words = int(are_words(terms).sum())
        self._columns = {name: column for column, name in enumerate(self.names)}

    @classmethod
    def of(cls, counted: Counted) -> Vocabulary:
        """The terms of the first texts, if there are many without those of a single text."""
        in_texts, terms = counted.in_texts(), counted.terms
        if counted.counts.shape[0] >= MANY_TEXTS and (in_texts > 1).any():
            terms = [terms[i] for i in np.flatnonzero(in_texts > 1).tolist()]
        return cls(terms)

    def place(self, counted: Counted) -> scipy.sparse.csr_array:
        columns = np.array([self._columns.get(term, -1) for term in counted.terms], np.int64)
        return counted.moved(columns, len(self.names))


class HashedColumns:
    """A column for any term, by its hash as in scikit-learn's HashingVectorizer; terms may share one.

    A column is called by the first term that was seen there, so that what is kept does not grow with the texts.
    """

    def __init__(self, width: int, has_words: bool, has_characters: bool):
        self._width = width
        self.n_words = width * has_words
        self.names: list[str | None] = [None] * (width * (has_words + has_characters))

    def place(self, counted: Counted) -> scipy.sparse.csr_array:
        columns = self.columns_of(counted.terms)
        self._name(counted, columns)
        return counted.moved(columns, len(self.names))

    def columns_of(self, terms: Sequence[str]) -> Labels:
        """The column of each term."""
        return hashed(terms, self._width) + np.where(are_words(terms), 0, self.n_words)

    def _name(self, counted: Counted, columns: Labels) -> None:
        """Call the columns without a name by the most frequent of these terms."""
        order = np.argsort(-counted.in_texts(), kind="stable")
        found, first = np.unique(columns[order], return_index=True)
        for column, at in zip(found.tolist(), order[first].tolist(), strict=True):
            if self.names[column] is None:
                self.names[column] = counted.terms[at]


def hashed(terms: Sequence[str], width: int) -> Labels:
    """The hash of each term, as a number below ``width``."""
    if not terms:
        return np.empty(0, np.int64)
    hasher = FeatureHasher(width, input_type="string", alternate_sign=False)
    # Half of a pair of surrogates can be in a text of Python's, and not in UTF-8.
    found = hasher.transform([term.encode("utf-8", "surrogatepass")] for term in terms)
    return np.asarray(found.indices, np.int64)
