"""The arrays of a tree."""

from __future__ import annotations

from grinch.tree.checks import check_links
from grinch.tree.links import ROOT, SIZE, attach, attach_first, new_links, resize_upward


def test_sizes_saturate_above_the_limit():
    links = new_links(50, limit=7)
    attach_first(links, 0)
    for leaf in range(1, 50):
        attach(links, leaf, links.root if leaf % 3 else leaf - 1, 50 + leaf)
        check_links(links)
    assert links.table[links.head[ROOT], SIZE] == 8
    resize_upward(links, links.root)
    check_links(links)
