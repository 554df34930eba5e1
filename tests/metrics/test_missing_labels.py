"""Labels that are missing, in the many ways there are to say so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from grinch import Tree
from grinch.metrics import (
    adjusted_rand,
    bcubed,
    dendrogram_purity,
    normalized_mutual_information,
    pairwise_scores,
)


@pytest.mark.parametrize(
    "labels",
    [
        ["x", "y", "x", float("nan")],
        [1, 2, 1.0, None],
        pd.Series(["x", "y", "x", None]),
        pd.Series(["x", "y", "x", None], dtype="string"),
        pd.Series([1, 2, 1, None], dtype="Int64"),
        np.array(["2020-01-01", "2020-01-02", "2020-01-01", "NaT"], dtype="datetime64[D]"),
    ],
)
def test_missing_labels_in_many_guises(labels):
    tree = Tree.from_scipy([[0, 2, 1.0, 2], [3, 4, 2.0, 3], [1, 5, 3.0, 4]])
    assert dendrogram_purity(tree, labels) == 1.0
    assert pairwise_scores(labels, [0, 1, 0, 0]) == (pytest.approx(1 / 3), 1.0, 0.5)
    assert bcubed(labels, [0, 1, 0, 0]) == (1.0, 1.0, 1.0)
    assert adjusted_rand(labels, [0, 1, 0, 0]) == normalized_mutual_information(labels, [0, 1, 0, 0]) == 1.0
