"""A store as readers see it beside a long change: all of it as it was before."""

from __future__ import annotations

import copy
import os
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np

from grinch._types import Counts, Labels, Slots
from grinch.estimators.base import turns_of
from grinch.estimators.checks import placing
from grinch.estimators.shown import NOT_FITTED
from grinch.store import inputs
from grinch.store.database import Database
from grinch.store.looking import Look, Looking
from grinch.store.reading import DEFAULT_CUT


class NotShown(Exception):
    """What is asked for cannot be seen from beside the change; wait for it."""


class Beside(Looking):
    """What a store was before a change that takes long; made by the thread that is about to make it.

    It answers what can be asked of a store, from a copy of the tree and a view of the database of its own, so that
    nobody waits for the change. What it cannot answer raises :class:`NotShown`, and so does everything once it is
    closed.

    >>> import grinch, tempfile
    >>> with grinch.open(tempfile.mkdtemp(), n_clusters=2) as store:
    ...     _ = store.insert([[1, 0], [0, 9], [2, 0.1]], ids=["a", "b", "c"])
    ...     beside = Beside(store)
    ...     _ = store.insert([[0.1, 8]], ids=["d"])
    ...     beside.version, beside.clusters(), beside.close()
    (1, {0: ['a', 'c'], 1: ['b']}, None)
    """

    def __init__(self, store: Looking):
        with store._turn:
            look = store.look()
            self.folder, self._lock, self._pid = store.folder, None, os.getpid()
            self._turn = threading.RLock()
            self._kept_info, self._model = store.info(), store._now().model
            self._database = Database(store.folder, readonly=True)
            self._database.look_again()
            self._contents: Any = _Before(look)
            self._vectors = None
            self._owners: dict[str, Labels] = {}

    def close(self) -> None:
        with self._turn:
            if self._database is not None:
                self._database.close()
                self._database = self._contents = None

    def _now(self) -> Any:
        if self._contents is None:
            raise NotShown
        return self._contents

    @property
    def _db(self) -> Database:
        if self._database is None:
            raise NotShown
        return self._database

    def info(self) -> dict[str, Any]:
        return self._kept_info

    def cuts(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self._kept_info["cuts"]
        return found

    def refresh(self) -> int:
        return self.version

    def predict(self, X: Any, cut: str = DEFAULT_CUT) -> Labels:
        """The cluster that each point would join, as the store said before the change."""
        with self._turn:
            self._check_cut_name(cut)
            shown = self._shown()
            with placing():
                rows = shown.face._validate(X, reset=False).rows
            about = self._kept_info
            places = shown.standing.place(inputs.kept_rows(rows, about["dtype"], about["is_sparse"]))
            if places is None:
                raise NotShown
            nearest, sibling = (shown.public_ids(nodes) for nodes in (places.nearest, places.sibling))
            owners = self._owners_by_node(cut)
            found, threshold = owners[sibling], self._kept_info["cuts"][cut]["threshold"]
            if threshold is None:
                near = np.where(places.nearest < 0, -1, owners[nearest])
                return np.where(found < 0, near, found)
            parents = self._now().tree.parents()[sibling]
            is_whole = (found >= 0) & ((parents < 0) | (owners[parents] < 0))
            return np.where(is_whole & (places.score < threshold), -1, found)

    def _shown(self) -> Any:
        """What the model shows while it is being changed."""
        turns, contents = turns_of(self._model), self._now()
        shown = turns.shown
        if shown is None:
            # The next long change will show it.
            turns._is_wanted = True
        is_usable = shown is not None and shown is not NOT_FITTED and shown.standing is not None
        if not is_usable or shown is None or shown.n_leaves != contents.n_points:
            raise NotShown
        return shown

    def _owners_by_node(self, cut: str) -> Labels:
        """The cluster of each node, -1 above the clusters."""
        if cut not in self._owners:
            tree, labels = self._now().tree, self._now().cuts[cut]
            of_leaves, below = np.arange(len(labels)), np.full(tree.n_ids, -np.inf)
            below[of_leaves] = labels
            highest = tree.max_upward(below)
            below[of_leaves] = -labels
            # A node is in a cluster if all of its leaves are.
            self._owners[cut] = np.where(highest == -tree.max_upward(below), highest, -1).astype(np.int64)
        return self._owners[cut]

    def vectors(self, ids: Any) -> Any:
        raise NotShown

    def rows_at(self, positions: Counts) -> Any:
        raise NotShown

    def place(self, X: Any) -> tuple[int, list[tuple[int, int]]]:
        raise NotShown

    def touched(self, since: int) -> Slots:
        raise NotShown

    def would_recut(self, cut: str = DEFAULT_CUT) -> Any:
        raise NotShown


class _Before:
    """What of the contents of a store is asked for beside a change."""

    def __init__(self, look: Look):
        self.version, self.tree, self.cuts = look.version, look.tree, look.cuts
        self._positions = look.positions
        self.tracking = SimpleNamespace(names=list(look.cuts) or [DEFAULT_CUT], labels=look.cuts.__getitem__)

    @property
    def n_points(self) -> int:
        return self.tree.n_leaves

    @property
    def model(self) -> Any:
        return SimpleNamespace(tree_=copy.copy(self.tree))

    def positions(self) -> Counts:
        return self._positions

    def has(self, positions: Counts) -> Any:
        at = np.searchsorted(self._positions, positions)
        return np.append(self._positions, -1)[at] == positions
