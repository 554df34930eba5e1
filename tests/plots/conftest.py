from __future__ import annotations

import matplotlib.pyplot as plt
import pytest
from scipy.cluster.hierarchy import linkage

from grinch import Tree


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture
def tree(blobs):
    return Tree.from_scipy(linkage(blobs[0], "ward"))
