"""Where points are sent, and which branches are asked about them."""

from collections import Counter

import numpy as np

from grinch.datasets import gaussian_mixture
from grinch.io.inputs import open_rows
from grinch.sharded import ShardedGrinch
from grinch.sharded.compose import MergeList
from grinch.sharded.stages import route
from grinch.sharded.stages.skeleton import Skeleton


def test_few_neighbours_are_found_in_small_cells(tmp_path):
    X, _ = gaussian_mixture(6_000, n_classes=60, random_state=0)
    known, asked = X[:5_000], X[5_000:]
    assert len(known) > route.SEARCHED_WHOLE_UP_TO
    model = ShardedGrinch(2, metric="cosine")
    job = model._job(tmp_path, open_rows(X, tmp_path), model._checked_model())
    found = route.new_engine(job, known, 5).look_up(asked, limit=len(known)).slots
    unit, units = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (asked, known))
    nearest = np.argsort(-(unit @ units.T), axis=1)[:, :5]
    assert found.shape == nearest.shape
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found.tolist(), nearest.tolist(), strict=True)]) > 4.5


def test_a_point_goes_where_most_of_its_neighbours_are_and_the_nearest_others_are_asked():
    near = np.random.default_rng(0).integers(0, 4, (500, route.VOTES))
    home = route._most_voted(near)
    plan = Skeleton(np.arange(4), np.array([0, 1, 0, 1]), MergeList(np.empty((0, 2), np.int64), np.empty(0)))
    at, to = route._alternatives(plan, home, near[:, : route.LOOKED_AT])
    expected = set()
    for i, row in enumerate(near.tolist()):
        votes = Counter(row)
        assert home[i] == next(branch for branch in row if votes[branch] == max(votes.values()))
        expected |= {(i, branch) for branch in row[: route.LOOKED_AT] if branch != home[i]}
    assert len(at) == len(expected)
    assert set(zip(at.tolist(), to.tolist(), strict=True)) == expected
    assert (np.diff(plan.shard_of[to]) >= 0).all()
