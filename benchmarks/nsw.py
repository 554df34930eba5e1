"""The navigable small world: what it finds, how often it asks the linkage, and the trees that grow from it.

    GRINCH_DATA=folder python benchmarks/nsw.py [NAME ...]      (10 minutes; without a folder, less)

Vectors are the mixture of benchmarks/search.py, strings are name, birthday and birthplace of historical figures under
an edit similarity, authors are records under the linkage of ``grinch coref``. Recall is the share of the 25 found by
the last points that are as near as the 25 nearest. Writes benchmarks/nsw.json, line by line; what is there stays.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from experiments.author_coreference import FILES, read_blocks
from grinch import Grinch
from grinch.linkage.named import VECTOR_LINKAGES
from grinch.metrics import dendrogram_purity
from grinch.neighbors import Search
from grinch.neighbors.exact import ExactSearch
from grinch.neighbors.nsw import NswSearch
from grinch.neighbors.scan import ScanSearch
from grinch.resolve.authors.model import CorefLinkage
from grinch.resolve.authors.training import train
from grinch.summaries import RecordSummaries, VectorSummaries
from grinch.summaries.arrays import SCORES
from search import mixture
from written import write_figures

K, ASKED = 25, 500
OUT = Path(__file__).with_suffix(".json")
# A group of strings is known by this many of them; strings longer than a word of the machine are cut.
EXEMPLARS, LENGTH = 16, 64
# Exact search, which takes minutes beyond, is beside it up to this many strings.
EXACT_UP_TO = 5_000
Rows = npt.NDArray[np.int64]


@numba.njit  # type: ignore[untyped-decorator]
def _similarities(codes: Any, lengths: Rows, a: Rows, others: Rows, ends: Rows, found: Any) -> None:
    """The mean of 1 - edit distance / length over all pairs of strings; distances by Myers' and Hyyrö's bit vectors."""
    found[:] = 0.0
    masks = np.zeros(128, np.uint64)
    one = np.uint64(1)
    for x in a:
        masks[:] = 0
        for i in range(lengths[x]):
            masks[codes[x, i]] |= one << np.uint64(i)
        group = 0
        for at in range(len(others)):
            while at >= ends[group]:
                group += 1
            y = others[at]
            plus, minus, distance = ~np.uint64(0), np.uint64(0), lengths[x]
            last = one << np.uint64(max(lengths[x] - 1, 0))
            for i in range(lengths[y]):
                equal = masks[codes[y, i]]
                vertical = equal | minus
                horizontal = (((equal & plus) + plus) ^ plus) | equal
                up, down = minus | ~(horizontal | plus), plus & horizontal
                distance += np.int64((up & last) != 0) - np.int64((down & last) != 0)
                up, down = (up << one) | one, down << one
                plus, minus = down | ~(vertical | up), up & vertical
            found[group] += 1.0 - distance / max(lengths[x], lengths[y], 1)
    start = 0
    for group in range(len(ends)):
        found[group] /= len(a) * (ends[group] - start)
        start = ends[group]


class EditSimilarity:
    """Mean edit similarity of two groups of strings: a linkage in Python; a summary is where some members stand."""

    ceiling = 1.0

    def __init__(self, room: int):
        self.codes, self.lengths, self.n = np.zeros((room, LENGTH), np.uint8), np.zeros(room, np.int64), 0

    def leaf(self, text: str) -> Rows:
        code = np.frombuffer(text.encode("ascii", "replace")[:LENGTH], np.uint8)
        self.codes[self.n, : len(code)], self.lengths[self.n] = code, len(code)
        self.n += 1
        return np.array([self.n - 1])

    def merge(self, a: Rows, b: Rows) -> Rows:
        both = np.concatenate([a, b])
        return both[np.arange(EXEMPLARS) * len(both) // EXEMPLARS] if len(both) > EXEMPLARS else both

    def score(self, a: Rows, b: Rows) -> float:
        return float(self.scores(a, [b])[0])

    def scores(self, a: Rows, others: Sequence[Rows]) -> npt.NDArray[np.float64]:
        ends, found = np.cumsum([len(b) for b in others]), np.empty(len(others))
        _similarities(self.codes, self.lengths, a, np.concatenate(others), ends, found)
        return found


# Data -----------------------------------------------------------------------------------------------------------------


def folder() -> Path:
    return Path(os.environ["GRINCH_DATA"])


def strings(n: int) -> tuple[list[str], npt.NDArray[np.int64]]:
    with gzip.open(folder() / "er_text" / "historical_figures_50k.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    texts = [", ".join(row[name] for name in ("full_name", "dob", "birth_place")) for row in rows]
    classes = np.unique([row["cluster_id"] for row in rows], return_inverse=True)[1]
    some = np.random.default_rng(0).permutation(len(rows))[:n]
    return [texts[i] for i in some], classes[some]


def typos(n: int) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Names and places, ten of each with one to three letters changed."""
    rng, letters = np.random.default_rng(0), "abcdefghijklmnopqrstuvwxyz"

    def words(count: int) -> list[str]:
        return ["".join(rng.choice(list(letters), rng.integers(4, 10))) for _ in range(count)]

    parts = [rng.choice(words(count), n // 10) for count in (200, 800, 100)]
    classes, texts = rng.integers(0, n // 10, n), []
    for name in classes:
        text = [*" ".join(part[name] for part in parts)]
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(len(text))
            text[at] = ["", rng.choice([*letters]), text[at] + rng.choice([*letters])][rng.integers(3)]
        texts.append("".join(text))
    return texts, classes


STRINGS = {"historical figures": strings, "names with typos": typos}


def of_vectors(n: int) -> Any:
    data = mixture(n, 64)
    summaries = VectorSummaries(VECTOR_LINKAGES["average"]["cosine"], 64)
    summaries.grow(n)
    summaries.write(0, data.vectors)
    X = data.vectors / np.linalg.norm(data.vectors, axis=1, keepdims=True)
    return summaries, ExactSearch(summaries, K), lambda x, near: X[near] @ X[x]


def of_records(linkage: Any, records: Sequence[Any]) -> Any:
    summaries = RecordSummaries(linkage)
    summaries.grow(len(records))
    summaries.write(0, records)
    return summaries, ScanSearch(summaries, K), lambda x, near: summaries.scores(x, near.tolist())


def of_strings(n: int) -> Any:
    return of_records(EditSimilarity(n), strings(n)[0])


def of_authors(n: int) -> Any:
    model = train(read_blocks(folder() / FILES["psu-dblp"]), kind="logistic", rounds=1)
    records = [record for block in read_blocks(folder() / FILES["dblp-people"]).values() for record in block]
    return of_records(CorefLinkage(model), [records[i] for i in np.random.default_rng(0).permutation(len(records))[:n]])


KINDS: dict[str, Callable[[int], Any]] = {"vectors": of_vectors, "strings": of_strings, "authors": of_authors}
SIZES = {"vectors": (1_000, 10_000, 100_000), "strings": (1_000, 10_000), "authors": (1_000, 10_000)}


# Measuring ------------------------------------------------------------------------------------------------------------


def stream(search: Search, start: int, stop: int) -> npt.NDArray[np.int32]:
    return np.concatenate([part.candidates for part in search.stream(start, stop)])


def found_by(kind: str, n: int) -> dict[str, float]:
    """Calls of f and CPU microseconds per insert, over all and for the last points, and recall for these."""
    summaries, exact, score = KINDS[kind](n)
    counts, search, late = summaries.arrays.counts, NswSearch(summaries, K), n - ASKED
    stream(search, 0, 2)  # compiled
    began = time.process_time(), counts[SCORES]
    stream(search, 0, late)
    before = counts[SCORES]
    found = stream(search, late, n)
    took, calls, last = time.process_time() - began[0], counts[SCORES] - began[1], counts[SCORES] - before
    recalls = []
    for x, near, ours in zip(range(late, n), stream(exact, late, n), found, strict=True):
        farthest = score(x, near).min()
        recalls.append((score(x, ours[ours >= 0]) >= farthest - 1e-6 * abs(farthest)).sum() / K)
    return {
        "recall": float(np.mean(recalls)),
        "calls": float(calls / n),
        "calls_at_end": float(last / ASKED),
        "us": took / n * 1e6,
    }


def tree_by(data: str, n: int, search: str) -> dict[str, float]:
    """Calls of the linkage in a whole fit, those of the moves too, its CPU seconds, and the purity of the tree."""
    texts, classes = STRINGS[data](n)
    began = time.process_time()
    model = Grinch(linkage=EditSimilarity(n), search=search).fit(texts)
    took = time.process_time() - began
    purity = float(dendrogram_purity(model.tree_, classes))
    return {"calls": float(model.stats_["scores"]), "seconds": took, "purity": purity}


def main(names: Sequence[str]) -> None:
    results: dict[str, Any] = json.loads(OUT.read_text("utf-8")) if OUT.exists() else {}
    runs: dict[str, Callable[[], dict[str, float]]] = {
        f"{kind}, {n}": partial(found_by, kind, n) for kind in KINDS for n in SIZES[kind]
    }
    for data in STRINGS:
        for n in (EXACT_UP_TO, 20_000):
            for search in ("exact", "auto", "nsw")[n > EXACT_UP_TO :]:
                runs[f"tree, {data}, {n}, {search}"] = partial(tree_by, data, n, search)
    for key, run in runs.items():
        if names and not any(key.startswith(name) for name in names):
            continue
        is_made = key.startswith("vectors") or "typos" in key
        if key not in results and (is_made or "GRINCH_DATA" in os.environ):
            results[key] = run()
            write_figures(OUT, results)
        print(key, results.get(key), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
