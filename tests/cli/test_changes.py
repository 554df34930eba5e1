"""What became of clusters, as it is told: what matters first, and the rest counted."""

from __future__ import annotations

from grinch.cli.clusters import print_changes
from grinch.cuts.tracking import Change


def change(kind, cluster, count, others=()):
    return Change(2, "default", kind, cluster, others, 0 if kind == "dissolved" else count, count)


def test_small_changes_come_last_and_named_clusters_first(capsys):
    told = [
        *(change("dissolved", i, 1) for i in range(4)),
        change("dissolved", 10, 40),
        change("born", 20, 30),
        change("born", 21, 2),
        change("grew", 30, 12),
        change("grew", 31, 1),
    ]
    sizes = {one.cluster: one.size for one in told}
    print_changes(told, {31: "rain"}, sizes, 4)
    lines = capsys.readouterr().out.split("\n")
    assert ["rain" in lines[0], "cluster 10" in lines[1], "cluster 20" in lines[2], "cluster 30" in lines[3]] == [
        True
    ] * 4
    assert "… and 4 more clusters were dissolved" in lines[4]
    assert "… and 1 more cluster was born" in lines[5]
    assert len([line for line in lines if line]) == 6


def test_named_clusters_that_were_dissolved_are_shown_beyond_the_top(capsys):
    told = [change("dissolved", 6, 1), change("dissolved", 7, 9), change("dissolved", 8, 90), change("grew", 9, 1)]
    print_changes(told, {6: "rain", 7: "snow"}, {9: 1}, 1)
    said = capsys.readouterr().out
    assert ["rain" in said, "snow" in said, "cluster 8" in said] == [True, True, False]
    assert "… and 1 more cluster was dissolved" in said
    assert "… and 1 cluster grew by 1 in all" in said
