"""One move at a time on trees that fit in a comment. The engine and the oracle must both draw the tree on the right.

Every case says which scores are not 0, the tree before the last record arrives, and the tree after it, with the move
and without it. Points arrive in the order of ``records``; the last one is called x.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from core.both import NO_MOVES, Written, by_engine, by_paper, similarity
from grinch.core.rules import Rules


class Case(NamedTuple):
    records: str
    scores: dict[str, float]
    before: str
    rules: Rules
    after: str
    without: Rules
    after_without: str
    k: int = 25


ROTATE = NO_MOVES._replace(rotate=True)
PULL = ROTATE._replace(pull=True)
GRAFT = ROTATE._replace(graft=True)

# Two pairs; (a x) and c like each other better than their siblings b and d do.
PAIRS = {"a b": 5, "c a": 1, "c ab": -1, "d c": 2, "x a": 6, "ax b": 1, "ax c": 9}
# (a x) and the three of (c d) e find each other; each has a sibling, b and r, that it likes less.
THREE = {"a b": 5, "c a": 1, "d c": 7, "e c": 1, "cd e": 6, "e cd": 6, "r c": 1, "r cd": 1, "cde r": 2}
THREE |= {"x a": 6, "ax c": 3, "ax cd": 4, "ax cde": 9, "ax b": 1}
# (a x) and c both prefer their siblings, (b e) and d; their parents prefer each other.
PARENTS = {"b e": 5, "a b": 1, "a be": 3, "q b": 1, "q be": 1, "abe q": 2, "c b": 1, "d c": 5, "r c": 1, "cd r": 2}
PARENTS |= {"x a": 6, "ax be": 4, "ax c": 3, "abex cd": 9}
# Something (v x) likes leaves; what it leaves behind, z, likes n better than its new sibling m.
LEFT_BEHIND = {"l z": 2, "m l": 1, "lz m": 1.5, "n l": 1, "lzm n": 1, "v l": 1}
LEFT_BEHIND |= {"x v": 9, "vx l": 8, "z m": 0.2, "z n": 0.5}

CASES = {
    #      ┌┴┐          ┌─┴┐           ┌─┴┐
    #      a b         ┌┴┐ x          ┌┴┐ b
    #                  a b            a x
    "rotate: a prefers b to x, so x goes above them": Case(
        "abx", {"a b": 5, "x a": 3}, "(a,b)", ROTATE, "((a,b),x)", NO_MOVES, "((a,x),b)"
    ),
    #     ┌─┴┐          ┌──┴┐          ┌──┴┐
    #    ┌┴┐ c        ┌─┴┐  x        ┌─┴┐  c
    #    a b         ┌┴┐ c          ┌┴┐ x
    #                a b            a b
    "rotate stops below a parent of more than cap leaves": Case(
        "abcx",
        {"a b": 5, "c a": 1, "ab c": 4, "x a": 3, "x ab": 1},
        "((a,b),c)",
        ROTATE,
        "(((a,b),c),x)",
        ROTATE._replace(rotate_cap=2),
        "(((a,b),x),c)",
    ),
    #     ┌─┴┐          ┌─┴──┐         ┌─┴─┐
    #    ┌┴┐ c        ┌─┴┐   b        ┌┴┐ ┌┴┐
    #    a b          a ┌┴┐           a b c x
    #                   c x
    "pull: a and b both like (c x) better than each other; a likes it more": Case(
        "abcx",
        {"a b": 2, "c a": 1, "c ab": 1, "x c": 9, "cx a": 8, "cx b": 7},
        "((a,b),c)",
        PULL,
        "(((c,x),a),b)",
        ROTATE,
        "((a,b),(c,x))",
    ),
    "pull stops below a parent of more leaves than the cap of rotate": Case(
        "abcx",
        {"a b": 2, "c a": 1, "c ab": 1, "x c": 9, "cx a": 8, "cx b": 7},
        "((a,b),c)",
        PULL._replace(rotate_cap=4),
        "(((c,x),a),b)",
        PULL._replace(rotate_cap=3),
        "((a,b),(c,x))",
    ),
    #     ┌─┴──┐        ┌───┴┐         ┌──┴──┐
    #    ┌┴┐  ┌┴┐     ┌─┴─┐  d       ┌─┴┐   ┌┴┐
    #    a b  c d    ┌┴─┐ b         ┌┴┐ b   c d
    #               ┌┴┐ c           a x
    #               a x
    "graft: c leaves d for (a x), and d takes the place of their parent": Case(
        "abcdx", PAIRS, "((a,b),(c,d))", GRAFT, "((((a,x),c),b),d)", ROTATE, "(((a,x),b),(c,d))"
    ),
    #     ┌─┴──┐        ┌──┴┐          ┌──┴──┐
    #    ┌┴┐  ┌┴┐     ┌─┴─┐ b        ┌─┴┐   ┌┴┐
    #    a b  c d    ┌┴┐ ┌┴┐        ┌┴┐ b   c d
    #                a x c d        a x
    "graft: c prefers d to (a x), so its parent is tried; the common ancestor is contracted": Case(
        "abcdx",
        PAIRS | {"ax c": 1.5, "ax cd": 4},
        "((a,b),(c,d))",
        GRAFT,
        "(((a,x),(c,d)),b)",
        ROTATE,
        "(((a,x),b),(c,d))",
    ),
    "graft: a tie is no reason to move": Case(
        "abcdx",
        PAIRS | {"ax c": 2},
        "((a,b),(c,d))",
        GRAFT,
        "(((a,x),b),(c,d))",
        ROTATE,
        "(((a,x),b),(c,d))",
    ),
    #    ┌──┴──┐                  ┌───┴───┐
    #   ┌┴┐  ┌─┴─┐             ┌──┴──┐    r
    #   a b ┌┴─┐ r           ┌─┴──┐  b
    #      ┌┴┐ e            ┌┴┐ ┌─┴┐
    #      c d              a x c d e
    "graft: the node that was found moves, however large": Case(
        "abcderx",
        THREE,
        "((((c,d),e),r),(a,b))",
        GRAFT,
        "(((((c,d),e),(a,x)),b),r)",
        ROTATE,
        "((((c,d),e),r),((a,x),b))",
    ),
    #    ┌──┴──┐                 ┌──┴──┐
    #   ┌┴┐  ┌─┴─┐               b   ┌─┴──┐
    #   a b ┌┴─┐ r                 ┌─┴──┐ r
    #      ┌┴┐ e                 ┌─┴┐  ┌┴┐
    #      c d                   cd e  a x
    "light graft: (a x) has fewer leaves than ((c d) e), so it moves": Case(
        "abcderx",
        THREE,
        "((((c,d),e),r),(a,b))",
        GRAFT._replace(light_grafts=True),
        "(((((c,d),e),(a,x)),r),b)",
        GRAFT,
        "(((((c,d),e),(a,x)),b),r)",
    ),
    "light graft: of two pairs the one that was found moves": Case(
        "abcdrx",
        {"a b": 5, "c a": 1, "d c": 7, "r c": 1, "cd r": 2, "x a": 6, "ax c": 3, "ax cd": 9, "ax b": 1},
        "(((c,d),r),(a,b))",
        GRAFT._replace(light_grafts=True),
        "((((a,x),(c,d)),b),r)",
        ROTATE,
        "(((a,x),b),((c,d),r))",
    ),
    "graft stops where either side has more than cap leaves": Case(
        "abcderx",
        THREE,
        "((((c,d),e),r),(a,b))",
        GRAFT._replace(graft_cap=3),
        "(((((c,d),e),(a,x)),b),r)",
        GRAFT._replace(graft_cap=2),
        "((((c,d),e),r),((a,x),b))",
    ),
    #      ┌──┴───┐               ┌──┴──┐                    ┌───┴────┐
    #    ┌─┴─┐  ┌─┴┐            ┌─┴─┐   r                 ┌──┴─┐    ┌─┴┐
    #  ┌─┴┐  q ┌┴┐ r        ┌───┴┐  q                   ┌─┴─┐  q   ┌┴┐ r
    #  a ┌┴┐   c d       ┌──┴─┐ ┌┴┐                    ┌┴┐ ┌┴┐     c d
    #    b e            ┌┴┐  ┌┴┐c d                    a x b e
    #                   a x  b e
    "single elimination: both prefer their siblings, and the parents do not get their chance": Case(
        "beaqcdrx",
        PARENTS,
        "((((b,e),a),q),((c,d),r))",
        GRAFT,
        "(((((a,x),(b,e)),(c,d)),q),r)",
        GRAFT._replace(single_elimination=True),
        "((((a,x),(b,e)),q),((c,d),r))",
    ),
    #          ┌─┴┐             ┌──┴──┐                ┌──┴──┐
    #        ┌─┴┐ v           ┌─┴┐  ┌─┴┐             ┌─┴┐  ┌─┴┐
    #      ┌─┴┐ n            ┌┴┐ m  l ┌┴┐           ┌┴┐ n  l ┌┴┐
    #     ┌┴┐ m              n z      v x           m z      v x
    #     l z
    "restructure: z, left behind by l, takes n for its sibling instead of m": Case(
        "lzmnvx",
        LEFT_BEHIND,
        "((((l,z),m),n),v)",
        GRAFT._replace(restructure=True),
        "(((n,z),m),((v,x),l))",
        GRAFT,
        "(((m,z),n),((v,x),l))",
    ),
    "restructure asks the siblings of ancestors of up to cap leaves": Case(
        "lzmnvx",
        LEFT_BEHIND,
        "((((l,z),m),n),v)",
        GRAFT._replace(restructure=True, restructure_cap=2),
        "(((n,z),m),((v,x),l))",
        GRAFT._replace(restructure=True, restructure_cap=1),
        "(((m,z),n),((v,x),l))",
    ),
    # The two leaves nearest to x are a and b, so c is not found.
    "single search: a graft finds only what the search for x found": Case(
        "abcdx",
        PAIRS | {"x b": 3, "x c": 2},
        "((a,b),(c,d))",
        GRAFT._replace(single_search=True),
        "(((a,x),b),(c,d))",
        GRAFT,
        "((((a,x),c),b),d)",
        k=2,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_drawn(case):
    linkage, earlier = Written(case.scores), case.records[:-1]
    f = similarity(linkage, case.records)
    for rules, after in ((case.rules, case.after), (case.without, case.after_without)):
        assert by_paper(f, rules, earlier, case.k) == case.before
        assert by_paper(f, rules, case.records, case.k) == after
        assert by_engine(linkage, rules, earlier, case.k) == case.before
        assert by_engine(linkage, rules, case.records, case.k) == after
