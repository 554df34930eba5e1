"""The words and other terms of texts, in any script.

Vowel signs belong to words; of scripts without spaces between words, pairs of characters are words. Terms are runs of
words, and runs of characters within words.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from grinch._labels import is_missing
from grinch._types import Labels, Mask

# Han with its iteration marks, Hiragana, Katakana (also of half width), as in Lucene's analyzer for CJK; and Thai, Lao,
# Burmese and Khmer.
UNSPACED = (
    "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u3099-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U000323af"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u1780-\u17d3"
)
# Code points with combining marks: a scan of all of Unicode takes thirty milliseconds.
WITH_SIGNS = (
    (0x300, 0x2000),
    (0x20D0, 0x2E00),
    (0x3000, 0x30A0),
    (0xA600, 0xAC00),
    (0xFE00, 0xFE30),
    (0x10000, 0x12000),
)


def _signs() -> str:
    """Return the ranges of vowel signs, accents and other marks, which are no letters to ``re``, and of joiners."""
    numbers = chain.from_iterable(range(*place) for place in WITH_SIGNS)
    runs = groupby(numbers, lambda number: unicodedata.category(chr(number)) in ("Mn", "Mc"))
    ranges = (list(run) for is_sign, run in runs if is_sign)
    return "\u200c\u200d" + "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in ranges)


SIGNS = _signs()
# At least two letters, digits or signs, as in scikit-learn's CountVectorizer; one is enough in scripts without spaces.
WORD = re.compile(rf"\w[\w{SIGNS}]+|[{UNSPACED}]")
_LETTER = re.compile(rf".[{SIGNS}]*", re.DOTALL)
_RUN = re.compile(f"[{UNSPACED}]+")

Analyze = Callable[[str], list[str]]
# No word begins with it: it tells a run of characters from a word.
CHARACTERS = "#"


def in_pairs(text: str) -> str:
    """Return a text with spaces between the pairs of characters that are the words of scripts without spaces.

    >>> in_pairs("iPhone发布会, 猫")
    'iPhone 发布 布会 ,  猫 '
    """
    # Most texts have none, and are not copied.
    return _RUN.sub(_pairs, text) if _RUN.search(text) else text


def _pairs(run: re.Match[str]) -> str:
    found = _LETTER.findall(run.group())
    pairs = ["".join(found[i : i + 2]) for i in range(max(len(found) - 1, 1))]
    return f" {' '.join(pairs)} "


def each_text(texts: Any) -> Iterator[str]:
    """Yield each of some texts; the empty one where it is missing."""
    if isinstance(texts, (str, bytes, dict)) or not hasattr(texts, "__iter__"):
        raise ValueError(
            f"texts must be a sequence with a text for each point; got {type(texts).__name__}. Put a single text into a"
            " list"
        )
    for i, text in enumerate(texts):
        if isinstance(text, str):
            yield text
        elif is_missing(text):
            yield ""
        else:
            raise ValueError(f"texts must be strings, or None; texts[{i}] is {text!r:.60}. Convert it with str()")


def check_texts(texts: Any, n: int) -> list[str]:
    """Return a text for each of ``n`` points; the empty one where it is missing."""
    found = list(each_text(texts))
    if len(found) != n:
        raise ValueError(f"texts must have one entry for each of the {n} points; got {len(found)}")
    return found


class Counted(NamedTuple):
    """The count of each term in each text; terms in the order of their first appearance."""

    terms: list[str]
    counts: scipy.sparse.csr_array

    def in_texts(self) -> Labels:
        """Return the number of texts that have each term."""
        return np.bincount(self.counts.indices, minlength=len(self.terms))

    def moved(self, columns: Labels, width: int) -> scipy.sparse.csr_array:
        """Return the counts with each term in another column, or in none (-1); terms may share one."""
        rows, indices = self.counts, columns[self.counts.indices]
        is_known = indices >= 0
        ends = np.concatenate([[0], np.cumsum(is_known)])[rows.indptr]
        moved = scipy.sparse.csr_array((rows.data[is_known], indices[is_known], ends), (rows.shape[0], width))
        moved.sum_duplicates()
        return moved


def analyzer(words: int, characters: tuple[int, int] | None) -> Analyze:
    """Return a function from a text to its terms: runs of up to ``words`` words, and of characters of some lengths.

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
    # Late: it takes longer to import than all of grinch.cuts.
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(analyzer=kind, ngram_range=lengths, lowercase=False, token_pattern=WORD.pattern)
    analyze: Analyze = vectorizer.build_analyzer()
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
    """Return which terms are words, or runs of them."""
    return np.array([not term.startswith(CHARACTERS) for term in terms], np.bool_)
