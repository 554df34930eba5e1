"""Labels of any kind as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from grinch._types import Labels


def label_codes(labels: npt.ArrayLike) -> Labels:
    """Return labels as numbers from 0 on; -1 where there is none (None or nan).

    Arrays of numbers or strings are numbered in sorted order, everything else in the order of appearance.

    >>> label_codes(["b", None, "a", "b"]).tolist()
    [0, -1, 1, 0]
    >>> label_codes(np.array([7.0, np.nan, 3.0])).tolist()
    [1, -1, 0]
    """
    values: npt.NDArray[Any] = np.asarray(labels)
    if values.dtype.kind in "US" and not isinstance(labels, np.ndarray):
        values = np.asarray(labels, dtype=object)  # numpy would read a nan among strings as "nan"
    if values.dtype == object:
        seen: dict[object, int] = {}
        listed = [-1 if is_missing(value) else seen.setdefault(value, len(seen)) for value in values.tolist()]
        return np.array(listed, dtype=np.int64)
    present = values == values
    codes = np.full(len(values), -1, dtype=np.int64)
    _, codes[present] = np.unique(values[present], return_inverse=True)
    return codes


def is_missing(label: object) -> bool:
    """Return whether a label is None, nan, or the NA of pandas."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # the NA of pandas does not compare
        return True


def check_labels(labels: npt.ArrayLike) -> Labels:
    """Return the cluster of each point as int64: numbers from 0 on, or -1."""
    numbers = np.asarray(labels)
    if numbers.size == 0:
        numbers = numbers.astype(np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.min(initial=0) < -1:
        raise ValueError(
            "labels must be one cluster number from 0 on for each point, or -1 for noise; got shape"
            f" {numbers.shape} and dtype {numbers.dtype}: np.unique(labels, return_inverse=True) numbers other names"
        )
    return numbers.astype(np.int64)
