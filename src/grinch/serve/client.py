"""A store at the other end of a connection: the client of ``grinch serve``."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import numpy as np
import numpy.typing as npt

from grinch._types import Labels, count_rows
from grinch.serve.connection import Answer, Connection
from grinch.store.changes import Change
from grinch.store.inputs import listed
from grinch.tree import Tree

# Bytes of a request, about: it stays well below what a service takes.
CHUNK = 8 * 2**20
# Ids that are asked for, or sent, at once.
MANY = 100_000
JSON, NPZ = "application/json", "application/x-npz"


def connect(url: str, token: str | None = None, *, timeout: float = 60.0, retries: int = 5) -> Client:
    """Connect to a service that ``grinch serve`` runs; what is handed out has the face of a store.

    Parameters
    ----------
    url : str
        Where the service is, as it says when it starts: ``http://127.0.0.1:8765/``.
    token : str, optional
        The token of the service, if it has one.
    timeout : float, default=60.0
        Seconds after which a request is given up. To refine a large store takes longer.
    retries : int, default=5
        How often a request is sent again, after a moment, when the service is busy or the connection was lost. One that
        could be done twice (points without ids) is sent again only if it is certain that nothing was done.

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
    service that is read-only, ConnectionError where there is no answer. Threads can share one; their requests take
    turns.
    """

    def __init__(self, connection: Connection):
        self._connection = connection

    def close(self) -> None:
        """End the connection; the next request makes another."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._connection.url}>"

    # Points -------------------------------------------------------------------------------------------------------

    def insert(self, X: Any, ids: Any = None, payload: Any = None) -> int:
        """Insert points; the version afterwards. They are on disk when this returns.

        Many points are sent in parts, each of which is inserted as a whole or not at all.
        """
        rows, names, kept = _matrix(X), _ids(ids), _listed(payload)
        for what, values in (("ids", names), ("payload", kept)):
            if values is not None and len(values) != len(rows):
                raise ValueError(f"{what} must have one entry for each of the {len(rows)} points; got {len(values)}")
        version = 0
        for part in _parts(rows, kept):
            body = _npz(rows[part], names and names[part], kept and kept[part])
            version = self._post("/v1/insert", body, is_safe=names is not None, kind=NPZ)["version"]
        return version or self.version

    def remove(self, ids: Any) -> int:
        """Remove points, all of them or none; the version afterwards."""
        return int(self._post("/v1/remove", {"ids": listed(ids)})["version"])

    def update(self, ids: Any, X: Any = None, payload: Any = None) -> int:
        """Give points other rows, or another payload, or both; the version afterwards."""
        names, kept = _ids(ids), _listed(payload)
        if X is None:
            body: dict[str, Any] = {"ids": names, **({} if kept is None else {"payload": kept})}
            return int(self._post("/v1/update", body)["version"])
        return int(self._post("/v1/update", _npz(_matrix(X), names, kept), kind=NPZ)["version"])

    def predict(self, X: Any, cut: str = "default") -> Labels:
        """The id of the cluster that each point would join, without inserting it; -1 for none."""
        rows = _matrix(X)
        found = [
            self._post(f"/v1/predict?{urlencode({'cut': cut})}", _npz(rows[part]), kind=NPZ)["clusters"]
            for part in _parts(rows, None)
        ]
        return np.array([cluster for part in found for cluster in part], np.int64)

    @property
    def ids(self) -> list[Any]:
        """The ids of all points, in the order they came."""
        return self._ids()[1]

    def _ids(self) -> tuple[int, list[Any]]:
        while True:
            page = self._get("/v1/ids", limit=MANY)
            version, ids = page["version"], page["ids"]
            while len(ids) < page["total"] and page["version"] == version:
                page = self._get("/v1/ids", limit=MANY, offset=len(ids))
                ids += page["ids"]
            # Where points came or went in between, the pages do not belong together.
            if page["version"] == version:
                return version, ids

    def payload(self, ids: Any) -> list[Any]:
        """What was given beside points, by their ids."""
        names = listed(ids)
        parts = [names[i : i + MANY] for i in range(0, len(names), MANY)] or [[]]
        return [entry for part in parts for entry in self._post("/v1/payload", {"ids": part})["payload"]]

    def vectors(self, ids: Any) -> npt.NDArray[np.float64]:
        """The points themselves, by their ids."""
        return np.array(self._post("/v1/vectors", {"ids": listed(ids)})["X"], np.float64)

    def __len__(self) -> int:
        """How many points there are."""
        return int(self.info()["points"])

    # Clusters -----------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many changes were made since the store was."""
        return int(self.info()["version"])

    def labels(
        self,
        cut: str = "default",
        *,
        n_clusters: int | None = None,
        threshold: float | None = None,
        layer: int | None = None,
    ) -> Labels:
        """The cluster of each point, in the order of :attr:`ids`: of a cut that is followed, or cut in another way."""
        how: dict[str, Any] = {"n_clusters": n_clusters, "threshold": threshold, "layer": layer}
        asked = {name: value for name, value in how.items() if value is not None} or {"name": cut}
        answer = self._connection.ask("GET", f"/v1/cut?{urlencode({**asked, 'format': 'npy'})}")
        labels: Labels = _array(answer)
        return labels

    def clusters(self, cut: str = "default") -> dict[int, list[Any]]:
        """The ids of the points of each cluster, by cluster id."""
        return {one["cluster"]: one["ids"] for one in self._get("/v1/clusters", cut=cut)["clusters"]}

    def names(self, cut: str = "default", *, gone: bool = False) -> dict[int, str]:
        """The names that were given to clusters, by cluster id."""
        found = self._get("/v1/names", cut=cut, gone=str(gone).lower())["names"]
        return {int(cluster): name for cluster, name in found.items()}

    def label(self, cluster: int, name: str | None, cut: str = "default") -> int:
        """Give a cluster a name that stays with its id (None: take it away); the version afterwards."""
        return int(self._post("/v1/label", {"cluster": int(cluster), "name": name, "cut": cut})["version"])

    def changes(self, since: int = 0, cut: str | None = "default") -> list[Change]:
        """What happened to clusters after version ``since``, in order; of all cuts where ``cut`` is None."""
        found: list[Change] = []
        while True:
            page = self._get("/v1/changes", since=since, cut="*" if cut is None else cut)
            found += map(_change, page["changes"])
            if not page["more"]:
                return found
            since = page["until"]

    def follow(self, since: int | None = None, cut: str = "default") -> Iterator[Change]:
        """What happens to clusters, as it happens: from version ``since``, or from now on. It ends with the service.

        A connection that is lost is made again, and goes on where it was.
        """
        last = since
        while True:
            try:
                for version, data in self._connection.events("/v1/changes/stream", {"cut": cut}, last):
                    yield from map(_change, data["changes"])
                    last = version
                return
            except TimeoutError:
                continue

    def cuts(self) -> dict[str, dict[str, Any]]:
        """The cuts that are followed, by name."""
        found: dict[str, dict[str, Any]] = self.info()["cuts"]
        return found

    def add_cut(self, name: str, *, n_clusters: int | None = None, threshold: float | None = None) -> int:
        """Follow another cut of the tree from now on; the version afterwards."""
        body = {"name": name, "n_clusters": n_clusters, "threshold": threshold}
        return int(self._post("/v1/cuts", body, is_safe=False)["version"])

    def drop_cut(self, name: str) -> int:
        """Follow a cut no longer; the version afterwards."""
        return int(self._post("/v1/cuts/drop", {"name": name}, is_safe=False)["version"])

    def recut(self, cut: str = "default") -> int:
        """Let an automatic cut choose its resolution again; the version afterwards."""
        return int(self._post("/v1/recut", {"name": cut}, is_safe=False)["version"])

    # The tree -----------------------------------------------------------------------------------------------------

    @property
    def tree(self) -> Tree:
        """The cluster tree; its leaves are in the order of :attr:`ids`, which it knows as ``names``.

        Heights are those of the store, and internal nodes are numbered by them.
        """
        while True:
            answer = self._connection.ask("GET", "/v1/tree?format=npy")
            version, ids = self._ids()
            if str(version) == answer.headers.get("X-Version"):
                break
        if len(ids) < 2:
            tree = Tree()
            for _ in ids:
                tree.attach()
        else:
            tree = Tree.from_scipy(_array(answer))
        if ids != list(range(len(ids))):
            tree.names = ids
        return tree

    def refine(self, passes: int = 1) -> int:
        """Improve the tree; the version afterwards."""
        return int(self._post("/v1/refine", {"passes": passes}, is_safe=False)["version"])

    def node(self, node: int, version: int | None = None) -> dict[str, Any]:
        """A node of the tree that the service shows: its size, exemplars, and what is around it."""
        return self._get(f"/v1/node/{int(node)}", **({} if version is None else {"version": version}))

    def search(self, q: str, limit: int = 20) -> list[dict[str, Any]]:
        """Nodes and points by name, id or text."""
        found: list[dict[str, Any]] = self._get("/v1/search", q=q, limit=limit)["hits"]
        return found

    def info(self) -> dict[str, Any]:
        """What is served, in numbers."""
        return self._get("/v1/info")

    # Within -------------------------------------------------------------------------------------------------------

    def _get(self, path: str, **asked: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._connection.ask("GET", f"{path}?{urlencode(asked)}" if asked else path).json()
        return found

    def _post(self, path: str, body: Any, *, is_safe: bool = True, kind: str = JSON) -> dict[str, Any]:
        """``is_safe``: to do it twice is the same as to do it once."""
        content = body if isinstance(body, bytes) else _json(body)
        found: dict[str, Any] = self._connection.ask("POST", path, content, kind, is_safe=is_safe).json()
        return found


def _json(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def _change(record: dict[str, Any]) -> Change:
    return Change(**{**record, "others": tuple(record["others"]), "exemplars": tuple(record["exemplars"])})


def _array(answer: Answer) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = np.load(io.BytesIO(answer.content), allow_pickle=False)
    return found


def _matrix(X: Any) -> npt.NDArray[Any]:
    """Rows of numbers; their finiteness is checked where they go."""
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if dense.dtype.kind in "iub" or dense.dtype == np.float16:
        dense = dense.astype(np.float32 if dense.dtype == np.float16 else np.float64)
    if count_rows(dense) == 0:
        return np.empty((0, 1), np.float32)
    if dense.ndim != 2 or dense.dtype.kind != "f":
        raise ValueError(f"X must be a matrix of numbers; got {dense.ndim} dimensions of {dense.dtype}")
    return np.ascontiguousarray(dense)


def _ids(ids: Any) -> list[Any] | None:
    return None if ids is None else listed(ids)


def _listed(values: Any) -> list[Any] | None:
    """What is kept beside points, as a list."""
    if values is None:
        return None
    if hasattr(values, "to_dict") and hasattr(values, "columns"):
        found: list[Any] = values.to_dict("records")
        return found
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise ValueError(f"payload must be a list with an entry for each point; got {type(values).__name__}")
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _parts(rows: npt.NDArray[Any], payload: list[Any] | None) -> Iterator[slice]:
    """Some of the rows at a time."""
    beside = 0
    with suppress(TypeError, ValueError):
        beside = 0 if not payload else len(json.dumps(payload[:100])) // min(len(payload), 100)
    step = max(CHUNK // (rows.shape[1] * rows.itemsize + beside + 50), 1)
    for start in range(0, len(rows), min(step, MANY)):
        yield slice(start, start + min(step, MANY))


def _npz(rows: npt.NDArray[Any], ids: list[Any] | None = None, payload: list[Any] | None = None) -> bytes:
    """Rows, ids and payload as the arrays that a service takes."""
    arrays: dict[str, npt.NDArray[Any]] = {"X": rows}
    if ids is not None:
        arrays["ids_json"] = np.frombuffer(_json([_plain(name) for name in ids]), np.uint8)
    if payload is not None:
        arrays["payload"] = np.frombuffer(_json([_plain(entry) for entry in payload]), np.uint8)
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
