"""Texts as sparse rows: TF-IDF of words and runs of characters, by a vocabulary that stays, or by hashing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from grinch._checks import check_count, check_flag
from grinch._labels import is_missing
from grinch._types import Floats, Labels
from grinch.cuts.terms import Keywords, Names, branch_terms, cluster_terms
from grinch.cuts.words import ENGLISH
from grinch.errors import SavedModelError
from grinch.text.analysis import CHARACTERS, Analyze, analyzer, are_words, count_terms
from grinch.text.columns import Columns, HashedColumns, Vocabulary
from grinch.text.saved import Saved, blaming, read_saved, write_saved
from grinch.tree import Tree

# Texts that are worked on at once, so that the terms of all of them are never in memory.
CHUNK = 20_000
# Columns for hashing: of 20,000 words, one in 25 shares its column.
N_COLUMNS = 2**18
KIND = "words"


class TextVectors(TransformerMixin, BaseEstimator):
    """Make sparse rows of texts: TF-IDF of their words, and of runs of characters if you like.

    A text is a row of length 1, or of length 0 if it has no known term. The first ``fit`` decides on the terms and
    their weights, and they stay: texts that come later give the same rows in batches of any size.

    Parameters
    ----------
    words : int, default=1
        Terms are runs of up to this many words; 0 for none. Of Chinese, Japanese and Thai, which have no spaces between
        words, the overlapping pairs of characters are words.
    characters : pair of int, optional
        Terms are also runs of characters within words, from the first length to the second, such as (3, 4): for names,
        and typos. If there are words, too, both have half of the weight.
    hashing : bool or int, default=False
        Find the column of a term by its hash, among 262,144 or as many as you say, instead of in a vocabulary: words
        that are new later count, too. Terms may share a column.
    weights : bool, default=True
        Whether rare terms weigh more, by the texts of the first ``fit``. With hashing and without weights, no ``fit``
        is needed.

    Attributes
    ----------
    weights_ : array of shape (n_columns,)
        The weight of each column: log((1 + n) / (1 + m)) + 1 for a term that m of the first n texts have.

    Examples
    --------
    >>> from grinch import Grinch
    >>> texts = ["a red apple", "stocks fell", "an apple, so red", "bonds and stocks fell"]
    >>> vectors = TextVectors()
    >>> X = vectors.fit_transform(texts)
    >>> X.shape, X.dtype
    ((4, 8), dtype('float32'))
    >>> model = Grinch(n_clusters=2).fit(X)
    >>> vectors.keywords(X, model.labels_, n=2)
    [['apple', 'red'], ['fell', 'stocks']]
    """

    _columns: Columns
    weights_: Floats

    def __init__(
        self,
        words: int = 1,
        characters: tuple[int, int] | None = None,
        hashing: bool | int = False,
        weights: bool = True,
    ):
        self.words = words
        self.characters = characters
        self.hashing = hashing
        self.weights = weights

    # Rows ---------------------------------------------------------------------------------------------------------

    def fit(self, texts: Iterable[str | None], y: Any = None) -> TextVectors:
        """Decide on the terms, if they are not hashed, and on their weights."""
        self.fit_transform(texts)
        return self

    def fit_transform(self, texts: Iterable[str | None], y: Any = None) -> scipy.sparse.csr_array:
        """The rows of the texts that decide on terms and weights."""
        counted = count_terms(checked(texts), self._analyzer())
        n = counted.counts.shape[0]
        if not counted.terms:
            what = "words of two letters or more" if self.words else "letters"
            raise ValueError(f"texts must have {what} in them to begin with; the {n:,} that came have none")
        self._columns = self._hashed_columns() if self.hashing else Vocabulary.of(counted)
        counts = self._columns.place(counted)
        in_texts = np.bincount(counts.indices, minlength=counts.shape[1])
        self.weights_ = np.log((1 + n) / (1 + in_texts)) + 1 if self.weights else np.ones(counts.shape[1])
        return self._rows(counts)

    def transform(self, texts: Iterable[str | None]) -> scipy.sparse.csr_array:
        """The rows of texts: float32, of length 1, or all zero if no term is known."""
        analyze, columns = self._analyzer(), self._fitted()
        chunks = _chunks(checked(texts))
        rows = [self._rows(columns.place(count_terms(chunk, analyze))) for chunk in chunks]
        return scipy.sparse.vstack(rows, format="csr")

    def unknown_share(self, texts: Iterable[str | None]) -> float:
        """Which share of the words of texts has no column, each as often as it occurs; none with hashing.

        >>> TextVectors().fit(["red apple"]).unknown_share(["a green apple", "red grapes"])
        0.5
        """
        analyze, columns = self._analyzer(), self._fitted()
        if self.hashing:
            return 0.0
        n_all = n_known = 0
        for chunk in _chunks(checked(texts)):
            counted = count_terms(chunk, analyze)
            n_all += int(counted.counts.sum())
            n_known += int(columns.place(counted).sum())
        return 1 - n_known / n_all if n_all else 0.0

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_columns") or not self._needs_fit()

    @property
    def terms_(self) -> list[str | None]:
        """What each column is called; None for a column by hashing where nothing was seen.

        Where hashed terms share a column, it is called by the most frequent of the first. Runs of characters begin
        with ``#``.
        """
        return self._fitted().names

    def _rows(self, counts: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        values = (1 + np.log(counts.data)) * self.weights_[counts.indices]
        n, row_of = counts.shape[0], np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        if self.words and self.characters:
            # Both halves have the same length, whatever the number of their terms.
            values = _scaled(values, 2 * row_of + (counts.indices >= self._columns.n_words), 2 * n)
        values = _scaled(values, row_of, n)
        return scipy.sparse.csr_array((values.astype(np.float32), counts.indices, counts.indptr), counts.shape)

    # Settings -----------------------------------------------------------------------------------------------------

    def _analyzer(self) -> Analyze:
        words = check_count("words", self.words, 0)
        if self.characters is not None and not _is_range(self.characters):
            raise ValueError(
                "characters must be a pair of lengths, the shorter first, such as (3, 4), or None;"
                f" got {self.characters!r}"
            )
        if not words and self.characters is None:
            raise ValueError("words must be at least 1, or characters a pair of lengths; got words=0, characters=None")
        check_flag("weights", self.weights)
        if not isinstance(self.hashing, bool):
            check_count("hashing", self.hashing, 1, ", the columns to hash to, or True or False")
        return analyzer(words, None if self.characters is None else (self.characters[0], self.characters[1]))

    def _hashed_columns(self) -> HashedColumns:
        return HashedColumns(self._width(), bool(self.words), self.characters is not None)

    def _width(self) -> int:
        return N_COLUMNS if self.hashing is True else int(self.hashing)

    def _needs_fit(self) -> bool:
        return self.weights or not self.hashing

    def _fitted(self) -> Columns:
        if not hasattr(self, "_columns"):
            if self._needs_fit():
                raise NotFittedError("TextVectors learns terms and weights from its first texts: call fit before")
            self._columns = self._hashed_columns()
            self.weights_ = np.ones(len(self._columns.names))
        return self._columns

    # Keywords -----------------------------------------------------------------------------------------------------

    def keywords(self, X: Any, labels: npt.ArrayLike, n: int = 5, ignore: Iterable[str] = ENGLISH) -> list[list[str]]:
        """The words that stand out in each cluster, from the rows alone: :func:`grinch.cuts.cluster_terms`.

        Parameters
        ----------
        X : sparse matrix of shape (n_points, n_columns)
            The rows of the points.
        labels : array-like of int
            The cluster of each point, -1 for none.
        n : int, default=5
            At most this many words for each cluster.
        ignore : collection of str
            Words that name nothing; by default a short English list.

        Returns
        -------
        list of lists of str
            By cluster number, the words of greatest weight first.
        """
        found = cluster_terms(X, labels, self.readable_terms(ignore), n)
        return [found[cluster] for cluster in range(len(found))]

    def tree_keywords(self, X: Any, tree: Tree, n: int = 5, ignore: Iterable[str] = ENGLISH) -> Keywords:
        """The words that stand out below every node of a tree, by node id: :func:`grinch.cuts.branch_terms`.

        >>> from grinch import Grinch
        >>> vectors = TextVectors()
        >>> X = vectors.fit_transform(["a red apple", "stocks fell", "an apple, so red", "bonds and stocks fell"])
        >>> tree = Grinch().fit(X).tree_
        >>> [vectors.tree_keywords(X, tree, 1)[node] for node in tree.children(tree.root)]
        [['apple'], ['fell']]
        """
        return branch_terms(tree, X, self.readable_terms(ignore), n)

    def readable_terms(self, ignore: Iterable[str] = ENGLISH) -> Names:
        """``terms_`` for ``model.summary(terms=…)``: None for words that are ignored, and for runs of characters.

        Where there are no words, runs of characters are named, with ``_`` for the beginning or end of a word.
        """
        ignored = frozenset(ignore)

        def readable(term: str | None) -> str | None:
            if term is None or (self.words and term.startswith(CHARACTERS)):
                return None
            if self.words:
                return term if ignored.isdisjoint(term.split()) else None
            run = term.removeprefix(CHARACTERS).replace(" ", "_")
            # Of _at_ and other, but not of at_, which is the end of many words.
            return None if run in ignored or (run[0] == run[-1] == "_" and run.strip("_") in ignored) else run

        return [readable(term) for term in self.terms_]

    # Files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write terms and weights to a file; it takes the place of one of that name when it is whole."""
        columns = self._fitted()
        write_saved(path, Saved(KIND, self.get_params(), columns.names, self.weights_))

    @classmethod
    def load(cls, path: str | Path) -> TextVectors:
        """Open what :meth:`save` wrote: it makes the same rows.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/text.grinch"
        >>> vectors = TextVectors().fit(["red apple", "green apple"])
        >>> vectors.save(path)
        >>> (TextVectors.load(path).transform(["green"]) != vectors.transform(["green"])).nnz
        0
        """
        kind, settings, names, weights = read_saved(path)
        if kind != KIND:
            raise SavedModelError(f"{path} holds {kind} of texts, not TextVectors")
        with blaming(path):
            if settings.keys() != cls().get_params().keys():
                raise ValueError(f"settings must be {', '.join(cls().get_params())}; got {', '.join(settings)}")
            opened = cls(**{**settings, "characters": settings["characters"] and tuple(settings["characters"])})
            opened._analyzer()  # checks the settings
            opened._columns, opened.weights_ = opened._named_columns(names), weights
        return opened

    def _named_columns(self, names: list[str | None]) -> Columns:
        """Columns of these names, which must be those that the terms have by these settings."""
        has_words, has_characters = bool(self.words), self.characters is not None
        known = [(column, name) for column, name in enumerate(names) if name is not None]
        are_there = are_words(name for _, name in known)
        if (are_there.any() and not has_words) or (not are_there.all() and not has_characters):
            raise ValueError("terms must be of the kinds that words and characters say")
        if not self.hashing:
            vocabulary = Vocabulary([name for _, name in known])
            if vocabulary.names != names:
                raise ValueError("every column must have a term, in alphabetical order")
            return vocabulary
        # Before there is room for them: as many as the file has weights for.
        if self._width() * (has_words + has_characters) != len(names):
            raise ValueError(f"hashing={self.hashing!r} does not fit {len(names):,} columns")
        columns = self._hashed_columns()
        if columns.columns_of([name for _, name in known]).tolist() != [column for column, _ in known]:
            raise ValueError("terms must be in the columns that their hashes say")
        columns.names[:] = names
        return columns


def _is_range(lengths: Any) -> bool:
    is_pair = isinstance(lengths, Sequence) and len(lengths) == 2
    return is_pair and all(type(length) is int for length in lengths) and 1 <= lengths[0] <= lengths[1]


def checked(texts: Iterable[str | None]) -> Iterator[str]:
    """Each of the texts; an empty one where there is none."""
    if isinstance(texts, (str, bytes, dict)) or not hasattr(texts, "__iter__"):
        raise ValueError(
            f"texts must be a sequence of texts; got {type(texts).__name__}. Put a single text into a list"
        )
    for i, text in enumerate(texts):
        if isinstance(text, str):
            yield text
        elif is_missing(text):
            yield ""
        else:
            raise ValueError(f"texts must be strings, or None; texts[{i}] is {text!r:.60}. Convert it with str()")


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    """Lists of texts; one of them at least."""
    chunk = list(islice(texts, CHUNK))
    yield chunk
    while chunk := list(islice(texts, CHUNK)):
        yield chunk


def _scaled(values: Floats, groups: Labels, n: int) -> Floats:
    """Values divided by the length of their group."""
    lengths = np.sqrt(np.bincount(groups, values**2, n))
    return np.asarray(values / lengths[groups])
