"""Checks of input, done once, before anything changes: errors that say what to do, and warnings about settings."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Callable, Container, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from grinch._checks import available_memory
from grinch._types import Floats, Slots
from grinch._vectors import in_order as sorted_rows
from grinch._vectors import squared_lengths
from grinch.errors import SettingsWarning
from grinch.estimators.sparse_checks import check_indices, checked_csr
from grinch.linkage.named import VectorLinkage
from grinch.linkage.pairwise import Pairwise
from grinch.summaries.vectors import LONGEST

# Columns are numbered in int32.
MOST_COLUMNS = 2**31 - 1
# Errors by the kind of dtype, for values that are not real numbers.
OTHER_KINDS = {
    "c": "Complex data not supported: X must hold real numbers; got {dtype}. Put real and imaginary parts side by side,"
    " for example with numpy.hstack([X.real, X.imag])",
    "M": "X must hold numbers; got dates ({dtype}). Turn them into numbers first, for example days since the first one",
    "m": "X must hold numbers; got spans of time ({dtype}). Turn them into numbers first, for example seconds:"
    " X / numpy.timedelta64(1, 's')",
    "V": "X must be a matrix of numbers; got records with fields ({dtype})."
    " numpy.lib.recfunctions.structured_to_unstructured makes a matrix of them",
}


def check_vectors(estimator: BaseEstimator, X: Any, reset: bool, stays_sparse: bool = False) -> Any:
    """Return X as a numeric matrix, dense or in sparse rows, finite and of the right width.

    Sparse rows have their columns in ascending order, each once. Unless they stay sparse, they must fit in memory as
    dense ones.
    """
    if not reset and _is_plain(estimator, X):
        return X
    check_kind(X)
    if scipy.sparse.issparse(X) and len(X.shape) == 2:
        X = checked_csr(X)
    rows = _as_matrix(estimator, X, reset)
    check_kind(rows)
    if scipy.sparse.issparse(rows):
        if not stays_sparse:
            _check_room(rows)
        rows = in_order(rows)
    check_values(rows)
    return rows


def in_order(rows: Any) -> Any:
    """Return the same CSR matrix with the columns of every row in ascending order, each once."""
    if rows.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"X must have at most {MOST_COLUMNS:,} columns; got {rows.shape[1]:,}. Nothing was inserted; hash them to"
            " fewer, for example with sklearn.feature_extraction.FeatureHasher"
        )
    # A new matrix of the same arrays: what scipy remembers of the order of the old one may be wrong by now.
    return sorted_rows(type(rows)((rows.data, rows.indices, rows.indptr), shape=rows.shape))


def check_values(rows: Any, first: int = 0, where: str = "") -> None:
    """Refuse a matrix with values that are not finite, or too large to be squared in float32.

    ``first`` is the number of its first row, ``where`` names its source.
    """
    for start, piece, values in _pieces(rows):
        if values.dtype in (np.float32, np.float64) and _is_short(values, piece.shape[1]):
            continue
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row, column, wrong = _first(piece, ~np.isfinite(values))
            value = "NaN" if np.isnan(wrong) else "infinity"
            raise ValueError(
                f"X must be finite, but contains {value} in row {first + start + row}, column {column}{where}. Nothing"
                " was inserted; drop that row or fill the value in (for example with sklearn.impute.SimpleImputer)"
            )
        lengths = np.abs(values.astype(np.float64))
        if not _is_short(lengths, piece.shape[1]):
            row, _, largest = _first(piece, lengths >= lengths.max())
            raise ValueError(
                f"X must hold values that can be squared in float32 (vectors up to length {LONGEST:g}), but row"
                f" {first + start + row}{where} holds {abs(largest):g}. Nothing was inserted; scale the data first"
            )


def _pieces(rows: Any) -> Iterator[tuple[int, Any, npt.NDArray[Any]]]:
    """Yield parts of a matrix, each with its first row and its values; of a sparse one, those of its entries."""
    for start in range(0, rows.shape[0], 4096):
        piece = rows[start : start + 4096]
        yield start, piece, piece.data if scipy.sparse.issparse(piece) else piece


def _is_plain(estimator: BaseEstimator, X: Any) -> bool:
    """Return whether X needs no further check: a matrix of floats of the known width, not too large, without names."""
    if type(X) is not np.ndarray or X.dtype not in (np.float32, np.float64) or X.ndim != 2 or not len(X):
        return False
    known = vars(estimator)
    if known.get("n_features_in_") != X.shape[1] or "feature_names_in_" in known:
        return False
    return all(_is_short(values, X.shape[1]) for _, _, values in _pieces(X))


def _is_short(values: npt.NDArray[Any], width: int) -> bool:
    """Return whether floats are finite and not too large; the largest of values with a nan is a nan."""
    return float(np.abs(values).max(initial=0.0)) <= LONGEST / math.sqrt(max(width, 1))


def _as_matrix(estimator: BaseEstimator, X: Any, reset: bool) -> Any:
    options = {"accept_sparse": "csr", "dtype": "numeric", "ensure_all_finite": False, "ensure_min_features": 1}
    try:
        rows = validate_data(estimator, X, reset=reset, **options)
        # A frame of polars with columns of several types is a matrix of objects by now.
        return rows.astype(np.float64) if rows.dtype == object else rows
    except (TypeError, ValueError):
        check_columns(X)
        check_not_records(X)
        raise


def with_columns(X: Any, width: int) -> Any:
    """Return a matrix with columns of zeros appended, up to ``width``, and anything else as it is."""
    shape: Any = getattr(X, "shape", ())
    if len(shape) != 2 or not 0 < shape[1] < width:
        return X
    if scipy.sparse.issparse(X):
        check_indices(X)  # an index that is out of range must not become the index of a further column
        wide = X.tocsr(copy=True)
        wide.resize((shape[0], width))
        return wide
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiub":
        return X
    return np.pad(X, ((0, 0), (0, width - shape[1])))


@contextmanager
def hinting_at_columns(X: Any, known: int) -> Iterator[None]:
    """Add to the error for X of another width what to do, for rows that are kept sparse."""
    try:
        yield
    except ValueError as error:
        width = getattr(X, "shape", (0,))[-1]
        if width == known or " features" not in str(error):
            raise
        which = f"new columns; X[:, :{known}] leaves them out" if width > known else "rows with fewer columns"
        raise ValueError(
            f"{error}. These rows are sparse: partial_fit(X, new_columns=True), and insert of a store, take {which}"
        ) from None


@contextmanager
def placing() -> Iterator[None]:
    """Drop "Nothing was inserted" from errors of methods that insert nothing."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        plain = re.sub(r" Nothing was inserted(?:; (.)|\.?)", lambda found: f" {(found[1] or '').upper()}", message)
        if plain == message:
            raise
        raise ValueError(plain.rstrip()) from None


def check_not_negative(rows: Any, metric: str) -> None:
    """Refuse negative values, for metrics of counts and shares."""
    for start, piece, values in _pieces(rows):
        if values.min(initial=0) < 0:
            row, column, value = _first(piece, values < 0)
            raise ValueError(
                f"X must not be negative for metric={metric!r}, but holds {value:g} in row {start + row}, column"
                f" {column}. Nothing was inserted; give counts or shares, or choose another metric"
            )


def _first(piece: Any, is_wrong: npt.NDArray[np.bool_]) -> tuple[int, int, float]:
    """Return row, column and value of the first number that is wrong; of a sparse matrix, by its entries."""
    if scipy.sparse.issparse(piece):
        at = int(np.argmax(is_wrong))
        row = int(np.searchsorted(piece.indptr, at, side="right")) - 1
        return row, int(piece.indices[at]), float(piece.data[at])
    row, column = (int(i) for i in np.argwhere(is_wrong)[0])
    return row, column, float(piece[row, column])


def _check_room(X: Any) -> None:
    """Refuse a sparse matrix that does not fit in memory as dense rows, one for each point and each internal node."""
    needed = 2 * X.shape[0] * X.shape[1] * 4
    room = available_memory()
    if room is not None and needed > room:
        raise ValueError(
            f"X is sparse and is stored dense here: {X.shape[0]:,} x {X.shape[1]:,} would take {needed:,} bytes,"
            f" and {room:,} are free. Use Grinch with a linkage by name, which keeps sparse rows as they are, or reduce"
            " the columns first, for example with sklearn.decomposition.TruncatedSVD"
        )


def check_records(records: Any, linkage: object) -> list[Any]:
    """Return records of any kind as a list; rows of a matrix or of a data frame are records too."""
    if isinstance(records, (str, bytes, dict)) or not hasattr(records, "__iter__"):
        raise ValueError(
            f"X must be a sequence of records for linkage={linkage!r}; got {type(records).__name__}."
            " Put a single record into a list"
        )
    if hasattr(records, "to_dicts"):
        records = records.to_dicts()
    elif hasattr(records, "to_dict") and hasattr(records, "columns"):
        records = records.to_dict("records")
    found = list(records)
    if not found:
        raise ValueError("X must hold at least one record; got 0. Nothing was inserted")
    return found


def check_ids(ids: Any, n: int, known: Container[Any], named: bool | None) -> list[Any] | None:
    """Return the ids of new points, one for each and none that is known; None if points have none.

    ``named`` says whether the points in the tree have ids; None if there are no points.
    """
    if named is not None and named != (ids is not None):
        raise ValueError(
            "ids must be given for all points or for none; the points in the tree"
            f" {'have' if named else 'do not have'} them, and these {'do not' if ids is None else 'do'}"
        )
    if ids is None:
        return None
    new = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if len(new) != n:
        raise ValueError(f"ids must have one entry for each of the {n} points; got {len(new)}")
    seen = set()
    for name in new:
        if not isinstance(name, Hashable):
            raise ValueError(f"ids must be hashable, such as strings or numbers; got {name!r}")
        if name != name:
            raise ValueError(f"ids must be equal to themselves to be found again; {name!r} is not")
        if name in seen or name in known:
            raise ValueError(f"ids must be different for every point; {name!r} is there twice. Nothing was inserted")
        seen.add(name)
    return new


def listed(ids: Any) -> list[Any]:
    """Return ids as a list."""
    if isinstance(ids, (str, bytes, dict)) or not hasattr(ids, "__iter__"):
        raise ValueError(f"ids must be a list of ids; got {ids!r:.80}. Put a single id into a list")
    return ids.tolist() if hasattr(ids, "tolist") else list(ids)


def check_known_ids(ids: Any, slot_of: Callable[[Hashable], int | None]) -> npt.NDArray[np.intp]:
    """Return the slots of points by their ids: each in the tree, each once."""
    slots, seen = [], set()
    for name in listed(ids):
        slot = slot_of(name) if isinstance(name, Hashable) else None
        if slot is None:
            raise ValueError(f"ids must name points in the tree; {name!r} is not there (see ids_). Nothing was changed")
        if slot in seen:
            raise ValueError(f"ids must name each point once; {name!r} is there twice. Nothing was changed")
        seen.add(slot)
        slots.append(slot)
    return np.array(slots, dtype=np.intp)


# Input that only looks like a matrix of numbers -----------------------------------------------------------------------


def check_kind(X: Any) -> None:
    """Refuse types that numpy would turn into numbers silently; only the dtype is read."""
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError(
            "X must not be a masked array, whose masked values would count like any other."
            " Fill them in first, for example with X.filled(0), or drop those rows"
        )
    kind = getattr(getattr(X, "dtype", None), "kind", "f")
    if kind in OTHER_KINDS:
        raise ValueError(OTHER_KINDS[kind].format(dtype=X.dtype) + ". Nothing was inserted")


def check_columns(X: Any) -> None:
    """Name the column of a data frame that keeps it from being a matrix of numbers."""
    for name, values in _frame_columns(X):
        kind = _column_kind(values)
        if kind is not None:
            raise ValueError(
                f"X must hold numbers, but column {name!r} holds {kind}. Nothing was inserted; drop the column, or turn"
                " it into numbers first (for example with sklearn.preprocessing.OneHotEncoder)"
            ) from None


def check_not_records(X: Any) -> None:
    """Refuse texts and other records, which are for a linkage of the user's own."""
    first = next(iter(X), None) if isinstance(X, (list, tuple, np.ndarray)) else None
    if isinstance(first, (str, bytes, dict)):
        vectors = "make rows of texts with grinch.text.TextVectors().fit_transform(texts)"
        if not isinstance(first, str):
            vectors = "turn them into vectors first"
        raise ValueError(
            f"X must be a matrix of numbers for a linkage given by name; got {type(first).__name__} records such as"
            f" {first!r:.60}. Nothing was inserted; {vectors}, or write a linkage for them (a function of two lists of"
            " records)"
        ) from None


def _frame_columns(X: Any) -> Iterable[tuple[Any, Any]]:
    """Return name and values of each column of a data frame of pandas or polars; nothing of anything else."""
    if not hasattr(X, "columns"):
        return ()
    # Of pandas's columns several may have the same name.
    return X.items() if hasattr(X, "items") else ((name, X[name]) for name in X.columns)


def _column_kind(values: Any) -> str | None:
    """Return what a column holds if it is not numbers."""
    array = np.asarray(values)
    if array.dtype.kind in "mM":
        return "dates or times"
    if array.dtype.kind == "c":
        return "complex numbers"
    present = [value for value in array.tolist() if value is not None] if array.dtype.kind in "OUST" else []
    found = next((value for value in present if not _is_number(value)), None)
    return None if found is None else f"{type(found).__name__} values such as {found!r}"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    except TypeError:
        return type(value).__name__ == "NAType"  # what pandas writes for a missing number
    return True


# Warnings about settings that do not suit the points, each with what to write instead --------------------------------
# They examine a sample of the points that a tree begins with, and change nothing.

# Fewer points say nothing about settings.
MIN_POINTS = 20
# Rows, and numbers in them, that are examined.
MAX_ROWS, MAX_NUMBERS = 1000, 2**20
# Columns and rows are compared by the middle of their values: rare ones (a pixel at the border) are no unit of measure.
MIDDLE = (5, 95)
SPREADS_DIFFER, LENGTHS_DIFFER = 1000.0, 5.0
# Lengths that differ less are equal: rows of unit length in float32 or rounded to a few digits.
SAME_LENGTH = 1.02
FEW_COLUMNS = (2, 3)
PASSED_OVER = ("grinch", "sklearn")
# Spreads below this share of the values of a column are rounding.
ROUNDING = 1e-6

_is_silent: ContextVar[bool] = ContextVar("grinch_advice_is_silent", default=False)


@contextmanager
def no_advice() -> Iterator[None]:
    """Give no advice on fits inside, which no user asked for."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


def advise_on_points(rows: Any, linkage: object) -> None:
    """Warn of vectors that do not suit the linkage; records, and fewer than 20 points, are not examined."""
    is_sparse = scipy.sparse.issparse(rows)
    if _is_silent.get() or not (is_sparse or isinstance(rows, np.ndarray)) or rows.shape[0] < MIN_POINTS:
        return
    sample = rows[_sampled(*rows.shape)]
    if _is_by(linkage, "euclidean", "sqeuclidean"):
        _advise_on_counts(sample) if is_sparse else _advise_on_spreads(np.asarray(sample, np.float64))
    elif _is_by(linkage, "cosine") and rows.shape[1] in FEW_COLUMNS:
        _advise_on_directions(sample)


def advise_on_n_clusters(n_clusters: int | None, n_points: int) -> None:
    """Warn of more clusters than half the points."""
    if n_clusters is not None and n_points >= MIN_POINTS and 2 * n_clusters > n_points:
        _warn(
            f"n_clusters={n_clusters} is more than half of the {n_points} points, so most clusters are single points."
            " Give a smaller number, or leave n_clusters out for the automatic cut"
        )


def advise_on_threshold(threshold: float | None, best: float | None, linkage: object) -> None:
    """Warn of a threshold above the best score there is, or can be; ``best`` is None or not finite if unknown."""
    if threshold is None or best is None or not np.isfinite(best) or threshold <= best:
        return
    hint = ""
    if _is_by(linkage, "euclidean", "sqeuclidean"):
        hint = ": a score is minus a distance under this linkage"
    if isinstance(linkage, VectorLinkage) and (linkage.name, linkage.metric) == ("average", "sqeuclidean"):
        hint += ", and a similarity of at most 1 with metric='cosine'"
    _warn(
        f"threshold={threshold:g} is above every score (at most {best:g}), so every point is a cluster of its own. Give"
        f" a lower threshold{hint}"
    )


def _sampled(n: int, width: int) -> Slots:
    """Return the rows to examine, spread evenly over all."""
    return np.linspace(0, n - 1, min(n, MAX_ROWS, max(MIN_POINTS, MAX_NUMBERS // width)), dtype=np.intp)


def _is_by(linkage: object, *metrics: str) -> bool:
    """Return whether a linkage by name compares points by one of these metrics."""
    if isinstance(linkage, VectorLinkage):
        return not linkage.is_custom and linkage.name != "cosine" and linkage.metric in metrics
    return isinstance(linkage, Pairwise) and linkage.distance in metrics


def _lengths(rows: Any) -> Floats:
    """Return the lengths of rows, without those of zero rows."""
    lengths = np.sqrt(squared_lengths(rows))
    return lengths[lengths > 0]


def _differ(values: Floats, ratio: float) -> bool:
    """Return whether the middle of some positive values is wider than a ratio."""
    if not len(values):
        return False
    low, high = np.percentile(values, MIDDLE)
    return bool(high > ratio * low)


def _advise_on_spreads(sample: Floats) -> None:
    # Values that are there: between two of them there may be none, such as a fraction of a pixel's brightness.
    low, high = np.percentile(sample, MIDDLE, axis=0, method="nearest")
    spreads = high - low
    varies = np.flatnonzero(spreads > ROUNDING * np.maximum(np.abs(low), np.abs(high)))
    if not len(varies):
        return
    widest, narrowest = (int(varies[pick(spreads[varies])]) for pick in (np.argmax, np.argmin))
    if spreads[widest] > SPREADS_DIFFER * spreads[narrowest] and _differ(_lengths(sample), SAME_LENGTH):
        _warn(
            f"the columns of X have very different spreads: {spreads[widest]:.3g} in column {widest} and"
            f" {spreads[narrowest]:.3g} in column {narrowest}, which counts for nothing in a Euclidean distance."
            " Standardise X first: sklearn.preprocessing.StandardScaler().fit_transform(X), or grinch cluster --scale"
        )


def _advise_on_counts(sample: Any) -> None:
    are_counts = sample.nnz > 0 and sample.data.min() >= 0 and bool(np.all(sample.data == np.round(sample.data)))
    if are_counts and _differ(_lengths(sample), LENGTHS_DIFFER):
        _warn(
            "the rows of X are counts of very different lengths, and Euclidean distances compare the lengths first."
            " Give metric='cosine' (or metric='hellinger'), which compares shares"
        )


def _advise_on_directions(sample: Any) -> None:
    if _differ(_lengths(sample), SAME_LENGTH):
        _warn(
            f"metric='cosine' compares directions from the origin alone, and X has {sample.shape[1]} columns: points"
            " one behind the other are the same. Leave metric out to compare positions"
        )


def _warn(message: str) -> None:
    """Warn at the line of the user that called grinch, directly or by a method of scikit-learn."""
    if _is_silent.get():
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, SettingsWarning, stacklevel=level)
