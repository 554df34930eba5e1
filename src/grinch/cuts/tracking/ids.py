"""Which cluster after a change is which before it.

The rule: cluster B after is cluster A before if

1. of all clusters before, A has the most of the points of B that were there before (of equals, the one with the
   smallest id),
2. of all clusters after, B has the most of the points of A that are still there (of equals, the one with the oldest
   point), and
3. B has at least a third of the points of A that are still there.

Then B has the id of A; every other cluster gets an id that was never given. So a cluster that is split lives on in its
largest part, one that was merged has the id of the part with the most points, a cluster that falls into more than three
even parts ends, and to remove points gives no cluster another id.
"""

from __future__ import annotations

import numpy as np

from grinch._types import Counts, Labels, Slots

# A cluster lives on only in one that has at least this share of its points: one over this number.
MIN_SHARE = 3
NO_CLUSTER = -1


def match(old: Labels, new: Slots, counts: Counts, oldest: Counts) -> Labels:
    """Return the id that each new cluster keeps, or -1.

    Parameters
    ----------
    old, new, counts : arrays of the same length
        How many points went from cluster ``old[i]`` (an id) to cluster ``new[i]`` (a number from 0 on). Each pair of
        the two at most once; all points that are still there, of every old cluster that is named.
    oldest : array
        By new cluster, the position of its oldest point.

    Returns
    -------
    array
        By new cluster, an id of ``old``, none of them twice; or -1.

    Examples
    --------
    Cluster 7 falls into parts of 4 and 2 points, and cluster 8 of 1 point joins the smaller part:

    >>> match(np.array([7, 7, 8]), np.array([0, 1, 1]), np.array([4, 2, 1]), oldest=np.array([0, 3])).tolist()
    [7, -1]
    """
    kept = np.full(len(oldest), NO_CLUSTER, np.int64)
    if not len(old):
        return kept
    best_new = _first_of_each(old, np.lexsort((oldest[new], -counts, old)))
    best_old = _first_of_each(new, np.lexsort((old, -counts, new)))
    ids, number = np.unique(old, return_inverse=True)
    left = np.zeros(len(ids), np.int64)
    np.add.at(left, number, counts)
    both = np.intersect1d(best_new, best_old)
    both = both[MIN_SHARE * counts[both] >= left[number[both]]]
    kept[new[both]] = old[both]
    return kept


def _first_of_each(groups: Labels, order: Slots) -> Slots:
    """Return the first of each group in this order, in which groups are in one piece."""
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = groups[order][1:] != groups[order][:-1]
    return order[is_first]


def pair_starts(old: Labels, new: Labels) -> Slots:
    """Return where each pair of an old and a new cluster begins, of pairs in order."""
    return np.flatnonzero(np.append(len(old) > 0, (old[1:] != old[:-1]) | (new[1:] != new[:-1]))[: len(old)])


def summed(old: Labels, new: Slots, counts: Counts) -> tuple[Labels, Slots, Counts]:
    """Return each pair of an old and a new cluster once, with the sum of its counts."""
    if not len(old):
        return old, new, counts
    order = np.lexsort((new, old))
    old, new = old[order], new[order]
    starts = pair_starts(old, new)
    return old[starts], new[starts], np.add.reduceat(counts[order], starts)
