"""What is common and what is rare in bibliographic records, and the topics of their words.

Both are counted without the authors, so unlabelled records serve as well as labelled ones. Words are kept by their hash
alone: the statistics have a fixed size, and names cannot be read from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.utils import murmurhash3_32

from grinch.resolve.authors.records.blocking import block_key
from grinch.resolve.authors.records.names import folded, parsed
from grinch.resolve.authors.records.record import Record

# What a record is described by, field by field: bags of tokens.
FIELDS = ("coauthor", "coauthor_name", "title", "venue", "affiliation", "keyword")
N_SLOTS = 1 << 18
N_TOPIC_SLOTS = 1 << 14
N_TOPICS = 32
COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at based be by can for from has have in into is it its of on or our over that the their this"
        " to towards under using via we which with",
    )
)

Floats = npt.NDArray[np.float32]


def words(text: str) -> list[str]:
    """The words of a text that carry meaning, folded and in the singular.

    >>> words("The Trees of the Forest: a Survey")
    ['tree', 'forest', 'survey']
    """
    found = re.findall(r"[a-z0-9]+", folded(text))
    return [w[:-1] if len(w) > 3 and w[-1] == "s" and w[-2] != "s" else w for w in found if w not in COMMON]


# The tokens of a record are needed three times in a row: for its summary, its vector and its keys.
@lru_cache(maxsize=4096)
def tokens_of(record: Record) -> Mapping[str, list[str]]:
    """The tokens of each field of a record, without repeats."""
    own = block_key(record.name)
    keys = [key for key in map(block_key, record.coauthors) if key]
    # The author's own name among the coauthors says nothing; if it is there twice, one of them is somebody else.
    if own in keys and len(set(keys)) == len(keys) and record.name in record.coauthors:
        keys.remove(own)
    full = [" ".join((*name.first, name.last)) for name in map(parsed, record.coauthors) if _is_full(name.first)]
    return {
        "coauthor": _distinct(keys),
        "coauthor_name": _distinct(full),
        "title": _distinct(words(record.title)),
        "venue": _distinct(words(record.venue)),
        "affiliation": _distinct(words(record.affiliation)),
        "keyword": _distinct(" ".join(words(keyword)) for keyword in record.keywords),
    }


def topic_words(record: Record) -> list[str]:
    """All words that say what a record is about."""
    return words(" ".join((record.title, record.venue, record.abstract, *record.keywords)))


def _is_full(first: Sequence[str]) -> bool:
    return any(len(part) > 1 for part in first)


def _distinct(tokens: Iterable[str]) -> list[str]:
    return [token for token in dict.fromkeys(tokens) if token]


def _slot(text: str, n_slots: int) -> int:
    return int(murmurhash3_32(text, positive=True)) % n_slots


@dataclass(frozen=True)
class Statistics:
    """How many records have each token, by its hash, and where each word points among the topics.

    Examples
    --------
    >>> records = [Record(str(i), "A Lee", title=t) for i, t in enumerate(["deep trees", "deep nets", "deep soup"])]
    >>> known = Statistics.of(records)
    >>> known.rarity("title", "deep") < known.rarity("title", "soup") < known.rarity("title", "never seen")
    True
    """

    n_records: int
    counts: npt.NDArray[np.int32]
    topics: Floats

    @classmethod
    def of(cls, records: Sequence[Record], n_topics: int = N_TOPICS, random_state: int = 0) -> Statistics:
        """Count records; their authors are not used."""
        counts = np.zeros(N_SLOTS, np.int32)
        for record in records:
            for field, tokens in (*tokens_of(record).items(), ("given", [" ".join(parsed(record.name).first)])):
                for token in tokens:
                    counts[_slot(f"{field}:{token}", N_SLOTS)] += 1
        return cls(len(records), counts, _topics(records, n_topics, random_state))

    def rarity(self, field: str, token: str) -> float:
        """From 0 for a token of all records to 1 for a token of none."""
        n = int(self.counts[_slot(f"{field}:{token}", N_SLOTS)])
        return float(1 - np.log1p(n) / np.log1p(max(self.n_records, 1))) if n < self.n_records else 0.0

    def topic(self, record: Record) -> Floats:
        """What a record is about: a vector of length 1, or zeros if nothing is known."""
        slots = [_slot(word, N_TOPIC_SLOTS) for word in dict.fromkeys(topic_words(record))]
        vector = self.topics[slots].sum(axis=0) if slots else np.zeros(self.topics.shape[1], np.float32)
        length = np.sqrt(vector @ vector)
        return np.asarray(vector / length if length > 0 else vector, np.float32)


def _topics(records: Sequence[Record], n_topics: int, random_state: int) -> Floats:
    """Latent semantic analysis: by slot, the rarity of its word times its weight in each topic."""
    from sklearn.decomposition import TruncatedSVD

    rows, slots = [], []
    for i, record in enumerate(records):
        for word in dict.fromkeys(topic_words(record)):
            rows.append(i)
            slots.append(_slot(word, N_TOPIC_SLOTS))
    shape = (max(len(records), 1), N_TOPIC_SLOTS)
    matrix: Any = scipy.sparse.csr_array((np.ones(len(rows), np.float32), (rows, slots)), shape=shape)
    matrix.data[:] = 1.0
    frequency = np.bincount(matrix.indices, minlength=N_TOPIC_SLOTS)
    rarity = np.log((1 + shape[0]) / (1 + frequency)).astype(np.float32)
    matrix = matrix @ scipy.sparse.diags_array(rarity, dtype=np.float32)
    lengths = np.sqrt(np.maximum(matrix.power(2).sum(axis=1), 1e-12))
    matrix = scipy.sparse.diags_array(1 / lengths, dtype=np.float32) @ matrix
    n_topics_found = min(n_topics, min(shape) - 1)
    topics = np.zeros((N_TOPIC_SLOTS, n_topics), np.float32)
    if n_topics_found > 0 and matrix.nnz:
        found = TruncatedSVD(n_topics_found, random_state=random_state).fit(matrix).components_
        topics[:, :n_topics_found] = (found * rarity).T
    return topics
