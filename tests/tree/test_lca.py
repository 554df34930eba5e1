"""Common ancestors by heavy paths, against the tree's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from grinch import Tree
from grinch.tree.links import fill_paths, new_paths
from trees import random_trees


@given(random_trees(), st.data())
def test_common_ancestors_of_any_two_nodes(tree, data):
    nodes = st.sampled_from(list(tree.nodes()))
    pairs = np.array(data.draw(st.lists(st.tuples(nodes, nodes), min_size=1)))
    assert tree.common_ancestors(*pairs.T).tolist() == [tree.lca(u, v) for u, v in pairs.tolist()]


def test_no_pairs_have_no_common_ancestors():
    nobody = np.empty(0, int)
    assert len(Tree().common_ancestors(nobody, nobody)) == 0


@given(random_trees())
def test_paths_go_to_the_larger_child_and_few_of_them_lead_to_the_root(tree):
    paths = new_paths(tree.n_ids)
    fill_paths(tree.links.table, tree.preorder(), tree.offset, tree.sizes(), paths)
    n_nodes = 2 * tree.n_leaves - 1
    assert sorted(paths.nodes[:n_nodes].tolist()) == sorted(tree.nodes())
    for place in range(1, n_nodes):
        v = int(paths.nodes[place])
        assert paths.places[v] == place
        if paths.heads[place] == place:
            assert paths.nodes[paths.above[place]] == tree.parent(v)
            assert tree.size(v) <= tree.size(tree.sibling(v))
        else:
            assert paths.heads[place] == paths.heads[place - 1]
            assert paths.nodes[place - 1] == tree.parent(v)
    for leaf in range(tree.n_leaves):
        place, n_paths = int(paths.places[leaf]), 0
        while paths.heads[place] != 0:
            place, n_paths = int(paths.above[paths.heads[place]]), n_paths + 1
        assert 2**n_paths <= tree.n_leaves
