"""What looks at a store asks: everything of one version at once, and points by their positions."""

from __future__ import annotations

import os
import time
from contextlib import closing
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from grinch._types import Counts, Floats, Labels
from grinch.cuts.tracking import Change
from grinch.store.database import Database, Id
from grinch.store.reading import Reading
from grinch.tree import Tree


class Look(NamedTuple):
    """A store at one version, which later ones do not change.

    ``tree``: the cluster tree, without names; ``positions``: by leaf, the position of the point, by which it is asked
    for later; ``arrived``: by leaf, the version in which it came; ``times``: by leaf, when, in seconds since 1970;
    ``cuts``: by name, the cluster ids by leaf; ``names``: by cut, the names of clusters; ``drifted``: the automatic
    cuts that a recut is advised for.
    """

    version: int
    tree: Tree
    positions: Counts
    arrived: Counts
    times: Floats
    cuts: dict[str, Labels]
    names: dict[str, dict[int, str]]
    drifted: frozenset[str] = frozenset()


class Looking(Reading):
    """What can be asked of a store by what shows it."""

    def look(self) -> Look:
        """The store as it is now."""
        with self._turn:
            contents = self._now()
            positions = contents.positions()
            arrived = self._arrived(positions)
            at = self._db.times()
            when = np.full(max(at, default=0) + 1, np.nan)
            when[list(at)] = list(at.values())
            names = contents.tracking.names if contents.n_points else []
            return Look(
                contents.version,
                self.bare_tree,
                positions,
                arrived,
                when[arrived],
                {name: contents.tracking.labels(name) for name in names},
                {name: self._db.names(name) for name in names},
                frozenset(name for name in names if self._is_recut_advised(contents, name)),
            )

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
        # By name, for what shows stores knows them, and not the other way round.
        return import_module("grinch.serve.notebook").explore(
            self,
            images=images,
            height=height,
            fields={"text": text, "image": image, "label": label, "x": x, "y": y},
        )

    @property
    def n_features(self) -> int | None:
        """How many numbers a point has; None if points are no vectors, or there are none yet."""
        with self._turn:
            self._now()
            found: int | None = self._db.get("n_features")
            return found

    @property
    def dtype(self) -> str | None:
        """How these numbers are kept; None if there are no points yet, and it was not said."""
        with self._turn:
            self._now()
            found: str | None = self._db.get("dtype")
            return found

    @property
    def columns(self) -> list[str] | None:
        """What these numbers are called; None if they have no names."""
        with self._turn:
            self._now()
            found: list[str] | None = self._db.get("columns")
            return found

    @property
    def cut_names(self) -> list[str]:
        """The names of the cuts that are followed."""
        with self._turn:
            return list(self._now().tracking.names)

    def latest_changes(self, since: int, cut: str, limit: int, until: int | None = None) -> tuple[list[Change], bool]:
        """The last things that happened to clusters after version ``since``, the latest first, without exemplars.

        None of them after version ``until``. Also whether that is all. Unlike :meth:`changes`, it takes no longer where
        a lot happened.
        """
        with self._turn:
            contents, found = self._now(), list[Change]()
            self._check_cut_name(cut)
            last = contents.version if until is None else min(until, contents.version)
            with closing(self._db.latest_changes(since, last, cut)) as versions:
                for version, records in versions:
                    for kind, cluster, others, size, count, _ in reversed(records):
                        if len(found) == limit:
                            return found, False
                        found.append(Change(version, cut, kind, cluster, tuple(others), size, count, ()))
            return found, True

    def layers(self) -> list[tuple[Labels, float]]:
        """The resolutions of the automatic cut, finest first: clusters by leaf, and how long they last, from 0 to 1."""
        with self._turn:
            contents = self._now()
            if not contents.n_points:
                return []
            return list(zip(contents.model.layers_, contents.model.layer_persistence_.tolist(), strict=True))

    def arrived(self) -> Counts:
        """The version in which each point came, in the order of :attr:`ids`.

        >>> import grinch, tempfile
        >>> with grinch.open(tempfile.mkdtemp()) as store:
        ...     _ = store.insert([[1, 0], [0, 9]]), store.insert([[2, 0.1]])
        ...     store.arrived().tolist()
        [1, 1, 2]
        """
        with self._turn:
            return self._arrived(self._now().positions())

    def _arrived(self, positions: Counts) -> Counts:
        inserted = np.array(self._db.inserted(), np.int64).reshape(-1, 2)
        ends = np.cumsum(inserted[:, 1])
        which = np.searchsorted(ends, positions, side="right")
        # Stores that were compacted by an earlier release do not know; those points were there from the start.
        return np.append(inserted[:, 0], 0)[np.minimum(which, len(inserted))]

    def points_at(self, positions: Any) -> list[tuple[Id | None, Any]]:
        """The id and the payload at each position; an id of None where there is no point any more."""
        with self._turn:
            self._now()
            asked = [int(position) for position in positions]
            payloads = self._db.parsed_payloads(asked)
            if self._db.get("is_named"):
                return list(zip(self._db.ids_at(asked), payloads, strict=True))
            there = self._now().has(np.array(asked, np.int64))
            ids = [position if is_there else None for position, is_there in zip(asked, there.tolist(), strict=True)]
            return list(zip(ids, payloads, strict=True))

    def rows_at(self, positions: Counts) -> Any:
        """The rows at these positions; None if points are no vectors.

        Of points that were removed, the rows they had; zeros once the store is compacted.
        """
        with self._turn:
            contents = self._now()
            if self._vectors is None:
                return None
            known = positions < contents.n_given
            rows = np.full(len(positions), -1, np.int64)
            rows[known] = contents.row_of[positions[known]]
            is_there = rows >= 0
            found = self._rows_at(rows[is_there])
            if is_there.all():
                return found
            # Those without a row have the empty one at the end.
            places = np.where(is_there, np.cumsum(is_there) - 1, is_there.sum())
            return self._vectors.stacked([found, self._vectors.empty(1)])[places]

    def position_of(self, name: Any) -> int | None:
        """The position of the point with this id; None if there is none."""
        with self._turn:
            try:
                return self._positions_or_none([name])[0][0]
            except ValueError:  # nothing that an id could be
                return None

    def find_text(self, text: str, limit: int = 50, seconds: float = 2.0) -> tuple[list[int], bool]:
        """The positions of points whose id or payload has this text in it, and whether all were looked at."""
        # By a connection of its own: nobody waits for it.
        with closing(Database(self.folder, readonly=True)) as database:
            return database.find_text(text, limit, time.monotonic() + seconds)

    def place(self, X: Any) -> tuple[int, list[tuple[int, int]]]:
        """The version, and where each row of X would go: the node of :attr:`tree` beside which, and the position of
        the point that is nearest (-1 if none is known).
        """
        with self._turn:
            contents = self._now()
            if not contents.n_points:
                raise ValueError("X cannot be placed: the store has no points yet. Insert some first")
            fitted, engine = contents.model._check_fitted(), contents.model._engine()
            places = engine.place(contents.model._validate(self._checked(X, contents), reset=False).rows)
            beside = fitted.public_ids(engine.numbered(places.sibling)).tolist()
            nearest = np.where(places.nearest < 0, -1, fitted.ids.positions[places.nearest]).tolist()
            return contents.version, list(zip(beside, nearest, strict=True))
