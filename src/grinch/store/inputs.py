"""Checks of what comes into a store, before anything changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse

from grinch._checks import taken
from grinch.cuts import Choice
from grinch.estimators.checks import hinting_at_columns, listed
from grinch.estimators.grinch import Grinch, stays_sparse
from grinch.saving import json_values
from grinch.store.database import Id
from grinch.summaries.vectors import dense_rows
from grinch.text.encoders import saved_encoder

MAX_SHOWN = 80
# What makes rows of texts, in the folder of a store of texts.
TEXT_FILE = "text.grinch"


class Batch(NamedTuple):
    """Points that come to a store, checked; ``payloads`` are JSON."""

    rows: Any
    ids: list[Id] | None
    payloads: list[str | None] | None
    columns: list[str] | None

    def take(self, which: npt.NDArray[np.intp]) -> Batch:
        """Return some of the points, by number."""
        ids, payloads = (None if part is None else [part[i] for i in which.tolist()] for part in self[1:3])
        return Batch(taken(self.rows, which), ids, payloads, self.columns)


@dataclass(frozen=True)
class RowCheck:
    """Checks rows that come to a store, whose ``model`` stays as it is.

    The model is given what the store keeps, so a store that is opened again continues as if it had never been closed.
    """

    model: Grinch
    is_fitted: bool
    widened: Callable[[Any], Any]
    """Returns rows with all columns there are, those of the rows among them."""

    @classmethod
    def of(cls, model: Grinch) -> RowCheck:
        return cls(model, model.__sklearn_is_fitted__(), model.with_new_columns)

    def without_points(self) -> RowCheck:
        """Return the same check of a model without its points, which may change meanwhile."""
        return replace(self, model=self.model.without_fit())

    def __call__(self, X: Any, dtype: np.dtype[Any] | None, is_sparse: bool | None, new_columns: bool = False) -> Any:
        """Return X as the store keeps it: a matrix of ``dtype``, or a list of records.

        ``dtype`` None: float32 if X is in float32 or less. ``is_sparse`` says whether rows are kept sparse (None: as
        the model keeps them, if these are the first).
        """
        face, width, columns = self.model, int(getattr(self.model, "n_features_in_", 0)), columns_of(X)
        if not self.is_fitted or is_sparse or new_columns or columns is not None:
            face = face.without_fit()
        if columns is not None and self.is_fitted:
            # The store has compared them; the model is given plain rows, and knows no names.
            face.feature_names_in_ = np.array(columns, object)
        if new_columns and self.is_fitted:
            X = self.widened(X)
            face.n_features_in_ = max(width, getattr(X, "shape", (0, 0))[-1])
        with hinting_at_columns(X, width) if is_sparse else nullcontext():
            rows = face.prepare(X, reset=not self.is_fitted).rows
        if isinstance(rows, list):
            return decode_records(encode_records(rows))
        if is_sparse is None:
            is_sparse = scipy.sparse.issparse(rows) and stays_sparse(self.model.checked_parameters().linkage)
        if dtype is None:
            dtype = np.dtype(np.float32 if rows.dtype in (np.float16, np.float32) else np.float64)
        return sparse_matrix(rows, dtype) if is_sparse else np.ascontiguousarray(dense_rows(rows), dtype)

    def as_inserted(self, rows: Any) -> Any:
        """Return rows that were checked as the engine takes them."""
        return self.model.prepare(rows, reset=False).rows


def refuse_texts(X: Any, folder: Path) -> None:
    """Raise an error with what to do about texts that came to a store whose rows are made of texts."""
    path = folder / TEXT_FILE
    if not (isinstance(X, (list, tuple)) and X and isinstance(X[0], str) and path.exists()):
        return
    name = saved_encoder(path)
    how = f"TextVectors.load({str(path)!r}).transform(texts)" if name is None else f"the encoder {name!r}"
    raise ValueError(
        f"X must be rows of numbers; got texts such as {X[0]!r:.60}. The rows of this store are made by {how}"
        f"{' (from grinch.text import TextVectors)' if name is None else ''}"
    ) from None


def encode_records(records: Sequence[Any]) -> list[str]:
    return [json.dumps(json_values.encode(record), ensure_ascii=False) for record in records]


def decode_records(texts: Sequence[str]) -> list[Any]:
    return [json_values.decode(json.loads(text)) for text in texts]


def columns_of(X: Any) -> list[str] | None:
    """Return the names of the columns of a frame; None for anything else."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def check_ids(ids: Any, n: int, is_named: bool | None, kind: str | None = None) -> list[Id] | None:
    """Return the ids of points that come: whole numbers or texts, one for each point.

    ``is_named``: whether the other points have ids; ``kind``: of which kind these are.
    """
    if is_named is not None and is_named != (ids is not None):
        raise ValueError(
            "ids must be given for all points of a store or for none; the points in it"
            f" {'have' if is_named else 'do not have'} them, and these {'do not' if ids is None else 'do'}"
        )
    if ids is None:
        return None
    names = [check_id(name) for name in listed(ids)]
    if len(names) != n:
        raise ValueError(f"ids must have one entry for each of the {n} points; got {len(names)}")
    check_each_once(names)
    for name in names:
        kind = kind or kind_of(name)
        if kind_of(name) != kind:
            # 1 and "1" would be two points that look like one.
            raise ValueError(f"ids must all be {kind}s in this store; got {name!r}, a {kind_of(name)}. Convert them")
    return names


def kind_of(name: Id) -> str:
    return "text" if isinstance(name, str) else "number"


def is_empty(X: Any) -> bool:
    """Return whether there are no points at all in X: a day on which nothing came."""
    if hasattr(X, "shape"):
        return len(X.shape) > 0 and X.shape[0] == 0
    return isinstance(X, (list, tuple)) and not X


def check_each_once(names: list[Id]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"ids must name each point once; {twice!r} is there twice. Nothing was changed")


def check_id(name: Any) -> Id:
    """Return an id as SQLite keeps it: a whole number or a text."""
    if isinstance(name, np.generic):
        name = name.item()
    if type(name) is str:
        return _in_utf8("ids", name)
    if type(name) is int and -(2**63) <= name < 2**63:
        return int(name)
    raise ValueError(
        f"ids of a store must be texts, or whole numbers of up to 64 bits; got {name!r:.80} ({type(name).__name__})."
        " Convert them, for example with str()"
    )


def check_text(what: str, text: Any) -> str:
    """Return a text that is not empty and can be written."""
    if not isinstance(text, str) or not text:
        raise ValueError(f"{what} must be a text; got {text!r:.80}")
    return _in_utf8(what, text)


def _in_utf8(what: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} must be text that can be written in UTF-8; got {text!r:.80}") from None
    return str(text)


def own_parts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the linkage and the search of the user's own, which a store does not hold; None for those by name."""
    parts = {name: given.get(name) for name in ("linkage", "search")}
    return {name: None if isinstance(part, str) else part for name, part in parts.items()}


def check_how(n_clusters: Any, threshold: Any, cut: Any, layer: Any) -> dict[str, Any]:
    """Return how a cut is to be made, as JSON has it."""
    Choice(n_clusters, threshold, cut, layer)
    return {
        "n_clusters": None if n_clusters is None else int(n_clusters),
        "threshold": None if threshold is None else float(threshold),
        "cut": str(cut),
        "layer": layer if isinstance(layer, str) else int(layer),
    }


def check_payload(payload: Any, n: int) -> list[str | None] | None:
    """Return the payload of each point as JSON; None for nothing."""
    rows = payload_list(payload)
    if rows is None:
        return None
    if len(rows) != n:
        raise ValueError(f"payload must have one entry for each of the {n} points; got {len(rows)}")
    return [None if row is None else _as_json(i, row) for i, row in enumerate(rows)]


def payload_list(payload: Any) -> list[Any] | None:
    """Return the payload of each point; of a data frame, the cells of its row by column."""
    if payload is None:
        return None
    if hasattr(payload, "to_dicts"):
        payload = payload.to_dicts()
    elif hasattr(payload, "columns") and hasattr(payload, "to_dict"):
        payload = [_without_gaps(row) for row in payload.to_dict("records")]
    elif hasattr(payload, "tolist"):
        payload = payload.tolist()
    if isinstance(payload, (str, bytes, dict)) or not hasattr(payload, "__iter__"):
        raise ValueError(f"payload must be a list with an entry for each point; got {type(payload).__name__}")
    return list(payload)


def _without_gaps(row: dict[Any, Any]) -> dict[Any, Any]:
    """Return the cells of a row of a frame, None where there is nothing."""
    return {name: None if isinstance(cell, float) and cell != cell else cell for name, cell in row.items()}


def _as_json(i: int, row: Any) -> str:
    try:
        text = json.dumps(row, ensure_ascii=False, allow_nan=False, default=plain_value)
        text.encode()
        return text
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"payload must be anything that JSON can hold (texts, finite numbers, lists, dicts of them); entry {i} is"
            f" not: {error}. It is {row!r:.{MAX_SHOWN}}"
        ) from None


def plain_value(value: Any) -> Any:
    """Return numbers and arrays of numpy, and times, as JSON has them."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def same_rows(one: Any, other: Any) -> npt.NDArray[np.bool_]:
    """Return which rows, or records, are the same in both."""
    if scipy.sparse.issparse(one):
        if one.shape != other.shape:  # rows with new columns are compared with earlier ones
            other = other.copy()
            other.resize(one.shape)
        return np.asarray((one != other).getnnz(axis=1) == 0)
    if isinstance(one, np.ndarray):
        return np.asarray((one == other).all(axis=1))
    return np.array([a == b for a, b in zip(encode_records(one), encode_records(other), strict=True)], np.bool_)


def sparse_matrix(rows: Any, dtype: np.dtype[Any]) -> Any:
    """Return rows, sparse or dense, as a store keeps them sparse."""
    rows = scipy.sparse.csr_matrix(rows)
    parts = rows.data.astype(dtype, copy=False), rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int64)
    return csr_of(*parts, rows.shape[1])


def csr_of(values: Any, columns: Any, ends: Any, width: int) -> Any:
    """Return a matrix of these very arrays."""
    matrix = scipy.sparse.csr_matrix((len(ends) - 1, width), dtype=values.dtype)
    # Not by the constructor, which looks at every column to find a smaller type for it.
    matrix.data, matrix.indices, matrix.indptr = values, columns, ends
    return matrix
