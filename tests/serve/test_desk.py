"""A saved model that is served: points by their ids, also where others were removed."""

from __future__ import annotations

import pytest

from grinch import Grinch
from grinch.serve.backend import FixedDesk
from grinch.serve.model_backend import ModelBackend
from serve.looked import news


def test_points_of_a_model_that_lost_some():
    X, payload = news(30)
    model = Grinch(n_clusters=3).fit(X, ids=[f"p{i}" for i in range(30)]).remove(["p0", "p4"])
    left = [i for i in range(30) if i not in (0, 4)]
    desk = FixedDesk(ModelBackend(model, payload=[payload[i] for i in left]))
    assert desk.read(lambda fixed: fixed.ids) == [f"p{i}" for i in left]
    assert desk.read(lambda fixed: fixed.payload(["p29", "p1"])) == [payload[29], payload[1]]
    clusters = desk.read(lambda fixed: fixed.clusters())
    assert [clusters[number] for number in sorted(clusters)] == model.clusters_
    with pytest.raises(ValueError, match="'p0' is not"):
        desk.read(lambda fixed: fixed.payload(["p0"]))
