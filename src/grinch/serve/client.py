"""The client of ``grinch serve``: a store at the other end of a connection."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from grinch._checks import count_rows
from grinch._types import Labels
from grinch.cuts.tracking import Change
from grinch.estimators.checks import listed
from grinch.serve.connection import FIRST_WAIT, Connection, parsed
from grinch.store.digest import Digest, Event
from grinch.store.inputs import payload_list, plain_value
from grinch.tree import Tree

# Bytes of a request, about: well below the limit of a service.
CHUNK = 8 * 2**20
# Ids of a request, and rows of a part.
IDS_PER_REQUEST = 100_000
# Ids that a service answers at once, and the number of attempts to read them while points come and go.
MAX_IDS, TRIES = 1_000_000, 5
Found = TypeVar("Found")
JSON, NPZ = "application/json", "application/x-npz"


def connect(url: str, token: str | None = None, *, timeout: float = 60.0, retries: int = 5) -> Client:
    """Connect to a service that ``grinch serve`` runs; returns a client with the methods of a store.

    Parameters
    ----------
    url : str
        The address of the service, which it prints when it starts, such as ``http://127.0.0.1:8765/``.
    token : str, optional
        The token of the service, if it has one.
    timeout : float, default=60.0
        Seconds until a request times out. Refining a large store takes longer than the default.
    retries : int, default=5
        The number of times a request is sent again when the service is busy or the connection was lost. A request that
        is not idempotent (points without ids) is sent again only if it is certain that nothing was done.

    Examples
    --------
    >>> store = connect("http://127.0.0.1:8765/", token="...")
    >>> store
    <Client of http://127.0.0.1:8765/>
    """
    return Client(Connection(url, token, timeout, retries))


class Client:
    """A store that is served elsewhere: the methods of :class:`grinch.Store`, one request each.

    Errors are those of a store: ValueError with the same message, KeyError, PermissionError for a wrong token and for a
    service that is read-only, OSError (ENOSPC) where its disk is full, ConnectionError where there is no answer.
    Threads can share one; their requests take turns.
    """

    def __init__(self, connection: Connection):
        self._connection = connection

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._connection.url}>"

    # Points -------------------------------------------------------------------------------------------------------

    def insert(self, X: Any, ids: Any = None, payload: Any = None) -> int:
        """Insert points and return the version. They are on disk when this returns.

        Many points are sent in parts, each of which is inserted as a whole or not at all.
        """
        rows, names, kept = _matrix(X), _ids(ids), payload_list(payload)
        for what, values in (("ids", names), ("payload", kept)):
            if values is not None and len(values) != rows.shape[0]:
                n = rows.shape[0]
                raise ValueError(f"{what} must have one entry for each of the {n} points; got {len(values)}")
        version = 0
        for part in _parts(rows, kept):
            body = _npz(rows[part], names and names[part], kept and kept[part])
            version = self._change("/v1/insert", body, is_safe=names is not None, kind=NPZ)
        return version or self.version

    def remove(self, ids: Any) -> int:
        """Remove points, all of them or none, and return the version."""
        return self._change("/v1/remove", {"ids": listed(ids)})

    def update(self, ids: Any, X: Any = None, payload: Any = None) -> int:
        """Give points other rows, another payload, or both, and return the version."""
        names, kept = _ids(ids), payload_list(payload)
        if X is None:
            body: dict[str, Any] = {"ids": names, **({} if kept is None else {"payload": kept})}
            return self._change("/v1/update", body)
        return self._change("/v1/update", _npz(_matrix(X), names, kept), kind=NPZ)

    def predict(self, X: Any, cut: str = "default") -> Labels:
        """Return the id of the cluster that each point would join, without inserting it; -1 for none."""
        rows = _matrix(X)
        found = [
            self._post(
                f"/v1/predict?{urlencode({'cut': cut})}",
                _npz(rows[part]),
                lambda said: np.array(said["clusters"], np.int64),
                kind=NPZ,
            )
            for part in _parts(rows, None)
        ]
        return np.concatenate([np.empty(0, np.int64), *found])

    @property
    def ids(self) -> list[Any]:
        """The ids of all points, in the order they came."""
        wait = FIRST_WAIT
        for attempt in range(TRIES):
            # Where points came or went in between, pages do not belong together: then larger ones are asked for.
            found = self._ids(IDS_PER_REQUEST if attempt == 0 else MAX_IDS)
            if found is not None:
                return found
            time.sleep(wait)
            wait *= 2
        raise ConnectionError(f"the points changed {TRIES} times while their ids were read; try again")

    def _ids(self, limit: int) -> list[Any] | None:
        """Return all ids, by pages of one version; None if there were several versions."""
        version, total, ids = self._get("/v1/ids", _page, limit=limit)
        while len(ids) < total:
            then, _, more = self._get("/v1/ids", _page, limit=limit, offset=len(ids))
            if then != version or not more:
                return None
            ids += more
        return ids

    def payload(self, ids: Any) -> list[Any]:
        """Return the payload of points, by their ids."""
        names = listed(ids)
        parts = [names[i : i + IDS_PER_REQUEST] for i in range(0, len(names), IDS_PER_REQUEST)] or [[]]
        return [
            entry
            for part in parts
            for entry in self._post("/v1/payload", {"ids": part}, lambda said: list(said["payload"]))
        ]

    def vectors(self, ids: Any) -> npt.NDArray[np.float64]:
        """Return the points themselves, by their ids."""
        return self._post("/v1/vectors", {"ids": listed(ids)}, lambda said: np.array(said["X"], np.float64))

    def __len__(self) -> int:
        """Return the number of points."""
        return self._get("/v1/info", lambda said: int(said["points"]))

    # Clusters -----------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """The number of changes since the store was created."""
        return self._get("/v1/info", _version)

    def labels(
        self,
        cut: str = "default",
        *,
        n_clusters: int | None = None,
        threshold: float | None = None,
        layer: int | None = None,
    ) -> Labels:
        """Return the cluster of each point, in the order of :attr:`ids`: of a tracked cut, or cut in another way."""
        how: dict[str, Any] = {"n_clusters": n_clusters, "threshold": threshold, "layer": layer}
        asked = {name: value for name, value in how.items() if value is not None} or {"name": cut}
        answer = self._connection.ask("GET", f"/v1/cut?{urlencode({**asked, 'format': 'npy'})}")
        return parsed(_labels, answer.content)

    def clusters(self, cut: str = "default") -> dict[int, list[Any]]:
        """Return the ids of the points of each cluster, by cluster id."""
        return self._get(
            "/v1/clusters", lambda said: {int(one["cluster"]): list(one["ids"]) for one in said["clusters"]}, cut=cut
        )

    def names(self, cut: str = "default", *, gone: bool = False) -> dict[int, str]:
        """Return the names that were given to clusters, by cluster id."""
        asked = {"cut": cut, "gone": str(gone).lower()}
        return self._get("/v1/names", lambda said: {int(c): str(name) for c, name in said["names"].items()}, **asked)

    def label(self, cluster: int, name: str | None, cut: str = "default") -> int:
        """Give a cluster a name that stays with its id (None removes it), and return the version."""
        return self._change("/v1/label", {"cluster": int(cluster), "name": name, "cut": cut})

    def changes(self, since: int = 0, cut: str | None = "default") -> list[Change]:
        """Return the changes of clusters after version ``since``, in order; of all cuts if ``cut`` is None."""
        all_changes: list[Change] = []
        while True:
            changes, until = self._get("/v1/changes", _changes, since=since, cut="*" if cut is None else cut)
            all_changes += changes
            if until is None:
                return all_changes
            if until <= since:
                raise ConnectionError(f"the server answered that there are more changes, but none after {since}")
            since = until

    def digest(self, since: int = 0, limit: int = 10, cut: str = "default") -> Digest:
        """Return the news since a version: what became of clusters, in words, the most important first."""
        return self._get("/v1/changes/digest", _digest, since=since, limit=limit, cut=cut)

    def follow(self, since: int | None = None, cut: str = "default") -> Iterator[Change]:
        """Yield changes of clusters as they happen, from version ``since`` or from now on, until the service ends.

        A connection that is lost is opened again and goes on where it was.
        """
        last = since
        while True:
            try:
                for version, data in self._connection.events("/v1/changes/stream", {"cut": cut}, last):
                    yield from parsed(_changes_in, data)
                    last = version
                return
            except TimeoutError:
                continue

    def cuts(self) -> dict[str, dict[str, Any]]:
        """Return the tracked cuts, by name."""
        return self._get("/v1/info", lambda said: dict(said["cuts"]))

    def add_cut(
        self,
        name: str,
        *,
        n_clusters: int | None = None,
        threshold: float | None = None,
        cut: str | None = None,
        layer: str | int | None = None,
    ) -> int:
        """Track another cut of the tree (:meth:`grinch.store.Store.add_cut`), and return the version."""
        given = {"name": name, "n_clusters": n_clusters, "threshold": threshold, "cut": cut, "layer": layer}
        body = {option: value for option, value in given.items() if value is not None}
        return self._change("/v1/cuts", body, is_safe=False)

    def drop_cut(self, name: str) -> int:
        """Stop tracking a cut, and return the version."""
        return self._change("/v1/cuts/drop", {"name": name}, is_safe=False)

    def recut(self, cut: str = "default") -> int:
        """Let an automatic cut choose its resolution again, and return the version."""
        return self._change("/v1/recut", {"name": cut}, is_safe=False)

    # The tree -----------------------------------------------------------------------------------------------------

    @property
    def tree(self) -> Tree:
        """The cluster tree; its leaves are in the order of :attr:`ids`, which it knows as ``names``.

        Heights are those of the store, and internal nodes are numbered by them.
        """
        return parsed(_tree, self._connection.ask("GET", "/v1/tree?format=npz").content)

    def refine(self, passes: int = 1) -> int:
        """Improve the tree, and return the version."""
        return self._change("/v1/refine", {"passes": passes}, is_safe=False)

    def node(self, node: int, version: int | None = None) -> dict[str, Any]:
        """Return a node of the tree that the service shows: its size, exemplars, and the nodes around it."""
        return self._get(f"/v1/node/{int(node)}", dict, **({} if version is None else {"version": version}))

    def search(self, q: str, limit: int = 20) -> list[dict[str, Any]]:
        """Return nodes and points by name, id or text."""
        return self._get("/v1/search", lambda said: list(said["hits"]), q=q, limit=limit)

    def info(self) -> dict[str, Any]:
        """Return a description of what is served, in numbers."""
        return self._get("/v1/info", dict)

    # Within -------------------------------------------------------------------------------------------------------

    def _get(self, path: str, parse: Callable[[Any], Found], **asked: Any) -> Found:
        return self._connection.ask("GET", f"{path}?{urlencode(asked)}" if asked else path).read(parse)

    def _change(self, path: str, body: Any, *, is_safe: bool = True, kind: str = JSON) -> int:
        return self._post(path, body, _version, is_safe=is_safe, kind=kind)

    def _post(
        self, path: str, body: Any, parse: Callable[[Any], Found], *, is_safe: bool = True, kind: str = JSON
    ) -> Found:
        """Send a body; ``is_safe`` if doing it twice is the same as doing it once."""
        content = body if isinstance(body, bytes) else _json(body)
        return self._connection.ask("POST", path, content, kind, is_safe=is_safe).read(parse)


# What is answered -------------------------------------------------------------------------------------------------


def _version(said: Any) -> int:
    return int(said["version"])


def _page(said: Any) -> tuple[int, int, list[Any]]:
    return int(said["version"]), int(said["total"]), list(said["ids"])


def _changes(said: Any) -> tuple[list[Change], int | None]:
    """Return changes, and the version up to which they are if there are more."""
    return _changes_in(said), int(said["until"]) if said["more"] else None


def _changes_in(said: Any) -> list[Change]:
    return [
        Change(**{**record, "others": tuple(record["others"]), "exemplars": tuple(record["exemplars"])})
        for record in said["changes"]
    ]


def _digest(said: Any) -> Digest:
    events = (Event(**{**event, "others": tuple(event["others"])}) for event in said["events"])
    return Digest(int(said["since"]), int(said["version"]), int(said["n_new"]), tuple(events), dict(said["rest"]))


def _labels(content: bytes) -> Labels:
    found: npt.NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise ValueError(f"labels of {found.dtype} in {found.ndim} dimensions")
    return found.astype(np.int64, copy=False)


def _tree(content: bytes) -> Tree:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        linkage, ids = arrays["linkage"], list(json.loads(arrays["ids_json"].tobytes()))
    if linkage.shape != (max(len(ids) - 1, 0), 4):
        raise ValueError(f"a tree of shape {linkage.shape} for {len(ids)} points")
    if len(ids) < 2:
        tree = Tree()
        for _ in ids:
            tree.attach()
    else:
        tree = Tree.from_scipy(linkage)
    if ids != list(range(len(ids))):
        tree.names = ids
    return tree


# What is sent -----------------------------------------------------------------------------------------------------


def _json(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, default=plain_value).encode()


def _matrix(X: Any) -> Any:
    """Return rows of numbers, dense or sparse; the service checks that they are finite."""
    rows = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    if rows.dtype.kind in "iub" or rows.dtype == np.float16:
        rows = rows.astype(np.float32 if rows.dtype == np.float16 else np.float64)
    if count_rows(rows) == 0:
        return np.empty((0, 1), np.float32)
    if rows.ndim != 2 or rows.dtype.kind != "f":
        raise ValueError(f"X must be a matrix of numbers; got {rows.ndim} dimensions of {rows.dtype}")
    return rows if hasattr(X, "tocsr") else np.ascontiguousarray(rows)


def _ids(ids: Any) -> list[Any] | None:
    return None if ids is None else listed(ids)


def _parts(rows: Any, payload: list[Any] | None) -> Iterator[slice]:
    """Yield parts of the rows, each for one request."""
    beside = 0
    with suppress(TypeError, ValueError):
        beside = 0 if not payload else len(json.dumps(payload[:100])) // min(len(payload), 100)
    step = min(max(CHUNK // (rows.shape[1] * rows.dtype.itemsize + beside + 50), 1), IDS_PER_REQUEST)
    for start in range(0, rows.shape[0], step):
        yield slice(start, start + step)


def _npz(rows: Any, ids: list[Any] | None = None, payload: list[Any] | None = None) -> bytes:
    """Return rows, ids and payload as the arrays that a service takes; sparse rows are sent dense, a few at a time."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "X": np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows)
    }
    if ids is not None:
        arrays["ids_json"] = np.frombuffer(_json(ids), np.uint8)
    if payload is not None:
        arrays["payload"] = np.frombuffer(_json(payload), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()
