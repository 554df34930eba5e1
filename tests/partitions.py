"""Which cluster is which, and what changed, in plain Python over whole partitions: {position: cluster}."""

from __future__ import annotations

from collections import defaultdict


def groups(labels):
    """By cluster, its points."""
    found = defaultdict(set)
    for point, cluster in labels.items():
        found[cluster].add(point)
    return dict(found)


class Dissolved:
    """The clusters of an automatic cut that dissolved, by id: the number of cuts at the time, and their points."""

    def __init__(self):
        self.cuts, self.points = 0, {}

    def claim(self, before, after):
        """By cluster of ``after``: the id that it comes back with, and how many points it shares with that cluster."""
        found = {}
        for b, points in groups(after).items():
            for a, (cut, had) in self.points.items():
                shared, there = len(had & points), len(had & after.keys())
                if self.cuts - cut <= 10 and shared and 5 * shared >= 3 * max(there, len(points)):
                    found.setdefault(b, []).append((-shared, -cut, a))
        return {b: (min(claims)[2], -min(claims)[0]) for b, claims in found.items()}

    def note(self, before, after):
        """Remember what has dissolved, and forget what came back."""
        now = set(after.values())
        self.points = {a: known for a, known in self.points.items() if a not in now}
        for a, points in groups(before).items():
            if a not in now and points & after.keys():
                self.points[a] = self.cuts, points & after.keys()


def ids_after(before, after, next_id, dissolved=None):
    """The clusters of ``after`` by the ids that they should have, and the next id to be given.

    ``dissolved`` are those that can come back; what happens now is noted there.
    """
    old, new = groups(before), groups(after)
    survivors = {a: points & after.keys() for a, points in old.items()}
    kept = {}
    for b, points in new.items():
        from_old = {a: len(left & points) for a, left in survivors.items() if left & points}
        if not from_old:
            continue
        a = min(from_old, key=lambda a: (-from_old[a], a))
        to_new = {c: len(survivors[a] & others) for c, others in new.items() if survivors[a] & others}
        best = min(to_new, key=lambda c: (-to_new[c], min(new[c])))
        if best == b and 3 * to_new[b] >= len(survivors[a]):
            kept[b] = a
    for b, (a, n) in ({} if dissolved is None else dissolved.claim(before, after)).items():
        shared = len(survivors[kept[b]] & new[b]) if b in kept else 0
        is_same = b in kept and 5 * shared >= 3 * max(len(survivors[kept[b]]), len(new[b]))
        if n > shared and not is_same:
            kept[b] = a
    for b in sorted(new.keys() - kept.keys(), key=lambda b: min(new[b])):
        kept[b] = next_id
        next_id += 1
    now = {point: kept[b] for point, b in after.items()}
    if dissolved is not None:
        dissolved.note(before, now)
    return now, next_id


def changes_between(before, after):
    """What happened, as (kind, cluster, others, size, count)."""
    old, new = groups(before), groups(after)

    def ordered(shared):
        """Other clusters, those that share the most first."""
        return tuple(c for c, points in sorted(shared.items(), key=lambda item: (-len(item[1]), item[0])) if points)

    found = set()
    for cluster in old.keys() | new.keys():
        was, now = old.get(cluster, set()), new.get(cluster, set())
        came, left = now - was, was - now
        sources = {c: points & came for c, points in old.items()}
        targets = {c: points & left for c, points in new.items()}
        if not was:
            found.add(("born", cluster, ordered(sources), len(now), len(came)))
        elif not now:
            found.add(("dissolved", cluster, ordered(targets), 0, len(left)))
        else:
            if came:
                found.add(("grew", cluster, ordered(sources), len(now), len(came)))
            if left:
                found.add(("shrank", cluster, ordered(targets), len(now), len(left)))
        split = {
            c: points
            for c, points in targets.items()
            if points and c not in old and min(old, key=lambda a: (-len(old[a] & new[c]), a)) == cluster
        }
        if split and now:
            found.add(("split", cluster, ordered(split), len(now), sum(map(len, split.values()))))
        merged = {
            c: points
            for c, points in sources.items()
            if points and c not in new and min(new, key=lambda b: (-len(old[c] & new[b]), b)) == cluster
        }
        if merged and (was or len(merged) > 1):
            found.add(("merged", cluster, ordered(merged), len(now), sum(map(len, merged.values()))))
    return found
