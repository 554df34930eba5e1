"""The words that set a cluster apart, where every point has a text."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._checks import check_count
from grinch._labels import is_missing
from grinch._types import Labels
from grinch.cuts import scripts
from grinch.cuts.medoids import check_labels

Tokenize = Callable[[str], Iterable[str]]

WORD = re.compile(scripts.WORD)
# Frequent everywhere, so they say nothing of a cluster; the weights alone do not always keep them out.
ENGLISH = frozenset(
    WORD.findall("""
    about above after again against all also although always am among an and another any are around as at be
    became because been before being below between both but by can cannot could did do does doing done down during
    each either else ever every few for from further get had has have having he hence her here hers herself him
    himself his how however if in indeed instead into is it its itself just least less like made make many may me
    might mine more moreover most much must my myself neither never no nor not now of off often on once one only
    or other others otherwise our ours ourselves out over own per perhaps please quite rather re same see several
    shall she should since so some such than that the their theirs them themselves then there therefore these they
    this those though through throughout thus to together too toward towards under until up upon us use used using
    very via was we well were what whatever when where whether which while who whole whom whose why will with
    within without would yet you your yours yourself yourselves
    """)
)


def keywords(
    texts: Sequence[str | None],
    labels: npt.ArrayLike,
    n: int = 10,
    stop_words: Collection[str] | str | None = "english",
    tokenize: Tokenize | None = None,
) -> list[list[str]]:
    """The words that are frequent in a cluster and rare elsewhere, by class-based TF-IDF (c-TF-IDF).

    The texts of a cluster count as one. A word weighs its frequency in the cluster times log(1 + a / f), where a is
    the average number of words per cluster and f the frequency of the word in all clusters together. BERTopic
    (Grootendorst, 2022) names its topics in this way.

    Parameters
    ----------
    texts : sequence of str
        A text for each point; None and nan count as empty.
    labels : array-like of int of shape (n_points,)
        The cluster of each point; the texts of -1 (points that belong nowhere) are left out.
    n : int, default=10
        At most this many words for each cluster.
    stop_words : "english", collection of str or None, default="english"
        Words that do not count: a short English list, or one of your own, in lower case.
    tokenize : callable, optional
        What makes words of a text; by default runs of two or more letters or digits, in lower case, and of Chinese,
        Japanese and other scripts without spaces, pairs of characters.

    Returns
    -------
    list of lists of str
        By cluster number, the words of greatest weight first; equal weights in alphabetical order.

    Examples
    --------
    >>> texts = ["the cat sat", "a cat and a dog", "stocks fell", "the stocks rose, the bonds fell"]
    >>> keywords(texts, [0, 0, 1, 1], n=2)
    [['cat', 'dog'], ['fell', 'stocks']]
    """
    numbers, count = check_labels(labels), check_count("n", n, 1)
    _check_tokenize(tokenize)
    counters = _word_counts(check_texts(texts, len(numbers)), numbers, tokenize, _ignored(stop_words))
    everywhere: Counter[str] = Counter()
    for counter in counters:
        everywhere.update(counter)
    # Numbers without points are no clusters, and do not lower the average.
    average = everywhere.total() / max(len(np.unique(numbers[numbers >= 0])), 1)
    rarity = {word: math.log1p(average / frequency) for word, frequency in everywhere.items()}
    return [_heaviest(counter, rarity, count) for counter in counters]


def check_texts(texts: Any, n: int) -> list[str]:
    """A text for each of n points; empty where there is none."""
    if isinstance(texts, (str, bytes, dict)) or not hasattr(texts, "__iter__"):
        raise ValueError(f"texts must be a sequence with a text for each point; got {type(texts).__name__}")
    found = ["" if not isinstance(text, str) and is_missing(text) else text for text in texts]
    if len(found) != n:
        raise ValueError(f"texts must have one entry for each of the {n} points; got {len(found)}")
    for i, text in enumerate(found):
        if not isinstance(text, str):
            raise ValueError(
                f"texts must be strings, or None where there is none; texts[{i}] is {text!r:.60}. Convert it with str()"
            )
    return found


def _check_tokenize(tokenize: object) -> None:
    if tokenize is not None and not callable(tokenize):
        raise ValueError(f"tokenize must be a function from a text to its words, or None; got {tokenize!r}")


def _words(texts: list[str], tokenize: Tokenize | None) -> Iterable[str]:
    """The words of several texts; by default of all at once, which takes half of the time."""
    if tokenize is None:
        return WORD.findall(scripts.in_pairs("\n".join(texts).lower()))
    return chain.from_iterable(map(tokenize, texts))


def _ignored(stop_words: Collection[str] | str | None) -> Collection[str]:
    if isinstance(stop_words, str) and stop_words == "english":
        return ENGLISH
    if isinstance(stop_words, (str, bytes)) or not (stop_words is None or isinstance(stop_words, Collection)):
        raise ValueError(f"stop_words must be 'english', a list of words, or None; got {stop_words!r}")
    return frozenset(stop_words or ())


def _word_counts(
    texts: list[str], numbers: Labels, tokenize: Tokenize | None, ignored: Collection[str]
) -> list[Counter[str]]:
    """How often each word occurs in the texts of each cluster."""
    members: list[list[str]] = [[] for _ in range(int(numbers.max(initial=-1)) + 1)]
    for text, number in zip(texts, numbers.tolist(), strict=True):
        if number >= 0 and text:
            members[number].append(text)
    counters = [Counter(_words(own, tokenize)) for own in members]
    for counter in counters:
        for word in counter.keys() & ignored if len(ignored) else ():
            del counter[word]
    return counters


def _heaviest(counter: Counter[str], rarity: dict[str, float], n: int) -> list[str]:
    counts = np.fromiter(counter.values(), np.float64, len(counter))
    weights = counts * np.fromiter(map(rarity.__getitem__, counter), np.float64, len(counter))
    # All that weigh as much as the n-th, and then the first of them by word.
    least = np.partition(weights, -n)[-n] if n < len(weights) else 0.0
    words = list(counter)
    weighed = sorted((-weights[i], words[i]) for i in np.flatnonzero(weights >= least).tolist())
    return [word for _, word in weighed[:n]]
