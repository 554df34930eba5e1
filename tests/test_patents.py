"""How benchmarks/patents.py counts and divides, where only some inventors are known; without its data."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from grinch.resolve.authors import Record
from pages import ROOT, script

patents = script(ROOT / "benchmarks" / "patents.py")


def mentions_of(rng, n=40):
    authors = [["x", "y", None, None][i] for i in rng.integers(4, size=n)]
    return [Record(str(i), "A Lee", author=author) for i, author in enumerate(authors)]


@pytest.mark.parametrize("seed", range(5))
def test_scores_are_those_of_all_pairs_with_a_known_inventor(seed):
    rng = np.random.default_rng(seed)
    mentions = mentions_of(rng)
    found = {record.id: int(rng.integers(5)) for record in mentions}
    pairs = [pair for pair in combinations(mentions, 2) if any(record.author for record in pair)]
    together = {(a.id, b.id) for a, b in pairs if found[a.id] == found[b.id]}
    true = {(a.id, b.id) for a, b in pairs if a.author == b.author}
    known = [record for record in mentions if record.author]
    shares = []
    for record in known:
        cluster = {other.id for other in mentions if found[other.id] == found[record.id]}
        same = {other.id for other in mentions if other.author == record.author}
        shares.append([len(cluster & same) / len(cluster), len(cluster & same) / len(same)])
    scores = patents.scores(mentions, found)
    assert scores["mentions"] == len(known)
    assert scores["precision"] == pytest.approx(len(together & true) / len(together), abs=1e-4)
    assert scores["recall"] == pytest.approx(len(together & true) / len(true), abs=1e-4)
    assert [scores["bcubed precision"], scores["bcubed recall"]] == pytest.approx(np.mean(shares, axis=0), abs=1e-4)
    each = [2 * p * r / (p + r) for p, r in shares]
    assert scores["bcubed f1"] == pytest.approx(np.mean(each), abs=1e-4)


def test_no_inventor_to_learn_from_is_in_a_tested_block():
    rng = np.random.default_rng(0)
    names = [f"inventor {i}" for i in range(60)]
    blocks = {
        str(b): [Record(f"{b}-{i}", "A Lee", author=str(name)) for i, name in enumerate(rng.choice(names, 2))]
        for b in range(60)
    }
    learning, tested = patents.halves(blocks, rng)
    assert len(learning) > 3
    assert len(tested) > 20
    for block in patents.only(blocks, tested).values():
        original = {record.author for record in blocks[block[0].id.partition("-")[0]]}
        assert not original & learning
        assert {record.author for record in block} <= tested | {None}


def test_a_sample_keeps_known_mentions_up_to_half():
    rng = np.random.default_rng(0)
    mentions = mentions_of(rng, 200)
    n_known = sum(record.author is not None for record in mentions)
    for most in (40, 190):
        sample = patents.sampled(mentions, most, rng)
        assert len({record.id for record in sample}) == most
        assert sum(record.author is not None for record in sample) >= min(most // 2, n_known)
    assert patents.sampled(mentions, 200, rng) == mentions
