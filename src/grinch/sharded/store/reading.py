"""What a sharded store knows: points, one tree over all of them, and clusters."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from grinch._types import Counts, Slots
from grinch.sharded.files import joined
from grinch.sharded.store.branch import Branch
from grinch.sharded.store.leaves import Leaves
from grinch.sharded.store.session import Session
from grinch.sharded.store.top import Moments, moments_of, top_tree
from grinch.sharded.whole import Merges, compose, without
from grinch.store import inputs
from grinch.store.database import Id
from grinch.store.lock import holder, is_held
from grinch.tree import Tree

# Rows that are summed up together.
PIECE = 65_536


class Place(NamedTuple):
    """Where a point would go: the branch, the node of its tree beside which, and the id of the nearest point."""

    branch: str
    node: int
    nearest: Id | None


class Reading(Session):
    """What readers and writers of a sharded store can ask."""

    @property
    def version(self) -> int:
        """How many changes were made: a change counts once for each branch that it touched, and a split for two."""
        with self._turn:
            self._now()
            return len(self._versions)

    @property
    def n_points(self) -> int:
        """How many points there are."""
        with self._turn:
            return sum(branch.n_points for branch in self._now())

    def __len__(self) -> int:
        return self.n_points

    def __repr__(self) -> str:
        if not self._is_open:
            return f"<ShardedStore {str(self.folder)!r}, closed>"
        n = len(self._branches)
        return f"<ShardedStore {str(self.folder)!r}: {len(self):,} points in {n} branch{'es' if n > 1 else ''}>"

    @property
    def branches(self) -> dict[str, int]:
        """The names of the branches, which are folders, and how many points each has."""
        with self._turn:
            return {branch.name: branch.n_points for branch in self._now()}

    @property
    def max_points(self) -> int:
        """A branch with more points than that is split."""
        return self._manifest.max_points

    @property
    def n_features(self) -> int | None:
        """How many numbers a point has; None if there are no points yet."""
        with self._turn:
            return self._now()[0].store.n_features

    @property
    def dtype(self) -> str | None:
        """How these numbers are kept; None if there are no points yet, and it was not said."""
        with self._turn:
            return self._now()[0].store.dtype

    @property
    def columns(self) -> list[str] | None:
        """What these numbers are called; None if they have no names."""
        with self._turn:
            return self._now()[0].store.columns

    @property
    def id_kind(self) -> str | None:
        """What ids are in this store, "text" or "number"; None if there are none, or no points yet."""
        with self._turn:
            return self._now()[0].store.id_kind if self._is_named else None

    @property
    def ids(self) -> list[Id]:
        """The ids of all points, in the order they came."""
        with self._turn:
            leaves = self._leaves()
            if not self._is_named:
                return leaves.numbers.tolist()
            found = [name for branch in self._now() for name in branch.store.ids]
            return [found[i] for i in leaves.places.tolist()]

    @property
    def n_given(self) -> int:
        """How many points ever came: the number that the next one gets."""
        return self._next_number

    def _leaves(self) -> Leaves:
        """The points in the order in which they came, and where they are."""
        key = self._key()
        if self._known_leaves is None or self._known_leaves[0] != key:
            self._known_leaves = key, Leaves.of(self._now())
        return self._known_leaves[1]

    def payload(self, ids: Any) -> list[Any]:
        """What was given beside points, by their ids."""
        return self._gathered(ids, lambda branch, names: branch.store.payload(names))

    def vectors(self, ids: Any) -> Any:
        """The points themselves, as they were given; a CSR matrix of those that are sparse."""
        with self._turn:
            names = self._names(ids)
            owned = self._owned(names)
            if not owned:
                return self._now()[0].store.vectors([])
            parts = [branch.store.vectors([names[i] for i in at.tolist()]) for branch, at in owned]
            return joined(parts)[np.argsort(np.concatenate([at for _, at in owned]))]

    def _gathered(self, ids: Any, ask: Any) -> list[Any]:
        """What the branches say of points, in the order in which they are asked for."""
        with self._turn:
            names = self._names(ids)
            found: list[Any] = [None] * len(names)
            for branch, at in self._owned(names):
                answers = ask(branch, [names[i] for i in at.tolist()])
                for i, answer in zip(at.tolist(), answers, strict=True):
                    found[i] = answer
            return found

    # The tree and its clusters ------------------------------------------------------------------------------------

    @property
    def tree(self) -> Tree:
        """One tree over all points, in the order of :attr:`ids`, which it knows as ``names`` where points have them."""
        with self._turn:
            tree = copy.copy(self.bare_tree)
            if self._is_named:
                tree.names = self.ids
            return tree

    @property
    def bare_tree(self) -> Tree:
        """The same without names, which need not be read then; later points do not change it."""
        with self._turn:
            key = self._key()
            if self._whole is None or self._whole[0] != key:
                self._whole = key, self._composed()
            return self._whole[1]

    def _composed(self) -> Tree:
        there = [branch for branch in self._now() if branch.n_points]
        if not there:
            return Tree()
        rows = [some for some in self._leaves().ranks() if len(some)]
        parts = [branch.store.bare_tree for branch in there]
        if self._is_of_one_branch():
            found = copy.copy(parts[0])
            found.names = None
            return found
        return compose(self._top(), parts, rows, self._linkage.ceiling)

    def _is_of_one_branch(self) -> bool:
        """Whether the whole tree is that of a branch as it is."""
        leaves = self._leaves()
        return int((np.diff(leaves.starts) > 0).sum()) == 1 and bool((np.diff(leaves.places) > 0).all())

    def _top(self) -> Tree:
        """The tree over the branches that have points."""
        branches = self._now()
        pairs = np.array(self._manifest.pairs, np.int64).reshape(-1, 2)
        is_empty = np.array([branch.n_points == 0 for branch in branches])
        kept = without(Merges(pairs, np.zeros(len(pairs))), is_empty)
        return top_tree(self._linkage, kept.pairs, [self._moments(branch) for branch in branches if branch.n_points])

    def _moments(self, branch: Branch) -> Moments:
        known = self._known_moments.get(branch.name)
        if known is None or known[0] != branch.store.version:
            positions = branch.positions()
            pieces = (branch.rows(positions[i : i + PIECE]) for i in range(0, len(positions), PIECE))
            known = branch.store.version, moments_of(pieces, branch.store.n_features or 0, self._linkage)
            self._known_moments[branch.name] = known
        return known[1]

    # Points that do not come --------------------------------------------------------------------------------------

    def branch_places(self, X: Any) -> list[Place]:
        """Where each row of X would go, branch by branch; :meth:`place` says where in the whole tree."""
        with self._turn:
            found: dict[int, Place] = {}
            for branch, at, places in self._placed(X):
                for i, (node, position) in zip(at.tolist(), places, strict=True):
                    nearest = None if position < 0 else branch.store._db.ids_at([position])[0]
                    found[i] = Place(branch.name, node, nearest)
            return [found[i] for i in range(len(found))]

    def place(self, X: Any) -> tuple[int, list[tuple[int, int]]]:
        """The version, and where each row of X would go: the node of :attr:`tree` beside which, and the arrival number
        of the point that is nearest (-1 if none is known).
        """
        with self._turn:
            found: dict[int, tuple[int, int]] = {}
            for branch, at, places in self._placed(X):
                nodes = self._nodes_of(branch, [node for node, _ in places])
                for i, node, (_, position) in zip(at.tolist(), nodes, places, strict=True):
                    found[i] = node, -1 if position < 0 else int(branch.order[position])
            return self.version, [found[i] for i in range(len(found))]

    def _nearest(self, X: Any) -> Counts:
        """The arrival number of the point that is nearest to each row of X; -1 if none is known."""
        found: dict[int, int] = {}
        for branch, at, places in self._placed(X):
            for i, (_, position) in zip(at.tolist(), places, strict=True):
                found[i] = -1 if position < 0 else int(branch.order[position])
        return np.array([found[i] for i in range(len(found))], np.int64)

    def _placed(self, X: Any) -> Iterator[tuple[Branch, Slots, list[tuple[int, int]]]]:
        """Branch by branch, which rows of X would go there, and beside which node and point each."""
        branches = self._now()
        if not self.n_points:
            raise ValueError("X cannot be placed: the store has no points yet. Insert some first")
        rows = self._checked(X)
        owners = self._router.owners(rows, [branch.sample for branch in branches])
        for number in np.unique(owners).tolist():
            at = np.flatnonzero(owners == number)
            yield branches[number], at, branches[number].store.place(rows[at])[1]

    def _nodes_of(self, branch: Branch, nodes: list[int]) -> list[int]:
        """Nodes of the tree of a branch as nodes of the whole: its merges are there one after the other."""
        if self._is_of_one_branch():
            return nodes
        there, leaves = [one for one in self._now() if one.n_points], self._leaves()
        before = sum(one.n_points - 1 for one in there[: there.index(branch)])
        tree = branch.store.bare_tree
        number = np.empty(tree.n_ids, np.int64)
        number[: tree.n_leaves] = leaves.ranks()[self._now().index(branch)]
        inner = tree.internal_nodes()[::-1]
        number[inner] = len(leaves.numbers) + 1 + before + np.arange(len(inner))
        return number[nodes].tolist()

    def explore(
        self,
        *,
        images: str | os.PathLike[str] | None = None,
        text: str | None = None,
        image: str | None = None,
        label: str | None = None,
        x: str | None = None,
        y: str | None = None,
        height: int = 720,
    ) -> Any:
        """Look at the store in a page: inline in a notebook, or ``.open()`` in the browser.

        ``text``, ``image``, ``label``, ``x`` and ``y`` name fields of the payload; image files are read below the
        folder ``images``. See docs/explorer.md.
        """
        # By name, for what shows stores is beside this, and neither knows the other.
        return import_module("grinch.serve.notebook").explore(
            self,
            images=images,
            height=height,
            fields={"text": text, "image": image, "label": label, "x": x, "y": y},
        )

    # What happened ------------------------------------------------------------------------------------------------

    def times(self) -> dict[int, float]:
        """When each version was made, in seconds since 1970."""
        with self._turn:
            self._now()
            return dict(enumerate(self._versions.times().tolist(), 1))

    def info(self) -> dict[str, Any]:
        """What the store is and holds, in numbers: also bytes on disk, and who is writing."""
        with self._turn:
            branches = self._now()
            upkeep = [branch.store._upkeep() for branch in branches]
            kinds = ("vectors", "snapshot", "database")
            return {
                "points": self.n_points,
                "version": self.version,
                **branches[0].store._settings(),
                "is_named": self._is_named,
                "max_points": self.max_points,
                "branches": self.branches,
                "operations_since_snapshot": sum(one["operations_since_snapshot"] for one in upkeep),
                "rows_of_removed_points": sum(one["rows_of_removed_points"] for one in upkeep),
                "bytes": {kind: sum(one["bytes"][kind] for one in upkeep) for kind in kinds},
                "writer": holder(self.folder) if is_held(self.folder) else None,
            }

    def refresh(self) -> int:
        """For a reader: go on to what is committed by now; the version."""
        with self._turn:
            self._now()
            if self.is_readonly:
                self._look()
                self._count_again()
            return self.version

    # Within -------------------------------------------------------------------------------------------------------

    @property
    def _is_named(self) -> bool | None:
        """Whether points have ids; None if none has come yet."""
        return self._manifest.is_named if self._next_number else None

    def _checked(self, X: Any, columns: list[str] | None = None) -> Any:
        """X as branches keep it: dense or CSR, as the first points were."""
        store = self._now()[0].store
        return store._checked(X, store._now(), columns)

    def _names(self, ids: Any) -> list[Id]:
        names = [inputs.check_id(name) for name in inputs.listed(ids)]
        inputs.check_each_once(names)
        return names

    def _owners(self, names: list[Id]) -> Counts:
        """For each id, the number of the branch that has the point; -1 for none."""
        owners = np.full(len(names), -1, np.int64)
        for number, branch in enumerate(self._now()):
            left = np.flatnonzero(owners < 0)
            if not len(left):
                break
            owners[left[branch.has([names[i] for i in left.tolist()])]] = number
        return owners

    def _owned(self, names: list[Id]) -> list[tuple[Branch, Slots]]:
        """The branches of points that have to be there, and which of the points each has."""
        owners = self._owners(names)
        if (owners < 0).any():
            name = names[int(np.argmin(owners))]
            raise ValueError(f"ids must name points in the store; {name!r} is not there{self._kind_hint(name)}")
        return [(self._now()[number], np.flatnonzero(owners == number)) for number in np.unique(owners).tolist()]

    def _kind_hint(self, name: Id) -> str:
        """Why an id may not be found that looks like one that is there."""
        kind = self.id_kind or ("number" if self._next_number else None)
        is_other = kind is not None and kind != inputs.kind_of(name)
        return f" (ids in this store are {kind}s, and this is a {inputs.kind_of(name)})" if is_other else ""
