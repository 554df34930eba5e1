"""The arrays of a tree: sizes, checks, and rows in another order."""

from __future__ import annotations

import numpy as np
import pytest

from grinch.tree.checks import check_links
from grinch.tree.links import ROOT, SIZE, attach, attach_first, new_links, resize_upward
from trees import random_tree


def test_sizes_saturate_above_the_limit():
    links = new_links(50, limit=7)
    attach_first(links, 0)
    for leaf in range(1, 50):
        attach(links, leaf, links.root if leaf % 3 else leaf - 1, 50 + leaf)
        check_links(links)
    assert links.table[links.head[ROOT], SIZE] == 8
    resize_upward(links, links.root)
    check_links(links)


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
