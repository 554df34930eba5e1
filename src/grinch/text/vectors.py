"""Rows of texts: TF-IDF of their words and runs of characters, by a vocabulary that stays or by hashing."""

from __future__ import annotations

import json
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
from grinch._types import Floats, Labels
from grinch.errors import SavedModelError
from grinch.saving import container
from grinch.saving.json_values import json_bytes
from grinch.saving.state import array, item, scalar
from grinch.text.analysis import CHARACTERS, Analyze, Counted, analyzer, are_words, count_terms, each_text
from grinch.text.keywords import ENGLISH, Keywords, Names, branch_terms, cluster_terms
from grinch.tree import Tree

# Texts of a chunk, so that the terms of all of them are never in memory.
CHUNK = 20_000
# Columns for hashing: of 20,000 words, one in 25 shares its column.
N_COLUMNS = 2**18
# From this many texts on, a term of a single text is left out. It makes no two of them similar; in a stream it may come
# again, so that where there is room for all, purity is a point or two higher with them.
MANY_TEXTS = 100_000
# The kind of file, and of what is in it.
FILE, KIND = "text vectors", "words"
# Bounds of weights in a file, which are squared.
MIN_WEIGHT, MAX_WEIGHT = 1e-100, 1e100


class Columns:
    """The column of each term, by a vocabulary or, with a ``width``, by hashing; words come before runs of characters.

    A vocabulary is in alphabetical order, and other terms have no column. By the hash of scikit-learn's
    HashingVectorizer every term has one, which it may share; a column is called by the first term that was seen there,
    so that memory does not grow with the texts.

    >>> columns = Columns(["dog", "#cat", "cat"])
    >>> columns.names, columns.n_words, columns.of(["cat", "fox"]).tolist()
    (['cat', 'dog', '#cat'], 2, [0, -1])
    """

    def __init__(self, terms: Sequence[str] = (), width: int = 0, has_words: bool = True, has_characters: bool = False):
        self._width = width
        if width:
            self.names: list[str | None] = [None] * (width * (has_words + has_characters))
            self.n_words = width * has_words
        else:
            ordered = sorted(terms, key=lambda term: (term.startswith(CHARACTERS), term))
            self.names, self.n_words = [*ordered], int(are_words(terms).sum())
            self._places = {name: column for column, name in enumerate(ordered)}

    def of(self, terms: Sequence[str]) -> Labels:
        """Return the column of each term; -1 for one that is not in the vocabulary."""
        if not self._width:
            return np.array([self._places.get(term, -1) for term in terms], np.int64)
        return hashes(terms, self._width) + np.where(are_words(terms), 0, self.n_words)

    def place(self, counted: Counted) -> scipy.sparse.csr_array:
        """Return counts of terms in these columns."""
        columns = self.of(counted.terms)
        if self._width:
            self._name(counted, columns)
        return counted.moved(columns, len(self.names))

    def _name(self, counted: Counted, columns: Labels) -> None:
        """Call the columns without a name by the most frequent of these terms."""
        order = np.argsort(-counted.in_texts(), kind="stable")
        found, first = np.unique(columns[order], return_index=True)
        for column, at in zip(found.tolist(), order[first].tolist(), strict=True):
            if self.names[column] is None:
                self.names[column] = counted.terms[at]


def hashes(terms: Sequence[str], width: int) -> Labels:
    """Return the hash of each term, a number below ``width``."""
    from sklearn.feature_extraction import FeatureHasher

    if not terms:
        return np.empty(0, np.int64)
    hasher = FeatureHasher(width, input_type="string", alternate_sign=False)
    # A Python string can have an unpaired surrogate, which UTF-8 cannot.
    found = hasher.transform([term.encode("utf-8", "surrogatepass")] for term in terms)
    return np.asarray(found.indices, np.int64)


class TextVectors(TransformerMixin, BaseEstimator):
    """Sparse rows of texts: TF-IDF of words, and optionally of character n-grams.

    A text is a row of length 1, or of length 0 if it has no known term. The first ``fit`` sets the vocabulary and the
    weights; later texts give the same rows in batches of any size.

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
        """Set the vocabulary, unless terms are hashed, and the weights."""
        self.fit_transform(texts)
        return self

    def fit_transform(self, texts: Iterable[str | None], y: Any = None) -> scipy.sparse.csr_array:
        """Set the vocabulary and the weights, and return the rows of the texts."""
        counted = count_terms(each_text(texts), self._analyzer())
        n = counted.counts.shape[0]
        if not counted.terms:
            what = "words of two letters or more" if self.words else "letters"
            raise ValueError(f"texts must have {what} in them to begin with; the {n:,} that came have none")
        self._columns = self._new_columns([] if self.hashing else _frequent(counted))
        counts = self._columns.place(counted)
        in_texts = np.bincount(counts.indices, minlength=counts.shape[1])
        self.weights_ = np.log((1 + n) / (1 + in_texts)) + 1 if self.weights else np.ones(counts.shape[1])
        return self._rows(counts)

    def transform(self, texts: Iterable[str | None]) -> scipy.sparse.csr_array:
        """Return the rows of texts: float32, of length 1, or all zero if no term is known."""
        analyze, columns = self._analyzer(), self._fitted()
        chunks = _chunks(each_text(texts))
        rows = [self._rows(columns.place(count_terms(chunk, analyze))) for chunk in chunks]
        return scipy.sparse.vstack(rows, format="csr")

    def unknown_share(self, texts: Iterable[str | None]) -> float:
        """Return the share of the words of texts that have no column, each as often as it occurs; 0 with hashing.

        >>> TextVectors().fit(["red apple"]).unknown_share(["a green apple", "red grapes"])
        0.5
        """
        analyze, columns = self._analyzer(), self._fitted()
        if self.hashing:
            return 0.0
        n_all = n_known = 0
        for chunk in _chunks(each_text(texts)):
            counted = count_terms(chunk, analyze)
            n_all += int(counted.counts.sum())
            n_known += int(columns.place(counted).sum())
        return 1 - n_known / n_all if n_all else 0.0

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_columns") or not self._needs_fit()

    @property
    def terms_(self) -> list[str | None]:
        """The name of each column; None for a column by hashing where nothing was seen.

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

    def _new_columns(self, terms: Sequence[str] = ()) -> Columns:
        return Columns(terms, self._width(), bool(self.words), self.characters is not None)

    def _width(self) -> int:
        return N_COLUMNS if self.hashing is True else int(self.hashing)

    def _needs_fit(self) -> bool:
        return self.weights or not self.hashing

    def _fitted(self) -> Columns:
        if not hasattr(self, "_columns"):
            if self._needs_fit():
                raise NotFittedError("TextVectors learns terms and weights from its first texts: call fit before")
            self._columns = self._new_columns()
            self.weights_ = np.ones(len(self._columns.names))
        return self._columns

    # Keywords -----------------------------------------------------------------------------------------------------

    def keywords(self, X: Any, labels: npt.ArrayLike, n: int = 5, ignore: Iterable[str] = ENGLISH) -> list[list[str]]:
        """Return the distinctive words of each cluster, from the rows alone: :func:`grinch.text.cluster_terms`.

        Parameters
        ----------
        X : sparse matrix of shape (n_points, n_columns)
            The rows of the points.
        labels : array-like of int
            The cluster of each point, -1 for none.
        n : int, default=5
            At most this many words for each cluster.
        ignore : collection of str
            Words to ignore; by default a short English list.

        Returns
        -------
        list of lists of str
            By cluster number, the words of greatest weight first.
        """
        return cluster_terms(X, labels, self.readable_terms(ignore), n)[:]

    def tree_keywords(self, X: Any, tree: Tree, n: int = 5, ignore: Iterable[str] = ENGLISH) -> Keywords:
        """Return the distinctive words of every node of a tree, by node id: :func:`grinch.text.branch_terms`.

        >>> from grinch import Grinch
        >>> vectors = TextVectors()
        >>> X = vectors.fit_transform(["a red apple", "stocks fell", "an apple, so red", "bonds and stocks fell"])
        >>> tree = Grinch().fit(X).tree_
        >>> [vectors.tree_keywords(X, tree, 1)[node] for node in tree.children(tree.root)]
        [['apple'], ['fell']]
        """
        return branch_terms(tree, X, self.readable_terms(ignore), n)

    def readable_terms(self, ignore: Iterable[str] = ENGLISH) -> Names:
        """Return ``terms_`` for ``model.summary(terms=…)``: None for ignored words and runs of characters.

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
        """Write terms and weights to a file, which replaces one of that name when all of it is on disk."""
        container.write(path, FILE, *self.to_state())

    @classmethod
    def load(cls, path: str | Path) -> TextVectors:
        """Open a file that :meth:`save` wrote; it makes the same rows.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/text.grinch"
        >>> vectors = TextVectors().fit(["red apple", "green apple"])
        >>> vectors.save(path)
        >>> (TextVectors.load(path).transform(["green"]) != vectors.transform(["green"])).nnz
        0
        """
        header, arrays = read_file(path)
        if header["kind"] != KIND:
            raise SavedModelError(f"{path} holds {header['kind']} of texts, not TextVectors")
        try:
            return cls.from_state(header, arrays)
        # Whatever a damaged file makes the reader raise, the file is the cause.
        except Exception as error:
            what = f"{type(error).__name__} {error}" if isinstance(error, LookupError) else error
            raise SavedModelError(f"{path} is not what TextVectors.save wrote, or is damaged: {what}") from error

    def to_state(self) -> tuple[dict[str, Any], container.Arrays]:
        """Return settings as JSON can hold them, and terms and weights as arrays."""
        names = self._fitted().names
        known = [i for i, name in enumerate(names) if name is not None]
        terms, columns = json_bytes([names[i] for i in known]), np.array(known, np.int64)
        arrays: container.Arrays = {"terms": terms, "columns": columns, "weights": self.weights_}
        return {"kind": KIND, "settings": self.get_params()}, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: container.Arrays) -> TextVectors:
        """Return what had this state; whatever does not fit is refused."""
        terms = json.loads(array(arrays, "terms", "|u1", 1).tobytes())
        columns, weights = array(arrays, "columns", "<i8", 1), array(arrays, "weights", "<f8", 1)
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise ValueError("terms must be a list of texts")
        if len(weights) and not (weights.min() >= MIN_WEIGHT and weights.max() <= MAX_WEIGHT):
            raise ValueError(f"weights must be from {MIN_WEIGHT} to {MAX_WEIGHT}")
        settings = dict(item(header, "settings"))
        if settings.keys() != cls().get_params().keys():
            raise ValueError(f"settings must be {', '.join(cls().get_params())}; got {', '.join(settings)}")
        opened = cls(**{**settings, "characters": settings["characters"] and tuple(settings["characters"])})
        opened._analyzer()  # checks the settings
        opened._columns, opened.weights_ = opened._named_columns(terms, columns, len(weights)), weights
        return opened

    def _named_columns(self, terms: list[str], columns: Labels, n_columns: int) -> Columns:
        """Return the columns of these terms, which must be those that the terms have by these settings."""
        has_words, has_characters = bool(self.words), self.characters is not None
        are_there = are_words(terms)
        if (are_there.any() and not has_words) or (not are_there.all() and not has_characters):
            raise ValueError("terms must be of the kinds that words and characters say")
        # Checked before memory is taken for them.
        if n_columns != (self._width() * (has_words + has_characters) if self.hashing else len(terms)):
            raise ValueError(f"{len(terms):,} terms and hashing={self.hashing!r} do not fit {n_columns:,} columns")
        made = self._new_columns(terms)
        if made.of(terms).tolist() != columns.tolist() or len(np.unique(columns)) != len(terms):
            raise ValueError("every term must be in a column of its own: in alphabetical order, or the one of its hash")
        for column, term in zip(columns.tolist(), terms, strict=True):
            made.names[column] = term
        return made


def read_file(path: str | Path) -> tuple[dict[str, Any], container.Arrays]:
    """Read a file of whatever makes rows of texts: TextVectors, or EncodedTexts."""
    file = container.read(path, FILE)
    file.verify()
    scalar(file.header, "kind", str)
    return file.header, file.arrays


def _frequent(counted: Counted) -> list[str]:
    """Return the terms of the first texts; if there are many, without those of a single text."""
    in_texts, terms = counted.in_texts(), counted.terms
    if counted.counts.shape[0] >= MANY_TEXTS and (in_texts > 1).any():
        return [terms[i] for i in np.flatnonzero(in_texts > 1).tolist()]
    return terms


def _is_range(lengths: Any) -> bool:
    is_pair = isinstance(lengths, Sequence) and len(lengths) == 2
    return is_pair and all(type(length) is int for length in lengths) and 1 <= lengths[0] <= lengths[1]


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    """Yield lists of texts; at least one."""
    chunk = list(islice(texts, CHUNK))
    yield chunk
    while chunk := list(islice(texts, CHUNK)):
        yield chunk


def _scaled(values: Floats, groups: Labels, n: int) -> Floats:
    """Return values divided by the length of their group."""
    lengths = np.sqrt(np.bincount(groups, values**2, n))
    return np.asarray(values / lengths[groups])
