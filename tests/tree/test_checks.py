"""A check that finds damage."""

from __future__ import annotations

import numpy as np
import pytest

from grinch.tree.links import SIZE
from trees import random_tree


def test_check_finds_damage():
    def damaged(change):
        tree = random_tree(np.random.default_rng(1), 8)
        change(tree.links)
        with pytest.raises(AssertionError):
            tree.check()

    damaged(lambda links: links.table.__setitem__((0, 0), 1))
    damaged(lambda links: links.table.__setitem__((links.head[0], SIZE), 3))
    damaged(lambda links: links.head.__setitem__(0, 0))
    damaged(lambda links: links.marks.__setitem__(0, 1))
    damaged(lambda links: links.table.__setitem__((links.head[0], 1), links.table[links.head[0], 2]))
