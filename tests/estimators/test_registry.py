"""All systems by name."""

from __future__ import annotations

import pytest

from grinch import Grinch, cluster_with
from grinch.estimators.registry import SYSTEMS, make_system
from systems import SMALL

# Small buffers and few leaves, so that small data fill them.


def test_the_registry_says_what_it_takes():
    with pytest.raises(ValueError, match=r"method must be one of .*'grinch'.*did you mean 'perch'"):
        make_system("pertch")
    with pytest.raises(
        ValueError, match=r"a setting of method 'hac' must be one of .*'lean'.*got 'leann'; did you mean 'lean'"
    ):
        make_system("hac", leann=True)
    with pytest.raises(ValueError, match="takes no linkage of your own"):
        make_system("birch", linkage=lambda a, b: 0.0)
    assert isinstance(make_system("grinch"), Grinch)
    assert make_system("hac", metric="cosine").metric == "cosine"
    assert make_system("hac", linkage="ward", metric="euclidean").metric == "sqeuclidean"
    assert make_system("perch", linkage="ward").metric == "euclidean"
    assert make_system("birch", linkage="single", metric="cosine").metric == "cosine"


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("linkage", ["average", "cosine", "centroid", "ward", "single", "complete"])
def test_every_method_runs_with_every_linkage_by_name(name, linkage, rng):
    tree = cluster_with(name, rng.normal(size=(30, 4)), linkage=linkage, **SMALL.get(name, {})).tree_
    tree.check()
    assert tree.n_leaves == 30


@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.takes_linkage])
def test_a_function_is_a_linkage_for_every_method_that_takes_one(name):
    model = cluster_with(name, [1.0, 2.0, 9.0], linkage=lambda a, b: -abs(min(a) - min(b)), n_clusters=2)
    # Online puts the third point beside the second, and nothing moves it later.
    assert model.labels_.tolist() == ([0, 1, 1] if name == "online" else [0, 0, 1])
